/* SPDX-License-Identifier: Apache-2.0 */
/*
 * birth.c: from a request to a first process in its namespaces, the launcher's half: copies of what
 * the client handed in, limits, clone3, ids. The other half is inside.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/disk.h"
#include "launcher/launcher.h"
#include "launcher/mount.h"
#include "launcher/mount_classic.h"
#include "launcher/net.h"
#include "launcher/split.h"
#include "launcher/stage.h"
#include "launcher/sys.h"
#include "wire/lease.h"

#define ATTR_PLAIN (ATTR_NOSUID | ATTR_NODEV) /* setuid files and device nodes are just files */

static void birth_done(struct birth *b)
{
	if (b->go_fd >= 0)
		close(b->go_fd);
	mount_drop(&b->root_fd);
	mount_drop(&b->workspace_fd);
	mount_drop(&b->scratch_fd);
	for (size_t i = 0; i < b->rq->n_mounts; i++)
		mount_drop(&b->mount_fds[i]);
	for (size_t i = 0; i < b->rq->n_layers; i++)
		mount_drop(&b->layer_fds[i]);
}

/* Whom the cell is on the host. Files it is given keep their owner: by an idmapped mount they look like the
 * cell's own. Rootless needs none, its only id is the client's. Where root has none (Linux before 5.12),
 * the cell is the owner, as it would be if he had made it himself; but never root: whoever is uid 0
 * owns the kernel's settings and reads what nobody else may, capabilities or not. */
static int choose_ids(struct birth *b, struct failure *f)
{
	const struct launcher_request *rq = b->rq;
	bool is_written = rq->workspace_fd >= 0 && !(rq->head.flags & LAUNCHER_WORKSPACE_RO);

	b->uid = b->slot->uid;
	b->gid = b->slot->gid;
	b->has_own_id = host.n_uids;
	if (!host.n_uids || host.has_idmap || (rq->workspace_fd < 0 && !rq->n_mounts))
		return 0;
	for (size_t i = 0; i < rq->n_mounts; i++)
		is_written |= !rq->mounts[i].is_read_only;
	if (rq->head.owner_uid == 0) /* what everybody may read can be read */
		return is_written ? fail_with(f, LAUNCHER_STEP_OWNER, EOPNOTSUPP,
					    "it belongs to root, and there are no idmapped mounts",
					    NULL)
				  : 0;
	b->uid = rq->head.owner_uid;
	b->gid = rq->head.owner_gid ? rq->head.owner_gid : b->slot->gid;
	b->has_own_id = false;
	return 0;
}

static int copy_layers(struct birth *b, struct failure *f)
{
	for (size_t i = 0; i < b->rq->n_layers; i++) {
		struct stat st;
		int idmap = -1, fd = b->rq->layers[i];

		if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
			return fail_with(f, LAUNCHER_STEP_ROOT, ENOTDIR, "a layer is no directory",
				NULL);
		/* what belongs to whoever unpacked it looks like the cell's own, and can be changed by
		 * it: above, never in the layer */
		if (host.has_idmap && (idmap = slot_idmap(b->slot, st.st_uid, st.st_gid, f)) < 0)
			return -1;
		b->layer_fds[i] =
			stage_clone_fd(fd, ATTR_PLAIN | ATTR_RDONLY, idmap, LAUNCHER_STEP_ROOT, f);
		if (b->layer_fds[i] < 0)
			return -1;
	}
	return 0;
}

static int copy_scratch(struct birth *b, struct failure *f)
{
	const struct launcher_request *rq = b->rq;

	if (rq->scratch_fd < 0)
		return 0;
	b->scratch_fd =
		rq->head.flags & LAUNCHER_DISK_ON_IMAGE
			? disk_mount(rq->scratch_fd, b->uid, b->gid, f)
			: stage_clone_fd(rq->scratch_fd, ATTR_PLAIN, -1, LAUNCHER_STEP_DISK, f);
	return b->scratch_fd < 0 ? -1 : 0;
}

