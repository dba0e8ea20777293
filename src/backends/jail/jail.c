/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.c: the back end `jail`: a guest in namespaces of its own, made by the launcher (src/launcher says
 * how). Here a spec becomes a request: what the cell may see of the host is opened with our own rights.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "backends/jail/client.h"
#include "backends/jail/disk.h"
#include "backends/jail/filter.h"
#include "backends/jail/net.h"
#include "backends/jail/probe.h"
#include "backends/jail/slot.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/backend.h"
#include "core/guest_process.h"
#include "core/handle.h"
#include "core/image/image.h"
#include "core/within.h"
#include "launcher/seccomp_profiles.h"

#define CREATE_TIMEOUT_MS 30000
#define END_TIMEOUT_MS	  30000
#define KILL_TIMEOUT_MS	  1000
#define MOUNTS_MAX	  LAUNCHER_MAX_MOUNTS
#define DEFAULT_DISK	  (UINT64_C(1) << 30) /* as in memory */

struct jail_state {
	bool is_open;
	bool ends_with_guest; /* nothing else is to be undone before it is said to be gone */
	int control_fd;
};

/* Everything a request points to, for as long as it is being made. */
struct plan {
	struct cell *c;
	struct launcher_request rq;
	struct cell_image image;
	struct jail_net net;
	int n_opened, opened[LAUNCHER_MAX_FDS];
};

#define PLAN_INIT(cell)                                                    \
	{                                                                  \
		.c = (cell), .rq = LAUNCHER_REQUEST_INIT(LAUNCHER_CREATE), \
		.image = CELL_IMAGE_INIT                                   \
	}

static void plan_done(struct plan *p)
{
	for (int i = 0; i < p->n_opened; i++)
		close(p->opened[i]);
	cell_image_done(&p->image);
}
#define auto_plan __attribute__((cleanup(plan_done)))

static int plan_open(struct plan *p, const char *path, int flags)
{
	int fd = open(path, O_PATH | O_CLOEXEC | flags);

	if (fd >= 0)
		p->opened[p->n_opened++] = fd;
	return fd;
}

/* A device file mounted into a cell would be that device, whatever its mount forbids. */
static int check_source(int fd, const char *path, struct cell_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "look at '%s'", path);
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode) ||
		S_ISFIFO(st.st_mode))
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': it is a device", path);
	return cell_error_hint(err, r, "cells get no devices of the host");
}

static int plan_mounts(struct plan *p, const struct cell_spec *spec, struct cell_error *err)
{
	if (spec->n_mounts > MOUNTS_MAX)
		return cell_fail(err, CELL_ELIMIT, 0, "%zu mounts, but the jail takes %u",
			spec->n_mounts, MOUNTS_MAX);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct cell_mount *m = &spec->mounts[i];
		struct launcher_mount *out = &p->rq.mounts[p->rq.n_mounts++];

		if (!launcher_is_clean_path(m->target)) {
			int r = cell_fail(err, CELL_EINVAL, 0, "mount target '%s'", m->target);
			return cell_error_hint(err, r,
				"give an absolute path below / without '..', '.' or doubled "
				"slashes");
		}
		out->fd = plan_open(p, m->source, 0);
		if (out->fd < 0)
			return cell_fail_errno(err, errno, "mount '%s'", m->source);
		int r = check_source(out->fd, m->source, err);
		if (r == 0 && !m->is_ours)
			r = cell_within(spec, "mount", m->source, out->fd, err);
		if (r < 0)
			return r;
		out->target = m->target;
		out->is_read_only = m->is_read_only;
	}
	return 0;
}

