/* SPDX-License-Identifier: Apache-2.0 */
/* api_runs.c: code in a session: run and wait, run and stream, run in the background; look, follow, answer, interrupt. A run is a durable
 * command of a kind of its own (run.h), so most of this is as in api_execs.c. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "cell/cell.h"
#include "cell/code.h"

#include "base/cleanup.h"
#include "core/code_language.h"
#include "net/ws.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/flow.h"
#include "server/hash.h"
#include "server/idempotency.h"
#include "server/run.h"
#include "server/seat.h"
#include "server/session.h"

#define OUTPUT_DEFAULT (1u << 20)
#define OUTPUT_MAX     (8u << 20)
#define CODE_KEPT_MAX \
	(64u << 10) /* of code that is kept with the run and in the audit; else its hash */

/* ---- what is to be run ---- */

struct wish {
	struct cell_code_opts code;
	const char *language; /* NULL: the context's, when only that is named */
	const char *context;
	uint64_t max_output;
	bool is_background, is_held;
};

static int read_wish(struct call *c, struct wish *w, struct cell_error *err)
{
	static const char *const known[] = {"code", "language", "context", "timeout", "grace", "id",
		"input", "background", "hold", "max_output_bytes", "labels", NULL};
	int r = call_known(c, known, err);

	*w = (struct wish){.max_output = OUTPUT_DEFAULT};
	if (r == 0)
		r = call_text(c, "code", &w->code.code, err);
	if (r == 0)
		r = call_text(c, "language", &w->language, err);
	if (r == 0)
		r = call_text(c, "context", &w->context, err);
	if (r == 0)
		r = call_duration(c, "timeout", &w->code.timeout_ms, err);
	if (r == 0)
		r = call_duration(c, "grace", &w->code.grace_ms, err);
	if (r == 0)
		r = call_text(c, "id", &w->code.id, err);
	if (r == 0)
		r = exec_check_id(w->code.id, err);
	if (r == 0)
		r = call_bool(c, "input", &w->code.with_input, err);
	if (r == 0)
		r = call_bool(c, "background", &w->is_background, err);
	if (r == 0)
		r = call_bool(c, "hold", &w->is_held, err);
	if (r == 0)
		r = call_uint(c, "max_output_bytes", OUTPUT_MAX, &w->max_output, err);
	if (r == 0 && !w->code.code) {
		r = cell_fail(err, CELL_EINVAL, 0, "give 'code'");
		(void)cell_error_hint(err, r, "{\"code\": \"1 + 1\"}");
	}
	if (r < 0)
		return r;
	if (w->language)
		w->language = code_language(w->language);
	else if (!w->context)
		w->language = "python";
	w->code.code_len = json_string_length(json_object_get(c->body, "code"));
	w->code.language = w->language;
	w->code.context = w->context;
	return 0;
}

static void put(json_t *o, const char *name, const char *text)
{
	if (text)
		(void)json_object_set_new(o, name, json_string(text));
}

static json_t *meta_of(struct call *c, const struct wish *w)
{
	char when[CLOCK_TEXT_MAX], trace[33], parent[TRACEPARENT_MAX];
	char hash[2 * HASH_BYTES + 1];
	uint8_t digest[HASH_BYTES];
	json_t *o = json_object();

	put(o, "kind", "run");
	put(o, "language", w->language);
	put(o, "context", w->context ? w->context : w->language);
	if (w->code.code_len <= CODE_KEPT_MAX)
		put(o, "code", w->code.code);
	(void)json_object_set_new(o, "code_bytes", json_integer((json_int_t)w->code.code_len));
	hash_sha256(w->code.code, w->code.code_len, digest);
	hash_hex(digest, sizeof digest, hash);
	put(o, "code_sha256", hash);
	if (json_object_get(c->body, "labels"))
		(void)json_object_set(o, "labels", json_object_get(c->body, "labels"));
	put(o, "started_at", clock_text(clock_unix_ns(), when));
	(void)json_object_set_new(o, "stdin", json_boolean(w->code.with_input));
	if (w->is_held)
		(void)json_object_set_new(o, "hold", json_true());
	put(o, "actor", c->who.id);
	put(o, "request_id", http_request_id(c->x));
	put(o, "trace", trace_id_text(&c->span.context, trace));
	put(o, "traceparent", trace_format(&c->span.context, parent));
	put(o, "fingerprint", c->fingerprint);
	if (c->is_keyed)
		put(o, "key", c->key);
	return o;
}

/* ---- starting it ---- */

static void answer(struct call *c, struct exec *e, const struct wish *w)
{
	enum flow_format format;

	if (ws_is_asked(c->x)) {
		flow_socket(c, e,
			&(struct flow_socket_options){.is_following = true, .takes_input = true});
	} else if (w->is_background) {
		(void)http_add_headerf(c->x, "Location", "/v1/sessions/%s/runs/%s", c->session->id,
			e->id);
		call_json(c, 202, run_json(e));
	} else if (flow_format_of(c, &format) == 0 &&
		   (format == FLOW_NDJSON || format == FLOW_SSE)) {
		flow_stream(c, e, format, 0, 0, true);
	} else {
		flow_wait(c, e, w->max_output);
	}
}

