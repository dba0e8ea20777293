/* SPDX-License-Identifier: Apache-2.0 */
/* tartree.c: treewalk on one side, tar on the other. */
#include "base/tartree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/treewalk.h"

static void walk_freep(struct treewalk **w)
{
	treewalk_free(*w);
}

static void fill_entry(struct tar_entry *t, const char *name, const struct stat *st)
{
	*t = (struct tar_entry){
		.name = name,
		.link = "",
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
	};
}

static int write_content(struct tar_writer *w, int fd, int data_fd)
{
	char chunk[32768];

	if (data_fd >= 0) {
		uint64_t done = 0;
		int r = fd_copy(fd, data_fd, w->left, &done);
		int aside = tar_written_aside(w, done);
		return r < 0 ? r : aside;
	}
	while (w->left > 0) {
		size_t want = w->left < sizeof chunk ? (size_t)w->left : sizeof chunk;
		ssize_t n = read(fd, chunk, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		int r = tar_write_data(w, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_file(struct tar_writer *w, const struct treewalk_entry *e, int data_fd)
{
	struct tar_entry t;
	struct stat st;
	auto_fd int fd = openat(e->dir_fd, e->name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	/* ENOENT, ELOOP: it vanished or became a link since it was seen. */
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	fill_entry(&t, e->path, &st);
	t.type = TAR_FILE;
	t.size = (uint64_t)st.st_size;
	int r = tar_write_entry(w, &t);
	if (r == 0)
		r = write_content(w, fd, data_fd);
	if (r == 0 && w->left > 0)
		r = tar_write_fill(w);
	return r;
}

static int write_link(struct tar_writer *w, const struct treewalk_entry *e)
{
	char target[PATH_MAX + 1];
	struct tar_entry t;
	ssize_t n = readlinkat(e->dir_fd, e->name, target, sizeof target - 1);

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : -errno;
	target[n] = '\0';
	fill_entry(&t, e->path, &e->st);
	t.type = TAR_SYMLINK;
	t.link = target;
	return tar_write_entry(w, &t);
}

static int write_one(struct tar_writer *w, const struct treewalk_entry *e, int data_fd)
{
	if (S_ISREG(e->st.st_mode))
		return write_file(w, e, data_fd);
	if (S_ISLNK(e->st.st_mode))
		return write_link(w, e);
	if (!S_ISDIR(e->st.st_mode))
		return 0;
	struct tar_entry t;
	fill_entry(&t, e->path, &e->st);
	t.type = TAR_DIRECTORY;
	return tar_write_entry(w, &t);
}

int tartree_write(int dir_fd, const char *what, struct tar_writer *w, int data_fd,
	struct cell_error *err)
{
	auto_(walk_freep) struct treewalk *walk = NULL;
	struct treewalk_entry e;
	int r = treewalk_new(dir_fd, 0, TREEWALK_NO_KERNEL_FS, &walk);

	if (r < 0)
		return cell_fail_errno(err, -r, "read directory '%.200s'", what);
	while ((r = treewalk_next(walk, &e)) > 0) {
		if (e.type == TREEWALK_FAILED && e.error == EOVERFLOW)
			return cell_fail(err, CELL_ELIMIT, 0,
				"pack '%.150s': '%.150s...' is nested deeper than %d levels", what,
				e.path, TREEWALK_MAX_DEPTH);
		r = e.type == TREEWALK_FAILED ? -e.error : write_one(w, &e, data_fd);
		if (r < 0)
			return cell_fail_errno(err, -r, "pack '%.150s' of '%.150s'", e.path, what);
	}
	if (r < 0)
		return cell_fail_errno(err, -r, "read directory '%.200s'", what);
	r = tar_write_end(w);
	return r < 0 ? cell_fail_errno(err, -r, "pack '%.200s'", what) : 0;
}
