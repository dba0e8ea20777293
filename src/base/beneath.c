/* SPDX-License-Identifier: Apache-2.0 */
/* beneath.c: openat2 where there is one, else our own walk that never asks the kernel for '..'. */
#include "base/beneath.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"

#define RETRIES_MAX 64

static enum beneath_way chosen_way;
static bool is_openat2_missing;

void beneath_set_way(enum beneath_way way)
{
	chosen_way = way;
	is_openat2_missing = false;
}

static const char *skip_slashes(const char *p)
{
	return p + strspn(p, "/");
}

static bool is_dot(const char *p, size_t n)
{
	return n == 1 && p[0] == '.';
}

static bool is_dot_dot(const char *p, size_t n)
{
	return n == 2 && p[0] == '.' && p[1] == '.';
}

static int check_path(const char *path)
{
	size_t n = strlen(path);

	if (n == 0)
		return -EINVAL;
	return n > BENEATH_PATH_MAX ? -ENAMETOOLONG : 0;
}

int beneath_relative(const char *root_path, const char *path, const char **ret)
{
	int r = check_path(path);

	if (r < 0)
		return r;
	if (path[0] != '/') {
		*ret = path;
		return 0;
	}
	const char *root = skip_slashes(root_path);
	const char *p = skip_slashes(path);
	while (*root) {
		size_t want = strcspn(root, "/"), n = strcspn(p, "/");

		if (is_dot(p, n)) {
			p = skip_slashes(p + n);
			continue;
		}
		if (n != want || memcmp(root, p, n) != 0)
			return -EXDEV;
		root = skip_slashes(root + want);
		p = skip_slashes(p + n);
	}
	*ret = *p ? p : ".";
	return 0;
}

static int open_openat2(int root_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags,
		.mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? mode & 07777 : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	int fd = -EAGAIN;

	/* EAGAIN: something was renamed while a '..' was looked up. */
	for (int i = 0; i < RETRIES_MAX && (fd == -EAGAIN || fd == -EINTR); i++) {
		fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
		if (fd < 0)
			fd = -errno;
	}
	return fd;
}

/* The walk's place: the fds of the directories from the root down to here. */
struct walk {
	int *fds;
	size_t n, cap;
	char *rest; /* what is left to resolve */
	unsigned links;
};

static void walk_done(struct walk *w)
{
	for (size_t i = 1; i < w->n; i++)
		close(w->fds[i]);
	free(w->fds);
	free(w->rest);
}

static int walk_push(struct walk *w, int fd)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 16;
		int *fds = realloc(w->fds, cap * sizeof *fds);
		if (!fds)
			return -ENOMEM;
		w->fds = fds;
		w->cap = cap;
	}
	w->fds[w->n++] = fd;
	return 0;
}

/* Kernel links name things that need not be where their text says. */
static bool is_magic(int link_fd, const char *target)
{
	struct statfs fs;

	return fstatfs(link_fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
	       (target[0] == '/' || strstr(target, ":["));
}

static int walk_expand(struct walk *w, int link_fd, const char *behind)
{
	char target[BENEATH_PATH_MAX + 1];

	if (++w->links > BENEATH_LINKS_MAX)
		return -ELOOP;
	ssize_t n = readlinkat(link_fd, "", target, sizeof target);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ENOENT;
	if ((size_t)n >= sizeof target)
		return -ENAMETOOLONG;
	target[n] = '\0';
	if (is_magic(link_fd, target))
		return -ELOOP;
	if (target[0] == '/')
		return -EXDEV;
	size_t len = (size_t)n + strlen(behind);
	if (len > 2 * BENEATH_PATH_MAX)
		return -ENAMETOOLONG;
	char *rest = malloc(len + 1);
	if (!rest)
		return -ENOMEM;
	(void)snprintf(rest, len + 1, "%s%s", target, behind);
	free(w->rest);
	w->rest = rest;
	return 0;
}

/* The last component. -EAGAIN when it changed between looking and opening. */
static int walk_open_last(int dir_fd, const char *name, int flags, mode_t mode)
{
	int fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd >= 0)
		return fd;
	if (flags & O_NOFOLLOW || (errno != ELOOP && errno != ENOTDIR))
		return -errno;
	int saved = errno;
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return -EAGAIN;
	return -saved;
}

