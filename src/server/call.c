/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: see call.h. */
#include "server/call.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/config/units.h"
#include "server/clock.h"
#include "server/idempotency.h"
#include "server/permit.h"
#include "server/session.h"
#include "server/text_json.h"

int call_status_of(enum cell_code code)
{
	static const int statuses[CELL_CODE_COUNT] = {[CELL_OK] = 200,
		[CELL_EINVAL] = 400,
		[CELL_EDENIED] = 403,
		[CELL_ENOTFOUND] = 404,
		[CELL_EEXISTS] = 409,
		[CELL_EBUSY] = 409,
		[CELL_ETIMEOUT] = 504,
		[CELL_ENOTSUP] = 501,
		[CELL_EBACKEND] = 502,
		[CELL_EINTERNAL] = 500,
		[CELL_EGONE] = 410,
		[CELL_ELIMIT] = 429,
		[CELL_ENOSPACE] = 507,
		[CELL_EPROTOCOL] = 502};

	return code < CELL_CODE_COUNT && statuses[code] ? statuses[code] : 500;
}

json_t *call_error_json(const struct cell_error *err, const char *request_id)
{
	json_t *o = json_object();

	(void)json_object_set_new(o, "code", json_string(cell_code_name(err->code)));
	(void)json_object_set_new(o, "message", text_json(err->msg));
	(void)json_object_set_new(o, "hint", text_json(err->hint));
	if (err->backend[0])
		(void)json_object_set_new(o, "backend", text_json(err->backend));
	if (request_id)
		(void)json_object_set_new(o, "request_id", json_string(request_id));
	return o;
}

/* ---- the end of a call ---- */

void call_free(struct call *c)
{
	if (c->session)
		session_unref(c->session);
	json_decref(c->body);
	json_decref(c->details);
	free(c);
}

static struct audit_event event_of(struct call *c, enum audit_kind kind, const char *trace)
{
	return (struct audit_event){.kind = kind,
		.action = c->action,
		.tenant = c->who.tenant,
		.actor = c->who.id,
		.session = c->session ? c->session->id : NULL,
		.backend = c->backend[0] ? c->backend : NULL,
		.exec = c->exec_id[0] ? c->exec_id : NULL,
		.request_id = http_request_id(c->x),
		.trace = trace,
		.effect = c->decision.rule[0] ? policy_effect_name(c->decision.effect) : NULL,
		.rule = c->decision.rule[0] ? c->decision.rule : NULL};
}

/* What changes something or goes wrong is told; who wants to see the rest asks for --verbose. */
static void log_request(struct call *c, const char *status, int64_t ns)
{
	bool is_quiet = status[0] < '4' &&
			(!strcmp(http_method(c->x), "GET") || !strcmp(http_method(c->x), "HEAD"));
	char ms[24];

	if (!log_is_wanted(is_quiet ? LOG_DEBUG : LOG_INFO))
		return;
	(void)snprintf(ms, sizeof ms, "%lld.%03lld", (long long)(ns / 1000000),
		(long long)(ns / 1000 % 1000));
	log_event(is_quiet ? LOG_DEBUG : LOG_INFO, "request", "method", http_method(c->x), "route",
		c->route->pattern, "status", status, "ms", ms, "tenant",
		c->who.tenant[0] ? c->who.tenant : NULL, "actor", c->who.id[0] ? c->who.id : NULL,
		"session", c->session ? c->session->id : NULL, "exec",
		c->exec_id[0] ? c->exec_id : NULL, "request_id", http_request_id(c->x), NULL);
}

