/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c: the slots. A container is made for a cell and removed with it; its name is in the cell's record before
 * it exists, so that whatever dies in between, ours or the engine, the next one to look finds it.
 *
 * A guest in a container of another machine, or in a kernel of its own, is far: its program goes in as an archive, into a volume of its
 * own, so that a read-only root does not matter and the image needs nothing. A stream to it is an exec of the engine's that runs the
 * guest's program as a relay (guest/reach.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cell/cell.h"

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_door.h"
#include "core/guest_pack.h"
#include "core/guest_process.h"
#include "core/image/oci.h"
#include "launcher/seccomp_profiles.h"

#define REMOVE_TIMEOUT_MS 60000

/* --- probe --- */

static void lack(struct cell_probe *p, bool is_there, enum cell_cap cap, const char *reason,
	const char *fix)
{
	if (!is_there)
		cell_probe_lack(p, cap, reason, fix);
}

void engine_probe(struct cell_probe *p)
{
	static const char cgroups[] = "the engine's kernel does not count it, or not for its user";
	static const char cgroups_fix[] =
		"a rootless engine needs cgroup v2 and systemd; else boot with this controller";
	static const char far[] = "the engine is not on this machine, or not in our sight";
	struct cell_error err = {0};
	auto_engine struct engine *e = NULL;

	if (engine_open(p->chain[0]->kind, NULL, &e, &err) < 0 || engine_look(e, &err) < 0) {
		cell_probe_refuse(p, err.msg, err.hint);
		return;
	}
	lack(p, e->info.has_memory, CELL_CAP_LIMIT_MEMORY, cgroups, cgroups_fix);
	lack(p, e->info.has_cpus, CELL_CAP_LIMIT_CPUS, cgroups, cgroups_fix);
	lack(p, e->info.has_pids, CELL_CAP_LIMIT_PIDS, cgroups, cgroups_fix);
	lack(p, e->info.has_cgroups, CELL_CAP_PAUSE, "its containers have no cgroup to freeze",
		cgroups_fix);
	/* asked for over this API, Podman leaves both out and says nothing */
	lack(p, !e->is_libpod, CELL_CAP_RUNTIME, "Podman's service takes no runtime by request",
		"set runtime in containers.conf for all of its containers");
	lack(p, !e->is_libpod, CELL_CAP_GPU, "Podman's service takes no GPUs by this request",
		"use back end docker");
	lack(p, e->info.is_near, CELL_CAP_WORKSPACE, far, "copy files: cell cp");
	lack(p, e->info.is_near, CELL_CAP_MOUNTS, far, "copy files: cell cp");
}

/* --- create --- */

/* A runtime with a kernel of its own (runsc, kata) shares no sockets with this machine, wherever the engine is. */
static bool is_far(const struct engine *e, const struct cell_spec *spec)
{
	return !e->info.is_near ||
	       (spec->runtime && strcmp(spec->runtime, "runc") && strcmp(spec->runtime, "crun"));
}

static int note(const struct engine_plan *p, struct cell_error *err)
{
	const struct net_endpoint *a = &p->e->address;
	const char *const notes[][2] = {
		{"engine", a->url}, {"engine_certs", a->cert_dir}, {"container", p->name}, {0}};
	int r = cell_note_set_int(p->c, "engine_insecure", a->is_insecure, err);

	if (r == 0)
		r = cell_note_set_int(p->c, "engine_is_far", is_far(p->e, p->spec), err);
	return r < 0 ? r : cell_notes_save(p->c, notes, err);
}

static int take_image(const struct engine_plan *p, struct cell_error *err)
{
	const json_t *digests = json_object_get(p->image, "RepoDigests");
	__attribute__((cleanup(oci_config_done))) struct oci_config config = {0};
	int r = oci_settings_read(json_object_get(p->image, "Config"), &config, err);

	return r < 0 ? r
		     : cell_take_image(p->c, p->spec,
			       &(struct cell_image_facts){.id = json_text_at(p->image, "Id"),
				       .digest = json_string_value(json_array_get(digests, 0)),
				       .env = config.env,
				       .entrypoint = config.entrypoint,
				       .cmd = config.cmd,
				       .cwd = engine_image_cwd(p->image),
				       .user = config.user},
			       err);
}

/* An open network is the engine's default one, which Docker may be told to do without. */
static int check_network(struct engine *e, const struct cell_spec *spec, struct cell_error *err)
{
	json_t *network = NULL;

	if (spec->network != CELL_NETWORK_OPEN || spec->network_name || e->is_libpod)
		return 0;
	int r = engine_get(e, &network, err, "/networks/bridge");
	json_decref(network);
	if (r != -ENOENT)
		return r;
	r = cell_fail(err, CELL_ENOTSUP, 0, "network: open: this engine has no default network");
	return cell_error_hint(err, r, "name one that it has: --network-name NAME");
}