static int open_walk_once(int root_fd, const char *path, int flags, mode_t mode)
{
	auto_(walk_done) struct walk w = {0};

	if (walk_push(&w, root_fd) < 0 || !(w.rest = strdup(path)))
		return -ENOMEM;
	if (w.rest[0] == '/')
		return -EXDEV;

	const char *p = w.rest;
	for (;;) {
		char name[NAME_MAX + 1];
		int here = w.fds[w.n - 1];
		size_t n = strcspn(p, "/");
		const char *behind = p + n;
		bool is_last = *behind == '\0';
		bool is_name = !is_dot(p, n) && !is_dot_dot(p, n) && n > 0;

		if (is_dot_dot(p, n)) {
			if (w.n == 1)
				return -EXDEV;
			close(here);
			w.n--;
			here = w.fds[w.n - 1];
		}
		if (!is_name && is_last) {
			if (flags & O_CREAT && flags & O_EXCL)
				return -EEXIST;
			if (flags & O_CREAT && (flags & O_TMPFILE) != O_TMPFILE)
				return -EISDIR;
			int fd = openat(here, ".", flags | O_CLOEXEC, mode);
			return fd < 0 ? -errno : fd;
		}
		if (!is_name) {
			p = skip_slashes(behind);
			if (!*p)
				p = ".";
			continue;
		}
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, p, n);
		name[n] = '\0';
		bool wants_dir = !is_last && *skip_slashes(behind) == '\0';
		if (wants_dir && flags & O_CREAT && (flags & O_TMPFILE) != O_TMPFILE)
			return -EISDIR;

		auto_fd int fd = openat(here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		if (fd < 0 && (errno != ENOENT || !is_last || !(flags & O_CREAT)))
			return -errno;
		if (fd >= 0 && fstat(fd, &st) < 0)
			return -errno;
		if (fd >= 0 && S_ISLNK(st.st_mode) && !(is_last && flags & O_NOFOLLOW)) {
			if (is_last && flags & O_CREAT && flags & O_EXCL)
				return -EEXIST;
			int r = walk_expand(&w, fd, behind);
			if (r < 0)
				return r;
			p = w.rest;
			continue;
		}
		if (is_last)
			return walk_open_last(here, name, flags, mode);
		if (!S_ISDIR(st.st_mode))
			return -ENOTDIR;
		int r = walk_push(&w, fd);
		if (r < 0)
			return r;
		(void)steal_fd(fd);
		p = skip_slashes(behind);
		if (!*p)
			p = ".";
	}
}

static int open_walk(int root_fd, const char *path, int flags, mode_t mode)
{
	int fd = -EAGAIN;

	for (int i = 0; i < RETRIES_MAX && fd == -EAGAIN; i++)
		fd = open_walk_once(root_fd, path, flags, mode);
	return fd;
}

int beneath_open(int root_fd, const char *path, int flags, mode_t mode)
{
	int fd = check_path(path);

	if (fd < 0)
		return fd;
	flags |= O_CLOEXEC;
	if (chosen_way == BENEATH_OPENAT2)
		return open_openat2(root_fd, path, flags, mode);
	if (chosen_way == BENEATH_WALK || is_openat2_missing)
		return open_walk(root_fd, path, flags, mode);
	fd = open_openat2(root_fd, path, flags, mode);
	if (fd == -ENOSYS)
		is_openat2_missing = true;
	/* Old filters answer EPERM to calls they do not know; a real EPERM comes back from the
	 * walk. */
	if (fd == -ENOSYS || fd == -EPERM || fd == -EAGAIN)
		return open_walk(root_fd, path, flags, mode);
	return fd;
}

