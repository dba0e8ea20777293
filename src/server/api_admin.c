/* SPDX-License-Identifier: Apache-2.0 */
/* api_admin.c: tokens, audit, usage. A tenant sees its own audit records and usage; tokens are the admin's. */
#include <string.h>

#include "base/cleanup.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/price.h"
#include "server/token.h"

/* ---- tokens ---- */

static json_t *when(int64_t ns)
{
	char text[CLOCK_TEXT_MAX];

	return ns ? json_string(clock_text(ns, text)) : json_null();
}

static json_t *token_json(const struct token *t)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", t->id, "tenant",
		t->tenant, "role", token_role_name(t->role), "label", t->label, "created_at",
		when(t->created_ns), "expires_at", when(t->expires_ns), "revoked_at",
		when(t->revoked_ns), "last_used_at", when(t->last_used_ns));
}

static void create_go(struct call *c)
{
	struct cell_error err = {0};
	const char *tenant = NULL, *role = NULL, *label = NULL;
	char text[TOKEN_TEXT_MAX];
	struct token t = {0};
	uint64_t ttl = 0;
	int r = call_text(c, "tenant", &tenant, &err);

	if (r == 0)
		r = call_text(c, "role", &role, &err);
	if (r == 0)
		r = call_text(c, "label", &label, &err);
	if (r == 0)
		r = call_duration(c, "ttl", &ttl, &err);
	int found = role ? token_role_find(role) : TOKEN_USER;
	if (r == 0 && found < 0) {
		r = cell_fail(&err, CELL_EINVAL, 0, "there is no role '%.32s'", role);
		(void)cell_error_hint(&err, r, "admin, user or read-only");
	}
	struct token_spec spec = {.tenant = tenant,
		.role = (enum token_role)(found < 0 ? 0 : found),
		.label = label,
		.expires_ns = ttl ? clock_unix_ns() + (int64_t)ttl * NS_PER_MS : 0};
	if (r == 0)
		r = token_create(c->srv->db, &spec, clock_unix_ns(), &t, text, &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	json_t *o = token_json(&t);
	(void)json_object_set_new(o, "token", json_string(text));
	explicit_bzero(text, sizeof text);
	call_json(c, 201, o);
}

static void create_token(struct call *c)
{
	static const char *const known[] = {"tenant", "role", "label", "ttl", NULL};
	struct cell_error err = {0};

	if (call_known(c, known, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	c->details = json_incref(c->body);
	call_permit(c, &(struct policy_request){0}, create_go);
}

static int take_token(const struct token *t, void *user)
{
	return json_array_append_new(user, token_json(t));
}

static void list_tokens(struct call *c)
{
	struct cell_error err = {0};
	json_t *list = json_array();

	if (token_each(c->srv->db, http_query(c->x, "tenant"), take_token, list, &err) < 0) {
		json_decref(list);
		call_fail(c, &err);
		return;
	}
	call_json(c, 200, json_pack("{s:o}", "tokens", list));
}

static void revoke_go(struct call *c)
{
	struct cell_error err = {0};

	if (token_revoke(c->srv->db, c->params[0], clock_unix_ns(), &err) < 0)
		call_fail(c, &err);
	else
		call_empty(c, 204);
}

static void revoke_token(struct call *c)
{
	c->details = json_pack("{s:s}", "token", c->params[0]);
	call_permit(c, &(struct policy_request){0}, revoke_go);
}

/* ---- audit ---- */

struct reading {
	struct call *c;
	struct audit_filter filter;
	struct buf text;
	struct cell_error err;
	int result;
	char tenant[TENANT_NAME_MAX];
};

static int take_record(json_t *record, const char *line, size_t len, void *user)
{
	struct reading *r = user;

	(void)record;
	if (buf_add(&r->text, line, len) < 0 || buf_addc(&r->text, '\n') < 0)
		return 1; /* a page is full */
	return 0;
}

static void read_work(void *arg)
{
	struct reading *r = arg;

	r->result = audit_query(r->c->srv->place.audit_dir, &r->filter, take_record, r, &r->err);
}

static void read_done(void *arg)
{
	struct reading *r = arg;
	struct call *c = r->c;
	struct http_exchange *x = c->x;

	if (r->result < 0) {
		call_fail(c, &r->err);
	} else {
		call_done(c, 200, NULL);
		http_respond(x, 200, "application/x-ndjson", r->text.data, r->text.len);
	}
	buf_done(&r->text);
	free(r);
}

static int time_query(struct call *c, const char *name, int64_t *ret, struct cell_error *err)
{
	const char *v = http_query(c->x, name);

	if (v && clock_parse_since(v, clock_unix_ns(), ret) < 0)
		return cell_fail(err, CELL_EINVAL, 0, "?%s=%.40s is no time", name, v);
	return 0;
}

static void audit(struct call *c)
{
	struct reading *r = calloc(1, sizeof *r);
	struct cell_error err = {0};
	uint64_t after = 0, limit = 1000, last = 0;

	if (!r || call_query_uint(c, "last", 0, &last, &err) < 0 ||
		call_query_uint(c, "after", 0, &after, &err) < 0 ||
		call_query_uint(c, "limit", 1000, &limit, &err) < 0 ||
		time_query(c, "since", &r->filter.since_ns, &err) < 0 ||
		time_query(c, "until", &r->filter.until_ns, &err) < 0) {
		free(r);
		call_fail(c, &err);
		return;
	}
	r->c = c;
	r->text.max = 16u << 20;
	(void)snprintf(r->tenant, sizeof r->tenant, "%s", c->who.tenant);
	r->filter.after_seq = after;
	r->filter.limit = limit > 10000 ? 10000 : limit;
	r->filter.tenant = c->who.role == TOKEN_ADMIN ? http_query(c->x, "tenant") : r->tenant;
	r->filter.session = http_query(c->x, "session");
	r->filter.action = http_query(c->x, "action");
	r->filter.request_id = http_query(c->x, "request_id");
	r->filter.exec = http_query(c->x, "exec");
	r->filter.actor = http_query(c->x, "actor");
	r->filter.backend = http_query(c->x, "backend");
	r->filter.trace = http_query(c->x, "trace");
	r->filter.kind = http_query(c->x, "kind");
	r->filter.effect = http_query(c->x, "effect");
	r->filter.last = last;
	if (net_pool_work(c->srv->files, read_work, read_done, r) < 0) {
		free(r);
		call_failf(c, CELL_EBUSY, "try again in a second", "too much is under way");
	}
}

/* ---- usage ---- */

static int take_usage(const struct usage_line *l, void *user)
{
	json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f}", "name", l->name,
		"sessions", (json_int_t)l->total.sessions, "operations", (json_int_t)l->total.count,
		"errors", (json_int_t)l->total.errors, "cpu_seconds", (double)l->total.cpu_us / 1e6,
		"gib_seconds", (double)l->total.mib_ms / 1024 / 1000, "bytes_in",
		(json_int_t)l->total.bytes_in, "bytes_out", (json_int_t)l->total.bytes_out,
		"wall_seconds", (double)l->total.wall_us / 1e6);

	(void)json_object_set_new(o, "latency_ms",
		json_pack("{s:f, s:f, s:f, s:f}", "p50",
			(double)histogram_quantile(&l->latency, 500) / 1000, "p95",
			(double)histogram_quantile(&l->latency, 950) / 1000, "p99",
			(double)histogram_quantile(&l->latency, 990) / 1000, "max",
			(double)l->latency.max_us / 1000));
	char cost[PRICE_TEXT_MAX];
	(void)json_object_set_new(o, "cost", json_real((double)l->cost / 1e9));
	(void)json_object_set_new(o, "cost_text", json_string(price_text(l->cost, cost)));
	return json_array_append_new(user, o);
}

static void usage(struct call *c)
{
	static const char *const names[] = {"session", "tenant", "backend", "operation", "all"};
	const char *by = http_query(c->x, "by");
	struct cell_error err = {0};
	struct usage_query q = {.by = USAGE_BY_SESSION,
		.tenant = c->who.role == TOKEN_ADMIN ? http_query(c->x, "tenant") : c->who.tenant,
		.session = http_query(c->x, "session"),
		.backend = http_query(c->x, "backend"),
		.operation = http_query(c->x, "operation")};
	json_t *list = json_array();
	int found = by ? -1 : USAGE_BY_SESSION;

	for (int i = 0; by && i <= USAGE_BY_ALL; i++)
		if (!strcmp(by, names[i]))
			found = i;
	if (found < 0)
		(void)cell_fail(&err, CELL_EINVAL, 0,
			"?by=%.32s: session, tenant, backend, operation or all", by);
	q.by = (enum usage_by)(found < 0 ? 0 : found);
	if (err.code || time_query(c, "since", &q.since_ns, &err) < 0 ||
		time_query(c, "until", &q.until_ns, &err) < 0 ||
		usage_flush(c->srv->ledger.usage, &err) < 0 ||
		usage_read(c->srv->db, &q, c->srv->prices, take_usage, list, &err) < 0) {
		json_decref(list);
		call_fail(c, &err);
		return;
	}
	call_json(c, 200,
		json_pack("{s:s, s:o}", "currency", prices_currency(c->srv->prices), "usage",
			list));
}

const struct route api_admin_routes[] = {
	{"POST", "/v1/tokens", TOKEN_ADMIN, .action = "token.create", .has_json = true,
		.handler = create_token},
	{"GET", "/v1/tokens", TOKEN_ADMIN, .handler = list_tokens},
	{"DELETE", "/v1/tokens/{token}", TOKEN_ADMIN, .action = "token.revoke",
		.is_replayable = true, .handler = revoke_token},
	{"GET", "/v1/audit", TOKEN_READ_ONLY, .handler = audit},
	{"GET", "/v1/usage", TOKEN_READ_ONLY, .handler = usage},
	{NULL},
};
