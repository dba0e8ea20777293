/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c: a server's sessions as cells. A cell's name is the session's: the server keeps it unique in a tenant and finds a session by it as
 * by its id. A cell without a name is ours alone: it is ended with us, and when we cannot, by its time to live, which is renewed as long as
 * we are there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/remote/remote.h"
#include "server/clock.h"

#define TTL_S		300
#define RENEW_MS	60000
#define PAGE		"500"
#define TEMPORARY_LABEL "cli"

static const char *name_of(const json_t *o)
{
	const char *name = remote_text(json_object_get(o, "labels"), "name");

	return *name ? name : remote_text(o, "id");
}

static struct remote_cell *cell_of(const json_t *o)
{
	struct remote_cell *c = cli_calloc(1, sizeof *c);

	(void)snprintf(c->id, sizeof c->id, "%s", remote_text(o, "id"));
	(void)snprintf(c->name, sizeof c->name, "%s", name_of(o));
	(void)snprintf(c->backend, sizeof c->backend, "%s", remote_text(o, "backend"));
	c->degraded = remote_caps(json_object_get(o, "degraded"));
	return c;
}

int remote_open(const struct cell_spec *spec, struct cell **ret, struct cell_error *err)
{
	json_t *body = NULL, *o = NULL;
	int r = remote_spec_json(spec, &body, err);

	if (r < 0)
		return r;
	if (!spec->name) {
		json_t *labels = json_object_get(body, "labels");
		if (!labels) {
			labels = json_object();
			(void)json_object_set_new(body, "labels", labels);
		}
		(void)json_object_set_new(labels, TEMPORARY_LABEL, json_string("temporary"));
		(void)json_object_set_new(body, "ttl", json_integer(TTL_S));
	} else { /* it stays until it is removed, as here */
		(void)json_object_set_new(body, "idle_timeout", json_integer(0));
	}
	r = remote_call(&(struct remote_request){.method = "POST",
				.target = "/v1/sessions",
				.body = body,
				.is_change = true},
		&o, err);
	if (r < 0)
		return r;
	struct remote_cell *c = cell_of(o);
	json_decref(o);
	c->is_temporary = !spec->name;
	c->renew_at_ms = remote_now_ms() + RENEW_MS;
	*ret = (struct cell *)c;
	return 0;
}

/* The server's words for it are about sessions and their list. */
static int no_such_cell(const char *name, int r, struct cell_error *err)
{
	if (err && err->code == CELL_ENOTFOUND) {
		cell_fail(err, CELL_ENOTFOUND, 0, "there is no cell '%.64s'", name);
		err->hint[0] = '\0';
	}
	return r;
}

static int get_session(const char *name, json_t **ret, struct cell_error *err)
{
	auto_free char *target = remote_target(name, "", NULL);
	struct cell_error why = {0};
	int r = remote_call(&(struct remote_request){.target = target}, ret, &why);

	if (r < 0) {
		(void)no_such_cell(name, r, &why);
		if (err)
			*err = why;
	}
	return r;
}

static int check_state(const json_t *o, const char *name, struct cell_error *err)
{
	const char *state = remote_text(o, "state");
	const json_t *error = json_object_get(o, "error");

	if (!strcmp(state, "ready") || !strcmp(state, "creating"))
		return 0;
	if (error)
		return remote_error(error, err);
	return cell_fail(err, CELL_EGONE, 0, "cell '%.64s' is %.20s", name, state);
}

int remote_reopen(const char *name, struct cell **ret, struct cell_error *err)
{
	json_t *o = NULL;
	int r = get_session(name, &o, err);

	if (r == 0)
		r = check_state(o, name, err);
	if (r == 0)
		*ret = (struct cell *)cell_of(o);
	json_decref(o);
	return r;
}

int remote_remove(const char *name, struct cell_error *err)
{
	auto_free char *target = remote_target(name, "", NULL);
	struct cell_error why = {0};
	int r = remote_call(&(struct remote_request){.method = "DELETE",
				    .target = target,
				    .is_change = true},
		NULL, &why);

	if (r < 0) {
		(void)no_such_cell(name, r, &why);
		if (err)
			*err = why;
	}
	return r;
}