static int begin(struct call *c, struct seat *seat, bool owns_seat, const struct wish *w,
	struct exec **ret, struct cell_error *err)
{
	struct exec_order order = {.id = c->exec_id, .code = &w->code, .meta = meta_of(c, w)};

	if (owns_seat) /* so that the next server finds it */
		put(order.meta, "cell", cell_name(seat->cell));
	int r = exec_start(c->session, seat, &order, ret, err);
	json_decref(order.meta);
	return r;
}

static void run_in(struct call *c, struct seat *seat, bool owns_seat)
{
	struct cell_error err = {0};
	struct exec *e = NULL;
	struct wish w;
	int r = read_wish(c, &w, &err);
	/* asked once more: a guard may have taken its time, and the same key come twice meanwhile */
	int again = r == 0 ? exec_find_first(c, c->exec_id, &e, &err) : r;

	if (again == 0)
		r = begin(c, seat, owns_seat, &w, &e, &err);
	else if (again < 0)
		r = again;
	if ((r < 0 || again == 1) && owns_seat)
		session_drop_seat(c->srv, seat);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	if (again == 0) {
		e->owns_seat = owns_seat;
		c->has_intent = false; /* its result is recorded at its end */
	}
	answer(c, e, &w);
	exec_unref(e);
}

static void run_checked(struct call *c)
{
	struct cell_error err = {0};
	struct exec *e = NULL;
	struct wish w;

	if (read_wish(c, &w, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (w.code.id)
		(void)snprintf(c->exec_id, sizeof c->exec_id, "%s", w.code.id);
	else
		idempotency_id(c, 'r', c->session->id, c->exec_id);
	int r = exec_find_first(c, c->exec_id, &e, &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	if (r == 1) { /* nothing is done: nothing to permit */
		answer(c, e, &w);
		exec_unref(e);
		return;
	}
	c->details = meta_of(c, &w);
	(void)json_object_del(c->details, "fingerprint");
	(void)json_object_del(c->details, "key");
	/* code of a shell is a command line: rules about commands see it */
	bool is_shell = w.language && !strcmp(w.language, "shell");
	struct policy_request q = {.language = w.language,
		.code = w.code.code,
		.shell = is_shell ? w.code.code : NULL};
	c->begin = run_in;
	call_permit(c, &q, exec_begin);
}

static void run(struct call *c)
{
	if (api_ready_session(c))
		run_checked(c);
}

/* GET .../run/ws?request=: the run as JSON, then its events, and what the code asks for. */
static void run_socket(struct call *c)
{
	if (!ws_is_asked(c->x)) {
		(void)http_add_header(c->x, "Upgrade", "websocket");
		call_failf(c, CELL_EINVAL, "use a WebSocket client",
			"this path speaks WebSocket only");
		return;
	}
	if (!api_ready_session(c))
		return;
	const char *request = http_query(c->x, "request");
	json_error_t why;
	c->body = request ? json_loads(request, JSON_REJECT_DUPLICATES, &why) : NULL;
	if (!c->body || !json_is_object(c->body)) {
		call_failf(c, CELL_EINVAL, "?request={\"code\": \"1 + 1\"}, percent-encoded",
			"give the code as JSON in ?request=");
		return;
	}
	if (!json_object_get(c->body, "input"))
		(void)json_object_set_new(c->body, "input", json_true());
	run_checked(c);
}

/* ---- one run ---- */

static void get(struct call *c)
{
	struct exec *e;

	if (!exec_of(c, true, &e))
		return;
	json_t *o = run_json(e);
	exec_unref(e);
	call_json(c, 200, o);
}

static void result(struct call *c)
{
	struct cell_error err = {0};
	uint64_t max_output = OUTPUT_DEFAULT;
	struct exec *e;

	if (!exec_of(c, true, &e))
		return;
	if (call_query_uint(c, "max_output_bytes", OUTPUT_DEFAULT, &max_output, &err) < 0) {
		exec_unref(e);
		call_fail(c, &err);
		return;
	}
	session_touch(c->session);
	flow_wait(c, e, max_output < OUTPUT_MAX ? max_output : OUTPUT_MAX);
	exec_unref(e);
}

static void list(struct call *c)
{
	if (api_session(c))
		call_json(c, 200,
			json_pack("{s:o}", "runs",
				exec_list_json(c, true, "status", http_query(c->x, "status"))));
}

static int offset_of(struct call *c, uint64_t *ret, struct cell_error *err)
{
	const char *last = http_header(c->x, "Last-Event-ID");
	int r = call_query_uint(c, "offset", 0, ret, err);

	if (r == 0 && last && sscanf(last, "%" SCNu64, ret) != 1)
		r = cell_fail(err, CELL_EINVAL, 0, "Last-Event-ID '%.64s' is none of ours", last);
	return r;
}

static void events(struct call *c)
{
	const char *follow = http_query(c->x, "follow"), *hold = http_query(c->x, "hold");
	struct flow_socket_options o = {.is_following = !follow || strcmp(follow, "false"),
		.is_holding = hold && !strcmp(hold, "true")};
	enum flow_format format = FLOW_NDJSON;
	struct cell_error err = {0};
	struct exec *e;

	if (!exec_of(c, true, &e))
		return;
	if (offset_of(c, &o.out_from, &err) < 0) {
		exec_unref(e);
		call_fail(c, &err);
		return;
	}
	session_touch(c->session);
	if (flow_format_of(c, &format) < 0 || (format != FLOW_SSE && format != FLOW_NDJSON))
		format = FLOW_NDJSON;
	if (ws_is_asked(c->x))
		flow_socket(c, e, &o);
	else
		flow_stream(c, e, format, o.out_from, 0, o.is_following);
	exec_unref(e);
}

static void attach_socket(struct call *c)
{
	const char *hold = http_query(c->x, "hold");
	struct flow_socket_options o = {.is_following = true,
		.takes_input = true,
		.is_holding = hold && !strcmp(hold, "true")};
	struct cell_error err = {0};
	struct exec *e;

	if (!ws_is_asked(c->x)) {
		call_failf(c, CELL_EINVAL, "use a WebSocket client",
			"this path speaks WebSocket only");
		return;
	}
	if (!exec_of(c, true, &e))
		return;
	if (offset_of(c, &o.out_from, &err) < 0)
		call_fail(c, &err);
	else
		flow_socket(c, e, &o);
	exec_unref(e);
}

static void input(struct call *c)
{
	static const char *const known[] = {"text", "eof", NULL};
	struct cell_error err = {0};
	const char *text = NULL;
	bool is_eof = false;
	struct exec *e;

	if (!exec_running(c, true, &e))
		return;
	int r = call_known(c, known, &err);
	if (r == 0)
		r = call_text(c, "text", &text, &err);
	if (r == 0)
		r = call_bool(c, "eof", &is_eof, &err);
	if (r == 0 && !text && !is_eof)
		r = cell_fail(&err, CELL_EINVAL, 0, "give 'text', a line, or 'eof': true");
	if (r == 0 && !json_is_true(json_object_get(e->meta, "stdin"))) {
		r = cell_fail(&err, CELL_EINVAL, 0, "run '%s' takes no input", e->id);
		(void)cell_error_hint(&err, r, "start it with \"input\": true");
	}
	if (r == 0 && text)
		r = run_answer(e, text, &err);
	if (r == 0 && is_eof)
		r = exec_close_stdin(e, &err);
	session_touch(c->session);
	exec_unref(e);
	if (r < 0)
		call_fail(c, &err);
	else
		call_empty(c, 204);
}

/* ---- ending it ---- */

static void send(struct call *c, int number)
{
	struct cell_error err = {0};
	struct exec *e;

	if (!exec_running(c, true, &e))
		return;
	int r = cell_exec_signal(e->x, number, &err);
	exec_ordered(c, e, r, &err);
}

static void interrupt_permitted(struct call *c)
{
	send(c, SIGINT);
}

static void kill_permitted(struct call *c)
{
	send(c, SIGKILL);
}

static void interrupt(struct call *c)
{
	if (api_session(c))
		exec_permit(c, interrupt_permitted);
}

static void kill_run(struct call *c)
{
	if (api_session(c))
		exec_permit(c, kill_permitted);
}

extern const struct route api_run_routes[];
const struct route api_run_routes[] = {
	{"POST", "/v1/sessions/{session}/runs", TOKEN_USER, .action = "code.run", .has_json = true,
		.handler = run},
	{"GET", "/v1/sessions/{session}/run/ws", TOKEN_USER, .action = "code.run",
		.handler = run_socket},
	{"GET", "/v1/sessions/{session}/runs", TOKEN_READ_ONLY, .handler = list},
	{"GET", "/v1/sessions/{session}/runs/{run}", TOKEN_READ_ONLY, .handler = get},
	{"DELETE", "/v1/sessions/{session}/runs/{run}", TOKEN_USER, .action = "code.kill",
		.is_replayable = true, .handler = kill_run},
	{"GET", "/v1/sessions/{session}/runs/{run}/result", TOKEN_READ_ONLY, .handler = result},
	{"GET", "/v1/sessions/{session}/runs/{run}/events", TOKEN_READ_ONLY, .handler = events},
	{"GET", "/v1/sessions/{session}/runs/{run}/ws", TOKEN_USER, .handler = attach_socket},
	{"POST", "/v1/sessions/{session}/runs/{run}/input", TOKEN_USER, .has_json = true,
		.is_replayable = true, .handler = input},
	{"POST", "/v1/sessions/{session}/runs/{run}/interrupt", TOKEN_USER,
		.action = "code.interrupt", .has_json = true, .is_replayable = true,
		.handler = interrupt},
	{NULL},
};