static int copy_trees(struct birth *b, struct failure *f)
{
	const struct launcher_request *rq = b->rq;
	int idmap = -1;

	if (copy_layers(b, f) < 0 || copy_scratch(b, f) < 0)
		return -1;
	if ((rq->workspace_fd >= 0 || rq->n_mounts) && host.has_idmap &&
		(idmap = slot_idmap(b->slot, rq->head.owner_uid, rq->head.owner_gid, f)) < 0)
		return -1;
	if (rq->workspace_fd >= 0) {
		unsigned attr = rq->head.flags & LAUNCHER_WORKSPACE_RO ? ATTR_RDONLY : 0;

		b->workspace_fd = stage_clone_fd(rq->workspace_fd, ATTR_PLAIN | attr, idmap,
			LAUNCHER_STEP_WORKSPACE, f);
		if (b->workspace_fd < 0)
			return -1;
	}
	for (size_t i = 0; i < rq->n_mounts; i++) {
		unsigned attr = rq->mounts[i].is_read_only ? ATTR_RDONLY : 0;

		b->mount_fds[i] = stage_clone_fd(rq->mounts[i].fd, ATTR_PLAIN | attr, idmap,
			LAUNCHER_STEP_MOUNT, f);
		if (b->mount_fds[i] < 0) {
			if (f)
				(void)snprintf(f->text + strlen(f->text),
					sizeof f->text - strlen(f->text), " for '%.60s'",
					rq->mounts[i].target);
			return -1;
		}
	}
	return 0;
}

