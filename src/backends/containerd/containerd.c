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
#include "core/seccomp_file.h"
#include "launcher/seccomp_profiles.h"

static void containerd_probe(struct cell_probe *p)
{
	struct cell_error err = {0};
	auto_ctd void *d = NULL;
	char version[80];
	int r = ctd_open(NULL, NULL, &d, &err);

	if (r == 0 && !p->is_hasty)
		r = ctd_version(d, version, &err);
	if (r < 0)
		cell_probe_refuse(p, err.msg, err.hint);
}

/* ---- create ---- */

/* container_plan.make */
static int make(struct container_plan *p, struct cell_error *err)
{
	return ctd_container_make(p->engine, (struct ctd_plan *)p, err);
}

static int take_image(const struct ctd_plan *p, struct cell_error *err)
{
	const struct ctd_image *i = p->image;
	char named[CTD_NAME_MAX + CTD_DIGEST + 1];

	(void)snprintf(named, sizeof named, "%.*s@%s", (int)strcspn(i->name, "@"), i->name,
		i->target);
	return container_take_image(&p->at, i->digest, *i->name ? named : NULL, i->config.cwd,
		&i->config, err);
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
	auto_ctd void *d = NULL;

	if (!id)
		return 0;
	guest_door_remove(c);
	bool has_guest = cell_note_int(c, "guest_pid", 0) > 0;
	int r = ctd_open(NULL, c, &d, err);
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

static void filter_done(struct sock_fprog *own)
{
	free(own->filter);
}

static int containerd_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	/* a built-in profile, or the user's own, compiled by us: the guest takes it upon itself */
	const struct sock_fprog *filter = seccomp_chosen(spec->seccomp);
	auto_(filter_done) struct sock_fprog own = {0};
	auto_ctd void *at = NULL;
	auto_ctd_image struct ctd_image image = CTD_IMAGE_INIT;
	int r = check_runtime(spec->runtime, err);

	if (r == 0 && !filter)
		r = seccomp_file_compile(spec->seccomp, &own, err);
	if (r == 0)
		r = ctd_open(NULL, NULL, &at, err);
	struct ctd *d = at;
	if (r == 0)
		r = cell_state_id(c, d->state, err);
	if (r == 0)
		r = ctd_image_get(d, spec, &image, err);
	if (r < 0)
		return r;
	const char *const notes[][2] = {{"engine", d->address}, {"engine_namespace", d->space},
		{"snapshotter", d->snapshotter}, {0}};
	struct ctd_plan plan = {.image = &image,
		.at = {.c = c,
			.spec = spec,
			.engine = d,
			.make = make,
			.destroy = containerd_destroy,
			.fix = "a security module (SELinux) may keep containers from sockets, or "
			       "the runtime has a kernel of its own, which shares none with this "
			       "machine",
			.no_disk = "containerd's snapshots have no size of their own",
			.filter = filter ? filter : &own,
			.floor = filter ? NULL : seccomp_profile("floor"),
			.notes = notes}};
	r = take_image(&plan, err);
	return r < 0 ? r : container_create(&plan.at, err);
}

/* ---- walls ---- */

static int containerd_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	auto_ctd void *at = NULL;
	struct cell_error ignored;
	char engine[700], version[80];

	if (ctd_open(NULL, NULL, &at, &ignored) < 0 || ctd_version(at, version, &ignored) < 0)
		return 0;
	const struct ctd *d = at;
	(void)snprintf(engine, sizeof engine,
		"containerd %s at %s, namespace %s, snapshots by %s; guests are reached by a "
		"socket of "
		"their own",
		version, d->address, d->space, d->snapshotter);
	(void)self;
	return container_walls_tell(&(struct container_walls){.maker = "engine", .how = engine}, fn,
		user);
}

static const struct container_kind kind = {&ctd_calls};

const struct cell_backend cell_backend_containerd = {
	.name = "containerd",
	.summary = "a fresh container by containerd itself, without Docker",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by containerd's "
		"runtime on the kernel it shares with all containers. Whoever may use its socket "
		"is "
		"root on this machine; cells are not given it.",
	.tier = 2,
	.caps = CONTAINER_CAPS | CAP(PULL) | CAP(SNAPSHOT),
	.probe = containerd_probe,
	.create = containerd_create,
	.open_guest = containerd_open_guest,
	.destroy = containerd_destroy,
	.walls = containerd_walls,
	.pause = container_pause,
	.stats = container_stats,
	.snapshot = ctd_snapshot,
	.forget = container_forget,
	.sweep = ctd_sweep,
	.kind = &kind,
};