/* Everything that is to be said about it; the exchange is still readable. */
static void record_end(struct call *c, int status, const struct cell_error *err)
{
	char trace[33], number[16];
	int64_t ns = clock_monotonic_ns() - c->started_ns;
	const char *labels[] = {c->route->pattern, http_method(c->x), number};

	(void)snprintf(number, sizeof number, "%d", status);
	metrics_add(c->srv->ledger.metrics, METRIC_REQUESTS, labels, 1);
	metrics_observe(c->srv->ledger.metrics, METRIC_REQUEST_LATENCY, labels,
		(uint64_t)(ns / 1000));
	log_request(c, number, ns);
	if (c->has_intent) {
		struct audit_event e =
			event_of(c, AUDIT_RESULT, trace_id_text(&c->span.context, trace));
		struct cell_error why = {0};
		c->usage.is_error = status >= 400;
		c->usage.wall_us = (uint64_t)(ns / 1000);
		e.usage = &c->usage;
		e.outcome = json_pack("{s:i}", "status", status);
		if (err)
			(void)json_object_update_new(e.outcome,
				json_pack("{s:s, s:o}", "code", cell_code_name(err->code),
					"message", text_json(err->msg)));
		if (ledger_result(&c->srv->ledger, &e, &why) < 0)
			log_failure("audit.failed", &why, c->action);
		json_decref(e.outcome);
	}
	trace_set_number(&c->span, "http.response.status_code", status);
	if (c->session)
		trace_set(&c->span, "cell.session", c->session->id);
	trace_end(c->srv->tracer, &c->span, status >= 500);
}

void call_done(struct call *c, int status, const struct cell_error *err)
{
	idempotency_end(c, status, "", 0);
	record_end(c, status, err);
	call_free(c);
}

void call_json(struct call *c, int status, json_t *json)
{
	auto_free char *text =
		json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
	size_t len = text ? strlen(text) : 0;

	json_decref(json);
	if (!text) {
		call_failf(c, CELL_EINTERNAL, "", "no memory for the answer");
		return;
	}
	idempotency_end(c, status, text, len);
	record_end(c, status, NULL);
	http_respond_own(c->x, status, "application/json", text, len, free);
	text = NULL;
	call_free(c);
}

void call_empty(struct call *c, int status)
{
	idempotency_end(c, status, "", 0);
	record_end(c, status, NULL);
	http_respond(c->x, status, NULL, NULL, 0);
	call_free(c);
}

void call_fail(struct call *c, const struct cell_error *err)
{
	int status = call_status_of(err->code);
	json_t *o = call_error_json(err, http_request_id(c->x));
	auto_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));

	json_decref(o);
	if (status == 500 || status == 502)
		log_failure("request.failed", err, c->route->pattern);
	if (status == 429 || status == 503 || err->code == CELL_EBUSY)
		(void)http_add_headerf(c->x, "Retry-After", "%u",
			c->retry_after_s ? c->retry_after_s : 1);
	idempotency_end(c, status, text ? text : "", text ? strlen(text) : 0);
	record_end(c, status, err);
	http_respond(c->x, status, "application/json", text ? text : "{}", text ? strlen(text) : 2);
	call_free(c);
}

void call_failf(struct call *c, enum cell_code code, const char *hint, const char *fmt, ...)
{
	struct cell_error err = {.code = code};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(err.msg, sizeof err.msg, fmt, ap);
	va_end(ap);
	(void)snprintf(err.hint, sizeof err.hint, "%s", hint);
	call_fail(c, &err);
}

/* ---- may it? ---- */

struct asked {
	struct call *c;
	void (*go)(struct call *c);
};

static void permitted(const struct policy_decision *d, void *arg)
{
	struct call *c = ((struct asked *)arg)->c;
	void (*go)(struct call *) = ((struct asked *)arg)->go;
	struct cell_error err = {0}, why = {0};
	char trace[33];

	free(arg);
	c->decision = *d;
	if (d->effect != POLICY_ALLOW)
		(void)policy_fail(d, &err);
	struct audit_event e = event_of(c, AUDIT_INTENT, trace_id_text(&c->span.context, trace));
	e.details = c->details;
	/* nothing happens that is not on record; what is refused is, too */
	int r = ledger_intent(&c->srv->ledger, &e, &why);
	c->has_intent = r >= 0;
	if (err.code)
		call_fail(c, &err);
	else if (r < 0)
		call_fail(c, &why);
	else
		go(c);
}

void call_permit(struct call *c, struct policy_request *request, void (*go)(struct call *c))
{
	struct asked *a = malloc(sizeof *a);

	if (!a) {
		call_failf(c, CELL_ENOSPACE, "try again", "no memory for the request");
		return;
	}
	*a = (struct asked){c, go};
	request->tenant = c->who.tenant;
	request->role = token_role_name(c->who.role);
	request->action = c->action;
	request->actor = c->who.id;
	request->request_id = http_request_id(c->x);
	if (c->session) {
		request->session = c->session->id;
		request->backend = c->session->backend;
		(void)snprintf(c->backend, sizeof c->backend, "%s", c->session->backend);
	}
	permit_ask(c->srv, request, permitted, a);
}

