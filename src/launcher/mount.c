/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.c: see mount.h. Only the calls that work on descriptors are used: a path that is looked at
 * twice can be swapped in between (CVE-2021-30465, CVE-2025-31133), an fd cannot.
 */
#include "launcher/mount.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "launcher/sys.h"

#define RESOLVE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

int mount_new(const char *type, const char *const *options, unsigned attr)
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

int mount_attr(int tree_fd, unsigned attr, int idmap_fd, bool is_recursive)
{
	struct mount_attributes a = {.attr_set = attr};

	if (idmap_fd >= 0) {
		a.attr_set |= ATTR_IDMAP;
		a.userns_fd = (uint64_t)idmap_fd;
	}
	return sys_mount_setattr(tree_fd, is_recursive ? TREE_RECURSIVE : 0, &a);
}

int mount_clone(int fd, const char *path, unsigned attr)
{
	auto_fd int tree = sys_open_tree(fd, path,
		TREE_CLONE | TREE_CLOEXEC | TREE_RECURSIVE | (*path ? 0 : AT_EMPTY_PATH));

	if (tree < 0 || (attr && mount_attr(tree, attr, -1, true) < 0))
		return -1;
	return steal_fd(tree);
}

int mount_open(int root_fd, const char *path)
{
	int fd;

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
	return sys_move_mount(tree_fd, to, "", MOVE_T_EMPTY);
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
