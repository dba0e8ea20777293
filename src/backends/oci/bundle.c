/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

#define SCRATCH_BYTES (UINT64_C(1) << 30)

void oci_plan_done(struct oci_plan *p)
{
	cell_image_done(&p->image);
	free(p->layers);
	free(p->bundle);
	free(p->root);
	free(p->scratch);
	free(p->overlay);
}

/* --- the plan --- */

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

/* A name is looked up in the image, the topmost layer that has the file. */
static int find_user(struct oci_plan *p, const char *name, struct cell_error *err)
{
	char path[4200];

	for (size_t i = p->image.n_layers; i-- > 0;) {
		(void)snprintf(path, sizeof path, "%s/etc/passwd", p->image.layers[i]);
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		auto_file FILE *f = fd < 0 ? NULL : fdopen(fd, "re");

		for (struct passwd *pw; f && (pw = fgetpwent(f));) {
			if (strcmp(pw->pw_name, name) != 0)
				continue;
			p->uid = pw->pw_uid;
			p->gid = pw->pw_gid;
			return 0;
		}
		if (f)
			break;
	}
	int r = cell_fail(err, CELL_ENOTFOUND, ENOENT, "run as user '%.64s'", name);
	return cell_error_hint(err, r,
		"no such user in the image's /etc/passwd; a numeric uid[:gid] works too");
}

static int choose_user(struct oci_plan *p, struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	unsigned uid = OCI_UID, gid = OCI_UID;
	struct stat st;
	char end;

	if (spec->user) {
		int n = sscanf(spec->user, "%u:%u%c", &uid, &gid, &end);
		if (n == 1 && !strchr(spec->user, ':'))
			gid = uid;
		else if (n != 2)
			return find_user(p, spec->user, err);
	} else if (spec->workspace) { /* files in it stay with whom it belongs to */
		if (stat(spec->workspace, &st) < 0)
			return cell_fail_errno(err, errno, "workspace '%s'", spec->workspace);
		uid = st.st_uid;
		gid = st.st_gid;
	}
	p->uid = uid;
	p->gid = gid;
	return 0;
}

/* Overlay wants the topmost first; a colon or comma in a path would be taken for its own. */
static int plan_overlay(struct oci_plan *p, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(4096); /* what mount(2) takes */
	int r = buf_addz(&text, "lowerdir=");

	for (size_t i = p->image.n_layers; r == 0 && i-- > 0;) {
		if (strpbrk(p->image.layers[i], ":,\\"))
			return cell_fail(err, CELL_EINVAL, 0,
				"layer '%s' has a character that overlays cannot have",
				p->image.layers[i]);
		r = buf_addf(&text, "%s%s", p->image.layers[i], i ? ":" : "");
	}
	if (r == 0)
		r = buf_addf(&text, ",upperdir=%s/upper,workdir=%s/work%s", p->scratch, p->scratch,
			p->image.is_user_xattr ? ",userxattr" : "");
	if (r < 0)
		return cell_fail(err, CELL_ELIMIT, 0,
			"image has too many layers (%zu) for one mount", p->image.n_layers);
	p->overlay = buf_steal(&text);
	return p->overlay ? 0 : no_memory(err);
}

static int plan_scratch(struct oci_plan *p, struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	const struct cell_limits *l = &spec->limits;

	if ((l->disk_bytes || l->inodes) && spec->workspace) {
		if (!l->is_best_effort) {
			int r = cell_fail(err, CELL_ENOTSUP, 0,
				"limits.%s: what is written to the workspace '%s' goes to the "
				"host's "
				"disk, uncounted",
				l->disk_bytes ? "disk" : "inodes", spec->workspace);
			return cell_error_hint(err, r,
				"leave the workspace out (a private one counts), or use --limits "
				"best-effort to limit the rest");
		}
		cell_degrade(p->c, l->disk_bytes ? CELL_CAP_LIMIT_DISK : CELL_CAP_LIMIT_INODES);
	}
	if (spec->scratch == CELL_SCRATCH_DISK) {
		if (l->disk_bytes || l->inodes) {
			int r = cell_fail(err, CELL_ENOTSUP, 0,
				"limits.%s: scratch space on disk is a directory and has no size "
				"of "
				"its own",
				l->disk_bytes ? "disk" : "inodes");
			return cell_error_hint(err, r, "use --scratch memory");
		}
		return 0;
	}
	int n = snprintf(p->tmpfs, sizeof p->tmpfs, "mode=755,size=%" PRIu64,
		l->disk_bytes ? l->disk_bytes : SCRATCH_BYTES);
	if (l->inodes || l->disk_bytes)
		(void)snprintf(p->tmpfs + n, sizeof p->tmpfs - (size_t)n, ",nr_inodes=%" PRIu64,
			l->inodes ? l->inodes : l->disk_bytes / 4096 + 64);
	return 0;
}