int remote_destroy(struct cell *cell, struct cell_error *err)
{
	struct remote_cell *c = remote_cell_of(cell);
	struct cell_error why = {0};

	if (!c)
		return 0;
	int r = remote_remove(c->id, &why);
	free(c);
	if (r < 0 && why.code == CELL_ENOTFOUND)
		return 0;
	if (r < 0 && err)
		*err = why;
	return r;
}

int remote_close(struct cell *cell, struct cell_error *err)
{
	struct remote_cell *c = remote_cell_of(cell);

	if (c && c->is_temporary)
		return remote_destroy(cell, err);
	free(c);
	return 0;
}

void remote_tick(struct cell *cell)
{
	struct remote_cell *c = remote_cell_of(cell);

	if (!c->is_temporary || remote_now_ms() < c->renew_at_ms)
		return;
	c->renew_at_ms = remote_now_ms() + RENEW_MS;
	auto_free char *target = remote_target(c->id, "", NULL);
	struct cell_error ignored; /* the next time, or it has ended: what is shown tells */
	(void)remote_call(&(struct remote_request){.method = "PATCH",
				  .target = target,
				  .body = json_pack("{s:i}", "ttl", TTL_S),
				  .is_change = true},
		NULL, &ignored);
}

const char *remote_name(const struct cell *c)
{
	return remote_cell_of(c)->name;
}

const char *remote_backend_of(const struct cell *c)
{
	return remote_cell_of(c)->backend;
}

cell_caps remote_degraded(const struct cell *c)
{
	return remote_cell_of(c)->degraded;
}

int remote_poll_fd(const struct cell *c)
{
	const struct remote_cell *cell = remote_cell_of(c);

	if (cell->running)
		return remote_code_fd(cell->running);
	return cell->shown ? remote_exec_fd(cell->shown) : -1;
}

short remote_poll_events(const struct cell *c)
{
	(void)c;
	return 0;
}

/* ---- looking ---- */

static enum cell_state state_of(const json_t *o)
{
	const char *state = remote_text(o, "state");

	return !strcmp(state, "ready")	    ? CELL_STATE_READY
	       : !strcmp(state, "paused")   ? CELL_STATE_PAUSED
	       : !strcmp(state, "creating") ? CELL_STATE_CREATING
					    : CELL_STATE_DEAD;
}

static char **labels_of(const json_t *labels)
{
	char **list = cli_calloc(json_object_size(labels) + 1, sizeof *list);
	const char *key;
	json_t *v;
	size_t n = 0;

	json_object_foreach ((json_t *)(uintptr_t)labels, key, v)
		if (strcmp(key, "name") != 0 && strcmp(key, TEMPORARY_LABEL) != 0)
			list[n++] = cli_format("%s=%s", key,
				json_is_string(v) ? json_string_value(v) : "");
	return list;
}

static int show(const json_t *o, cell_info_fn fn, void *user)
{
	const json_t *labels = json_object_get(o, "labels"), *spec = json_object_get(o, "spec");
	const char *workspace =
		json_string_value(json_object_get(json_object_get(o, "spec"), "workspace"));
	char **list = labels_of(labels);
	int64_t created_ns = 0;

	(void)clock_parse(remote_text(o, "created_at"), &created_ns);
	struct cell_info info = {.name = name_of(o),
		.backend = remote_text(o, "backend"),
		.state = state_of(o),
		.workspace = workspace,
		.is_ephemeral = *remote_text(labels, TEMPORARY_LABEL) != '\0',
		.created_unix_ms = (uint64_t)created_ns / 1000000,
		.labels = (const char *const *)list,
		.resources = remote_text(spec, "resources"),
		.scratch = remote_text(spec, "scratch"),
		.seccomp = remote_text(spec, "seccomp"),
		.image = remote_text(spec, "image"),
		.image_digest = "",
		.image_entrypoint = "",
		.image_cmd = "",
		.image_user = ""};
	int r = fn(&info, user);
	for (size_t i = 0; list[i]; i++)
		free(list[i]);
	free(list);
	return r;
}

