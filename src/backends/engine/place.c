/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c: what the engine can, making a container, what keeps it apart. The rest of a container's life is in core/container_life.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cell/cell.h"

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "core/guest_pack.h"
#include "launcher/seccomp_profiles.h"

/* --- probe --- */

void engine_probe(struct cell_probe *p)
{
	static const char cgroups[] = "the engine's kernel does not count it, or not for its user";
	static const char cgroups_fix[] =
		"a rootless engine needs cgroup v2 and systemd; else boot with this controller";
	static const char far[] = "the engine is not on this machine, or not in our sight";
	struct cell_error err = {0};
	auto_engine void *at = NULL;

	if (engine_open(p->chain[0]->kind, NULL, &at, &err) < 0 || engine_look(at, &err) < 0) {
		cell_probe_refuse(p, err.msg, err.hint);
		return;
	}
	const struct engine *e = at;
	cell_probe_need(p, e->info.has_memory, CELL_CAP_LIMIT_MEMORY, cgroups, cgroups_fix);
	cell_probe_need(p, e->info.has_cpus, CELL_CAP_LIMIT_CPUS, cgroups, cgroups_fix);
	cell_probe_need(p, e->info.has_pids, CELL_CAP_LIMIT_PIDS, cgroups, cgroups_fix);
	cell_probe_need(p, e->info.has_cgroups, CELL_CAP_PAUSE,
		"its containers have no cgroup to freeze", cgroups_fix);
	/* asked for over this API, Podman leaves both out and says nothing */
	cell_probe_need(p, !e->is_libpod, CELL_CAP_RUNTIME,
		"Podman's service takes no runtime by request",
		"set runtime in containers.conf for all of its containers");
	cell_probe_need(p, !e->is_libpod, CELL_CAP_GPU,
		"Podman's service takes no GPUs by this request", "use back end docker");
	cell_probe_need(p, e->info.is_near, CELL_CAP_WORKSPACE, far, "copy files: cell cp");
	cell_probe_need(p, e->info.is_near, CELL_CAP_MOUNTS, far, "copy files: cell cp");
}

/* --- create --- */

/* A runtime with a kernel of its own (runsc, kata) shares no sockets with this machine, wherever the engine is. */
static bool is_far(const struct engine *e, const struct cell_spec *spec)
{
	return !e->info.is_near ||
	       (spec->runtime && strcmp(spec->runtime, "runc") && strcmp(spec->runtime, "crun"));
}

static int take_image(const struct engine_plan *p, struct cell_error *err)
{
	auto_(oci_config_done) struct oci_config config = {0};
	int r = oci_settings_read(json_object_get(p->image, "Config"), &config, err);

	return r < 0 ? r
		     : container_take_image(&p->at, json_text_at(p->image, "Id"),
			       json_text_at(p->image, "RepoDigests/0"), engine_image_cwd(p->image),
			       &config, err);
}

/* An open network is the engine's default one, which Docker may be told to do without. */
static int check_network(struct engine *e, const struct cell_spec *spec, struct cell_error *err)
{
	json_auto_t *network = NULL;

	if (spec->network != CELL_NETWORK_OPEN || spec->network_name || e->is_libpod)
		return 0;
	int r = engine_get(e, &network, err, "/networks/bridge");
	if (r != -ENOENT)
		return r;
	r = cell_fail(err, CELL_ENOTSUP, 0, "network: open: this engine has no default network");
	return cell_error_hint(err, r, "name one that it has: --network-name NAME");
}

/* r: how making or starting it went. */
static int explain(const struct engine *e, int r, struct cell_error *err)
{
	char runtimes[sizeof e->info.runtimes + 40];
	const struct cell_known_words known[] = {
		{"network", CELL_OK, "name a network that the engine has, or use --network none"},
		{"untime", CELL_OK, runtimes},
		{"gpu", CELL_OK, "install the engine's GPU runtime, or leave gpus out"},
		{"device driver", CELL_OK, "install the engine's GPU runtime, or leave gpus out"},
		{"storage-opt", CELL_OK, "its storage cannot limit the disk: use --scratch memory"},
		{0}};

	(void)snprintf(runtimes, sizeof runtimes, "runtimes of this engine:%s", e->info.runtimes);
	return r == 0 || e->status < 400 ? r : cell_error_known(err, r, e->said, known);
}

