/* SPDX-License-Identifier: Apache-2.0 */
/* image_store.c: see image_store.h. */
#include "core/image/image_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "core/image/image.h"
#include "core/remove_tree.h"
#include "core/store.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int find_path(char **ret, struct cell_error *err)
{
	const char *dir = getenv("CELL_IMAGE_DIR");

	if (dir && *dir) {
		if (dir[0] != '/')
			return cell_fail(err, CELL_EINVAL, 0,
				"image directory '%s' (CELL_IMAGE_DIR) is not absolute", dir);
		*ret = strdup(dir);
	} else {
		auto_store struct cell_store state = CELL_STORE_INIT;
		int r = cell_store_open(&state, true, err);
		if (r < 0)
			return r;
		if (asprintf(ret, "%s/images", state.path) < 0)
			*ret = NULL;
	}
	return *ret ? 0 : cell_fail_errno(err, ENOMEM, "name the image directory");
}

static int check_owner(const struct image_store *s, struct cell_error *err)
{
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return cell_fail_errno(err, errno, "look at the image directory '%s'", s->path);
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	int r = cell_fail(err, CELL_EDENIED, 0,
		"image directory '%s' belongs to user %u with mode %03o: others could change "
		"images",
		s->path, (unsigned)st.st_uid, (unsigned)st.st_mode & 0777);
	return cell_error_hint(err, r, "chmod 700 it, or set CELL_IMAGE_DIR to one of your own");
}

static int open_place(struct image_store *s, const char *name, int *ret, struct cell_error *err)
{
	if (mkdirat(s->fd, name, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make '%s/%s'", s->path, name);
	*ret = openat(s->fd, name, DIR_FLAGS);
	return *ret < 0 ? cell_fail_errno(err, errno, "open '%s/%s'", s->path, name) : 0;
}

int image_store_open(struct image_store *s, enum image_lock lock, struct cell_error *err)
{
	int r = find_path(&s->path, err);

	if (r < 0)
		return r;
	if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make the image directory '%s'", s->path);
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0)
		return cell_fail_errno(err, errno, "open the image directory '%s'", s->path);
	r = check_owner(s, err);
	if (r == 0)
		r = open_place(s, "layers", &s->layers_fd, err);
	if (r == 0)
		r = open_place(s, "images", &s->images_fd, err);
	if (r == 0)
		r = open_place(s, "names", &s->names_fd, err);
	if (r == 0)
		r = open_place(s, "paths", &s->paths_fd, err);
	if (r == 0)
		r = open_place(s, "tmp", &s->tmp_fd, err);
	if (r < 0)
		return r;
	s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return cell_fail_errno(err, errno, "open '%s/lock'", s->path);
	do {
		r = flock(s->lock_fd, lock == IMAGE_LOCK_SHARED ? LOCK_SH : LOCK_EX);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? cell_fail_errno(err, errno, "lock '%s/lock'", s->path) : 0;
}

void image_store_done(struct image_store *s)
{
	int *fds[] = {&s->fd, &s->lock_fd, &s->layers_fd, &s->images_fd, &s->names_fd, &s->paths_fd,
		&s->tmp_fd};

	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	free(s->path);
	s->path = NULL;
}

static int remove_one(const char *name, void *user)
{
	const struct image_store *s = user;

	(void)cell_remove_tree(s->tmp_fd, name, NULL);
	return 0;
}

void image_store_sweep(struct image_store *s)
{
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
		(void)image_store_each(s->tmp_fd, remove_one, s, NULL);
	while (flock(s->lock_fd, LOCK_SH) < 0 && errno == EINTR)
		;
}

static int random_name(char name[64])
{
	uint64_t r[2];

	if (getrandom(r, sizeof r, 0) != sizeof r)
		return -EIO;
	(void)snprintf(name, 64, "%016llx%016llx", (unsigned long long)r[0],
		(unsigned long long)r[1]);
	return 0;
}

int image_store_tmp(struct image_store *s, char name[64], struct cell_error *err)
{
	int r = random_name(name), fd = -1;

	if (r == 0 && mkdirat(s->tmp_fd, name, 0700) < 0)
		r = -errno;
	if (r == 0 && (fd = openat(s->tmp_fd, name, DIR_FLAGS)) < 0)
		r = -errno;
	return r < 0 ? cell_fail_errno(err, -r, "make a directory in '%s/tmp'", s->path) : fd;
}

int image_store_read(int dir_fd, const char *name, size_t max, struct buf *ret,
	struct cell_error *err)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT
				       : cell_fail_errno(err, errno, "open '%.100s'", name);
	buf_reset(ret);
	ret->max = max;
	do {
		int r = buf_reserve(ret, 4096 + 1);
		if (r < 0)
			return cell_fail(err, CELL_ELIMIT, -r, "read '%.100s'", name);
		n = read(fd, ret->data + ret->len, 4096);
		if (n < 0 && errno != EINTR)
			return cell_fail_errno(err, errno, "read '%.100s'", name);
		ret->len += n > 0 ? (size_t)n : 0;
		ret->data[ret->len] = '\0';
	} while (n != 0);
	return 0;
}

int image_store_write(struct image_store *s, int dir_fd, const char *name, const void *p, size_t n,
	struct cell_error *err)
{
	char tmp[64];
	int r = random_name(tmp);
	auto_fd int fd =
		r < 0 ? -1
		      : openat(s->tmp_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				0600);
	if (r == 0 && fd < 0)
		r = -errno;
	if (r == 0)
		r = fd_write_all(fd, p, n);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(s->tmp_fd, tmp, dir_fd, name) < 0)
		r = -errno;
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(s->tmp_fd, tmp, 0);
		return cell_fail_errno(err, -r, "write '%.100s' in '%s'", name, s->path);
	}
	return 0;
}

