/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_path.c: paths from outside. The input is a path, put through both ways of resolving in a
 * directory with links of every kind: both must agree, and neither may open what lies outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int root_fd = -1;
static struct stat outside[3];
static char top[] = "/tmp/cell-fuzz-path-XXXXXX";

static void clean_up(void)
{
	static const char *const names[] = {"root/d/e/f", "root/d/e/up", "root/d/e", "root/d/l",
		"root/d", "root/f", "root/out", "root/abs", "root/loop", "root", "secret"};
	int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < sizeof names / sizeof names[0]; i++) {
		if (unlinkat(fd, names[i], 0) < 0)
			(void)unlinkat(fd, names[i], AT_REMOVEDIR);
	}
	(void)rmdir(top);
}

static void set_up(void)
{
	MUST(mkdtemp(top));
	int fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	MUST(mkdirat(fd, "root", 0700) == 0 && mkdirat(fd, "root/d", 0700) == 0);
	MUST(mkdirat(fd, "root/d/e", 0700) == 0);
	for (size_t i = 0; i < 3; i++) {
		const char *name = (const char *[]){"root/f", "root/d/e/f", "secret"}[i];
		close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	MUST(symlinkat("e", fd, "root/d/l") == 0 && symlinkat("../../f", fd, "root/d/e/up") == 0);
	MUST(symlinkat("../secret", fd, "root/out") == 0 && symlinkat("/", fd, "root/abs") == 0);
	MUST(symlinkat("loop", fd, "root/loop") == 0);
	root_fd = openat(fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(root_fd >= 0 && fstat(fd, &outside[0]) == 0 && stat("/", &outside[1]) == 0);
	MUST(fstatat(fd, "secret", &outside[2], 0) == 0);
	close(fd);
	MUST(atexit(clean_up) == 0);
}

static int check(int fd, struct stat *st)
{
	if (fd < 0)
		return fd;
	MUST(fstat(fd, st) == 0);
	for (size_t i = 0; i < 3; i++)
		MUST(st->st_ino != outside[i].st_ino || st->st_dev != outside[i].st_dev);
	close(fd);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stat a, b;
	const char *relative;
	char name[NAME_MAX + 1];

	if (root_fd < 0)
		set_up();
	auto_free char *path = strndup((const char *)data, size);
	MUST(path);
	int r = beneath_relative("/work", path, &relative);
	MUST(r <= 0);
	if (r < 0)
		relative = path;
	for (size_t i = 0; i < 2; i++) {
		int flags = (const int[]){O_PATH, O_PATH | O_NOFOLLOW}[i];
		beneath_set_way(BENEATH_AUTO);
		int by_kernel = check(beneath_open(root_fd, relative, flags, 0), &a);
		beneath_set_way(BENEATH_WALK);
		int by_walk = check(beneath_open(root_fd, relative, flags, 0), &b);
		MUST(by_kernel == by_walk);
		MUST(by_kernel < 0 || a.st_ino == b.st_ino);
		int dir = beneath_open_parent(root_fd, relative, i == 0, name);
		MUST(dir < 0 || (name[0] && !strchr(name, '/') && strcmp(name, "..") != 0));
		(void)check(dir, &a);
	}
	return 0;
}
