/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.c: see mount.h. Only descriptors are used: a path that is looked at twice can be swapped in
 * between (CVE-2021-30465, CVE-2025-31133), an fd cannot. By the calls that take them, or, where those
 * are missing, by mount(2) with /proc/self/fd (mount_classic.c).
 */
#include "launcher/mount.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/mount_classic.h"
#include "launcher/sys.h"

#define RESOLVE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

static bool is_classic;

bool mount_is_classic(void)
{
	return is_classic;
}

void mount_be_classic(void)
{
	is_classic = true;
}

bool mount_probe(int tree_fd)
{
	struct mount_attributes none = {0};
	auto_fd int copy = sys_open_tree(tree_fd, "", TREE_CLONE | TREE_CLOEXEC | AT_EMPTY_PATH);

	/* Linux 5.2 has the first, 5.12 the second */
	return copy >= 0 && sys_mount_setattr(copy, TREE_RECURSIVE, &none) == 0;
}

static int new_by_fd(const char *type, const char *const *options, unsigned attr)
{
	auto_fd int fs = sys_fsopen(type);

	if (fs < 0)
		return -1;
	for (; options && options[0]; options += 2)
		if (sys_fsconfig(fs, options[1] ? FS_SET_STRING : FS_SET_FLAG, options[0],
			    options[1]) < 0)
			return -1;
	if (sys_fsconfig(fs, FS_CMD_CREATE, NULL, NULL) < 0)
		return -1;
	return sys_fsmount(fs, attr);
}

int mount_new(const char *type, const char *const *options, unsigned attr)
{
	return is_classic ? classic_new(type, options, attr) : new_by_fd(type, options, attr);
}

int mount_attr(int tree_fd, unsigned attr, int idmap_fd, bool is_recursive)
{
	if (is_classic && idmap_fd >= 0) {
		errno = ENOSYS;
		return -1;
	}
	if (is_classic)
		return classic_attr(tree_fd, attr, is_recursive);
	/* no peer of what it was copied from (on a machine with systemd every mount has peers): what is mounted
	 * there later would come here as it is, neither nosuid nor read-only nor idmapped */
	struct mount_attributes a = {.attr_set = attr, .propagation = MS_PRIVATE};

	if (idmap_fd >= 0) {
		a.attr_set |= ATTR_IDMAP;
		a.userns_fd = (uint64_t)idmap_fd;
	}
	return sys_mount_setattr(tree_fd, is_recursive ? TREE_RECURSIVE : 0, &a);
}

static int clone_tree(int fd, const char *path, unsigned attr, bool is_recursive)
{
	if (is_classic)
		return classic_clone(fd, path, attr, is_recursive);
	auto_fd int tree = sys_open_tree(fd, path,
		TREE_CLONE | TREE_CLOEXEC | (is_recursive ? TREE_RECURSIVE : 0) |
			(*path ? 0 : AT_EMPTY_PATH));

	if (tree < 0 || (attr && mount_attr(tree, attr, -1, is_recursive) < 0))
		return -1;
	return steal_fd(tree);
}

int mount_clone(int fd, const char *path, unsigned attr)
{
	return clone_tree(fd, path, attr, true);
}

int mount_clone_one(int fd, const char *path, unsigned attr)
{
	return clone_tree(fd, path, attr, false);
}

int mount_move(int tree_fd, int dir_fd, const char *path)
{
	return is_classic ? classic_move(tree_fd, dir_fd, path)
			  : sys_move_mount(tree_fd, dir_fd, path, 0);
}

int mount_cover(const char *source, int dir_fd, const char *name)
{
	if (is_classic)
		return classic_cover(source, dir_fd, name);
	auto_fd int cover = sys_open_tree(AT_FDCWD, source, TREE_CLONE | TREE_CLOEXEC);

	return cover < 0 ? -1 : sys_move_mount(cover, dir_fd, name, 0);
}

void mount_drop(int *tree_fd)
{
	if (*tree_fd < 0)
		return;
	if (is_classic)
		classic_drop(*tree_fd);
	close(*tree_fd);
	*tree_fd = -1;
}

int mount_walk(int root_fd, const char *path)
{
	auto_fd int at = -1;

	for (;;) {
		char name[NAME_MAX + 1];

		while (*path == '/')
			path++;
		size_t n = strcspn(path, "/");
		bool is_last = !path[n + strspn(path + n, "/")];

		if (n > NAME_MAX || (n == 2 && path[0] == '.' && path[1] == '.')) {
			errno = n > NAME_MAX ? ENAMETOOLONG : EINVAL;
			return -1;
		}
		(void)snprintf(name, sizeof name, "%.*s", n ? (int)n : 1, n ? path : ".");
		/* nothing but a directory leads on */
		int next = openat(at < 0 ? root_fd : at, name,
			O_PATH | O_NOFOLLOW | O_CLOEXEC | (is_last ? 0 : O_DIRECTORY));
		if (next < 0 || is_last)
			return next;
		cell_closep(&at);
		at = next;
		path += n;
	}
}

int mount_open(int root_fd, const char *path)
{
	int fd;

	/* Linux before 5.6, and containers whose filter does not know openat2. No name here has a link
	 * on its way that mount_make_target would not have refused before. */
	if (!host.has_openat2)
		return mount_walk(root_fd, path);
	while (*path == '/')
		path++;
	do
		fd = sys_openat2(root_fd, *path ? path : ".", O_PATH | O_NOFOLLOW, RESOLVE);
	while (fd < 0 && errno == EAGAIN); /* a rename went on meanwhile: the kernel asks again */
	return fd;
}

int mount_at(int tree_fd, int root_fd, const char *path)
{
	struct stat st;
	auto_fd int to = mount_open(root_fd, path);

	if (to < 0 || fstat(to, &st) < 0)
		return -1;
	if (S_ISLNK(st.st_mode)) {
		errno = ELOOP;
		return -1;
	}
	return is_classic ? classic_move(tree_fd, to, "")
			  : sys_move_mount(tree_fd, to, "", MOVE_T_EMPTY);
}

int mount_make_target(int root_fd, const char *path, bool is_file)
{
	char p[PATH_MAX];
	auto_fd int at = -1;

	while (*path == '/')
		path++;
	size_t n = strnlen(path, sizeof p);
	if (n == 0 || n == sizeof p) {
		errno = n ? ENAMETOOLONG : EINVAL;
		return -1;
	}
	memcpy(p, path, n + 1);
	for (char *name = p;;) {
		size_t len = strcspn(name, "/");
		bool is_last = !name[len];
		int dir = at < 0 ? root_fd : at;

		name[len] = '\0';
		int r = is_last && is_file ? mknodat(dir, name, S_IFREG | 0644, 0)
					   : mkdirat(dir, name, 0755);
		if (r < 0 && errno != EEXIST && errno != EROFS)
			return -1;
		if (r < 0 && errno == EROFS && is_last) {
			struct stat st;
			if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
				errno = EROFS;
				return -1;
			}
		}
		if (is_last)
			return 0;
		int next = mount_open(dir, name); /* a link on the way is refused, not followed */
		if (next < 0)
			return -1;
		if (at >= 0)
			close(at);
		at = next;
		name += len + 1;
	}
}
