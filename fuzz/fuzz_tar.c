/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tar.c: archives from outside. The input is read entry by entry, what is read is written and read
 * again and must be the same, and then it is taken out below a directory beside which nothing may
 * change.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tar.h"
#include "base/untar.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

static ssize_t take(void *p, size_t n, void *user)
{
	struct input *in = user;

	if (n > in->left)
		n = in->left;
	if (n)
		memcpy(p, in->p, n);
	in->p += n;
	in->left -= n;
	return (ssize_t)n;
}

static int put(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

/* An entry survives being written and read. */
static void check_entry(const struct tar_entry *e)
{
	struct buf b = BUF_INIT(1 << 20);
	struct tar_writer w = {.fn = put, .user = &b};
	struct tar_entry small = *e, again;

	small.size = 0;
	if (!e->name[0] || e->name[strlen(e->name) - 1] == '/' || !strchr("0125", e->type))
		return;
	if (tar_write_entry(&w, &small) == 0) {
		struct input in = {b.data, b.len};
		struct tar_reader r = TAR_READER_INIT(take, &in);
		MUST(tar_read_entry(&r, &again) == 1);
		MUST(strcmp(e->name, again.name) == 0 && strcmp(e->link, again.link) == 0);
		MUST(e->type == again.type && e->mode == again.mode);
		MUST(e->mtime_ns == again.mtime_ns);
		tar_reader_done(&r);
	}
	buf_done(&b);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	(void)chmod(path, 0700);
	(void)remove(path);
	return 0;
}

static void take_out(const uint8_t *data, size_t size, enum untar_kind kind)
{
	char top[] = "/tmp/cell-fuzz-tar-XXXXXX";
	struct input in = {data, size};
	struct tar_reader r = TAR_READER_INIT(take, &in);
	struct stat before, after;

	MUST(mkdtemp(top));
	int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(mkdirat(fd, "in", 0700) == 0 && symlinkat("..", fd, "in/up") == 0);
	int dir = openat(fd, "in", O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(fstat(fd, &before) == 0);
	(void)untar(&r, dir, kind, 1000, NULL, NULL);
	MUST(fstat(fd, &after) == 0);
	MUST(after.st_nlink == before.st_nlink && after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
		after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
	tar_reader_done(&r);
	close(dir);
	close(fd);
	(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct tar_reader r = TAR_READER_INIT(take, &in);
	struct tar_entry e;
	int more;

	while ((more = tar_read_entry(&r, &e)) > 0) {
		char chunk[100];
		check_entry(&e);
		(void)tar_read_data(&r, chunk, e.size % sizeof chunk);
	}
	MUST(more == 0 || r.why);
	tar_reader_done(&r);
	take_out(data, size, UNTAR_FILES);
	take_out(data, size, UNTAR_ROOT_TREE);
	return 0;
}