/* ---- work ---- */

static void work_trampoline(void *arg)
{
	struct call_work *w = arg;

	w->work(w);
}

static void done_trampoline(void *arg)
{
	struct call_work *w = arg;

	w->done(w);
}

bool call_start_work(struct net_pool *pool, struct call_work *w)
{
	struct call *c = w->call;
	int r = net_pool_work(pool, work_trampoline, done_trampoline, w);

	if (r == 0)
		return true;
	(void)http_add_header(c->x, "Retry-After", "1");
	record_end(c, 503, NULL);
	idempotency_end(c, 503, "", 0);
	http_fail(c->x, 503, "too many operations wait already; ask again in a second");
	call_free(c);
	return false;
}

/* ---- members of the body ---- */

static int wrong_type(const char *name, const char *want, struct cell_error *err)
{
	return cell_fail(err, CELL_EINVAL, 0, "'%s' must be %s", name, want);
}

int call_text(struct call *c, const char *name, const char **ret, struct cell_error *err)
{
	json_t *v = json_object_get(c->body, name);

	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return wrong_type(name, "a string without NUL", err);
	*ret = json_string_value(v);
	return 0;
}

int call_bool(struct call *c, const char *name, bool *ret, struct cell_error *err)
{
	json_t *v = json_object_get(c->body, name);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_boolean(v))
		return wrong_type(name, "true or false", err);
	*ret = json_is_true(v);
	return 0;
}

int call_uint(struct call *c, const char *name, uint64_t max, uint64_t *ret, struct cell_error *err)
{
	json_t *v = json_object_get(c->body, name);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		(uint64_t)json_integer_value(v) > max)
		return cell_fail(err, CELL_EINVAL, 0,
			"'%s' must be a whole number from 0 to %" PRIu64, name, max);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

int call_duration(struct call *c, const char *name, uint64_t *ret_ms, struct cell_error *err)
{
	json_t *v = json_object_get(c->body, name);

	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v) && parse_duration(json_string_value(v), ret_ms) == 0)
		return 0;
	if (json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 1e12) {
		*ret_ms = (uint64_t)llround(json_number_value(v) * 1000);
		return 0;
	}
	return wrong_type(name, "a time: seconds, or a text such as \"30s\", \"5m\", \"1h\"", err);
}

int call_texts(struct call *c, const char *name, const char ***ret, struct cell_error *err)
{
	json_t *v = json_object_get(c->body, name), *one;
	size_t i;

	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_array(v))
		return wrong_type(name, "a list of strings", err);
	const char **list = calloc(json_array_size(v) + 1, sizeof *list);
	if (!list)
		return cell_fail_errno(err, ENOMEM, "read '%s'", name);
	json_array_foreach (v, i, one) {
		if (!json_is_string(one) ||
			strlen(json_string_value(one)) != json_string_length(one)) {
			free(list);
			return wrong_type(name, "a list of strings without NUL", err);
		}
		list[i] = json_string_value(one);
	}
	*ret = list;
	return 0;
}

int call_known(struct call *c, const char *const *names, struct cell_error *err)
{
	const char *key;
	json_t *v;

	json_object_foreach (c->body, key, v) {
		size_t i = 0;
		while (names[i] && strcmp(names[i], key) != 0)
			i++;
		if (names[i])
			continue;
		auto_buf struct buf all = BUF_INIT(280);
		for (size_t k = 0; names[k]; k++)
			(void)buf_addf(&all, "%s%s", k ? ", " : "", names[k]);
		int r = cell_fail(err, CELL_EINVAL, 0, "there is no field '%.64s'", key);
		return cell_error_hint(err, r, "it takes: %s", buf_str(&all));
	}
	return 0;
}

int call_query_uint(struct call *c, const char *name, uint64_t otherwise, uint64_t *ret,
	struct cell_error *err)
{
	const char *s = http_query(c->x, name);
	char *end = NULL;

	*ret = otherwise;
	if (!s)
		return 0;
	errno = 0;
	*ret = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno)
		return cell_fail(err, CELL_EINVAL, 0, "?%s=%.40s must be a whole number", name, s);
	return 0;
}