static int plan_limits(struct plan *p, const struct cell_spec *spec, struct cell_error *err)
{
	const struct cell_limits *l = &spec->limits;
	struct launcher_head *h = &p->rq.head;

	h->memory_bytes = l->memory_bytes;
	if (spec->resources == CELL_RESOURCES_BURSTABLE) {
		uint32_t weight = l->cpu_millis / 10;
		h->cpu_weight = weight < 1 ? 1 : weight > 10000 ? 10000 : weight;
	} else if (spec->resources == CELL_RESOURCES_DEDICATED) {
		h->flags |= LAUNCHER_DEDICATED;
		h->n_cpus = (uint16_t)(l->cpu_millis / 1000 > 1024 ? 1024 : l->cpu_millis / 1000);
		h->reserve_bytes = l->memory_bytes;
	} else {
		h->cpu_millis = l->cpu_millis;
	}
	h->pids = l->pids;
	h->files = l->files;
	h->file_size_bytes = l->file_size_bytes;
	h->process_memory_bytes = l->process_memory_bytes;
	h->cpu_time_s = l->cpu_time_s;
	h->io_weight = l->io_weight;
	h->disk_bytes = l->disk_bytes;
	if (l->is_best_effort)
		h->flags |= LAUNCHER_BEST_EFFORT;
	if (l->memory_bytes && l->memory_bytes < 1 << 20) {
		int r = cell_fail(err, CELL_EINVAL, 0,
			"limits.memory: %llu bytes hold not even the guest",
			(unsigned long long)l->memory_bytes);
		return cell_error_hint(err, r, "give at least 1m; most programs want 16m and more");
	}
	int r = cell_degrade_workspace(p->c, spec, err);
	if (r < 0)
		return r;
	if (l->cpu_millis && l->cpu_millis < 10) {
		r = cell_fail(err, CELL_EINVAL, 0,
			"limits.cpus: 0.%03u is less than the kernel can count", l->cpu_millis);
		return cell_error_hint(err, r, "give at least 0.01");
	}
	return 0;
}

/* A root tree or an image by name; "host" is what there is without either. */
static int plan_image(struct plan *p, const struct cell_spec *spec, struct cell_error *err)
{
	auto_free char *root = spec->root ? realpath(spec->root, NULL) : NULL;

	if (spec->root && spec->image)
		return cell_fail(err, CELL_EINVAL, 0, "both a root tree and an image are given");
	if (spec->root && !root)
		return cell_fail_errno(err, errno, "root tree '%s'", spec->root);
	if (root && !strcmp(root, "/")) {
		int r = cell_fail(err, CELL_EINVAL, 0, "root tree '%s' is the host's own root",
			spec->root);
		return cell_error_hint(err, r,
			"leave it out: the host's programs are there without its other files");
	}
	const char *ref = root ? root : spec->image;
	if (!ref || !strcmp(ref, "host"))
		return 0;
	int r = cell_image_resolve(ref, &p->image, err);
	if (r < 0)
		return r;
	if (p->image.n_layers > LAUNCHER_MAX_LAYERS)
		return cell_fail(err, CELL_ELIMIT, 0,
			"image '%s' has %zu layers, the jail takes %u", ref, p->image.n_layers,
			LAUNCHER_MAX_LAYERS);
	for (size_t i = 0; i < p->image.n_layers; i++) {
		int fd = plan_open(p, p->image.layers[i], O_DIRECTORY);
		if (fd < 0)
			return cell_fail_errno(err, errno, "layer '%s'", p->image.layers[i]);
		p->rq.layers[p->rq.n_layers++] = fd;
	}
	p->rq.hold_fd = p->image.hold_fd;
	return cell_take_image(p->c, spec, &(struct cell_image_facts)CELL_IMAGE_FACTS(&p->image),
		err);
}

static int plan_filter(struct plan *p, const struct cell_spec *spec, struct cell_error *err)
{
	if (!spec->seccomp)
		return 0;
	if (seccomp_chosen(spec->seccomp)) {
		p->rq.texts[LAUNCHER_TEXT_PROFILE] = spec->seccomp;
		return 0;
	}
	int fd = jail_filter_compile(spec->seccomp, err);
	if (fd < 0)
		return fd;
	p->rq.filter_fd = p->opened[p->n_opened++] = fd;
	return 0;
}

