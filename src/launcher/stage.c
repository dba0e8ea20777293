/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.c: the launcher's own mount namespace: a root of a few entries and the template of the root
 * that cells on the host's own programs get. A cell's namespace is a copy of this one, so everything
 * in it is paid for by every cell; and what is not in it cannot be left in a cell by mistake.
 */
#include "launcher/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/masks.h"
#include "launcher/mount.h"
#include "launcher/mount_classic.h"
#include "launcher/skeleton.h"
#include "launcher/sys.h"

static int template_fd = -1;
static int outer_fd = -1; /* classic: STAGE_OUTER */

static int bring(int root_fd, const char *source, const char *target, unsigned attr)
{
	struct stat st;

	if (stat(source, &st) < 0)
		return -1;
	if (mount_make_target(root_fd, target, !S_ISDIR(st.st_mode)) < 0)
		return -1;
	auto_fd int tree = mount_clone(AT_FDCWD, source, attr);
	return tree < 0 ? -1 : mount_at(tree, root_fd, target);
}

/* The host's programs: /usr and, where they are not links into it, its old siblings. */
static int bring_programs(int root_fd, struct failure *f)
{
	static const char *const names[] = {
		"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};
	char path[16], link[64];
	struct stat st;

	for (int i = 0; names[i]; i++) {
		(void)snprintf(path, sizeof path, "/%s", names[i]);
		if (lstat(path, &st) < 0)
			continue;
		if (S_ISLNK(st.st_mode)) {
			ssize_t n = readlink(path, link, sizeof link - 1);
			if (n <= 0)
				continue;
			link[n] = '\0';
			if (symlinkat(link, root_fd, names[i]) < 0)
				return fail(f, LAUNCHER_STEP_TEMPLATE, "make the link", path);
		} else if (S_ISDIR(st.st_mode) &&
			   bring(root_fd, path, path, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV) < 0) {
			return fail(f, LAUNCHER_STEP_TEMPLATE, "take in the host's", path);
		}
	}
	return 0;
}

static int bring_etc(int root_fd, const char *name, struct failure *f)
{
	char path[300];

	(void)snprintf(path, sizeof path, "/etc/%s", name);
	if (bring(root_fd, path, path, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC) < 0 &&
		errno != ENOENT)
		return fail(f, LAUNCHER_STEP_TEMPLATE, "take in the host's", path);
	return 0;
}

static int bring_configuration(int root_fd, struct failure *f)
{
	for (size_t i = 0; skeleton_etc_bound[i]; i++)
		if (bring_etc(root_fd, skeleton_etc_bound[i], f) < 0)
			return -1;
	/* Debian keeps parts of each Java there */
	auto_dir DIR *etc = opendir("/etc");
	for (struct dirent *e; etc && (e = readdir(etc));)
		if (!strncmp(e->d_name, "java-", 5) && bring_etc(root_fd, e->d_name, f) < 0)
			return -1;
	return 0;
}

/* /dev as one small file system: device nodes where we may make them, else the host's own, each
 * looked at before it is taken (CVE-2025-31133: a null that was none). */
static int bring_devices(int root_fd, struct failure *f)
{
	static const char *const options[] = {
		"mode", "0755", "size", "64k", "nr_inodes", "64", NULL};
	char path[32];
	auto_fd int dev = mount_new("tmpfs", options, ATTR_NOSUID | ATTR_NOEXEC);

	if (dev < 0 || mount_at(dev, root_fd, "dev") < 0 || skeleton_dev(dev) < 0)
		return fail(f, LAUNCHER_STEP_DEV, "mount", "/dev");
	for (size_t i = 0; skeleton_devices[i].name; i++) {
		const struct skeleton_device *d = &skeleton_devices[i];
		struct stat st;

		if (host.is_rootful && mknodat(dev, d->name, S_IFCHR | 0666, makedev_of(d)) == 0) {
			if (fchmodat(dev, d->name, 0666, 0) < 0)
				return fail(f, LAUNCHER_STEP_DEV, "open up", d->name);
			continue;
		}
		(void)snprintf(path, sizeof path, "/dev/%s", d->name);
		auto_fd int tree = mount_clone_one(AT_FDCWD, path, ATTR_NOSUID | ATTR_NOEXEC);
		if (tree < 0 || fstat(tree, &st) < 0)
			return fail(f, LAUNCHER_STEP_DEV, "take in the host's", path);
		if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev_of(d))
			return fail_with(f, LAUNCHER_STEP_DEV, ENODEV,
				"this is not what it says it is:", path);
		if (mknodat(dev, d->name, S_IFREG | 0644, 0) < 0 ||
			mount_at(tree, dev, d->name) < 0)
			return fail(f, LAUNCHER_STEP_DEV, "mount", path);
	}
	return mount_attr(dev, ATTR_RDONLY, -1, false) < 0
		       ? fail(f, LAUNCHER_STEP_DEV, "make read-only", "/dev")
		       : 0;
}

