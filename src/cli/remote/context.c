/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: the interpreters of a server's session, and their variables. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "net/text.h"
#include "server/clock.h"

/* /contexts/NAME/WHAT/VARIABLE, encoded; what and variable may be NULL. */
static char *target_of(struct cell *c, const char *name, const char *what, const char *variable)
{
	struct buf b = BUF_INIT(64u << 10);
	auto_free char *path = NULL;

	(void)buf_addz(&b, "/contexts/");
	(void)net_encode(&b, name, strlen(name), false);
	if (what)
		(void)buf_addf(&b, "/%s", what);
	if (variable) {
		(void)buf_addc(&b, '/');
		(void)net_encode(&b, variable, strlen(variable), false);
	}
	path = buf_steal(&b);
	return remote_target(remote_cell_of(c)->id, path ? path : "/", NULL);
}

static int change(struct cell *c, const char *method, const char *name, const char *what,
	const char *variable, json_t *body, struct cell_error *err)
{
	auto_free char *target = target_of(c, name, what, variable);

	return remote_call(&(struct remote_request){.method = method,
				   .target = target,
				   .body = body,
				   .is_change = true},
		NULL, err);
}

static json_t *list_of(const char *const *texts)
{
	json_t *list = json_array();

	for (; texts && *texts; texts++)
		(void)json_array_append_new(list, json_string(*texts));
	return list;
}

static void set(json_t *o, const char *name, const char *text)
{
	if (text)
		(void)json_object_set_new(o, name, json_string(text));
}

int remote_context_create(struct cell *c, const struct cell_context_opts *opts,
	char ret_name[CELL_CONTEXT_MAX], struct cell_error *err)
{
	auto_free char *target = remote_target(remote_cell_of(c)->id, "/contexts", NULL);
	json_t *body = json_object(), *env = NULL, *o = NULL;
	int r = remote_env_json(opts->env, &env, err);

	if (r < 0) {
		json_decref(body);
		return r;
	}
	set(body, "name", opts->name);
	set(body, "language", opts->language);
	set(body, "interpreter", opts->interpreter);
	set(body, "cwd", opts->cwd);
	set(body, "database", opts->database);
	if (json_object_size(env))
		(void)json_object_set(body, "env", env);
	json_decref(env);
	if (opts->preload && *opts->preload)
		(void)json_object_set_new(body, "preload", list_of(opts->preload));
	if (opts->timeout_ms)
		(void)json_object_set_new(body, "timeout",
			json_real((double)opts->timeout_ms / 1000));
	r = remote_call(&(struct remote_request){.method = "POST",
				.target = target,
				.body = body,
				.is_change = true},
		&o, err);
	if (r == 0)
		(void)snprintf(ret_name, CELL_CONTEXT_MAX, "%s", remote_text(o, "name"));
	json_decref(o);
	return r;
}

int remote_context_list(struct cell *c, cell_context_fn fn, void *user, struct cell_error *err)
{
	auto_free char *target = remote_target(remote_cell_of(c)->id, "/contexts", NULL);
	json_t *page = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &page, err);

	json_array_foreach (json_object_get(page, "contexts"), i, o) {
		int64_t started_ns = 0;
		(void)clock_parse(remote_text(o, "started_at"), &started_ns);
		struct cell_context_info info = {.name = remote_text(o, "name"),
			.language = remote_text(o, "language"),
			.version = remote_text(o, "version"),
			.pid = remote_int(o, "pid"),
			.is_busy = !strcmp(remote_text(o, "state"), "busy"),
			.waiting = (uint32_t)remote_int(o, "waiting"),
			.execution_count = (uint64_t)remote_int(o, "execution_count"),
			.started_unix_ms = (uint64_t)started_ns / 1000000,
			.rss_bytes = (uint64_t)remote_int(o, "rss_bytes")};
		r = fn(&info, user);
		if (r)
			break;
	}
	json_decref(page);
	return r;
}

int remote_context_reset(struct cell *c, const char *name, struct cell_error *err)
{
	return change(c, "POST", name, "reset", NULL, json_object(), err);
}

int remote_context_interrupt(struct cell *c, const char *name, struct cell_error *err)
{
	return change(c, "POST", name, "interrupt", NULL, json_object(), err);
}

int remote_context_delete(struct cell *c, const char *name, struct cell_error *err)
{
	return change(c, "DELETE", name, NULL, NULL, NULL, err);
}

/* Its answer, or one member of it, as text. */
static int ask(const struct remote_request *q, const char *member, char **ret,
	struct cell_error *err)
{
	json_t *o = NULL;
	int r = remote_call(q, &o, err);

	if (r == 0) {
		*ret = json_dumps(member ? json_object_get(o, member) : o, JSON_COMPACT);
		if (!*ret)
			r = cell_fail(err, CELL_EPROTOCOL, 0,
				"the server's answer is not understood");
	}
	json_decref(o);
	return r;
}

int remote_context_vars(struct cell *c, const char *name, char **ret_json, struct cell_error *err)
{
	auto_free char *target = target_of(c, name, "variables", NULL);

	return ask(&(struct remote_request){.target = target}, "variables", ret_json, err);
}

int remote_context_get(struct cell *c, const char *name, const char *variable, char **ret_json,
	struct cell_error *err)
{
	auto_free char *target = target_of(c, name, "variables", variable);

	return ask(&(struct remote_request){.target = target}, NULL, ret_json, err);
}

int remote_context_set(struct cell *c, const char *name, const char *variable, const char *json,
	struct cell_error *err)
{
	json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);

	if (!value)
		return cell_fail(err, CELL_EINVAL, 0, "the value is no JSON");
	return change(c, "PUT", name, "variables", variable, json_pack("{s:o}", "value", value),
		err);
}

int remote_context_complete(struct cell *c, const char *name, const char *code, size_t cursor,
	char **ret_json, struct cell_error *err)
{
	auto_free char *target = target_of(c, name, "complete", NULL);

	return ask(&(struct remote_request){.method = "POST",
			   .target = target,
			   .body = json_pack("{s:s, s:I}", "code", code, "cursor",
				   (json_int_t)cursor)},
		NULL, ret_json, err);
}