/* With root an image of that size; without, a directory, which has none. */
static int plan_scratch(struct plan *p, const struct cell_spec *spec, struct cell_error *err)
{
	const struct cell_limits *l = &spec->limits;
	struct launcher_reply hello;
	int fd;

	p->rq.head.inodes = l->inodes;
	if (spec->scratch != CELL_SCRATCH_DISK)
		return 0;
	int r = jail_client_hello(&hello, err);
	if (r < 0)
		return r;
	if (hello.can & LAUNCHER_IS_ROOTFUL) {
		fd = jail_disk_make_image(cell_directory_fd(p->c),
			l->disk_bytes ? l->disk_bytes : DEFAULT_DISK, l->inodes, err);
		p->rq.head.flags |= LAUNCHER_DISK_ON_IMAGE;
	} else {
		if ((l->disk_bytes || l->inodes) && !l->is_best_effort) {
			r = cell_fail(err, CELL_ENOTSUP, 0,
				"limits.%s: without root, scratch space on disk is a directory of "
				"yours and has no size of its own",
				l->disk_bytes ? "disk" : "inodes");
			return cell_error_hint(err, r,
				"use --scratch memory, run as root, or leave the limit out (or use "
				"--limits best-effort)");
		}
		if (l->disk_bytes)
			cell_degrade(p->c, CELL_CAP_LIMIT_DISK);
		if (l->inodes)
			cell_degrade(p->c, CELL_CAP_LIMIT_INODES);
		fd = jail_disk_make_directory(cell_directory_fd(p->c), "scratch", err);
	}
	if (fd < 0)
		return fd;
	p->rq.scratch_fd = p->opened[p->n_opened++] = fd;
	return 0;
}

static int plan_make(struct plan *p, const struct cell_spec *spec, struct cell_error *err)
{
	struct launcher_head *h = &p->rq.head;
	int r;

	h->owner_uid = geteuid();
	h->owner_gid = getegid();
	if (!cell_is_ephemeral(p->c))
		h->flags |= LAUNCHER_KEEP;
	p->rq.texts[LAUNCHER_TEXT_WARM] = cell_warm(p->c);
	r = plan_image(p, spec, err);
	if (r < 0)
		return r;
	if (spec->workspace) {
		struct stat st;

		p->rq.workspace_fd = plan_open(p, spec->workspace, O_DIRECTORY);
		if (p->rq.workspace_fd < 0 || fstat(p->rq.workspace_fd, &st) < 0)
			return cell_fail_errno(err, errno, "workspace '%s'", spec->workspace);
		r = cell_within(spec, "workspace", spec->workspace, p->rq.workspace_fd, err);
		if (r < 0)
			return r;
		/* files in it belong to whom it belongs, also when root makes the cell */
		if (geteuid() == 0) {
			h->owner_uid = st.st_uid;
			h->owner_gid = st.st_gid;
		}
	}
	r = plan_mounts(p, spec, err);
	if (r == 0 && spec->network == CELL_NETWORK_OPEN)
		r = jail_net_plan(spec, &p->rq, &p->net, err);
	if (r == 0)
		r = plan_filter(p, spec, err);
	if (r == 0)
		r = plan_scratch(p, spec, err);
	return r < 0 ? r : plan_limits(p, spec, err);
}

static struct jail_state *state_of(struct cell *c)
{
	return cell_state(c);
}

/* The namespaces are there and closed: open them. */
static int connect_network(const struct plan *p, int control_fd, const struct launcher_reply *reply,
	int pidfd, struct cell_error *err)
{
	int r = jail_net_carry(&p->net, reply->pid, pidfd, err);

	if (r == 0 && send(control_fd, (char[]){LAUNCHER_GO}, 1, MSG_NOSIGNAL) != 1)
		r = cell_fail_errno(err, errno, "let the cell begin");
	return r;
}

