/* SPDX-License-Identifier: Apache-2.0 */
/* api_contexts.c: the interpreters of a session that keep variables, and the variables. Each operation goes over a connection of its own to
 * the guest, on a thread; those that wait for what runs in the context have threads that nothing else needs. */
#include <errno.h>
#include <string.h>

#include "cell/code.h"

#include "base/cleanup.h"
#include "core/code_language.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/filework.h"
#include "server/session.h"

static bool ready(struct call *c)
{
	if (!api_ready_session(c))
		return false;
	if (c->session->seat)
		return true;
	call_failf(c, CELL_ENOTSUP, "make a session of another lifecycle",
		"an ephemeral session has a cell for each run, and no contexts");
	return false;
}

/* ---- answers ---- */

static void answer_json(struct filework *w)
{
	struct call *c = w->call;
	json_t *o = steal_ptr(w->answer);

	filework_free(w);
	call_json(c, 200, o ? o : json_object());
}

static void answer_empty(struct filework *w)
{
	struct call *c = w->call;

	filework_free(w);
	call_empty(c, 204);
}

static struct filework *work_of(struct call *c,
	int (*run)(struct filework *w, struct cell_error *err), void (*done)(struct filework *w))
{
	struct filework *w = filework_new(c);

	if (!w)
		return NULL;
	w->run = run;
	w->done = done;
	return w;
}

/* ---- listing ---- */

static json_t *context_json(const struct cell_context_info *i)
{
	char when[CLOCK_TEXT_MAX];
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I}", "name", i->name, "language",
		i->language, "version", i->version, "state",
		i->is_busy ? "busy"
		: i->pid   ? "idle"
			   : "off",
		"waiting", (int)i->waiting, "execution_count", (json_int_t)i->execution_count,
		"rss_bytes", (json_int_t)i->rss_bytes);

	(void)json_object_set_new(o, "pid", i->pid ? json_integer(i->pid) : json_null());
	(void)json_object_set_new(o, "started_at",
		i->started_unix_ms
			? json_string(clock_text((int64_t)i->started_unix_ms * 1000000, when))
			: json_null());
	return o;
}

static int add(const struct cell_context_info *info, void *user)
{
	return json_array_append_new(user, context_json(info)) < 0 ? -ENOMEM : 0;
}

static int work_list(struct filework *w, struct cell_error *err)
{
	json_t *items = json_array();
	int r = cell_context_list(w->cell, add, items, err);

	w->answer = json_pack("{s:o}", "contexts", items);
	return r;
}

struct search {
	const char *name;
	json_t *found;
};

static int look(const struct cell_context_info *info, void *user)
{
	struct search *s = user;

	if (strcmp(info->name, s->name) != 0)
		return 0;
	s->found = context_json(info);
	return 1;
}

static int no_context(const char *name, struct cell_error *err)
{
	int r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no context '%.64s'", name);

	return cell_error_hint(err, r, "GET .../contexts lists them");
}

static int work_get(struct filework *w, struct cell_error *err)
{
	struct search s = {.name = w->call->params[1]};
	int r = cell_context_list(w->cell, look, &s, err);

	w->answer = s.found;
	return s.found ? 0 : r < 0 ? r : no_context(s.name, err);
}

static void list(struct call *c)
{
	struct filework *w = ready(c) ? work_of(c, work_list, answer_json) : NULL;

	if (w) {
		w->is_look = true;
		filework_start(w);
	}
}

static void get(struct call *c)
{
	struct filework *w = ready(c) ? work_of(c, work_get, answer_json) : NULL;

	if (w) {
		w->is_look = true;
		filework_start(w);
	}
}

/* ---- making one ---- */

struct wish {
	struct cell_context_opts opts;
	const char **preload, **env;
	char **env_own;
};

static void wish_done(struct wish *w)
{
	free(w->preload);
	free(w->env);
	for (size_t i = 0; w->env_own && w->env_own[i]; i++)
		free(w->env_own[i]);
	free(w->env_own);
}

static int read_env(struct call *c, struct wish *w, struct cell_error *err)
{
	json_t *env = json_object_get(c->body, "env"), *v;
	const char *key;
	size_t n = 0;

	if (!env || json_is_null(env))
		return 0;
	if (!json_is_object(env))
		return cell_fail(err, CELL_EINVAL, 0, "'env' must be an object of strings");
	w->env_own = calloc(json_object_size(env) + 1, sizeof *w->env_own);
	if (!w->env_own)
		return cell_fail_errno(err, ENOMEM, "read the environment");
	json_object_foreach (env, key, v) {
		if (!json_is_string(v) || strchr(key, '=') || !*key)
			return cell_fail(err, CELL_EINVAL, 0, "env.%.64s must be a string", key);
		if (asprintf(&w->env_own[n], "%s=%s", key, json_string_value(v)) < 0) {
			w->env_own[n] = NULL;
			return cell_fail_errno(err, ENOMEM, "read the environment");
		}
		n++;
	}
	w->opts.env = (const char *const *)w->env_own;
	return 0;
}