/* Split off the last component: *ret_dir_len bytes of path are the directory (0: the root). */
static int split_last(const char *path, size_t *ret_dir_len, char name[NAME_MAX + 1],
	bool *ret_has_slash)
{
	size_t end = strlen(path);
	size_t whole = end;

	while (end > 0 && path[end - 1] == '/')
		end--;
	if (end == 0)
		return -EXDEV;
	size_t begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	if (end - begin > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, path + begin, end - begin);
	name[end - begin] = '\0';
	*ret_dir_len = begin;
	*ret_has_slash = end != whole;
	return 0;
}

static int open_dir_part(int root_fd, const char *path, size_t len)
{
	char dir[BENEATH_PATH_MAX + 1];

	if (len == 0)
		return beneath_open(root_fd, ".", O_PATH | O_DIRECTORY, 0);
	memcpy(dir, path, len);
	dir[len] = '\0';
	return beneath_open(root_fd, dir, O_PATH | O_DIRECTORY, 0);
}

/* One round: gives the parent, and when the name is a link to be followed, its target in `path`. */
static int open_parent_once(int root_fd, char path[2 * BENEATH_PATH_MAX + 2], bool is_followed,
	char name[NAME_MAX + 1], bool *ret_is_link)
{
	char target[BENEATH_PATH_MAX + 1];
	struct stat st;
	size_t dir_len;
	bool has_slash;

	*ret_is_link = false;
	int r = split_last(path, &dir_len, name, &has_slash);
	if (r < 0)
		return r;
	if (is_dot(name, strlen(name)) || is_dot_dot(name, strlen(name))) {
		auto_fd int fd = beneath_open(root_fd, path, O_PATH, 0);
		return fd < 0 ? fd : -EINVAL;
	}
	auto_fd int dir = open_dir_part(root_fd, path, dir_len);
	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? steal_fd(dir) : -errno;
	if (S_ISLNK(st.st_mode) && is_followed) {
		ssize_t n = readlinkat(dir, name, target, sizeof target);
		if (n < 0)
			return errno == EINVAL ? -EAGAIN : -errno;
		if ((size_t)n >= sizeof target)
			return -ENAMETOOLONG;
		target[n] = '\0';
		if (n == 0)
			return -ENOENT;
		auto_fd int link = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (link >= 0 && is_magic(link, target))
			return -ELOOP;
		if (target[0] == '/')
			return -EXDEV;
		if (dir_len + (size_t)n + has_slash > BENEATH_PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(path + dir_len, target, (size_t)n);
		path[dir_len + (size_t)n] = has_slash ? '/' : '\0';
		path[dir_len + (size_t)n + has_slash] = '\0';
		*ret_is_link = true;
		return 0;
	}
	if (has_slash && !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return steal_fd(dir);
}

int beneath_open_parent(int root_fd, const char *path, bool is_followed, char name[NAME_MAX + 1])
{
	char now[2 * BENEATH_PATH_MAX + 2];
	int r = check_path(path);

	if (r < 0)
		return r;
	if (path[0] == '/')
		return -EXDEV;
	(void)snprintf(now, sizeof now, "%s", path);
	for (int links = 0; links <= BENEATH_LINKS_MAX; links++) {
		bool is_link;
		r = open_parent_once(root_fd, now, is_followed, name, &is_link);
		if (r != -EAGAIN && !is_link)
			return r;
	}
	return -ELOOP;
}

int beneath_mkdirs(int root_fd, const char *path, mode_t mode)
{
	char now[BENEATH_PATH_MAX + 1];
	int r = check_path(path);

	if (r < 0)
		return r;
	if (path[0] == '/')
		return -EXDEV;
	int fd = beneath_open(root_fd, path, O_PATH | O_DIRECTORY, 0);
	if (fd != -ENOENT)
		return fd;
	for (const char *p = path; *p; p = skip_slashes(p)) {
		char name[NAME_MAX + 1];
		size_t n = strcspn(p, "/");

		p += n;
		if (is_dot(p - n, n) || is_dot_dot(p - n, n))
			continue;
		memcpy(now, path, (size_t)(p - path));
		now[p - path] = '\0';
		auto_fd int parent = beneath_open_parent(root_fd, now, false, name);
		if (parent < 0)
			return parent;
		if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
			return -errno;
	}
	return beneath_open(root_fd, path, O_PATH | O_DIRECTORY, 0);
}
