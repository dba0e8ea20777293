/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chroot.c: a guest in a root tree of its own: another set of files, not a wall against root. The tree is the
 * root of a private mount namespace with its own /proc and a minimal /dev; the workspace is at
 * /workspace. Everything mounted goes when the last process goes, even after kill -9.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backends/chroot/enter.h"
#include "backends/chroot/unpack.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/backend.h"
#include "core/guest_process.h"

static bool has_capability(unsigned cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	return syscall(SYS_capget, &head, data) == 0 &&
	       (data[cap / 32].effective & (1u << cap % 32));
}

static void chroot_probe(struct cell_probe *p)
{
	if (geteuid() != 0) {
		cell_probe_refuse(p, "making a mount namespace and changing the root needs root",
			"run as root, or use subprocess");
		return;
	}
	if (!has_capability(CAP_SYS_ADMIN)) {
		cell_probe_refuse(p, "this root lacks CAP_SYS_ADMIN, as in most containers",
			"give the container CAP_SYS_ADMIN");
		return;
	}
	if (open_tree(-1, "x", 0) < 0 && (errno == ENOSYS || errno == EPERM))
		cell_probe_refuse(p, "the kernel has no open_tree(2), or a filter forbids it",
			"use Linux 5.12 or newer");
}

static int check_target(const char *target, struct cell_error *err)
{
	size_t n = strlen(target);

	if (target[0] == '/' && n > 1 && !strstr(target, "/../") &&
		(n < 3 || strcmp(target + n - 3, "/..") != 0))
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "mount target '%s'", target);
	return cell_error_hint(err, r, "give an absolute path below / without '..'");
}

/* The host's path of what the spec names, a directory or an archive; caller frees. */
static int find_root(const struct cell_spec *spec, char **ret, struct cell_error *err)
{
	if (!spec->root) {
		int r = cell_fail(err, CELL_EINVAL, 0, "back end 'chroot' needs a root tree");
		return cell_error_hint(err, r,
			"set root to a directory or a tar archive: --root DIR, or root: in "
			"cell.yaml");
	}
	*ret = realpath(spec->root, NULL);
	if (!*ret)
		return cell_fail_errno(err, errno, "root tree '%s'", spec->root);
	if (!strcmp(*ret, "/")) {
		int r = cell_fail(err, CELL_EINVAL, 0, "root tree '%s' is the host's own root",
			spec->root);
		return cell_error_hint(err, r, "use subprocess to run on the host's files");
	}
	return 0;
}

static int make_directory(struct cell *c, const char *name, char **ret, struct cell_error *err)
{
	if (mkdirat(cell_directory_fd(c), name, 0700) < 0)
		return cell_fail_errno(err, errno, "make the cell's %s", name);
	if (asprintf(ret, "%s/%s", cell_directory(c), name) < 0) {
		*ret = NULL;
		return cell_fail_errno(err, ENOMEM, "make the cell's %s", name);
	}
	return 0;
}

/* Nobody but the cell reaches it: whatever user a command runs as may write there. */
static int make_workspace(struct cell *c, char **ret, struct cell_error *err)
{
	int r = make_directory(c, "workspace", ret, err);

	if (!r && fchmodat(cell_directory_fd(c), "workspace", 01777, 0) < 0)
		r = cell_fail_errno(err, errno, "make the cell's workspace");
	return r;
}

/* An archive becomes a directory of the cell, which goes with it. */
static int unpack_root(struct cell *c, char **root, struct cell_error *err)
{
	auto_free char *directory = NULL;
	struct stat st;

	if (stat(*root, &st) < 0)
		return cell_fail_errno(err, errno, "root tree '%s'", *root);
	if (S_ISDIR(st.st_mode))
		return 0;
	int r = make_directory(c, "root", &directory, err);
	if (r < 0)
		return r;
	auto_fd int fd = openat(cell_directory_fd(c), "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0755) < 0)
		return cell_fail_errno(err, errno, "make the cell's root");
	r = chroot_unpack(*root, fd, err);
	if (r < 0)
		return r;
	free(*root);
	*root = steal_ptr(directory);
	return 0;
}

static int chroot_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_free char *root = NULL;
	auto_free char *workspace = NULL;
	auto_free char *spool = NULL;
	struct chroot_plan plan = {0};
	int r = find_root(spec, &root, err);

	if (!r)
		r = unpack_root(c, &root, err);
	if (!r)
		r = make_directory(c, "spool", &spool, err);
	if (!r && !spec->workspace)
		r = make_workspace(c, &workspace, err);
	if (r < 0)
		return r;
	plan.root = root;
	plan.spool = spool;
	plan.workspace = spec->workspace ? spec->workspace : workspace;
	if (spec->n_mounts > CHROOT_MOUNTS_MAX)
		return cell_fail(err, CELL_ELIMIT, 0, "%zu mounts, but chroot takes %d",
			spec->n_mounts, CHROOT_MOUNTS_MAX);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct cell_mount *m = &spec->mounts[i];

		r = check_target(m->target, err);
		if (r < 0)
			return r;
		plan.mounts[plan.n_mounts++] = (struct chroot_mount){
			.source = m->source, .target = m->target, .is_read_only = m->is_read_only};
	}
	r = cell_note_set(c, "workspace", plan.workspace, err);
	if (r < 0)
		return r;
	struct guest_options o = {.workspace = CHROOT_WORKSPACE,
		.spool = CHROOT_SPOOL,
		.enter = chroot_enter,
		.user = &plan};
	r = cell_guest_start(c, &o, err);
	if (r < 0 && plan.failed)
		return cell_error_prefix(err, r, "%s '%s'", plan.failed, plan.failed_path);
	return r;
}

const struct cell_backend cell_backend_chroot = {
	.name = "chroot",
	.summary = "a root tree of its own (directory or tar archive); needs root; no wall against "
		   "root",
	.wall = "Commands see the files of the tree, not the host's. No wall against root: "
		"processes, "
		"network and devices of the host are within its reach.",
	.tier = 1,
	.strength = 0,
	.caps = CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(PORTS) | CAP(BACKGROUND) |
		CAP(NAMED) | CAP(USER) | CAP(DEFAULT_USER) | CAP(WORKSPACE) | CAP(KILL_TREE) |
		CAP(ROOT_DIR) | CAP(ROOT_TAR) | CAP(MOUNTS) | CAP(NET_OPEN),
	.probe = chroot_probe,
	.create = chroot_create,
	.open_guest = cell_guest_connect,
	.destroy = cell_guest_stop,
};
