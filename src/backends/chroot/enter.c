/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enter.c: the steps of the child. What comes from the host is cloned as detached mounts first; then a new mount
 * namespace, the tree as its root, and only then are names of the tree resolved: a symbolic link in it cannot
 * point at anything of the host any more.
 */
#include "enter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
#define N_DEVICES (sizeof devices / sizeof *devices)

static int failed(struct chroot_plan *p, const char *what, const char *path)
{
	p->failed = what;
	p->failed_path = path;
	return -errno;
}

/* A detached copy of what is mounted at path, with what is mounted below it. */
static int clone_tree(const char *path, uint64_t attr, int flags)
{
	struct mount_attr a = {.attr_set = attr};
	int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (unsigned)flags);

	if (fd >= 0 && attr &&
		mount_setattr(fd, "", AT_EMPTY_PATH | (unsigned)flags, &a, sizeof a) < 0)
		return -1;
	return fd;
}

static int attach(int tree_fd, const char *path)
{
	return move_mount(tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
}

/* Every directory of path; the last one is a file when is_file. */
static int make_target(const char *path, bool is_file)
{
	char p[PATH_MAX];
	size_t n = strnlen(path, sizeof p);

	if (n == sizeof p) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(p, path, n + 1);
	for (size_t i = 1; i < n; i++) {
		if (p[i] != '/')
			continue;
		p[i] = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			return -1;
		p[i] = '/';
	}
	int r = is_file ? mknod(p, S_IFREG | 0644, 0) : mkdir(p, 0755);
	return r < 0 && errno != EEXIST ? -1 : 0;
}

static int enter_root(struct chroot_plan *p, int root_fd)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failed(p, "make a mount namespace", "/");
	/* where it is attached does not matter: the rest of the namespace is let go of at once */
	if (attach(root_fd, p->root) < 0 || fchdir(root_fd) < 0)
		return failed(p, "mount the root tree", p->root);
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return failed(p, "make the tree the root", p->root);
	return 0;
}

static int mount_system(struct chroot_plan *p, const int device_fds[N_DEVICES])
{
	static const char *const links[][2] = {{"/proc/self/fd", "/dev/fd"},
		{"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"},
		{"/proc/self/fd/2", "/dev/stderr"}, {"pts/ptmx", "/dev/ptmx"}};
	const unsigned long quiet = MS_NOSUID | MS_NOEXEC;

	if (make_target("/proc", false) < 0 ||
		mount("proc", "/proc", "proc", quiet | MS_NODEV, NULL) < 0)
		return failed(p, "mount", "/proc");
	if (make_target("/dev", false) < 0 ||
		mount("cell", "/dev", "tmpfs", quiet, "mode=0755,size=1m,nr_inodes=512") < 0)
		return failed(p, "mount", "/dev");
	for (size_t i = 0; i < N_DEVICES; i++)
		if (device_fds[i] >= 0 && (make_target(devices[i], true) < 0 ||
						  attach(device_fds[i], devices[i]) < 0))
			return failed(p, "mount", devices[i]);
	if (make_target("/dev/pts", false) < 0 ||
		mount("devpts", "/dev/pts", "devpts", quiet,
			"newinstance,ptmxmode=0666,mode=0620") < 0)
		return failed(p, "mount", "/dev/pts");
	if (make_target("/dev/shm", false) < 0 ||
		mount("cell", "/dev/shm", "tmpfs", quiet | MS_NODEV, "mode=1777") < 0)
		return failed(p, "mount", "/dev/shm");
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			return failed(p, "make the link", links[i][1]);
	return 0;
}

static bool is_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

int chroot_enter(void *plan)
{
	struct chroot_plan *p = plan;
	int device_fds[N_DEVICES], mount_fds[CHROOT_MOUNTS_MAX];
	const uint64_t plain = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	int root_fd = clone_tree(p->root, 0, AT_RECURSIVE);
	int r;

	if (root_fd < 0)
		return failed(p, "open the root tree", p->root);
	int workspace_fd = clone_tree(p->workspace, plain, AT_RECURSIVE);
	if (workspace_fd < 0)
		return failed(p, "open the workspace", p->workspace);
	int spool_fd = clone_tree(p->spool, plain | MOUNT_ATTR_NOEXEC, 0);
	if (spool_fd < 0)
		return failed(p, "open the spool", p->spool);
	for (size_t i = 0; i < p->n_mounts; i++) {
		uint64_t attr = plain | (p->mounts[i].is_read_only ? MOUNT_ATTR_RDONLY : 0);

		mount_fds[i] = clone_tree(p->mounts[i].source, attr, AT_RECURSIVE);
		if (mount_fds[i] < 0)
			return failed(p, "open what to mount", p->mounts[i].source);
	}
	for (size_t i = 0; i < N_DEVICES; i++) {
		device_fds[i] = clone_tree(devices[i], 0, 0);
		if (device_fds[i] < 0 && errno != ENOENT)
			return failed(p, "open the device", devices[i]);
	}
	if ((r = enter_root(p, root_fd)) < 0 || (r = mount_system(p, device_fds)) < 0)
		return r;
	if (mkdir("/dev/.cell", 0700) < 0 || make_target(CHROOT_SPOOL, false) < 0 ||
		attach(spool_fd, CHROOT_SPOOL) < 0)
		return failed(p, "mount the spool", CHROOT_SPOOL);
	if (make_target(CHROOT_WORKSPACE, false) < 0 || attach(workspace_fd, CHROOT_WORKSPACE) < 0)
		return failed(p, "mount the workspace", CHROOT_WORKSPACE);
	for (size_t i = 0; i < p->n_mounts; i++)
		if (make_target(p->mounts[i].target, !is_directory(mount_fds[i])) < 0 ||
			attach(mount_fds[i], p->mounts[i].target) < 0)
			return failed(p, "mount", p->mounts[i].target);
	return 0;
}
