/* SPDX-License-Identifier: Apache-2.0 */
/* mount_classic.c: see mount_classic.h. */
#include "launcher/mount_classic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/mount.h"
#include "launcher/submounts.h"
#include "launcher/sys.h"

#define PLACES 512 /* of each kind: all layers and mounts of a request, in parent and child */
#define SPARE  24  /* what a cell needs besides those */

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif
#ifndef ST_NOSYMFOLLOW
#define ST_NOSYMFOLLOW 0x2000
#endif

enum kind {
	A_DIRECTORY,
	A_FILE,
	N_KINDS
};
static struct {
	int fd; /* of the pool, -1: none */
	const char *path;
	unsigned n_made[N_KINDS];
	int used_by[N_KINDS][PLACES]; /* fd + 1; 0: free */
} pool = {.fd = -1};

struct place {
	enum kind kind;
	unsigned number;
};

static const char *name_place(struct place p, char ret[64])
{
	(void)snprintf(ret, 64, "/proc/self/fd/%d/%c%u", pool.fd, p.kind == A_FILE ? 'f' : 'd',
		p.number);
	return ret;
}

static int make_places(enum kind kind, unsigned n)
{
	for (; pool.n_made[kind] < n; pool.n_made[kind]++) {
		char path[64];
		(void)name_place((struct place){kind, pool.n_made[kind]}, path);
		int r = kind == A_FILE ? mknod(path, S_IFREG | 0600, 0) : mkdir(path, 0700);
		if (r < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

static int take_place(enum kind kind, struct place *ret)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (!pool.used_by[kind][i]) {
			*ret = (struct place){kind, i};
			return make_places(kind, i + 1);
		}
	errno = EMFILE;
	return -1;
}

static bool find_place(int fd, struct place *ret)
{
	for (enum kind kind = 0; kind < N_KINDS; kind++)
		for (unsigned i = 0; i < pool.n_made[kind]; i++)
			if (pool.used_by[kind][i] == fd + 1) {
				*ret = (struct place){kind, i};
				return true;
			}
	return false;
}

static void empty_place(struct place p)
{
	char path[64];

	(void)umount2(name_place(p, path), MNT_DETACH | UMOUNT_NOFOLLOW);
	pool.used_by[p.kind][p.number] = 0;
}

/* What was just mounted there, as the fd it is known by from now on. */
static int open_place(struct place p)
{
	char path[64];
	struct place old;
	int fd = open(name_place(p, path), O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		int saved = errno;
		empty_place(p);
		errno = saved;
		return -1;
	}
	if (find_place(fd, &old)) /* closed without a word: nobody knows that mount any more */
		empty_place(old);
	pool.used_by[p.kind][p.number] = fd + 1;
	return fd;
}

static unsigned long flags_of(unsigned attr)
{
	return (attr & ATTR_RDONLY ? MS_RDONLY : 0) | (attr & ATTR_NOSUID ? MS_NOSUID : 0) |
	       (attr & ATTR_NODEV ? MS_NODEV : 0) | (attr & ATTR_NOEXEC ? MS_NOEXEC : 0) |
	       (attr & ATTR_NOATIME ? MS_NOATIME : 0) |
	       (attr & ATTR_NOSYMFOLLOW ? MS_NOSYMFOLLOW : 0);
}

/* The flags a mount has, in mount(2)'s words. Those of access times it keeps when none are given. */
static int flags_now(int fd, unsigned long *ret)
{
	struct statvfs st;

	if (fstatvfs(fd, &st) < 0)
		return -1;
	*ret = (st.f_flag & ST_RDONLY ? MS_RDONLY : 0) | (st.f_flag & ST_NOSUID ? MS_NOSUID : 0) |
	       (st.f_flag & ST_NODEV ? MS_NODEV : 0) | (st.f_flag & ST_NOEXEC ? MS_NOEXEC : 0) |
	       (st.f_flag & ST_NOSYMFOLLOW ? MS_NOSYMFOLLOW : 0);
	return 0;
}

/* Add flags to one mount. A remount sets all of them: what it has must be said again, and in a user
 * namespace the kernel refuses to take any away. */
static int restrict_one(int fd, void *arg)
{
	const unsigned long wanted = *(const unsigned long *)arg;
	unsigned long have, now;
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (flags_now(fd, &have) < 0)
		return -1;
	if ((have & wanted) == wanted)
		return 0;
	if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | have | wanted, NULL) < 0 ||
		flags_now(fd, &now) < 0)
		return -1;
	if ((now & wanted) == wanted)
		return 0;
	errno = EIO; /* never go on with less than was asked for */
	return -1;
}

int classic_attr(int tree_fd, unsigned attr, bool is_recursive)
{
	unsigned long flags = flags_of(attr);

	if (restrict_one(tree_fd, &flags) < 0)
		return -1;
	return is_recursive ? submounts_each(tree_fd, restrict_one, &flags) : 0;
}