/* r: how making or starting it went. */
static int explain(const struct engine *e, int r, struct cell_error *err)
{
	if (r == 0 || e->status < 400)
		return r;
	if (strstr(e->said, "storage-opt"))
		return cell_error_hint(err, r,
			"its storage cannot limit the disk: use --scratch memory");
	if (strstr(e->said, "device driver") || strstr(e->said, "gpu"))
		return cell_error_hint(err, r,
			"install the engine's GPU runtime, or leave gpus out");
	if (strstr(e->said, "untime"))
		return cell_error_hint(err, r, "runtimes of this engine:%s", e->info.runtimes);
	if (strstr(e->said, "network"))
		return cell_error_hint(err, r,
			"name a network that the engine has, or use --network none");
	return r;
}

static int put(const struct engine_plan *p, const char *where, const struct buf *archive,
	struct cell_error *err)
{
	struct engine_request rq = {
		.method = "PUT", .doing = "put files into the container", .archive = archive};

	return engine_call(p->e, &rq, NULL, err, "/containers/%s/archive?path=%s", p->name, where);
}

/* A file system in memory takes the mode of the directory below it, which a snapshot has from when it was mounted there first. */
static int open_scratch(const struct engine_plan *p, struct cell_error *err)
{
	static const char *const names[] = {&CONTAINER_WORKSPACE[1], &CONTAINER_HOME[1], NULL};
	auto_buf struct buf archive = BUF_INIT(65536);

	return guest_pack_directories(names, &archive) < 0
		       ? cell_fail_errno(err, ENOMEM, "open the container's directories")
		       : put(p, "/", &archive, err);
}

static int make(const struct engine_plan *p, struct cell_error *err)
{
	struct engine_request rq = {.method = "POST", .doing = "make the container"};
	unsigned uid, gid;
	int r = engine_container(p, &rq.json, err);

	if (r == 0)
		r = explain(p->e,
			engine_call(p->e, &rq, NULL, err, "/containers/create?name=%s", p->name),
			err);
	/* whose they are was said to Docker, where that is known */
	bool is_said = !p->e->is_libpod && sscanf(p->user, "%u:%u", &uid, &gid) == 2;
	return r < 0 || !p->spec->from || is_said ? r : open_scratch(p, err);
}

/* guest_maker.start */
static int start(void *plan, struct cell_error *err)
{
	const struct engine_plan *p = plan;
	struct engine_request rq = {.method = "POST", .doing = "start the container"};

	return explain(p->e, engine_call(p->e, &rq, NULL, err, "/containers/%s/start", p->name),
		err);
}

static bool is_running(struct engine *e, const char *container)
{
	json_t *j = NULL;
	int r = engine_get(e, &j, NULL, "/containers/%s/json", container);
	bool is = json_is_true_at(j, "State/Running");

	json_decref(j);
	return r < 0 ? r != -ENOENT : is; /* no answer is no death */
}

/* guest_maker.is_there */
static bool still_runs(void *plan, struct cell_error *err)
{
	const struct engine_plan *p = plan;

	if (is_running(p->e, p->name))
		return true;
	int r = cell_fail(err, CELL_EBACKEND, 0, "the guest ended before it came to its socket");
	(void)cell_error_hint(err, r,
		"a security module (SELinux) may keep containers from sockets: set "
		"CELL_ENGINE_REACH=far to go through the engine");
	return false;
}

static int create_near(struct engine_plan *p, const struct sock_fprog *filter,
	struct cell_error *err)
{
	auto_door struct guest_door door = GUEST_DOOR_INIT;
	int r = guest_door_open(p->c, filter, &door, err);

	p->door = door.path;
	if (r == 0)
		r = make(p, err);
	const struct guest_maker maker = {.start = start, .is_there = still_runs, .user = p};
	return r < 0 ? r : guest_door_start(p->c, &door, &p->spec->limits, &maker, err);
}

static int create_far(struct engine_plan *p, const struct sock_fprog *filter,
	struct cell_error *err)
{
	auto_buf struct buf archive = BUF_INIT(GUEST_PACK_MAX);
	int r = make(p, err);

	if (r == 0 && guest_pack(p->user, filter, &archive) < 0)
		r = cell_fail_errno(err, ENOMEM, "pack the guest");
	if (r == 0)
		r = put(p, CONTAINER_GUEST_DIR, &archive, err);
	return r == 0 ? start(p, err) : r;
}

