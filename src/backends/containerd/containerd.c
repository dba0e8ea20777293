/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd.c: the back end `containerd`: a container of containerd itself, by its own API. It makes and ends it; the guest comes to its
 * door (core/guest_door.h), so that no byte of a command goes through it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/cell.h"

#include "backends/containerd/ctd.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_door.h"
#include "core/guest_process.h"
#include "core/seccomp_json.h"
#include "launcher/seccomp_profiles.h"

static void containerd_probe(struct cell_probe *p)
{
	struct cell_error err = {0};
	auto_ctd struct ctd *d = NULL;
	char version[80];
	int r = ctd_open(NULL, &d, &err);

	if (r == 0 && !p->is_hasty)
		r = ctd_version(d, version, &err);
	if (r < 0)
		cell_probe_refuse(p, err.msg, err.hint);
}

/* ---- create ---- */

struct launch {
	struct ctd *d;
	const struct ctd_plan *plan;
};

/* guest_maker.is_there */
static bool still_runs(void *user, struct cell_error *err)
{
	const struct launch *l = user;

	if (ctd_container_runs(l->d, l->plan->id))
		return true;
	int r = cell_fail(err, CELL_EBACKEND, 0, "the guest ended before it came to its socket");
	(void)cell_error_hint(err, r,
		"a security module (SELinux) may keep containers from sockets, or the runtime has "
		"a "
		"kernel of its own, which shares none with this machine");
	return false;
}

/* guest_maker.start */
static int launch(void *user, struct cell_error *err)
{
	struct launch *l = user;
	int r = ctd_container_make(l->d, l->plan, err);

	return r < 0 ? r : ctd_container_start(l->d, l->plan->id, err);
}

static int note(struct cell *c, const struct ctd *d, const char *id, struct cell_error *err)
{
	const char *const notes[][2] = {{"engine", d->address}, {"engine_namespace", d->space},
		{"snapshotter", d->snapshotter}, {"container", id}, {0}};

	return cell_notes_save(c, notes, err);
}

static int take_image(struct cell *c, const struct cell_spec *spec, const struct ctd_image *i,
	struct cell_error *err)
{
	char named[CTD_NAME_MAX + CTD_DIGEST + 1];

	(void)snprintf(named, sizeof named, "%.*s@%s", (int)strcspn(i->name, "@"), i->name,
		i->target);
	return cell_take_image(c, spec,
		&(struct cell_image_facts){.id = i->digest,
			.digest = *i->name ? named : NULL,
			.env = i->config.env,
			.entrypoint = i->config.entrypoint,
			.cmd = i->config.cmd,
			.cwd = i->config.cwd,
			.user = i->config.user},
		err);
}

/* A built-in profile, or the user's own, compiled by us: the guest takes it upon itself. */
static int open_door(struct cell *c, const char *seccomp, struct guest_door *ret,
	struct cell_error *err)
{
	const struct sock_fprog *built_in = seccomp_profile(seccomp ? seccomp : "default");
	struct sock_fprog own = {0};
	auto_buf struct buf text = BUF_INIT(SECCOMP_JSON_MAX_BYTES);
	char piece[4096];

	if (built_in)
		return guest_door_open(c, built_in, ret, err);
	auto_file FILE *f = fopen(seccomp, "re");
	for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
		if (buf_add(&text, piece, n) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "seccomp '%s' is too large", seccomp);
	if (!f || ferror(f))
		return cell_fail_errno(err, errno, "seccomp '%s'", seccomp);
	int r = seccomp_from_json(buf_str(&text), text.len, &own, err);
	if (r < 0)
		return cell_error_prefix(err, r, "seccomp '%s'", seccomp);
	r = guest_door_open(c, &own, ret, err);
	free(own.filter);
	return r;
}

static int check_runtime(const char *runtime, struct cell_error *err)
{
	if (!runtime || (!strstr(runtime, "runsc") && !strstr(runtime, "kata")))
		return 0;
	int r = cell_fail(err, CELL_ENOTSUP, 0,
		"runtime: '%.80s' has a kernel of its own, which shares no sockets with this "
		"machine",
		runtime);
	return cell_error_hint(err, r, "use it by an engine: --backend docker --runtime runsc");
}

