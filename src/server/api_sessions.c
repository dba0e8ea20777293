/* SPDX-License-Identifier: Apache-2.0 */
/* api_sessions.c: /v1/sessions: make, list, look at, change, end. */
#include <string.h>

#include "cell/config.h"

#include "base/cleanup.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/idempotency.h"
#include "server/session.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000

bool api_session(struct call *c)
{
	struct cell_error err = {0};

	if (c->session)
		return true;
	if (session_find(c->srv, c->params[0], c->who.tenant, c->who.role == TOKEN_ADMIN,
		    &c->session, &err) == 0)
		return true;
	call_fail(c, &err);
	return false;
}

bool api_ready_session(struct call *c)
{
	struct cell_error err = {0};

	if (!api_session(c))
		return false;
	if (session_require_ready(c->session, &err) == 0)
		return true;
	call_fail(c, &err);
	return false;
}

/* ---- create ---- */

static void answer_created(struct session *s, void *arg)
{
	struct call *c = arg;

	if (s->state == SESSION_FAILED) {
		struct cell_error err = s->error;
		call_fail(c, &err);
		session_end(s, "it could not be made", NULL, NULL);
	} else {
		(void)http_add_headerf(c->x, "Location", "/v1/sessions/%s", s->id);
		(void)snprintf(c->backend, sizeof c->backend, "%s", s->backend);
		call_json(c, 201, session_json(s));
	}
}

static int apply_times(struct call *c, struct session *s, struct cell_error *err)
{
	uint64_t idle = s->times.idle_ms, ttl = 0;
	bool has_ttl = json_object_get(c->body, "ttl") != NULL;
	int r = call_duration(c, "idle_timeout", &idle, err);

	if (r == 0)
		r = call_duration(c, "ttl", &ttl, err);
	if (r < 0)
		return r;
	s->times.idle_ms = idle;
	if (has_ttl)
		session_set_expiry(s, ttl ? clock_unix_ns() + (int64_t)ttl * NS_PER_MS : 0);
	return 0;
}

static void create_permitted(struct call *c)
{
	struct cell_error err = {0};
	char id[32];
	bool is_waiting = true;

	idempotency_id(c, 's', "session", id);
	struct session_order order = {.id = id,
		.tenant = c->who.tenant,
		.spec = c->body,
		.fingerprint = c->fingerprint,
		.is_trusted = c->who.role == TOKEN_ADMIN};
	const char *lifecycle = json_string_value(json_object_get(c->body, "lifecycle"));
	int r = call_bool(c, "wait", &is_waiting, &err);

	if (!lifecycle ||
		(strcmp(lifecycle, "persistent") != 0 && strcmp(lifecycle, "scheduled") != 0))
		order.idle_timeout_ms = c->srv->set.idle_timeout_ms;
	if (r == 0)
		r = call_duration(c, "idle_timeout", &order.idle_timeout_ms, &err);
	if (r == 0)
		r = call_duration(c, "ttl", &order.ttl_ms, &err);
	if (r == 0)
		r = session_create(c->srv, &order, &c->session, &err);
	if (r < 0 && c->session) { /* the same key again */
		if (strcmp(c->session->fingerprint, c->fingerprint) != 0) {
			call_failf(c, CELL_EEXISTS, "a key names one request; take a new one",
				"Idempotency-Key '%.64s': it was used for another session", c->key);
			return;
		}
		(void)http_add_header(c->x, "Idempotency-Replayed", "true");
		r = 0;
	}
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	if (is_waiting) {
		session_when_made(c->session, answer_created, c);
		return;
	}
	(void)http_add_headerf(c->x, "Location", "/v1/sessions/%s", c->session->id);
	call_json(c, 202, session_json(c->session));
}