/* Those of our own tenant, also for an admin, who may see others': "all" means all of mine. */
int remote_list(cell_info_fn fn, void *user, struct cell_error *err)
{
	auto_free char *cursor = NULL;
	json_t *who = NULL, *page = NULL, *o;
	size_t i;
	int r = remote_whoami(&who, err);

	while (r == 0) {
		auto_free char *target = remote_target(NULL, "/sessions", "tenant",
			remote_text(who, "tenant"), "limit", PAGE, "cursor", cursor, NULL);
		r = remote_call(&(struct remote_request){.target = target}, &page, err);
		json_array_foreach (json_object_get(page, "sessions"), i, o)
			if (r == 0)
				r = show(o, fn, user);
		const char *next = json_string_value(json_object_get(page, "next"));
		free(cursor);
		cursor = next ? cli_strdup(next) : NULL;
		json_decref(page);
		page = NULL;
		if (!cursor)
			break;
	}
	return r;
}

int remote_inspect(const char *name, cell_info_fn fn, void *user, struct cell_error *err)
{
	json_t *o = NULL;
	int r = get_session(name, &o, err);

	if (r == 0)
		r = show(o, fn, user);
	json_decref(o);
	return r;
}

int remote_prune(cell_info_fn fn, void *user, struct cell_error *err)
{
	json_t *who = NULL;
	int r = remote_whoami(&who,
		err); /* a server that cannot be reached is an error here as well */

	(void)fn;
	(void)user;
	if (r == 0)
		cli_note(remote_cli(),
			"the server sweeps by itself, every few seconds: nothing to do");
	return r;
}

static int get_platform(struct remote_cell *c, json_t **ret, struct cell_error *err)
{
	auto_free char *target = remote_target(c->id, "/platform", NULL);
	int r = remote_call(&(struct remote_request){.target = target}, ret, err);

	if (r == 0) {
		c->caps = remote_caps(json_object_get(*ret, "capabilities"));
		c->has_caps = true;
	}
	return r;
}

bool remote_supports(const struct cell *cell, enum cell_cap cap)
{
	struct remote_cell *c = remote_cell_of(cell);
	json_t *o = NULL;

	if (!c->has_caps)
		(void)get_platform(c, &o, NULL);
	json_decref(o);
	c->has_caps = true;
	return c->caps & CELL_CAP_BIT(cap);
}

int remote_platform(struct cell *cell, cell_platform_fn fn, void *user, struct cell_error *err)
{
	json_t *o = NULL;
	int r = get_platform(remote_cell_of(cell), &o, err);

	if (r < 0)
		return r;
	struct cell_platform p = {.os = remote_text(o, "os"),
		.os_version = remote_text(o, "os_version"),
		.kernel = remote_text(o, "kernel"),
		.arch = remote_text(o, "arch"),
		.hostname = remote_text(o, "hostname"),
		.workspace = remote_text(o, "workspace"),
		.user = remote_text(o, "user"),
		.uid = (uint32_t)remote_int(o, "uid"),
		.cpus = (uint32_t)remote_int(o, "cpus"),
		.memory_bytes = (uint64_t)remote_int(o, "memory_bytes"),
		.guest_version = remote_text(o, "guest_version"),
		.guest_pid = remote_int(o, "guest_pid"),
		.guest_rss_bytes = (uint64_t)remote_int(o, "guest_rss_bytes"),
		.execs_running = (uint32_t)remote_int(o, "execs_running"),
		.clients = (uint32_t)remote_int(o, "clients"),
		.cpu_ns = (uint64_t)remote_int(o, "cpu_us") * 1000,
		.used_memory_bytes = (uint64_t)remote_int(o, "used_memory_bytes"),
		.processes = (uint32_t)remote_int(o, "processes")};
	r = fn(&p, user);
	json_decref(o);
	return r;
}