static int containerd_destroy(struct cell *c, struct cell_error *err)
{
	const char *id = cell_note(c, "container");
	auto_ctd struct ctd *d = NULL;

	if (!id)
		return 0;
	guest_door_remove(c);
	bool has_guest = cell_note_int(c, "guest_pid", 0) > 0;
	int r = ctd_open(c, &d, err);
	if (r == 0 && ctd_is_paused(d, id)) /* or it could not die */
		(void)ctd_about(d, "tasks.v1.Tasks/Resume", id, NULL, "resume the task", NULL);
	if (r == 0 && has_guest)
		r = cell_guest_stop(c, err);
	if (r == 0)
		r = ctd_container_remove(d, id, has_guest, err);
	if (r == 0)
		ctd_sweep_lost(d);
	return r;
}

/* Who saved it and died has left it standing still. */
static int containerd_open_guest(struct cell *c, struct cell_error *err)
{
	int r = cell_note_int(c, CTD_NOTE_SAVING, 0) ? ctd_let_go_on(c, err) : 0;

	return r < 0 ? r : cell_guest_connect(c, err);
}

static int make(struct ctd *d, struct ctd_plan *p, struct cell_error *err)
{
	auto_door struct guest_door door = GUEST_DOOR_INIT;
	int r = open_door(p->c, p->spec->seccomp, &door, err);

	p->door = door.path;
	struct launch l = {.d = d, .plan = p};
	const struct guest_maker maker = {.start = launch, .is_there = still_runs, .user = &l};
	if (r == 0)
		r = note(p->c, d, p->id, err);
	return r < 0 ? r : guest_door_start(p->c, &door, &p->spec->limits, &maker, err);
}

static int containerd_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_ctd struct ctd *d = NULL;
	auto_ctd_image struct ctd_image image = CTD_IMAGE_INIT;
	char id[CONTAINER_NAME_SIZE];
	int r = check_runtime(spec->runtime, err);

	if (r == 0)
		r = container_name(c, id, err);
	if (r == 0)
		r = ctd_open(NULL, &d, err);
	if (r == 0)
		r = cell_state_id(c, d->state, err);
	if (r == 0)
		r = ctd_image_get(d, spec, &image, err);
	if (r == 0)
		r = take_image(c, spec, &image, err);
	if (r < 0)
		return r;
	struct ctd_plan plan = {.c = c, .spec = spec, .image = &image, .id = id};
	r = make(d, &plan, err);
	guest_door_remove(c);
	if (r < 0 && cell_note(c, "container"))
		(void)containerd_destroy(c, NULL);
	return r;
}

/* ---- walls ---- */

static int containerd_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	auto_ctd struct ctd *d = NULL;
	struct cell_error ignored;
	char engine[700], version[80];

	if (ctd_open(NULL, &d, &ignored) < 0 || ctd_version(d, version, &ignored) < 0)
		return 0;
	(void)snprintf(engine, sizeof engine,
		"containerd %s at %s, namespace %s, snapshots by %s; guests are reached by a "
		"socket of "
		"their own",
		version, d->address, d->space, d->snapshotter);
	(void)self;
	return container_walls_tell(&(struct container_walls){.maker = "engine", .how = engine}, fn,
		user);
}

#define CAP(name) CELL_CAP_BIT(CELL_CAP_##name)

const struct cell_backend cell_backend_containerd = {
	.name = "containerd",
	.summary = "a fresh container by containerd itself, without Docker",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by containerd's "
		"runtime on the kernel it shares with all containers. Whoever may use its socket "
		"is "
		"root on this machine; cells are not given it.",
	.tier = 2,
	.caps = CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(BACKGROUND) | CAP(NAMED) |
		CAP(DEFAULT_USER) | CAP(WORKSPACE) | CAP(PRIVATE_HOME) | CAP(KILL_TREE) |
		CAP(HIDE_FILES) | CAP(HIDE_PROCESSES) | CAP(SYSCALL_FILTER) | CAP(IMAGE) |
		CAP(PULL) | CAP(RUNTIME) | CAP(MOUNTS) | CAP(LIMIT_MEMORY) | CAP(LIMIT_CPUS) |
		CAP(LIMIT_PIDS) | CAP(LIMIT_DISK) | CAP(LIMIT_FILES) | CAP(LIMIT_FILE_SIZE) |
		CAP(LIMIT_PROCESS_MEMORY) | CAP(LIMIT_CPU_TIME) | CAP(SCRATCH_MEMORY) |
		CAP(SCRATCH_DISK) | CAP(NET_NONE) | CAP(PORTS) | CAP(PAUSE) | CAP(SNAPSHOT),
	.probe = containerd_probe,
	.create = containerd_create,
	.open_guest = containerd_open_guest,
	.destroy = containerd_destroy,
	.walls = containerd_walls,
	.pause = ctd_pause,
	.stats = ctd_stats,
	.snapshot = ctd_snapshot,
	.forget = ctd_forget,
	.sweep = ctd_sweep,
};
