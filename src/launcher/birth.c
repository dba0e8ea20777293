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
#include "launcher/stage.h"
#include "launcher/sys.h"
#include "wire/lease.h"

#define ATTR_PLAIN (ATTR_NOSUID | ATTR_NODEV) /* setuid files and device nodes are just files */

static void birth_done(struct birth *b)
{
	const int fds[] = {b->go_fd, b->root_fd, b->workspace_fd, b->scratch_fd};

	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	for (size_t i = 0; i < b->rq->n_mounts; i++)
		if (b->mount_fds[i] >= 0)
			close(b->mount_fds[i]);
	for (size_t i = 0; i < b->rq->n_layers; i++)
		if (b->layer_fds[i] >= 0)
			close(b->layer_fds[i]);
}

/* Files of the host keep their owner: in the cell they look like the cell's own. */
static int idmap_for(struct birth *b, uint32_t uid, uint32_t gid, struct failure *f)
{
	if (!host.n_uids)
		return -1; /* rootless: the cell's only id is the client's */
	return slot_idmap(b->slot, uid, gid, f);
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
		if (host.n_uids && (idmap = slot_idmap(b->slot, st.st_uid, st.st_gid, f)) < 0)
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
			? disk_mount(rq->scratch_fd, b->slot->uid, b->slot->gid, f)
			: stage_clone_fd(rq->scratch_fd, ATTR_PLAIN, -1, LAUNCHER_STEP_DISK, f);
	return b->scratch_fd < 0 ? -1 : 0;
}

static int copy_trees(struct birth *b, struct failure *f)
{
	const struct launcher_request *rq = b->rq;
	int idmap = -1;

	if (copy_layers(b, f) < 0 || copy_scratch(b, f) < 0)
		return -1;
	if ((rq->workspace_fd >= 0 || rq->n_mounts) && host.n_uids &&
		(idmap = idmap_for(b, rq->head.owner_uid, rq->head.owner_gid, f)) < 0)
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
static int map_ids(pid_t pid, const struct slot *s, struct failure *f)
{
	char text[48];

	if (write_proc(pid, "setgroups", "deny") < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "deny", "setgroups");
	(void)snprintf(text, sizeof text, "%u %" PRIu32 " 1", CELL_UID, s->uid);
	if (write_proc(pid, "uid_map", text) < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "write uid_map:", text);
	(void)snprintf(text, sizeof text, "%u %" PRIu32 " 1", CELL_GID, s->gid);
	if (write_proc(pid, "gid_map", text) < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "write gid_map:", text);
	return 0;
}

/* The namespaces that are not inherited from the launcher, in one call. */
static pid_t split(struct birth *b, int *ret_pidfd, bool *ret_is_in_cgroup, struct failure *f)
{
	struct clone3_args a = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_PIDFD |
			 CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
	};

	if (b->slot->cgroup.v2_fd >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)b->slot->cgroup.v2_fd;
	}
	*ret_is_in_cgroup = a.flags & CLONE_INTO_CGROUP;
	if (host.has_time_ns)
		a.flags |= CLONE_NEWTIME;
	pid_t pid = (pid_t)sys_clone3(&a);
	if (pid < 0 && (a.flags & CLONE_INTO_CGROUP) && errno != EAGAIN && errno != ENOSPC) {
		a.flags &= ~CLONE_INTO_CGROUP; /* moved there a moment later */
		*ret_is_in_cgroup = false;
		pid = (pid_t)sys_clone3(&a);
	}
	if (pid < 0)
		(void)fail(f, LAUNCHER_STEP_CLONE, "clone3", NULL);
	return pid;
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
	if (r == 0 && !rq->n_layers)
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
	b.go_fd = pair[1];
	b.oom_fd = cgroup_oom_fd(&slot->cgroup);
	if (rq->head.flags & LAUNCHER_KEEP)
		slot_name_owner(slot, rq->texts[LAUNCHER_TEXT_TITLE]);
	ret->pid = split(&b, &ret->pidfd, &is_in_cgroup, f);
	if (ret->pid == 0)
		inside_main(&b);
	r = ret->pid < 0 ? -1 : 0;
	spare_given();
	/* in its groups before the first instruction of anything that is not ours */
	if (r == 0)
		r = cgroup_enter(&slot->cgroup, ret->pid, !is_in_cgroup, f);
	if (r == 0 && !cgroup_model_enter(&host.cgroups, &slot->cgroup, ret->pid))
		r = fail(f, LAUNCHER_STEP_CPUS, "leave the CPUs alone that are others'", NULL);
	if (r == 0)
		r = map_ids(ret->pid, slot, f);
	if (r == 0 && (rq->head.flags & BIRTH_PARKED) &&
		(ret->mnt_fd = open_proc(ret->pid, "ns/mnt")) < 0)
		r = fail(f, LAUNCHER_STEP_CLONE, "open the mount namespace", NULL);
	birth_done(&b);
	ret->oom_fd = b.oom_fd;
	if (r == 0 && !(rq->head.flags & LAUNCHER_NET_OPEN) && birth_go(ret, slot->number) < 0)
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
	control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &rq->stream_fd, sizeof rq->stream_fd);
	if (sendmsg(n->lease_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof l)
		return fail(f, LAUNCHER_STEP_EXEC, "send the guest its lease", NULL);
	return 0;
}