int engine_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	/* with a filter of the user's own, which the engine loads, what holds in any case */
	const struct sock_fprog *filter =
		seccomp_profile(spec->seccomp ? spec->seccomp : "default");
	auto_engine struct engine *e = NULL;
	json_t *image = NULL;
	int r = engine_open(cell_kind(c), NULL, &e, err);

	filter = filter ? filter : seccomp_profile("floor");
	if (r == 0)
		r = engine_look(e, err);
	if (r == 0)
		r = check_network(e, spec, err);
	if (r == 0)
		r = engine_image(e, spec, &image, err);
	struct engine_plan p = {.c = c, .spec = spec, .e = e, .image = image};
	if (r == 0)
		r = take_image(&p, err);
	if (r == 0)
		r = container_name(c, p.name, err);
	if (r == 0)
		r = engine_user(&p, err);
	if (r == 0)
		r = note(&p, err);
	if (r == 0)
		r = is_far(e, spec) ? create_far(&p, filter, err) : create_near(&p, filter, err);
	json_decref(image);
	guest_door_remove(c);
	if (r < 0 && cell_note(c, "container"))
		(void)engine_destroy(c, NULL);
	return r;
}

/* --- the rest --- */

int engine_open_guest(struct cell *c, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;

	if (!cell_note_int(c, "engine_is_far", 0))
		return cell_guest_connect(c, err);
	int r = engine_open(cell_kind(c), c, &e, err);
	return r < 0 ? r
		     : engine_exec(e, cell_note(c, "container"),
			       json_pack("[s,s,s]", CONTAINER_GUEST, "--relay", CONTAINER_SOCKET),
			       err);
}

/* One that is being removed, by us or by the engine because it has ended, is waited for. */
int engine_remove_container(struct engine *e, const char *container, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = 20 * 1000000};
	char doing[120];
	struct engine_request rq = {.method = "DELETE", .doing = doing, .fine = 404};
	struct cell_error why = {0};
	int r = 0;

	(void)snprintf(doing, sizeof doing, "remove container '%.90s'", container);
	for (int waited_ms = 0; waited_ms < REMOVE_TIMEOUT_MS; waited_ms += 20) {
		r = engine_call(e, &rq, NULL, &why, "/containers/%s?force=1&v=1", container);
		/* Podman is asked once more, until it is not there */
		if (r == 0 && (e->status == 404 || !e->is_libpod))
			return 0;
		if (r < 0 && e->status != 409 && e->status != 500) /* Podman says 500 */
			break;
		if (r < 0)
			(void)nanosleep(&pause, NULL);
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

int engine_destroy(struct cell *c, struct cell_error *err)
{
	const char *container = cell_note(c, "container");
	auto_engine struct engine *e = NULL;

	if (!container)
		return 0;
	int r = engine_open(cell_kind(c), c, &e, err);
	if (r == 0)
		r = engine_remove_container(e, container, err);
	if (r == 0 && !cell_note_int(c, "engine_is_far", 0))
		r = cell_guest_stop(c, err); /* dead with its container: forget it */
	guest_door_remove(c);
	return r;
}

bool engine_is_alive(struct cell *c)
{
	auto_engine struct engine *e = NULL;
	const char *container = cell_note(c, "container");

	if (!cell_note_int(c, "engine_is_far", 0))
		return cell_guest_is_alive(c);
	return container &&
	       (engine_open(cell_kind(c), c, &e, NULL) < 0 || is_running(e, container));
}

/* --- walls --- */

int engine_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	auto_engine struct engine *e = NULL;
	char engine[700];

	if (engine_open(self->kind, NULL, &e, NULL) < 0 || engine_look(e, NULL) < 0)
		return 0;
	const struct engine_info *i = &e->info;
	bool is_limited = i->has_memory && i->has_cpus && i->has_pids;
	(void)snprintf(engine, sizeof engine, "%s at %s, API 1.%u; %s; runtimes:%s", i->server,
		e->address.url, e->minor,
		i->is_near ? "on this machine: reached by a socket of its own"
			   : "elsewhere: reached through the engine",
		i->runtimes);
	const struct container_walls w = {.maker = "engine",
		.how = engine,
		.ids = i->is_rootless ? "the engine is an ordinary user's: its root is that user"
				      : NULL,
		.ids_better = i->is_rootless ? NULL : "a rootless engine, or userns-remap",
		.syscalls = strstr(i->security, " seccomp ")
				    ? "seccomp: Cell's profile, and the engine's default"
				    : "seccomp: Cell's profile; the engine has none",
		.network = "none, unless asked for; open: the engine's default network, which "
			   "reaches private addresses too",
		.limits = is_limited ? "memory with swap, cpus, pids by the engine's cgroups"
				     : "not all: see cell backends",
		.is_unlimited = !is_limited};
	return container_walls_tell(&w, fn, user);
}