static int make_template(int stage_fd, struct failure *f)
{
	static const char *const options[] = {
		"mode", "0755", "size", "4m", "nr_inodes", "2048", NULL};
	auto_fd int root = mount_new("tmpfs", options, ATTR_NOSUID | ATTR_NODEV);

	if (root < 0 || mount_at(root, stage_fd, STAGE_HOST) < 0)
		return fail(f, LAUNCHER_STEP_TEMPLATE, "mount", "tmpfs");
	if (skeleton_root(root) < 0 || skeleton_etc(root) < 0)
		return fail(f, LAUNCHER_STEP_TEMPLATE, "write", "/etc");
	if (bring_programs(root, f) < 0 || bring_configuration(root, f) < 0 ||
		bring_devices(root, f) < 0)
		return -1;
	if (mount_attr(root, ATTR_RDONLY, -1, false) < 0)
		return fail(f, LAUNCHER_STEP_TEMPLATE, "make read-only", "/");
	template_fd = steal_fd(root);
	return 0;
}

static int enter_stage(int stage_fd, struct failure *f)
{
	/* where it is attached does not matter: the rest of the namespace is let go of at once */
	if (fchdir(stage_fd) < 0 || sys_pivot_root(".", mount_is_classic() ? STAGE_OUTER : ".") < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "change the root", NULL);
	if (mount_is_classic()) {
		outer_fd = open("/" STAGE_OUTER, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (outer_fd < 0)
			return fail(f, LAUNCHER_STEP_STAGE, "open", "/" STAGE_OUTER);
	} else if (umount2(".", MNT_DETACH) < 0) {
		return fail(f, LAUNCHER_STEP_STAGE, "let go of the old root", NULL);
	}
	return chdir("/") < 0 ? fail(f, LAUNCHER_STEP_STAGE, "change the root", NULL) : 0;
}

/* The first mount of all, where it does not matter, and with it the choice of the calls for all that
 * follow. A filter that forbids the new ones says ENOSYS or EPERM; that mounts are forbidden altogether,
 * mount(2) says then. */
static int mount_stage(void)
{
	static const char *const options[] = {
		"mode", "0755", "size", "64k", "nr_inodes", "64", NULL};
	static const char *const places[] = {"/sys", "/mnt", "/media", "/srv", "/tmp", NULL};
	const unsigned attr = ATTR_NOSUID | ATTR_NODEV;
	auto_fd int stage = mount_new("tmpfs", options, attr);

	for (int i = 0; stage >= 0 && places[i]; i++) {
		if (mount_move(stage, AT_FDCWD, places[i]) == 0) {
			/* in its place: before Linux 6.15 a detached mount cannot be copied */
			if (mount_probe(stage))
				return steal_fd(stage);
			(void)umount2(places[i], MNT_DETACH);
			break;
		}
		if (errno == ENOSYS || errno == EPERM)
			break;
	}
	mount_be_classic();
	for (int i = 0; places[i]; i++) {
		int fd = classic_new_at(places[i], "tmpfs", options, attr);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static int make_classic(int stage_fd)
{
	if (mkdirat(stage_fd, STAGE_OUTER, 0755) < 0 || mkdirat(stage_fd, STAGE_POOL, 0755) < 0)
		return -1;
	return classic_pool(stage_fd, STAGE_POOL, "/" STAGE_POOL);
}

int stage_init(struct failure *f)
{
	host.outer_mnt_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (host.outer_mnt_fd < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "open", "/proc/self/ns/mnt");
	if (unshare(CLONE_NEWNS) < 0)
		return fail(f, LAUNCHER_STEP_NAMESPACES, "make a mount namespace", NULL);
	/* nothing we mount may show up on the host */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "make a slave", "/");
	auto_fd int stage = mount_stage();
	if (stage < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "mount", "tmpfs");
	/* nor anything of the host later on here; but in STAGE_OUTER, where there is one */
	if (!mount_is_classic() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "make private", "/");
	host.has_new_mounts = !mount_is_classic();
	host.has_idmap = host.n_uids && host.has_new_mounts;
	if (mount_is_classic() && make_classic(stage) < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "make a place for classic mounts", NULL);
	if (mkdirat(stage, "proc", 0555) < 0 || mkdirat(stage, STAGE_HOST, 0755) < 0 ||
		mkdirat(stage, STAGE_CELL, 0755) < 0 || mkdirat(stage, STAGE_SCRATCH, 0755) < 0 ||
		mkdirat(stage, STAGE_LOWER, 0755) < 0 || mkdirat(stage, STAGE_EMPTY, 0555) < 0 ||
		mknodat(stage, STAGE_NOTHING, S_IFREG | 0444, 0) < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "make directories", NULL);
	masks_find();
	auto_fd int proc = mount_clone(AT_FDCWD, "/proc", 0);
	if (proc < 0 || mount_at(proc, stage, "proc") < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "take in the host's", "/proc");
	if (make_template(stage, f) < 0)
		return -1;
	/* all cells share what covers files of /proc: nobody may leave anything there */
	if (mount_attr(stage, ATTR_RDONLY, -1, false) < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "make read-only", "tmpfs");
	if (enter_stage(stage, f) < 0)
		return -1;
	host.stage_mnt_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (host.stage_mnt_fd < 0)
		return fail(f, LAUNCHER_STEP_STAGE, "open", "/proc/self/ns/mnt");
	return 0;
}

int stage_clone_host(struct failure *f)
{
	int fd = mount_clone(template_fd, "", 0);

	return fd < 0 ? fail(f, LAUNCHER_STEP_ROOT, "copy the template", NULL) : fd;
}

/* The same directory as fd, seen from the namespace we are in: by its path, and only if that is it. */
static int find_again(int fd)
{
	char link[48], path[PATH_MAX];
	struct stat was, is;

	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n <= 0)
		return -1;
	path[n] = '\0';
	/* the path is free of links; were one put in since, it is not followed */
	auto_fd int again = mount_is_classic() ? mount_walk(outer_fd, path)
					       : open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (again < 0 || fstat(fd, &was) < 0 || fstat(again, &is) < 0)
		return -1;
	if (was.st_dev != is.st_dev || was.st_ino != is.st_ino) {
		errno = ESTALE;
		return -1;
	}
	return steal_fd(again);
}

/* By mount(2), within our own namespace; it stays ours until the child has its copy of it. */
static int clone_fd_classic(int fd, unsigned attr, enum launcher_step step, struct failure *f)
{
	auto_fd int again = find_again(fd);

	if (again < 0)
		return fail(f, step, "find it again", NULL);
	int tree = mount_clone(again, "", attr);

	return tree >= 0 ? tree
			 : fail_with(f, step, EXDEV,
				   "what is mounted below it cannot be reached to be restricted",
				   NULL);
}

int stage_clone_fd(int fd, unsigned attr, int idmap_fd, enum launcher_step step, struct failure *f)
{
	const unsigned flags = TREE_CLONE | TREE_CLOEXEC | AT_EMPTY_PATH;
	auto_fd int again = -1;

	if (mount_is_classic())
		return clone_fd_classic(fd, attr, step, f);
	auto_fd int tree = sys_open_tree(fd, "", flags | TREE_RECURSIVE);

	if (tree < 0 && errno == EINVAL) { /* it is of the client's mount namespace, not of ours */
		again = find_again(fd);
		if (again < 0)
			return fail(f, step, "find it again", NULL);
		tree = sys_open_tree(again, "", flags | TREE_RECURSIVE);
	}
	if (tree < 0)
		return fail(f, step, "copy the mount", NULL);
	if (mount_attr(tree, attr, idmap_fd, true) == 0)
		return steal_fd(tree);
	if (idmap_fd < 0 || errno != EINVAL)
		return fail(f, step, "set its attributes", NULL);
	auto_fd int top = sys_open_tree(again >= 0 ? again : fd, "", flags);
	if (top < 0 || mount_attr(top, attr, idmap_fd, false) < 0)
		return fail_with(f, step, EINVAL, "its file system cannot be idmapped", NULL);
	/* an overlay shows nothing of what is mounted on its layers anyway. Else a cell that is given a
	 * directory is given all that is there, or none of it: what is mounted below would be missing
	 * without a word, and what it covers would come to light. */
	if (step == LAUNCHER_STEP_ROOT)
		return steal_fd(top);
	return fail_with(f, step, EXDEV, "what is mounted below it cannot be idmapped", NULL);
}

int stage_enter_outer(struct failure *f)
{
	if (mount_is_classic())
		return 0; /* STAGE_OUTER is a copy of it */
	return setns(host.outer_mnt_fd, CLONE_NEWNS) < 0
		       ? fail(f, LAUNCHER_STEP_STAGE, "enter the clients' mount namespace", NULL)
		       : 0;
}

int stage_leave_outer(struct failure *f)
{
	if (mount_is_classic())
		return 0;
	return setns(host.stage_mnt_fd, CLONE_NEWNS) < 0
		       ? fail(f, LAUNCHER_STEP_STAGE, "go back to our mount namespace", NULL)
		       : 0;
}