/* "size=1,mode=2" and, apart, the source: mount(2)'s form of options. */
static int join_options(const char *const *options, char *ret, size_t size, const char **ret_source)
{
	size_t n = 0;

	ret[0] = '\0';
	for (; options && options[0]; options += 2) {
		if (!strcmp(options[0], "source")) {
			*ret_source = options[1];
			continue;
		}
		n += (size_t)snprintf(ret + n, size - n, "%s%s%s%s", n ? "," : "", options[0],
			options[1] ? "=" : "", options[1] ? options[1] : "");
		if (n >= size) {
			errno = E2BIG;
			return -1;
		}
	}
	return 0;
}

static int mount_type(const char *where, const char *type, const char *const *options,
	unsigned attr)
{
	char text[256];
	const char *source = "none"; /* what fsopen writes when it is given none */

	if (join_options(options, text, sizeof text, &source) < 0)
		return -1;
	return mount(source, where, type, flags_of(attr), text);
}

int classic_new(const char *type, const char *const *options, unsigned attr)
{
	char path[64];
	struct place p;

	if (take_place(A_DIRECTORY, &p) < 0 ||
		mount_type(name_place(p, path), type, options, attr) < 0)
		return -1;
	return open_place(p);
}

int classic_new_at(const char *place, const char *type, const char *const *options, unsigned attr)
{
	return mount_type(place, type, options, attr) < 0
		       ? -1
		       : open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int name_source(int fd, const char *path, char *ret, size_t size)
{
	size_t n = fd == AT_FDCWD ? (size_t)snprintf(ret, size, "%s", path)
				  : (size_t)snprintf(ret, size, "/proc/self/fd/%d%s%s", fd,
					    *path ? "/" : "", path);

	if (n < size)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

int classic_clone(int fd, const char *path, unsigned attr, bool is_recursive)
{
	char from[PATH_MAX], to[64];
	struct stat st;
	struct place p;

	if (name_source(fd, path, from, sizeof from) < 0 || stat(from, &st) < 0 ||
		take_place(S_ISDIR(st.st_mode) ? A_DIRECTORY : A_FILE, &p) < 0)
		return -1;
	(void)name_place(p, to);
	if (mount(from, to, NULL, MS_BIND | (is_recursive ? MS_REC : 0), NULL) < 0)
		return -1;
	int tree = open_place(p);
	if (tree < 0)
		return -1;
	/* in one call and before the flags: nothing that is mounted on the host from now on comes
	 * here without them */
	if (mount(NULL, to, NULL, MS_PRIVATE | (is_recursive ? MS_REC : 0), NULL) == 0 &&
		(!attr || classic_attr(tree, attr, is_recursive) == 0))
		return tree;
	int saved = errno;
	empty_place(p);
	close(tree);
	errno = saved;
	return -1;
}

int classic_inherit(int fd)
{
	char path[64];
	struct place p;

	if (!find_place(fd, &p)) {
		errno = EBADF;
		return -1;
	}
	return classic_clone(AT_FDCWD, name_place(p, path), 0, true);
}

int classic_move(int tree_fd, int dir_fd, const char *path)
{
	char from[64], to[PATH_MAX];
	struct place p;

	(void)snprintf(from, sizeof from, "/proc/self/fd/%d", tree_fd);
	if (name_source(dir_fd, path, to, sizeof to) < 0 ||
		mount(from, to, NULL, MS_MOVE, NULL) < 0)
		return -1;
	if (find_place(tree_fd, &p)) /* it is free for another */
		pool.used_by[p.kind][p.number] = 0;
	return 0;
}

int classic_cover(const char *source, int dir_fd, const char *name)
{
	char to[PATH_MAX];

	return name_source(dir_fd, name, to, sizeof to) < 0
		       ? -1
		       : mount(source, to, NULL, MS_BIND, NULL);
}

void classic_drop(int fd)
{
	struct place p;

	if (find_place(fd, &p))
		empty_place(p);
}

int classic_pool(int dir_fd, const char *name, const char *path)
{
	static const char *const options[] = {
		"mode", "0755", "size", "64k", "nr_inodes", "2048", NULL};
	char where[64];

	if (name_source(dir_fd, name, where, sizeof where) < 0 ||
		mount_type(where, "tmpfs", options, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC) < 0)
		return -1;
	pool.fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	pool.path = path;
	return pool.fd < 0 ? -1 : classic_reserve(0);
}

int classic_reserve(unsigned n)
{
	/* each tree once here and once more in the child */
	for (enum kind kind = 0; kind < N_KINDS; kind++)
		if (make_places(kind, 2 * n + SPARE > PLACES ? PLACES : 2 * n + SPARE) < 0)
			return -1;
	return 0;
}

int classic_born(void)
{
	int fd = open(pool.path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -1;
	close(pool.fd);
	pool.fd = fd;
	return 0;
}