static json_t *details_of_spec(json_t *spec)
{
	json_t *o = json_copy(spec), *env = json_object_get(spec, "env");
	const char *key;
	json_t *v;

	if (env) { /* names only: values are nobody's business */
		json_t *names = json_array();
		if (json_is_object(env))
			json_object_foreach (env, key, v)
				(void)json_array_append_new(names, json_string(key));
		(void)json_object_set_new(o, "env", names);
	}
	return o;
}

static void create(struct call *c)
{
	struct cell_error err = {0};
	struct cell_config *cfg = NULL;
	const struct cell_spec *spec = NULL;
	uint64_t ms = 0;
	bool is_waiting;

	/* everything that can be wrong with it, before anything is done */
	int r = session_spec(c->srv, c->body, "check", c->who.role == TOKEN_ADMIN, &cfg, &err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, &err);
	if (r == 0)
		r = call_duration(c, "idle_timeout", &ms, &err);
	if (r == 0)
		r = call_duration(c, "ttl", &ms, &err);
	if (r == 0)
		r = call_bool(c, "wait", &is_waiting, &err);
	if (r < 0 || !spec) {
		cell_config_free(cfg);
		call_fail(c, &err);
		return;
	}
	c->details = details_of_spec(c->body);
	struct policy_request q = {.backend = spec->backend, .labels = spec->labels};
	(void)snprintf(c->backend, sizeof c->backend, "%s", spec->backend ? spec->backend : "");
	call_permit(c, &q, create_permitted);
	cell_config_free(cfg);
}

/* ---- list ---- */

/* ?label=k=v, any number of them. */
static bool has_labels(struct call *c, const struct session *s)
{
	const char *name, *value;

	for (unsigned i = 0; http_query_at(c->x, i, &name, &value); i++) {
		if (strcmp(name, "label") != 0)
			continue;
		const char *eq = strchr(value, '=');
		char key[256];
		(void)snprintf(key, sizeof key, "%.*s",
			(int)(eq ? eq - value : (long)strlen(value)), value);
		const char *have = json_string_value(json_object_get(s->labels, key));
		if (!have || (eq && strcmp(have, eq + 1) != 0))
			return false;
	}
	return true;
}

static bool is_wanted(struct call *c, const struct session *s)
{
	const char *state = http_query(c->x, "state"), *backend = http_query(c->x, "backend"),
		   *tenant = http_query(c->x, "tenant"), *lifecycle = http_query(c->x, "lifecycle");

	if (c->who.role != TOKEN_ADMIN && strcmp(s->tenant, c->who.tenant) != 0)
		return false;
	return (!state || !strcmp(state, session_shown_state(s))) &&
	       (!backend || !strcmp(backend, s->backend)) &&
	       (!tenant || !strcmp(tenant, s->tenant)) &&
	       (!lifecycle || !strcmp(lifecycle, s->lifecycle)) && has_labels(c, s);
}