/* With best effort the launcher leaves out what it cannot do, and says what it did. */
static void note_unenforced(struct plan *p, uint32_t enforced)
{
	const struct launcher_head *h = &p->rq.head;
	const struct {
		bool is_asked;
		uint32_t bit;
		enum cell_cap cap;
	} limits[] = {
		{h->memory_bytes, LAUNCHER_CAN_MEMORY, CELL_CAP_LIMIT_MEMORY},
		{h->cpu_millis || h->cpu_weight, LAUNCHER_CAN_CPU, CELL_CAP_LIMIT_CPUS},
		{h->pids, LAUNCHER_CAN_PIDS, CELL_CAP_LIMIT_PIDS},
		{h->io_weight, LAUNCHER_CAN_IO, CELL_CAP_LIMIT_IO},
		{h->n_cpus, LAUNCHER_CAN_CPUSET, CELL_CAP_DEDICATED},
		{h->reserve_bytes, LAUNCHER_CAN_RESERVE, CELL_CAP_RESERVED_MEMORY},
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (limits[i].is_asked && !(enforced & limits[i].bit))
			cell_degrade(p->c, limits[i].cap);
}

/* Its first process takes every other one with it. Networks and what was set aside are undone by the launcher
 * after that; and a throttled group has to be let go first, or it would be a while dying. */
static bool ends_with_guest(const struct launcher_head *h)
{
	return !(h->flags & (LAUNCHER_NET_OPEN | LAUNCHER_DEDICATED)) && !h->n_cpus &&
	       !h->reserve_bytes && !h->cpu_millis;
}

/* guest_options.start: by the launcher. */
static int launch(void *user, const char *title, int stream_fd, pid_t *ret_pid, int *ret_pidfd,
	struct cell_error *err)
{
	struct plan *p = user;
	struct jail_state *s = state_of(p->c);
	struct launcher_reply reply;
	auto_fd int guest = cell_guest_image(cell_directory_fd(p->c), err);

	if (guest < 0)
		return guest;
	p->rq.guest_fd = guest;
	p->rq.stream_fd = stream_fd;
	p->rq.texts[LAUNCHER_TEXT_TITLE] = title;
	auto_fd int control = jail_client_send(&p->rq, err);
	if (control < 0)
		return control;
	int r = jail_client_receive(control, CREATE_TIMEOUT_MS, &reply, ret_pidfd, err);
	if (r < 0)
		return r;
	if (reply.answer == LAUNCHER_NETWORK) {
		auto_fd int pidfd = *ret_pidfd;

		*ret_pidfd = -1;
		r = connect_network(p, control, &reply, pidfd, err);
		if (r == 0)
			r = jail_client_receive(control, CREATE_TIMEOUT_MS, &reply, ret_pidfd, err);
		if (r < 0)
			return r;
	}
	if (reply.answer != LAUNCHER_READY)
		return jail_explain(&reply, err);
	note_unenforced(p, reply.can);
	*ret_pid = reply.pid;
	s->control_fd = steal_fd(control);
	s->is_open = true;
	s->ends_with_guest = ends_with_guest(&p->rq.head);
	return cell_note_set_int(p->c, "jail_slot", reply.slot, err);
}

static int jail_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_plan struct plan p = PLAN_INIT(c);
	int r = plan_make(&p, spec, err);

	if (r < 0)
		return r;
	struct guest_options o = {.start = launch, .user = &p};
	return cell_guest_start(c, &o, err);
}

static int jail_shelf(struct cell *c, const struct cell_spec *spec, unsigned n,
	struct cell_error *err)
{
	auto_plan struct plan p = PLAN_INIT(c);
	struct launcher_reply reply;

	if (spec->scratch == CELL_SCRATCH_DISK)
		return cell_fail(err, CELL_ENOTSUP, 0,
			"make cells ahead: scratch space on disk is made with its cell");
	int r = plan_make(&p, spec, err);
	if (r < 0)
		return r;
	auto_fd int guest = cell_guest_image(cell_directory_fd(c), err);
	if (guest < 0)
		return guest;
	p.rq.guest_fd = guest;
	p.rq.stream_fd = -1;
	p.rq.head.flags |= LAUNCHER_FILL;
	p.rq.head.slot = n < LAUNCHER_MAX_SLOTS ? n : LAUNCHER_MAX_SLOTS - 1;
	auto_fd int control = jail_client_send(&p.rq, err);
	if (control < 0)
		return control;
	r = jail_client_receive(control, CREATE_TIMEOUT_MS, &reply, NULL, err);
	if (r < 0 || reply.answer == LAUNCHER_DONE)
		return r;
	r = cell_fail(err, CELL_ENOTSUP, 0, "make cells ahead: %.200s", reply.text);
	return cell_error_hint(err, r,
		"cells with an image, mounts, a network or a filter of their own are made when "
		"asked for");
}

