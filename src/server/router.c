/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router.c: from a path to a handler: find the route, see who asks, read the body where the route wants JSON. The tables themselves
 * stand in the api_*.c files; docs/openapi.yaml describes them, and a test holds both together.
 */
#include <string.h>

#include "base/cleanup.h"
#include "net/text.h"
#include "server/call.h"
#include "server/clock.h"
#include "server/idempotency.h"

extern const struct route api_system_routes[], api_session_routes[], api_exec_routes[],
	api_run_routes[], api_context_routes[], api_file_routes[], api_deps_routes[],
	api_port_routes[], api_keep_routes[], api_admin_routes[];
const struct route *const api_tables[] = {api_system_routes, api_session_routes, api_exec_routes,
	api_run_routes, api_context_routes, api_file_routes, api_deps_routes, api_port_routes,
	api_keep_routes, api_admin_routes, NULL};

/* Piece by piece, so that an encoded slash stays within its piece. */
static bool matches(const char *pattern, const char *path, struct call *c)
{
	int n = 0;

	while (*pattern || *path) {
		if (*pattern == '*' && !pattern[1]) {
			c->rest = path;
			return true;
		}
		if (*pattern != '/' || *path != '/')
			return false;
		pattern++;
		path++;
		if (*pattern == '*' && !pattern[1])
			continue;
		size_t want = strcspn(pattern, "/"), have = strcspn(path, "/");
		if (*pattern == '{') {
			if (!have || have >= sizeof c->params[0] || n == CALL_PARAMS_MAX ||
				net_decode(path, have, false, c->params[n]) < 0)
				return false;
			n++;
		} else if (want != have || memcmp(pattern, path, have) != 0) {
			return false;
		}
		pattern += want;
		path += have;
	}
	return true;
}

static const struct route *find(struct call *c, bool *ret_other_method)
{
	const char *method = http_method(c->x);
	const char *path = http_raw_path(c->x);

	if (!strcmp(method, "HEAD"))
		method = "GET";
	for (const struct route *const *t = api_tables; *t; t++)
		for (const struct route *r = *t; r->method; r++) {
			if (!matches(r->pattern, path, c))
				continue;
			if (!strcmp(r->method, "*") || !strcmp(r->method, method))
				return r;
			*ret_other_method = true;
		}
	return NULL;
}

static void unauthorized(struct call *c, const struct cell_error *err)
{
	json_t *o = call_error_json(err, http_request_id(c->x));
	auto_free char *text = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	(void)http_add_header(c->x, "WWW-Authenticate", "Bearer realm=\"cell\"");
	http_respond(c->x, 401, "application/json", text ? text : "{}", text ? strlen(text) : 2);
	call_free(c);
}

/* Who asks: false when the call was answered. */
static bool authenticate(struct call *c)
{
	const char *header = http_header(c->x, "Authorization");
	struct cell_error err = {0};

	if (c->srv->set.is_auth_disabled) { /* only ever on loopback or a unix socket */
		if (!http_peer(c->x)->is_loopback || !http_origin_is_allowed(c->x)) {
			call_failf(c, CELL_EDENIED,
				"authentication is off, so only this machine may ask",
				"requests from elsewhere are refused");
			return false;
		}
		(void)snprintf(c->who.id, sizeof c->who.id, "anonymous");
		(void)snprintf(c->who.tenant, sizeof c->who.tenant, TENANT_DEFAULT);
		c->who.role = TOKEN_ADMIN;
		return true;
	}
	if (!header || strncasecmp(header, "Bearer ", 7) != 0) {
		(void)cell_fail(&err, CELL_EDENIED, 0, "no bearer token was sent");
		(void)cell_error_hint(&err, 0,
			"send 'Authorization: Bearer TOKEN'; 'cell token create' makes one");
		unauthorized(c, &err);
		return false;
	}
	header += 7;
	header += strspn(header, " ");
	if (token_check(c->srv->db, header, c->srv->set.auth_token, clock_unix_ns(), &c->who,
		    &err) < 0) {
		unauthorized(c, &err);
		return false;
	}
	if (c->who.role < c->route->role) {
		call_failf(c, CELL_EDENIED, "ask with a token of that role",
			"this needs the role %s, the token has %s", token_role_name(c->route->role),
			token_role_name(c->who.role));
		return false;
	}
	return true;
}

static void begin_span(struct call *c)
{
	const char *header = http_header(c->x, "traceparent");
	struct trace_context parent;
	char text[TRACEPARENT_MAX], name[TRACE_NAME_MAX];
	bool has_parent = header && trace_parse(header, strlen(header), &parent) == 0;

	(void)snprintf(name, sizeof name, "%s %s", http_method(c->x), c->route->pattern);
	trace_begin(c->srv->tracer, has_parent ? &parent : NULL, TRACE_SERVER, name, &c->span);
	trace_set(&c->span, "http.request.method", http_method(c->x));
	trace_set(&c->span, "http.route", c->route->pattern);
	trace_set(&c->span, "cell.request_id", http_request_id(c->x));
	(void)http_add_header(c->x, "traceparent", trace_format(&c->span.context, text));
}

void router_run(struct call *c)
{
	if (idempotency_begin(c) == IDEMPOTENCY_GO)
		c->route->handler(c);
}

static void have_body(struct http_exchange *x, int result, void *arg)
{
	struct call *c = arg;
	json_error_t why;
	size_t len;

	if (result < 0) {
		http_fail_body(x, result);
		call_free(c);
		return;
	}
	const char *text = http_body(x, &len);
	c->body = len ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &why) : json_object();
	if (!c->body || !json_is_object(c->body)) {
		call_failf(c, CELL_EINVAL, "send a JSON object, Content-Type: application/json",
			"the body is no JSON object%s%s", c->body ? "" : ": ",
			c->body ? "" : why.text);
		return;
	}
	router_run(c);
}

void router_handle(struct http_exchange *x, void *server)
{
	struct server *srv = server;
	struct call *c = calloc(1, sizeof *c);
	const char *id = http_header(x, "X-Request-Id");
	bool is_other_method = false;

	if (!c) {
		http_fail(x, 503, "no memory");
		return;
	}
	if (id)
		(void)http_set_request_id(x, id);
	c->srv = srv;
	c->x = x;
	c->started_ns = clock_monotonic_ns();
	c->route = find(c, &is_other_method);
	if (!c->route) {
		call_free(c);
		http_fail(x, is_other_method ? 405 : 404,
			is_other_method ? "this path does not take that method"
					: "there is nothing at this path; /openapi.yaml lists what "
					  "there is");
		return;
	}
	begin_span(c);
	if (c->route->action)
		(void)snprintf(c->action, sizeof c->action, "%s", c->route->action);
	if (!c->route->is_public && !authenticate(c))
		return;
	if (c->route->has_json)
		http_collect(x, srv->set.body_bytes, have_body, c);
	else
		router_run(c);
}