static int by_age(const void *a, const void *b)
{
	const struct session *x = *(struct session *const *)a, *y = *(struct session *const *)b;

	if (x->created_ns != y->created_ns)
		return x->created_ns < y->created_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* The cursor is the time and id of the last one given: what is made or ended meanwhile does no harm. */
static bool is_behind(const struct session *s, const char *cursor)
{
	char mine[96];

	if (!cursor)
		return true;
	(void)snprintf(mine, sizeof mine, "%020lld.%s", (long long)s->created_ns, s->id);
	return strcmp(mine, cursor) > 0;
}

static void list(struct call *c)
{
	struct cell_error err = {0};
	const char *cursor = http_query(c->x, "cursor");
	uint64_t limit;
	size_t n = 0;
	struct session *s, *next;

	if (call_query_uint(c, "limit", PAGE_DEFAULT, &limit, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	limit = limit > PAGE_MAX ? PAGE_MAX : limit < 1 ? 1 : limit;
	auto_free struct session **all =
		calloc(HASH_COUNT(c->srv->sessions) + 1, sizeof(struct session *));
	if (!all) {
		call_failf(c, CELL_ENOSPACE, "", "no memory for the list");
		return;
	}
	HASH_ITER (hh, c->srv->sessions, s, next)
		if (is_wanted(c, s) && is_behind(s, cursor))
			all[n++] = s;
	qsort(all, n, sizeof(struct session *), by_age);
	json_t *items = json_array(), *more = json_null();
	for (size_t i = 0; i < n && i < limit; i++)
		(void)json_array_append_new(items, session_json(all[i]));
	if (n > limit) {
		char text[96];
		(void)snprintf(text, sizeof text, "%020lld.%s",
			(long long)all[limit - 1]->created_ns, all[limit - 1]->id);
		more = json_string(text);
	}
	call_json(c, 200, json_pack("{s:o, s:o}", "sessions", items, "next", more));
}

/* ---- one ---- */

static void get(struct call *c)
{
	if (api_session(c))
		call_json(c, 200, session_json(c->session));
}

static void update_permitted(struct call *c)
{
	struct session *s = c->session;
	struct cell_error err = {0};
	json_t *labels = json_object_get(c->body, "labels"), *v;
	const char *key, *name = json_string_value(json_object_get(labels, SESSION_NAME));
	int r = name ? session_check_name(c->srv, name, s->tenant, s, &err) : 0;

	if (r == 0)
		r = apply_times(c, s, &err);

	if (r == 0 && labels && !json_is_object(labels))
		r = cell_fail(&err, CELL_EINVAL, 0, "'labels' must be an object");
	if (r == 0 && labels)
		json_object_foreach (labels, key, v) {
			if (json_is_null(v))
				(void)json_object_del(s->labels, key);
			else if (json_is_string(v) && strlen(key) < 256)
				(void)json_object_set(s->labels, key, v);
			else
				r = cell_fail(&err, CELL_EINVAL, 0,
					"labels.%.64s must be a string, or null to remove it", key);
		}
	session_touch(s);
	if (r == 0)
		r = session_save(s, &err);
	if (r < 0)
		call_fail(c, &err);
	else
		call_json(c, 200, session_json(s));
}

static void update(struct call *c)
{
	static const char *const known[] = {"ttl", "idle_timeout", "labels", NULL};
	struct cell_error err = {0};

	if (!api_session(c))
		return;
	if (call_known(c, known, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	c->details = json_incref(c->body);
	call_permit(c, &(struct policy_request){0}, update_permitted);
}

static void keep_alive(struct call *c)
{
	if (!api_session(c))
		return;
	session_touch(c->session);
	call_json(c, 200, session_json(c->session));
}

static void answer_ended(struct session *s, void *arg)
{
	struct call *c = arg;

	if (s->is_gone)
		call_empty(c, 204);
	else
		call_fail(c, &s->error);
}

static void end_permitted(struct call *c)
{
	const char *wait = http_query(c->x, "wait");

	if (wait && !strcmp(wait, "false")) {
		session_end(c->session, "asked for", NULL, NULL);
		call_empty(c, 202);
		return;
	}
	session_end(c->session, "asked for", answer_ended, c);
}

static void end(struct call *c)
{
	if (api_session(c))
		call_permit(c, &(struct policy_request){0}, end_permitted);
}

const struct route api_session_routes[] = {
	{"POST", "/v1/sessions", TOKEN_USER, .action = "session.create", .has_json = true,
		.handler = create},
	{"GET", "/v1/sessions", TOKEN_READ_ONLY, .handler = list},
	{"GET", "/v1/sessions/{session}", TOKEN_READ_ONLY, .handler = get},
	{"PATCH", "/v1/sessions/{session}", TOKEN_USER, .action = "session.update",
		.has_json = true, .is_replayable = true, .handler = update},
	{"DELETE", "/v1/sessions/{session}", TOKEN_USER, .action = "session.delete", .handler = end,
		.is_replayable = true},
	{"POST", "/v1/sessions/{session}/keepalive", TOKEN_USER, .handler = keep_alive},
	{NULL},
};