static int read_wish(struct call *c, struct wish *w, struct cell_error *err)
{
	static const char *const known[] = {"name", "language", "interpreter", "cwd", "env",
		"preload", "database", "timeout", NULL};
	int r = call_known(c, known, err);

	*w = (struct wish){0};
	if (r == 0)
		r = call_text(c, "name", &w->opts.name, err);
	if (r == 0)
		r = call_text(c, "language", &w->opts.language, err);
	if (r == 0)
		r = call_text(c, "interpreter", &w->opts.interpreter, err);
	if (r == 0)
		r = call_text(c, "cwd", &w->opts.cwd, err);
	if (r == 0)
		r = call_text(c, "database", &w->opts.database, err);
	if (r == 0)
		r = call_duration(c, "timeout", &w->opts.timeout_ms, err);
	if (r == 0)
		r = call_texts(c, "preload", &w->preload, err);
	if (r == 0)
		r = read_env(c, w, err);
	w->opts.preload = w->preload;
	w->opts.language = code_language(w->opts.language ? w->opts.language : "python");
	return r;
}

static int work_create(struct filework *w, struct cell_error *err)
{
	auto_(wish_done) struct wish wish = {0};
	char name[CELL_CONTEXT_MAX] = "";
	int r = read_wish(w->call, &wish, err);

	if (r == 0)
		r = cell_context_create(w->cell, &wish.opts, name, err);
	if (r < 0)
		return r;
	struct search s = {.name = name};
	r = cell_context_list(w->cell, look, &s, err);
	w->answer = s.found ? s.found : json_pack("{s:s}", "name", name);
	return r < 0 ? r : 0;
}

static void created(struct filework *w)
{
	struct call *c = w->call;
	json_t *o = steal_ptr(w->answer);

	filework_free(w);
	(void)http_add_headerf(c->x, "Location", "/v1/sessions/%s/contexts/%s", c->session->id,
		json_string_value(json_object_get(o, "name")));
	call_json(c, 201, o);
}

static void create_permitted(struct call *c)
{
	struct filework *w = work_of(c, work_create, created);

	if (w)
		filework_ask(w);
}

