/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c: the slots. A container is made for a cell and removed with it; its name is in the cell's record before
 * it exists, so that whatever dies in between, ours or the engine, the next one to look finds it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cell/cell.h"

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_door.h"
#include "core/guest_process.h"

#define REMOVE_TIMEOUT_MS 60000

/* --- probe --- */

static void lack(struct cell_probe *p, bool is_there, enum cell_cap cap, const char *reason,
	const char *fix)
{
	if (!is_there)
		cell_probe_lack(p, cap, reason, fix);
}

void engine_probe(const struct engine_kind *kind, struct cell_probe *p)
{
	static const char cgroups[] = "the engine's kernel does not count it, or not for its user";
	static const char cgroups_fix[] =
		"a rootless engine needs cgroup v2 and systemd; else boot with this controller";
	static const char far[] = "the engine is not on this machine, or not in our sight";
	struct cell_error err = {0};
	auto_engine struct engine *e = NULL;
	int r = engine_open(kind, NULL, &e, &err);

	if (r == 0)
		r = engine_look(e, &err);
	if (r < 0) {
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

static int note_engine(struct cell *c, const struct engine *e, const char *container, bool is_far,
	struct cell_error *err)
{
	int r = cell_note_set(c, "engine", e->address.url, err);

	if (r == 0 && e->address.cert_dir[0])
		r = cell_note_set(c, "engine_certs", e->address.cert_dir, err);
	if (r == 0)
		r = cell_note_set_int(c, "engine_insecure", e->address.is_insecure, err);
	if (r == 0)
		r = cell_note_set_int(c, "engine_is_far", is_far, err);
	if (r == 0)
		r = cell_note_set(c, "container", container, err);
	return r == 0 ? cell_note_save(c, err) : r;
}

/* A runtime with a kernel of its own (runsc, kata) shares no sockets with this machine, wherever the engine is. */
static bool is_far(const struct engine *e, const struct cell_spec *spec)
{
	return !e->info.is_near ||
	       (spec->runtime && strcmp(spec->runtime, "runc") && strcmp(spec->runtime, "crun"));
}

/* What runs, to the bit, for whoever wants to run it again; and what the image gives its commands. */
static int take_image(struct cell *c, const struct cell_spec *spec, const json_t *image,
	struct cell_error *err)
{
	const json_t *config = json_object_get(image, "Config");
	const json_t *env = json_object_get(config, "Env");
	const char *id = json_string_value(json_object_get(image, "Id"));
	const char *digest =
		json_string_value(json_array_get(json_object_get(image, "RepoDigests"), 0));
	const char *cwd = engine_image_cwd(image);
	size_t n = json_array_size(env);
	auto_free char **list = calloc(n + 1, sizeof *list);

	if (!list)
		return cell_fail_errno(err, ENOMEM, "take the image's environment");
	for (size_t i = 0, k = 0; i < n; i++) {
		const char *pair = json_string_value(json_array_get(env, i));
		if (pair)
			list[k++] = (char *)(uintptr_t)pair;
	}
	return cell_take_image(c, spec,
		&(struct cell_image_facts){.id = id, .digest = digest, .env = list, .cwd = cwd},
		err);
}

static int engine_name(const struct cell *c, char ret[160], struct cell_error *err)
{
	uint32_t id;

	if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
		return cell_fail_errno(err, errno, "choose a name for the container");
	(void)snprintf(ret, 160, "cell-%.120s-%08" PRIx32, cell_name(c), id);
	return 0;
}

static int post(struct engine *e, const char *path, const json_t *body, int wanted,
	const char *doing, struct cell_error *err)
{
	auto_buf struct buf text = {0};
	struct engine_request rq = {.method = "POST", .path = path, .json = body};
	char said[200];
	int status = engine_send(e, &rq, &text, err);

	if (status < 0 || status == wanted)
		return status < 0 ? status : 0;
	int r = engine_refused(e, status, &text, err, "%s", doing);
	engine_message(&text, said, sizeof said);
	if (strstr(said, "storage-opt"))
		return cell_error_hint(err, r,
			"its storage cannot limit the disk: use --scratch memory");
	if (strstr(said, "device driver") || strstr(said, "gpu"))
		return cell_error_hint(err, r,
			"install the engine's GPU runtime, or leave gpus out");
	if (strstr(said, "untime"))
		return cell_error_hint(err, r, "runtimes of this engine:%s", e->info.runtimes);
	if (strstr(said, "network"))
		return cell_error_hint(err, r,
			"name a network that the engine has, or use --network none");
	return r;
}

struct launch {
	struct engine *e;
	struct guest_door *door;
	const struct cell_limits *limits;
	const char *container;
};

static bool is_running(struct engine *e, const char *container, struct cell_error *err)
{
	char path[300];
	json_t *j = NULL;

	(void)snprintf(path, sizeof path, "/containers/%s/json", container);
	int r = engine_get(e, path, &j, err);
	if (r < 0)
		return r != -ENOENT; /* no answer is no death */
	const json_t *state = json_object_get(j, "State");
	bool is = json_is_true(json_object_get(state, "Running"));
	if (!is)
		(void)cell_fail(err, CELL_EBACKEND, 0,
			"the container ended at once: exit status %d %s",
			(int)json_integer_value(json_object_get(state, "ExitCode")),
			json_string_value(json_object_get(state, "Error")));
	json_decref(j);
	return is;
}

static bool still_runs(void *user, struct cell_error *err)
{
	const struct launch *l = user;
	struct cell_error ignored;

	if (is_running(l->e, l->container, &ignored))
		return true;
	int r = cell_fail(err, CELL_EBACKEND, 0, "the guest ended before it came to its socket");
	(void)cell_error_hint(err, r,
		"a security module (SELinux) may keep containers from sockets: set "
		"CELL_ENGINE_REACH=far to go through the engine");
	return false;
}

static int start_container(struct engine *e, const char *container, struct cell_error *err)
{
	char path[300];

	(void)snprintf(path, sizeof path, "/containers/%s/start", container);
	return post(e, path, NULL, 204, "start the container", err);
}

/* guest_options.start */
static int launch(void *user, const char *title, int stream_fd, pid_t *ret_pid, int *ret_pidfd,
	struct cell_error *err)
{
	struct launch *l = user;
	int r = start_container(l->e, l->container, err);

	return r < 0 ? r
		     : guest_door_answer(l->door, title, stream_fd, l->limits, still_runs, l,
			       ret_pid, ret_pidfd, err);
}

static int make_container(struct engine_plan *plan, struct engine *e, const char *name,
	struct cell_error *err)
{
	char path[300], user[128];
	unsigned uid, gid;
	json_t *body = NULL;
	int r = engine_container(plan, &body, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof path, "/containers/create?name=%s", name);
	r = post(e, path, body, 201, "make the container", err);
	json_decref(body);
	if (r < 0 || !plan->spec->from)
		return r;
	/* whose they are was said to Docker, where that is known */
	r = engine_user(plan, user, err);
	bool is_said = !e->is_libpod && sscanf(user, "%u:%u", &uid, &gid) == 2;
	return r < 0 || is_said ? r : engine_open_scratch(e, name, err);
}

static int create_near(struct engine_plan *plan, struct engine *e, const char *name,
	struct cell_error *err)
{
	auto_door struct guest_door door = GUEST_DOOR_INIT;
	int r = guest_door_open(plan->c, engine_filter(plan->spec->seccomp), &door, err);

	plan->door = door.path;
	if (r == 0)
		r = make_container(plan, e, name, err);
	if (r < 0)
		return r;
	struct launch l = {.e = e, .door = &door, .limits = &plan->spec->limits, .container = name};
	struct guest_options o = {.start = launch, .user = &l};
	return cell_guest_start(plan->c, &o, err);
}

static int create_far(struct engine_plan *plan, struct engine *e, const char *name,
	struct cell_error *err)
{
	char user[128];
	int r = engine_user(plan, user, err);

	if (r == 0)
		r = make_container(plan, e, name, err);
	if (r == 0)
		r = engine_far_put(e, name, user, plan->spec->seccomp, err);
	return r == 0 ? start_container(e, name, err) : r;
}

/* An open network is the engine's default one, which Docker may be told to do without. */
static int check_network(struct engine *e, const struct cell_spec *spec, struct cell_error *err)
{
	json_t *network = NULL;

	if (spec->network != CELL_NETWORK_OPEN || spec->network_name || e->is_libpod)
		return 0;
	int r = engine_get(e, "/networks/bridge", &network, err);
	json_decref(network);
	if (r != -ENOENT)
		return r;
	r = cell_fail(err, CELL_ENOTSUP, 0, "network: open: this engine has no default network");
	return cell_error_hint(err, r, "name one that it has: --network-name NAME");
}

int engine_create(const struct engine_kind *kind, struct cell *c, const struct cell_spec *spec,
	struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	json_t *image = NULL;
	char name[160];
	int r = engine_open(kind, NULL, &e, err);

	if (r == 0)
		r = engine_look(e, err);
	if (r == 0)
		r = check_network(e, spec, err);
	if (r == 0)
		r = engine_image(e, spec, &image, err);
	if (r == 0)
		r = take_image(c, spec, image, err);
	if (r == 0)
		r = engine_name(c, name, err);
	if (r == 0)
		r = note_engine(c, e, name, is_far(e, spec), err);
	struct engine_plan plan = {.c = c, .spec = spec, .engine = e, .image = image};
	if (r == 0)
		r = is_far(e, spec) ? create_far(&plan, e, name, err)
				    : create_near(&plan, e, name, err);
	json_decref(image);
	guest_door_remove(c);
	if (r < 0 && cell_note(c, "container"))
		(void)engine_destroy(kind, c, NULL);
	return r;
}

/* --- the rest --- */

int engine_open_guest(const struct engine_kind *kind, struct cell *c, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;

	if (!cell_note_int(c, "engine_is_far", 0))
		return cell_guest_connect(c, err);
	int r = engine_open(kind, c, &e, err);
	return r < 0 ? r : engine_far_open(e, cell_note(c, "container"), err);
}

/* One that is being removed, by us or by the engine because it has ended, is waited for. */
int engine_remove_container(struct engine *e, const char *container, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = 20 * 1000000};
	char path[300];
	int status = 0;

	(void)snprintf(path, sizeof path, "/containers/%s?force=1&v=1", container);
	for (int waited_ms = 0; waited_ms < REMOVE_TIMEOUT_MS; waited_ms += 20) {
		auto_buf struct buf text = {0};
		struct engine_request rq = {.method = "DELETE", .path = path};

		status = engine_send(e, &rq, &text, err);
		if (status < 0)
			return status;
		if (status == 404)
			return 0;
		bool is_passing = status == 409 || status == 500; /* podman says 500 */
		if (status / 100 != 2 && (!is_passing || waited_ms + 20 >= REMOVE_TIMEOUT_MS))
			return engine_refused(e, status, &text, err, "remove container '%s'",
				container);
		if (status / 100 == 2 && !e->is_libpod)
			return 0;
		if (status / 100 == 2)
			continue; /* asked once more, until it is not there */
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

int engine_destroy(const struct engine_kind *kind, struct cell *c, struct cell_error *err)
{
	const char *container = cell_note(c, "container");
	auto_engine struct engine *e = NULL;

	if (!container)
		return 0;
	int r = engine_open(kind, c, &e, err);
	if (r == 0)
		r = engine_remove_container(e, container, err);
	if (r == 0 && !cell_note_int(c, "engine_is_far", 0))
		r = cell_guest_stop(c, err); /* dead with its container: forget it */
	guest_door_remove(c);
	return r;
}

bool engine_is_alive(const struct engine_kind *kind, struct cell *c)
{
	auto_engine struct engine *e = NULL;
	struct cell_error ignored;
	const char *container = cell_note(c, "container");

	if (!cell_note_int(c, "engine_is_far", 0))
		return cell_guest_is_alive(c);
	if (!container)
		return false;
	return engine_open(kind, c, &e, &ignored) < 0 || is_running(e, container, &ignored);
}

/* --- walls --- */

int engine_walls(const struct engine_kind *kind, cell_wall_fn fn, void *user)
{
	auto_engine struct engine *e = NULL;
	struct cell_error ignored;
	char engine[700];

	if (engine_open(kind, NULL, &e, &ignored) < 0 || engine_look(e, &ignored) < 0)
		return 0;
	(void)snprintf(engine, sizeof engine, "%s at %s, API %s; %s; runtimes:%s", e->info.server,
		e->address.url, e->version + 2,
		e->info.is_near ? "on this machine: reached by a socket of its own"
				: "elsewhere: reached through the engine",
		e->info.runtimes);
	bool has_seccomp = strstr(e->info.security, " seccomp ");
	const struct cell_wall walls[] = {
		{.name = "engine", .how = engine},
		{.name = "ids",
			.how = e->info.is_rootless
				       ? "the engine is an ordinary user's: its root is that "
					 "user"
				       : "root of a container would be root outside: cells are "
					 "another user",
			.better =
				e->info.is_rootless ? NULL : "a rootless engine, or userns-remap"},
		{.name = "privileges", .how = "no capability, no_new_privs"},
		{.name = "processes", .how = "own pid, ipc, uts and cgroup namespaces"},
		{.name = "syscalls",
			.how = has_seccomp ? "seccomp: Cell's profile, and the engine's default"
					   : "seccomp: Cell's profile; the engine has none"},
		{.name = "network",
			.how = "none, unless asked for; open: the engine's default "
			       "network, which reaches private addresses too"},
		{.name = "limits",
			.how = e->info.has_memory && e->info.has_cpus && e->info.has_pids
				       ? "memory with swap, cpus, pids by the engine's cgroups"
				       : "not all: see cell backends",
			.is_weak = !(e->info.has_memory && e->info.has_cpus && e->info.has_pids)},
		{.name = "disk",
			.how = "with limits.disk: read-only root, the rest in memory, with a size"},
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof walls / sizeof *walls; i++)
		r = fn(&walls[i], user);
	return r;
}