static int open_proc(pid_t pid, const char *name)
{
	char path[48];

	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int write_proc(pid_t pid, const char *name, const char *text)
{
	char path[48];

	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	return spare_write_proc(path, text);
}

/* One id inside, one outside, unique to the cell where we may choose: RLIMIT_NPROC, keyrings, inotify
 * and other quotas are the kernel's per id. No uid 0 is mapped. Groups cannot be set at all
 * (CVE-2014-8989: dropping a group can open files). */
static int map_ids(pid_t pid, const struct birth *b, struct failure *f)
{
	char text[48];

	if (write_proc(pid, "setgroups", "deny") < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "deny", "setgroups");
	(void)snprintf(text, sizeof text, "%u %" PRIu32 " 1", CELL_UID, b->uid);
	if (write_proc(pid, "uid_map", text) < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "write uid_map:", text);
	(void)snprintf(text, sizeof text, "%u %" PRIu32 " 1", CELL_GID, b->gid);
	if (write_proc(pid, "gid_map", text) < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "write gid_map:", text);
	return 0;
}

int birth_go(const struct newborn *n, uint32_t slot)
{
	struct birth_go go = {.pid = n->pid, .slot = slot, .enforced = n->enforced};

	return send(n->status_fd, &go, sizeof go, MSG_NOSIGNAL) == (ssize_t)sizeof go ? 0 : -1;
}

int birth_begin(const struct launcher_request *rq, struct slot *slot, struct newborn *ret,
	struct failure *f)
{
	struct birth b = {.rq = rq,
		.slot = slot,
		.go_fd = -1,
		.root_fd = -1,
		.workspace_fd = -1,
		.scratch_fd = -1,
		.oom_fd = -1};
	const char *hostname = rq->texts[LAUNCHER_TEXT_HOSTNAME];
	bool needs_outer =
		rq->n_layers || rq->workspace_fd >= 0 || rq->n_mounts || rq->scratch_fd >= 0;
	bool is_in_cgroup = false;
	int pair[2] = {-1, -1}, r;

	memset(b.mount_fds, -1, sizeof b.mount_fds);
	memset(b.layer_fds, -1, sizeof b.layer_fds);
	*ret = (struct newborn)NEWBORN_INIT;
	r = spare_ready(f);
	if (r == 0)
		r = choose_ids(&b, f);
	if (r == 0 && mount_is_classic() && classic_reserve(rq->n_layers + rq->n_mounts + 2) < 0)
		r = fail(f, LAUNCHER_STEP_ROOT, "make places for mounts", NULL);
	if (r == 0 && !rq->n_layers && !mount_is_classic())
		r = (b.root_fd = stage_clone_host(f)) < 0 ? -1 : 0;
	if (r == 0 && needs_outer) {
		r = stage_enter_outer(f);
		if (r == 0) {
			r = copy_trees(&b, f);
			if (stage_leave_outer(r < 0 ? NULL : f) < 0)
				_exit(1); /* in the wrong namespace nothing may go on */
		}
	}
	if (r == 0)
		r = cgroup_prepare(&host.cgroups, &slot->cgroup, slot->number, rq, &ret->enforced,
			f);
	if (r == 0 &&
		sethostname(*hostname ? hostname : "cell", *hostname ? strlen(hostname) : 4) < 0)
		r = fail(f, LAUNCHER_STEP_NAMESPACES, "set the host name", NULL);
	if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = fail(f, LAUNCHER_STEP_CLONE, "make a socket pair", NULL);
	if (r < 0) {
		birth_done(&b);
		return -1;
	}
	ret->status_fd = pair[0];
	b.parent_fd = pair[0];
	b.go_fd = pair[1];
	b.oom_fd = cgroup_oom_fd(&slot->cgroup);
	if (rq->head.flags & LAUNCHER_KEEP)
		slot_name_owner(slot, rq->texts[LAUNCHER_TEXT_TITLE]);
	/* the namespaces that are not inherited from us, in one call */
	ret->pid = split(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, slot->cgroup.v2_fd,
		&ret->pidfd, &is_in_cgroup);
	if (ret->pid == 0) {
		/* or the launcher's death would never be seen: it would wait for its go for ever, and who asked with it */
		close(pair[0]);
		inside_main(&b);
	}
	r = ret->pid < 0 ? fail(f, LAUNCHER_STEP_CLONE, "clone", NULL) : 0;
	spare_given();
	/* in its groups before the first instruction of anything that is not ours */
	if (r == 0)
		r = cgroup_enter(&slot->cgroup, ret->pid, !is_in_cgroup, f);
	if (r == 0 && !cgroup_model_enter(&host.cgroups, &slot->cgroup, ret->pid))
		r = fail(f, LAUNCHER_STEP_CPUS, "leave the CPUs alone that are others'", NULL);
	if (r == 0)
		r = map_ids(ret->pid, &b, f);
	if (r == 0 && (rq->head.flags & BIRTH_PARKED) &&
		(ret->mnt_fd = open_proc(ret->pid, "ns/mnt")) < 0)
		r = fail(f, LAUNCHER_STEP_CLONE, "open the mount namespace", NULL);
	birth_done(&b);
	ret->oom_fd = b.oom_fd;
	if (rq->head.flags & LAUNCHER_NET_OPEN && rq->head.flags & LAUNCHER_TRIAL)
		r = r < 0 ? r : net_try(rq, slot->number, ret->pid, f);
	else
		ret->is_open = rq->head.flags & LAUNCHER_NET_OPEN;
	if (r == 0 && ret->is_open)
		r = net_open(rq, slot->number, ret->pid, f);
	/* without root the way out is the client's to make: see LAUNCHER_NETWORK */
	if (r == 0 && (host.is_rootful || !ret->is_open) && birth_go(ret, slot->number) < 0)
		r = fail(f, LAUNCHER_STEP_CLONE, "let the first process go", NULL);
	return r;
}

/* From here: nothing but our own guest has ever run in the cell, so nobody can be in the way. */
static int mount_workspace(const struct launcher_request *rq, struct slot *slot,
	const struct newborn *n, struct failure *f)
{
	struct birth b = {.rq = rq,
		.slot = slot,
		.go_fd = -1,
		.root_fd = -1,
		.workspace_fd = -1,
		.scratch_fd = -1};
	int r = stage_enter_outer(f);

	if (r == 0) {
		r = copy_trees(&b, f);
		if (r == 0 && setns(n->mnt_fd, CLONE_NEWNS) < 0)
			r = fail(f, LAUNCHER_STEP_WORKSPACE, "enter the parked cell", NULL);
		else if (r == 0 && sys_move_mount(b.workspace_fd, AT_FDCWD, CELL_WORKSPACE, 0) < 0)
			r = fail(f, LAUNCHER_STEP_WORKSPACE, "mount", CELL_WORKSPACE);
		if (stage_leave_outer(r < 0 ? NULL : f) < 0)
			_exit(1); /* in the wrong namespace nothing may go on */
	}
	birth_done(&b);
	return r;
}

int birth_lease(const struct launcher_request *rq, struct slot *slot, struct newborn *n,
	struct failure *f)
{
	const struct launcher_head *h = &rq->head;
	struct lease l = {.magic = LEASE_MAGIC,
		.is_kept = h->flags & LAUNCHER_KEEP ? 1 : 0,
		.pids = h->pids,
		.files = h->files,
		.file_size = h->file_size_bytes,
		.memory = h->process_memory_bytes,
		.cpu_s = h->cpu_time_s};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = &l, .iov_len = sizeof l};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control};

	if (cgroup_prepare(&host.cgroups, &slot->cgroup, slot->number, rq, &n->enforced, f) < 0)
		return -1;
	if (rq->workspace_fd >= 0 && mount_workspace(rq, slot, n, f) < 0)
		return -1;
	(void)snprintf(l.title, sizeof l.title, "%s", rq->texts[LAUNCHER_TEXT_TITLE]);
	if (l.is_kept)
		slot_name_owner(slot, l.title);
	control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &rq->stream_fd, sizeof rq->stream_fd);
	if (sendmsg(n->lease_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof l)
		return fail(f, LAUNCHER_STEP_EXEC, "send the guest its lease", NULL);
	return 0;
}