/* Where programs are, asked of the cell's own shell. */
int remote_tools(struct cell *cell, const char *const *names, cell_tool_fn fn, void *user,
	struct cell_error *err)
{
	struct remote_cell *c = remote_cell_of(cell);
	int r = 0;

	for (size_t i = 0; r == 0 && names[i]; i++) {
		auto_free char *target = remote_target(c->id, "/exec", NULL);
		json_t *o = NULL;
		r = remote_call(&(struct remote_request){.method = "POST",
					.target = target,
					.body = json_pack("{s:[s,s,s,s,s]}", "argv", "/bin/sh",
						"-c", "command -v \"$1\"", "sh", names[i]),
					.is_change = true},
			&o, err);
		if (r == 0) {
			char *path = cli_strdup(remote_text(o, "stdout"));
			path[strcspn(path, "\n")] = '\0';
			r = fn(names[i], path, user);
			free(path);
		}
		json_decref(o);
	}
	return r;
}

/* ---- back ends ---- */

/* Named for the life of the process: the list is what this process is about. */
static const char *kept(const char *text)
{
	static char *texts[512];
	static size_t n;

	if (n == sizeof texts / sizeof *texts)
		return "";
	return texts[n++] = cli_strdup(text);
}

static void read_backend(const json_t *o, struct cell_backend_info *b)
{
	const json_t *lacks = json_object_get(o, "lacks");

	*b = (struct cell_backend_info){.name = kept(remote_text(o, "name")),
		.summary = kept(remote_text(o, "summary")),
		.wall = *remote_text(o, "wall") ? kept(remote_text(o, "wall")) : NULL,
		.needs = kept(remote_text(o, "needs")),
		.take_for = kept(remote_text(o, "take_for")),
		.not_for = kept(remote_text(o, "not_for")),
		.tier = (int)remote_int(o, "tier"),
		.is_built = json_is_true(json_object_get(o, "built")),
		.is_usable = json_is_true(json_object_get(o, "usable")),
		.declared = remote_caps(json_object_get(o, "declared")),
		.caps = remote_caps(json_object_get(o, "capabilities"))};
	(void)snprintf(b->reason, sizeof b->reason, "%s", remote_text(o, "reason"));
	(void)snprintf(b->fix, sizeof b->fix, "%s", remote_text(o, "fix"));
	for (size_t i = 0; i < json_array_size(lacks) && b->n_lacks < CELL_LACKS_MAX; i++) {
		const json_t *l = json_array_get(lacks, i);
		int cap = cell_cap_find(remote_text(l, "capability"));
		if (cap < 0)
			continue;
		struct cell_lack *lack = &b->lacks[b->n_lacks++];
		lack->cap = (enum cell_cap)cap;
		(void)snprintf(lack->reason, sizeof lack->reason, "%s", remote_text(l, "reason"));
		(void)snprintf(lack->fix, sizeof lack->fix, "%s", remote_text(l, "fix"));
	}
}

int remote_backends(struct cell_backend_info *ret, size_t max, size_t *ret_n,
	struct cell_error *err)
{
	json_t *o = NULL;
	int r = remote_call(&(struct remote_request){.target = "/v1/backends"}, &o, err);
	const json_t *list = json_object_get(o, "backends");

	*ret_n = 0;
	for (size_t i = 0; r == 0 && i < json_array_size(list) && *ret_n < max; i++)
		read_backend(json_array_get(list, i), &ret[(*ret_n)++]);
	json_decref(o);
	return r;
}

int remote_backend_probe(const char *name, struct cell_backend_info *ret, struct cell_error *err)
{
	struct cell_backend_info *list = cli_calloc(64, sizeof *list);
	size_t n = 0;
	int r = remote_backends(list, 64, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (!strcmp(list[i].name, name)) {
			*ret = list[i];
			free(list);
			return 0;
		}
	free(list);
	if (r < 0)
		return r;
	cell_fail(err, CELL_ENOTFOUND, 0, "there is no back end '%.64s'", name);
	return cell_error_hint(err, -ENOENT, "'cell backends' lists them");
}