static void create(struct call *c)
{
	auto_(wish_done) struct wish wish = {0};
	struct cell_error err = {0};

	if (!ready(c))
		return;
	if (read_wish(c, &wish, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	c->details = json_incref(c->body);
	call_permit(c, &(struct policy_request){.language = wish.opts.language}, create_permitted);
}

/* ---- orders ---- */

static int work_reset(struct filework *w, struct cell_error *err)
{
	return cell_context_reset(w->cell, w->call->params[1], err);
}

static int work_interrupt(struct filework *w, struct cell_error *err)
{
	return cell_context_interrupt(w->cell, w->call->params[1], err);
}

static int work_delete(struct filework *w, struct cell_error *err)
{
	return cell_context_delete(w->cell, w->call->params[1], err);
}

static void do_reset(struct call *c)
{
	struct filework *w = work_of(c, work_reset, answer_empty);

	if (w)
		filework_start(w);
}

static void do_interrupt(struct call *c)
{
	struct filework *w = work_of(c, work_interrupt, answer_empty);

	if (w)
		filework_start(w);
}

static void do_delete(struct call *c)
{
	struct filework *w = work_of(c, work_delete, answer_empty);

	if (w)
		filework_start(w);
}

static void permit(struct call *c, void (*go)(struct call *c))
{
	if (!ready(c))
		return;
	c->details = json_pack("{s:s}", "context", c->params[1]);
	call_permit(c, &(struct policy_request){0}, go);
}

static void reset(struct call *c)
{
	permit(c, do_reset);
}

static void interrupt(struct call *c)
{
	permit(c, do_interrupt);
}

static void delete_context(struct call *c)
{
	permit(c, do_delete);
}

/* ---- variables ---- */

static int take_json(struct filework *w, const char *text, const char *member,
	struct cell_error *err)
{
	json_t *o = json_loads(text ? text : "", JSON_DECODE_ANY, NULL);

	if (!o)
		return cell_fail(err, CELL_EPROTOCOL, 0, "the interpreter answered with no JSON");
	w->answer = member ? json_pack("{s:o}", member, o) : o;
	return 0;
}

static int work_vars(struct filework *w, struct cell_error *err)
{
	auto_free char *text = NULL;
	int r = cell_context_vars(w->cell, w->call->params[1], &text, err);

	return r < 0 ? r : take_json(w, text, "variables", err);
}

static int work_var(struct filework *w, struct cell_error *err)
{
	auto_free char *text = NULL;
	int r = cell_context_get(w->cell, w->call->params[1], w->call->params[2], &text, err);

	return r < 0 ? r : take_json(w, text, NULL, err);
}

static int work_set(struct filework *w, struct cell_error *err)
{
	auto_free char *text =
		json_dumps(json_object_get(w->call->body, "value"), JSON_ENCODE_ANY | JSON_COMPACT);

	return text ? cell_context_set(w->cell, w->call->params[1], w->call->params[2], text, err)
		    : cell_fail_errno(err, ENOMEM, "set a variable");
}

static int work_complete(struct filework *w, struct cell_error *err)
{
	auto_free char *text = NULL;
	int r = cell_context_complete(w->cell, w->call->params[1], w->path, (size_t)w->offset,
		&text, err);

	return r < 0 ? r : take_json(w, text, NULL, err);
}

static void vars(struct call *c)
{
	struct filework *w = ready(c) ? work_of(c, work_vars, answer_json) : NULL;

	if (w)
		filework_ask(w);
}

static void var(struct call *c)
{
	struct filework *w = ready(c) ? work_of(c, work_var, answer_json) : NULL;

	if (w)
		filework_ask(w);
}

static void do_set(struct call *c)
{
	struct filework *w = work_of(c, work_set, answer_empty);

	if (w)
		filework_ask(w);
}

static void set(struct call *c)
{
	static const char *const known[] = {"value", NULL};
	struct cell_error err = {0};

	if (!ready(c))
		return;
	int r = call_known(c, known, &err);
	if (r == 0 && !json_object_get(c->body, "value")) {
		r = cell_fail(&err, CELL_EINVAL, 0, "give 'value'");
		(void)cell_error_hint(&err, r, "{\"value\": [1, 2, 3]}");
	}
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	c->details = json_pack("{s:s, s:s}", "context", c->params[1], "variable", c->params[2]);
	call_permit(c, &(struct policy_request){0}, do_set);
}

static void complete(struct call *c)
{
	static const char *const known[] = {"code", "cursor", NULL};
	struct cell_error err = {0};
	const char *code = NULL;
	uint64_t cursor;

	if (!ready(c))
		return;
	int r = call_known(c, known, &err);
	if (r == 0)
		r = call_text(c, "code", &code, &err);
	if (r == 0 && !code)
		r = cell_fail(&err, CELL_EINVAL, 0, "give 'code'");
	cursor = code ? strlen(code) : 0;
	if (r == 0)
		r = call_uint(c, "cursor", cursor, &cursor, &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	struct filework *w = work_of(c, work_complete, answer_json);
	if (w) {
		w->path = code;
		w->offset = cursor;
		filework_ask(w);
	}
}

extern const struct route api_context_routes[];
const struct route api_context_routes[] = {
	{"POST", "/v1/sessions/{session}/contexts", TOKEN_USER, .action = "context.create",
		.has_json = true, .is_replayable = true, .handler = create},
	{"GET", "/v1/sessions/{session}/contexts", TOKEN_READ_ONLY, .handler = list},
	{"GET", "/v1/sessions/{session}/contexts/{context}", TOKEN_READ_ONLY, .handler = get},
	{"DELETE", "/v1/sessions/{session}/contexts/{context}", TOKEN_USER,
		.action = "context.delete", .is_replayable = true, .handler = delete_context},
	{"POST", "/v1/sessions/{session}/contexts/{context}/reset", TOKEN_USER,
		.action = "context.reset", .has_json = true, .is_replayable = true,
		.handler = reset},
	{"POST", "/v1/sessions/{session}/contexts/{context}/interrupt", TOKEN_USER,
		.action = "context.interrupt", .has_json = true, .is_replayable = true,
		.handler = interrupt},
	{"POST", "/v1/sessions/{session}/contexts/{context}/complete", TOKEN_USER, .has_json = true,
		.handler = complete},
	{"GET", "/v1/sessions/{session}/contexts/{context}/variables", TOKEN_USER, .handler = vars},
	{"GET", "/v1/sessions/{session}/contexts/{context}/variables/{variable}", TOKEN_USER,
		.handler = var},
	{"PUT", "/v1/sessions/{session}/contexts/{context}/variables/{variable}", TOKEN_USER,
		.action = "context.set", .has_json = true, .is_replayable = true, .handler = set},
	{NULL},
};