static void close_control(struct jail_state *s)
{
	if (s->is_open)
		close(s->control_fd);
	s->is_open = false;
}

/* A cell that outlives us goes on without this connection; for another, letting go is destroying. */
static void jail_detach(struct cell *c)
{
	if (!cell_is_ephemeral(c))
		close_control(state_of(c));
}

static int await_done(int control_fd, struct cell_error *err)
{
	struct launcher_reply reply;
	int r;

	do {
		r = jail_client_receive(control_fd, END_TIMEOUT_MS, &reply, NULL, err);
		if (r < 0)
			return r;
		if (reply.answer == LAUNCHER_FAILED)
			return jail_explain(&reply, err);
	} while (reply.answer != LAUNCHER_DONE && reply.answer != LAUNCHER_EXITED);
	return 0;
}

static int remove_slot(struct cell *c, struct cell_error *err)
{
	auto_fd int control = jail_slot_ask(c, LAUNCHER_REMOVE, err);

	return control < 0 ? control : await_done(control, err);
}

static int jail_destroy(struct cell *c, struct cell_error *err)
{
	struct jail_state *s = state_of(c);
	int r = 0;

	if (s->is_open) { /* we made it: the launcher has its pidfd */
		if (cell_is_ephemeral(c)) {
			struct cell_error why = {0};

			if (s->ends_with_guest && cell_guest_kill(c, KILL_TIMEOUT_MS)) {
				close_control(s); /* the launcher finds the same, and buries it */
				return cell_guest_stop(c, err);
			}
			if (send(s->control_fd, (char[]){LAUNCHER_END}, 1, MSG_NOSIGNAL) == 1)
				r = await_done(s->control_fd, &why);
			close_control(s);
			/* it ended before we asked, or died with the launcher: the pidfd tells */
			if (r == -ECONNRESET)
				r = 0;
			if (r < 0 && err)
				*err = why;
			return r < 0 ? r : cell_guest_stop(c, err);
		}
		close_control(s);
	}
	struct cell_error why = {0};
	jail_release(c);
	r = cell_guest_stop(c, &why);
	/* we have given up the right to kill it since the launcher was started; the launcher has not */
	if (r < 0 && r != -EPERM) {
		if (err)
			*err = why;
		return r;
	}
	return remove_slot(c, err);
}

const struct cell_backend cell_backend_jail = {
	.name = "jail",
	.summary = "own namespaces, syscall filter, cgroups; no daemon, root or not",
	.wall = "Commands see neither files, processes nor network of the host, hold no privilege "
		"and "
		"cannot get one. They share its kernel: a hole in that is a hole in the wall.",
	.tier = 2,
	.strength = 100,
	.caps = CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(PORTS) | CAP(BACKGROUND) |
		CAP(NAMED) | CAP(WORKSPACE) | CAP(PRIVATE_HOME) | CAP(KILL_TREE) | CAP(HIDE_FILES) |
		CAP(HIDE_PROCESSES) | CAP(SYSCALL_FILTER) | CAP(ROOT_DIR) | CAP(ROOT_TAR) |
		CAP(IMAGE) | CAP(MOUNTS) | CAP(LIMIT_MEMORY) | CAP(LIMIT_CPUS) | CAP(LIMIT_PIDS) |
		CAP(LIMIT_DISK) | CAP(LIMIT_FILES) | CAP(LIMIT_FILE_SIZE) |
		CAP(LIMIT_PROCESS_MEMORY) | CAP(LIMIT_CPU_TIME) | CAP(LIMIT_IO) | CAP(NET_NONE) |
		CAP(NET_OPEN) | CAP(NET_PRIVATE) | CAP(LIMIT_INODES) | CAP(SCRATCH_MEMORY) |
		CAP(SCRATCH_DISK) | CAP(DEDICATED) | CAP(RESERVED_MEMORY) | CAP(PAUSE),
	.state_size = sizeof(struct jail_state),
	.probe = jail_probe,
	.walls = jail_walls,
	.create = jail_create,
	.shelf = jail_shelf,
	.open_guest = cell_guest_connect,
	.destroy = jail_destroy,
	.pause = jail_pause,
	.detach = jail_detach,
};