int oci_plan_make(struct oci_plan *p, struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	const char *ref = spec->root ? spec->root : spec->image;
	auto_free char *root = spec->root ? realpath(spec->root, NULL) : NULL;
	int r;

	if (spec->root && spec->image)
		return cell_fail(err, CELL_EINVAL, 0, "both a root tree and an image are given");
	if (!ref || (spec->root && (!root || !strcmp(root, "/")))) {
		r = cell_fail(err, CELL_EINVAL, 0, "back end 'oci' needs an image or a root tree");
		return cell_error_hint(err, r, "name one: --image NAME, or --root DIR");
	}
	r = cell_image_resolve(root ? root : ref, &p->image, err);
	if (r == 0)
		r = cell_take_defaults(p->c, spec, (const char *const *)p->image.env, p->image.cwd,
			err);
	if (r == 0 && p->image.digest[0])
		r = cell_note_set(p->c, "image", p->image.digest, err);
	if (r == 0)
		r = choose_user(p, err);
	if (r == 0)
		r = plan_scratch(p, err);
	if (r < 0)
		return r;
	if (asprintf(&p->bundle, "%s/bundle", cell_directory(p->c)) < 0 ||
		asprintf(&p->root, "%s/rootfs", p->bundle) < 0 ||
		asprintf(&p->scratch, "%s/scratch", p->bundle) < 0)
		return no_memory(err);
	if ((mkdir(p->bundle, 0700) < 0 && errno != EEXIST) ||
		(mkdir(p->root, 0755) < 0 && errno != EEXIST) ||
		(mkdir(p->scratch, 0755) < 0 && errno != EEXIST))
		return cell_fail_errno(err, errno, "make the bundle '%s'", p->bundle);
	return plan_overlay(p, err);
}

/* --- in the runtime's process --- */

/* Owned by the cell, in scratch space; what the image has there stays as it is. */
static int make_directory(const struct oci_plan *p, int root, const char *path, mode_t mode)
{
	if (mkdirat(root, path, mode) < 0)
		return errno == EEXIST ? 0 : -errno;
	return fchownat(root, path, p->uid, p->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
			       fchmodat(root, path, mode, 0) < 0
		       ? -errno
		       : 0;
}

int oci_enter(void *plan)
{
	const struct oci_plan *p = plan;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (p->tmpfs[0] && mount("tmpfs", p->scratch, "tmpfs", MS_NOSUID | MS_NODEV, p->tmpfs) < 0)
		return -errno;
	int scratch = open(p->scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scratch < 0 || (mkdirat(scratch, "upper", 0755) < 0 && errno != EEXIST) ||
		(mkdirat(scratch, "work", 0700) < 0 && errno != EEXIST) ||
		mount("overlay", p->root, "overlay", MS_NOSUID | MS_NODEV, p->overlay) < 0)
		return -errno;
	int root = open(p->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	(void)mkdirat(root, "home", 0755);
	int r = make_directory(p, root, "tmp", 01777);
	if (r == 0)
		r = make_directory(p, root, OCI_HOME + 1, 0700);
	if (r == 0 && !p->spec->workspace)
		r = make_directory(p, root, OCI_WORKSPACE + 1, 0755);
	return r;
}

/* --- config.json --- */

static json_t *mount_entry(const char *target, const char *type, const char *source,
	const char *options)
{
	json_t *list = json_array();

	for (const char *p = options; *p; p += *p == ',') {
		size_t n = strcspn(p, ",");
		json_array_append_new(list, json_stringn(p, n));
		p += n;
	}
	return json_pack("{s:s,s:s,s:s,s:o}", "destination", target, "type", type, "source", source,
		"options", list);
}

static int add_mounts(const struct oci_plan *p, json_t *mounts, struct cell_error *err)
{
	static const struct {
		const char *target, *type, *options;
	} usual[] = {
		{"/proc", "proc", "nosuid,noexec,nodev"},
		{"/dev", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"},
		{"/dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"},
		{"/dev/shm", "tmpfs", "nosuid,noexec,nodev,mode=1777,size=65536k"},
		{"/sys", "sysfs", "nosuid,noexec,nodev,ro"},
		{"/sys/fs/cgroup", "cgroup", "nosuid,noexec,nodev,relatime,ro"},
	};

	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		if (json_array_append_new(mounts, mount_entry(usual[i].target, usual[i].type,
							  usual[i].type, usual[i].options)) < 0)
			return no_memory(err);
	if (json_array_append_new(mounts, mount_entry(OCI_GUEST_DIR, "bind", p->door,
						  "bind,ro,nosuid,nodev,rprivate")) < 0)
		return no_memory(err);
	if (p->spec->workspace &&
		json_array_append_new(mounts, mount_entry(OCI_WORKSPACE, "bind", p->spec->workspace,
						      "rbind,rw,nosuid,nodev,rprivate")) < 0)
		return no_memory(err);
	for (size_t i = 0; i < p->spec->n_mounts; i++) {
		const struct cell_mount *m = &p->spec->mounts[i];
		auto_free char *source = realpath(m->source, NULL);
		struct stat st;

		if (!source || stat(source, &st) < 0)
			return cell_fail_errno(err, errno, "mount '%s'", m->source);
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) || !strcmp(source, "/")) {
			int r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': it is %s", m->source,
				S_ISDIR(st.st_mode) ? "the host's whole root" : "a device");
			return cell_error_hint(err, r, "cells get neither");
		}
		/* not recursive when read-only: a mount below it would stay writable */
		if (json_array_append_new(mounts,
			    mount_entry(m->target, "bind", source,
				    m->is_read_only ? "bind,ro,nosuid,nodev,rprivate"
						    : "rbind,rw,nosuid,nodev,rprivate")) < 0)
			return no_memory(err);
	}
	return 0;
}