int image_store_each(int dir_fd, int (*fn)(const char *name, void *user), void *user,
	struct cell_error *err)
{
	int fd = openat(dir_fd, ".", DIR_FLAGS), r = 0;
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		r = cell_fail_errno(err, errno, "list the image directory");
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (;;) {
		errno = 0;
		const struct dirent *e = readdir(d);
		if (!e)
			return errno ? cell_fail_errno(err, errno, "list the image directory") : 0;
		if (e->d_name[0] != '.' && (r = fn(e->d_name, user)) < 0)
			return r;
	}
}

/* Characters of Docker's references, digests too; '/' and ':' cannot be part of a file's name as they are. */
int image_name_encode(const char *name, char **ret, struct cell_error *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
	auto_buf struct buf b = BUF_INIT(4 * CELL_IMAGE_NAME_MAX);
	size_t n = strlen(name);
	const char *slash = strrchr(name, '/'), *colon = strrchr(name, ':');
	bool has_tag = colon && (!slash || colon > slash);
	int r = 0;

	if (n == 0 || n > CELL_IMAGE_NAME_MAX || strspn(name, allowed) != n ||
		!strchr("abcdefghijklmnopqrstuvwxyz0123456789", name[0]) || strstr(name, "//") ||
		strchr("/:@", name[n - 1]) || strncmp(name, "sha256:", 7) == 0) {
		r = cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no name for an image", name);
		return cell_error_hint(err, r, "a name is like python or tools/python:3.12");
	}
	for (; *name && r == 0; name++)
		r = *name == '/'   ? buf_addz(&b, "%2f")
		    : *name == ':' ? buf_addz(&b, "%3a")
				   : buf_addc(&b, *name);
	if (r == 0 && !has_tag)
		r = buf_addz(&b, "%3alatest");
	*ret = r == 0 ? buf_steal(&b) : NULL;
	return *ret ? 0 : cell_fail_errno(err, ENOMEM, "name an image");
}

char *image_name_decode(const char *file)
{
	char *out = strdup(file), *w = out;

	for (const char *p = file; out && *p; p++) {
		if (strncmp(p, "%2f", 3) == 0 || strncmp(p, "%3a", 3) == 0) {
			*w++ = p[1] == '2' ? '/' : ':';
			p += 2;
		} else {
			*w++ = *p;
		}
	}
	if (out)
		*w = '\0';
	return out;
}
