/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "launcher/seccomp_profiles.h"

#define SCRATCH_BYTES (UINT64_C(1) << 30)
#define HYBRID	      "/sys/fs/cgroup/unified"

void oci_plan_done(struct oci_plan *p)
{
	cell_image_done(&p->image);
	free(p->bundle);
	free(p->root);
	free(p->scratch);
	free(p->tmp);
	free(p->overlay);
}

/* --- the plan --- */

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

static int named_user(struct oci_plan *p, struct cell_error *err)
{
	const char *user = p->spec->user;
	unsigned uid, gid;
	char end;
	int n = sscanf(user, "%u:%u%c", &uid, &gid, &end);

	if (n != 2 && (n != 1 || strchr(user, ':')))
		return bundle_find_user((const char *const *)p->image.layers, p->image.n_layers,
			user, &p->uid, &p->gid, err);
	p->uid = uid;
	p->gid = n == 2 ? gid : uid;
	return 0;
}

/* Without root: files of the user's are written by the user alone, and files in the cell's directory must be removable. Everybody else
 * is better somebody else, where there are such ids. */
static int choose_ids(struct oci_plan *p, struct cell_error *err)
{
	const struct oci_ids *ids = &p->ids;
	const struct cell_spec *spec = p->spec;

	p->is_alone = ids->is_rootless && (!ids->has_range || p->runtime->kind == OCI_RUNSC ||
						  spec->scratch == CELL_SCRATCH_DISK ||
						  (spec->workspace && !spec->user));
	if (!ids->is_rootless || p->is_alone || (p->uid <= ids->n_uids && p->gid <= ids->n_gids))
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "user: %u:%u is beyond the ids that are yours",
		(unsigned)p->uid, (unsigned)p->gid);
	return cell_error_hint(err, r, "/etc/subuid and /etc/subgid say how many those are");
}

static int choose_user(struct oci_plan *p, struct cell_error *err)
{
	int r = p->spec->user ? named_user(p, err)
			      : container_owner(p->spec, &p->uid, &p->gid, err);

	if (r == 0 && !p->spec->user && p->ids.is_rootless)
		p->uid = p->gid = CONTAINER_UID;
	return r < 0 ? r : choose_ids(p, err);
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
			p->image.is_user_xattr || p->ids.is_rootless ? ",userxattr" : "");
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
	int r = cell_degrade_workspace(p->c, spec, err);

	if (r < 0)
		return r;
	if (spec->scratch == CELL_SCRATCH_DISK) {
		if (l->disk_bytes || l->inodes) {
			r = cell_fail(err, CELL_ENOTSUP, 0,
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

/* cgroups of both kinds at once. */
static bool is_hybrid(void)
{
	struct statfs top, below;

	return statfs("/sys/fs/cgroup", &top) == 0 && top.f_type == TMPFS_MAGIC &&
	       statfs(HYBRID, &below) == 0 && below.f_type == CGROUP2_SUPER_MAGIC;
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
		r = cell_take_image(p->c, spec,
			&(struct cell_image_facts)CELL_IMAGE_FACTS(&p->image), err);
	if (r == 0)
		r = choose_user(p, err);
	if (r == 0)
		r = plan_scratch(p, err);
	if (r < 0)
		return r;
	if (asprintf(&p->bundle, "%s/bundle", cell_directory(p->c)) < 0 ||
		asprintf(&p->root, "%s/rootfs", p->bundle) < 0 ||
		asprintf(&p->scratch, "%s/scratch", p->bundle) < 0 ||
		asprintf(&p->tmp, "%s/tmp", p->scratch) < 0)
		return no_memory(err);
	p->hides_hybrid = p->runtime->kind == OCI_CRUN && is_hybrid();
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
	return fchownat(root, path, p->is_alone ? 0 : p->uid, p->is_alone ? 0 : p->gid,
		       AT_SYMLINK_NOFOLLOW) < 0 ||
			       fchmodat(root, path, mode, 0) < 0
		       ? -errno
		       : 0;
}

int oci_enter(void *plan)
{
	const struct oci_plan *p = plan;

	if ((!p->ids.is_rootless && unshare(CLONE_NEWNS) < 0) ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (p->tmpfs[0] && mount("tmpfs", p->scratch, "tmpfs", MS_NOSUID | MS_NODEV, p->tmpfs) < 0)
		return -errno;
	/* before 1.9 it would refuse this host; of both kinds it needs the one with the controllers */
	if (p->hides_hybrid)
		(void)mount("tmpfs", HYBRID, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k");
	int scratch = open(p->scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scratch < 0 || (mkdirat(scratch, "upper", 0755) < 0 && errno != EEXIST) ||
		(mkdirat(scratch, "work", 0700) < 0 && errno != EEXIST) ||
		mount("overlay", p->root, "overlay", MS_NOSUID | MS_NODEV, p->overlay) < 0)
		return -errno;
	int root = open(p->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	(void)mkdirat(root, "home", 0755);
	int r = make_directory(p, scratch, "tmp", 01777);
	if (r == 0)
		r = make_directory(p, root, &CONTAINER_HOME[1], 0700);
	if (r == 0 && !p->spec->workspace)
		r = make_directory(p, root, &CONTAINER_WORKSPACE[1], 0755);
	return r;
}

int oci_plan_write(struct oci_plan *p, struct cell_error *err)
{
	auto_free char *path = NULL;
	char group[OCI_GROUP_PATH];
	bool is_runsc = p->runtime->kind == OCI_RUNSC;
	/* of gVisor they would be counted with the threads of its kernel */
	bool has_pids = p->has_cgroups && p->groups.has_pids && !is_runsc;
	json_t *j = NULL;

	if (asprintf(&path, "%s/config.json", p->bundle) < 0)
		return no_memory(err);
	const struct bundle b = {.c = p->c,
		.spec = p->spec,
		.root = p->root,
		.door = p->door,
		.tmp = p->tmp,
		.uid = p->uid,
		.gid = p->gid,
		.is_alone = p->is_alone,
		.reach = !is_runsc		   ? CONTAINER_CALLS
			 : cell_is_ephemeral(p->c) ? CONTAINER_HAS_IT
						   : CONTAINER_LISTENS,
		.has_hold_fd = p->image.hold_fd >= 0 && !is_runsc,
		.has_floor = !seccomp_chosen(p->spec->seccomp),
		.has_cgroups = p->has_cgroups,
		.has_memory = p->groups.has_memory,
		.has_cpus = p->groups.has_cpu,
		.has_pids = has_pids,
		.has_nproc = p->ids.is_rootless && !has_pids,
		.group = oci_groups_name(&p->groups, p->id, group, sizeof group)};
	int r = bundle_config(&b, &j, err);
	if (r == 0 && json_dump_file(j, path, JSON_COMPACT) < 0) {
		r = cell_fail_errno(err, errno, "write '%s'", path);
		if (r == -ENOSPC || r == -EDQUOT)
			(void)cell_error_hint(err, r,
				"free some space, or set CELL_STATE_DIR elsewhere");
	}
	json_decref(j);
	return r;
}