static json_t *resources(const struct cell_spec *spec)
{
	const struct cell_limits *l = &spec->limits;
	json_t *r = json_pack("{s:[{s:b,s:s}]}", "devices", "allow", 0, "access", "rwm");
	bool is_burstable = spec->resources == CELL_RESOURCES_BURSTABLE;

	if (l->memory_bytes)
		json_object_set_new(r, "memory",
			json_pack("{s:I,s:I}", "limit", (json_int_t)l->memory_bytes, "swap",
				(json_int_t)l->memory_bytes));
	if (l->cpu_millis && is_burstable)
		json_object_set_new(r, "cpu",
			json_pack("{s:I}", "shares",
				(json_int_t)(l->cpu_millis < 2 ? 2 : l->cpu_millis * 1024 / 1000)));
	else if (l->cpu_millis)
		json_object_set_new(r, "cpu",
			json_pack("{s:I,s:I}", "quota", (json_int_t)l->cpu_millis * 100, "period",
				(json_int_t)100000));
	if (l->pids)
		json_object_set_new(r, "pids", json_pack("{s:I}", "limit", (json_int_t)l->pids));
	return r;
}

static json_t *process(const struct oci_plan *p)
{
	json_t *args = json_pack("[s,s,s,s,s,s,s,s,s,s,s,s,s]", OCI_GUEST_DIR "/guest", "--filter",
		OCI_GUEST_DIR "/filter", "--call", OCI_GUEST_DIR "/sock", "--workspace",
		OCI_WORKSPACE, "--home", OCI_HOME, "--tmp", "/tmp", "--oom-cgroup",
		"/sys/fs/cgroup");

	if (p->image.hold_fd >= 0) {
		json_array_append_new(args, json_string("--hold-fd"));
		json_array_append_new(args, json_string("3"));
	}
	return json_pack("{s:{s:I,s:I},s:o,s:[s],s:s,s:b,s:{},s:[{s:s,s:i,s:i}]}", "user", "uid",
		(json_int_t)p->uid, "gid", (json_int_t)p->gid, "args", args, "env",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "cwd", "/",
		"noNewPrivileges", 1, "capabilities", "rlimits", "type", "RLIMIT_CORE", "hard", 0,
		"soft", 0);
}

int oci_bundle_write(struct oci_plan *p, struct cell_error *err)
{
	auto_free char *path = NULL;
	auto_free char *group = NULL;
	json_t *mounts = json_array();
	int r = add_mounts(p, mounts, err);

	if (r < 0) {
		json_decref(mounts);
		return r;
	}
	if (asprintf(&path, "%s/config.json", p->bundle) < 0 ||
		asprintf(&group, "/" OCI_GROUP "%s", p->id) < 0) {
		json_decref(mounts);
		return no_memory(err);
	}
	json_t *linux_part = json_pack("{s:[{s:s},{s:s},{s:s},{s:s},{s:s},{s:s}],s:s,s:o,s:[s,s,s,"
				       "s,s,s,s,s,s,s],s:[s,s,s,s,s]}",
		"namespaces", "type", "pid", "type", "mount", "type", "ipc", "type", "uts", "type",
		"network", "type", "cgroup", "cgroupsPath", group, "resources", resources(p->spec),
		"maskedPaths", "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi",
		"/proc/kallsyms", "/sys/firmware", "readonlyPaths", "/proc/bus", "/proc/fs",
		"/proc/irq", "/proc/sys", "/proc/sysrq-trigger");
	json_t *j = json_pack("{s:s,s:o,s:{s:s,s:b},s:s,s:o,s:o}", "ociVersion", "1.0.2", "process",
		process(p), "root", "path", p->root, "readonly", 0, "hostname", "cell", "mounts",
		mounts, "linux", linux_part);
	r = j && json_dump_file(j, path, JSON_COMPACT) == 0
		    ? 0
		    : cell_fail(err, CELL_EBACKEND, 0, "write '%s'", path);
	json_decref(j);
	return r;
}