int engine_put(void *at, const char *container, const char *where, const struct buf *archive,
	struct cell_error *err)
{
	static const struct http_field headers[] = {{"Content-Type", "application/x-tar"}, {0}};
	const struct engine_request rq = {.http = {.method = "PUT",
						  .headers = headers,
						  .body = archive->data,
						  .body_len = archive->len},
		.doing = "put files into the container"};

	return engine_call(at, &rq, NULL, err, "/containers/%s/archive?path=%s", container, where);
}

/* A file system in memory takes the mode of the directory below it, which a snapshot has from when it was mounted there first. */
static int open_scratch(const struct container_plan *p, struct cell_error *err)
{
	static const char *const names[] = {&CONTAINER_WORKSPACE[1], &CONTAINER_HOME[1], NULL};
	auto_buf struct buf archive = BUF_INIT(65536);

	return guest_pack_directories(names, &archive) < 0
		       ? cell_fail_errno(err, ENOMEM, "open the container's directories")
		       : engine_put(p->engine, p->name, "/", &archive, err);
}

/* container_plan.make */
static int make(struct container_plan *p, struct cell_error *err)
{
	struct engine *e = p->engine;
	struct engine_request rq = {.http.method = "POST", .doing = "make the container"};
	unsigned uid, gid;
	int r = engine_container((struct engine_plan *)p, &rq.json, err);

	if (r == 0)
		r = explain(e,
			engine_call(e, &rq, NULL, err, "/containers/create?name=%s", p->name), err);
	/* whose they are was said to Docker, where that is known */
	bool is_said = !e->is_libpod && sscanf(p->user, "%u:%u", &uid, &gid) == 2;
	return r < 0 || !p->spec->from || is_said ? r : open_scratch(p, err);
}

int engine_start(void *at, const char *container, struct cell_error *err)
{
	const struct engine_request rq = {.http.method = "POST", .doing = "start the container"};

	return explain(at, engine_call(at, &rq, NULL, err, "/containers/%s/start", container), err);
}

static int create(struct engine *e, const json_t *image, struct cell *c,
	const struct cell_spec *spec, struct cell_error *err)
{
	/* with a filter of the user's own, which the engine loads, what holds in any case */
	const struct sock_fprog *filter = seccomp_chosen(spec->seccomp);
	const char *const notes[][2] = {
		{"engine", e->address.url}, {"engine_certs", e->address.cert_dir}, {0}};
	struct engine_plan p = {.e = e,
		.image = image,
		.at = {.c = c,
			.spec = spec,
			.engine = e,
			.make = make,
			.destroy = container_destroy,
			.fix = "a security module (SELinux) may keep containers from sockets: set "
			       "CELL_ENGINE_REACH=far to go through the engine",
			.no_disk = e->is_libpod ? "Podman cannot limit what is on disk" : NULL,
			.filter = filter ? filter : seccomp_profile("floor"),
			.is_far = is_far(e, spec),
			.notes = notes}};
	int r = cell_note_set_int(c, "engine_insecure", e->address.is_insecure, err);

	if (r == 0)
		r = take_image(&p, err);
	if (r == 0)
		r = container_choose_user(&p.at, e->info.is_rootless, err);
	return r < 0 ? r : container_create(&p.at, err);
}

int engine_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_engine void *e = NULL;
	json_auto_t *image = NULL;
	int r = engine_open(cell_kind(c), NULL, &e, err);

	if (r == 0)
		r = engine_look(e, err);
	if (r == 0)
		r = check_network(e, spec, err);
	if (r == 0)
		r = engine_image(e, spec, &image, err);
	return r < 0 ? r : create(e, image, c, spec, err);
}

/* --- walls --- */

int engine_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	auto_engine void *at = NULL;
	char engine[700];

	if (engine_open(self->kind, NULL, &at, NULL) < 0 || engine_look(at, NULL) < 0)
		return 0;
	const struct engine *e = at;
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
