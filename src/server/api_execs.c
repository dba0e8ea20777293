/* SPDX-License-Identifier: Apache-2.0 */
/* api_execs.c: commands in a session: run and wait, run and stream, run in the background; look, follow, write, signal. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <signal.h>
#include <string.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "core/env.h"
#include "net/ws.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/filework.h"
#include "server/flow.h"
#include "server/idempotency.h"
#include "server/seat.h"
#include "server/session.h"

#define OUTPUT_DEFAULT (1u << 20)
#define OUTPUT_MAX \
	(8u << 20) /* the answer is put together in one piece: more would hold up others */
#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/* ---- what is to be run ---- */

struct wish {
	const char **argv, **env;
	char **env_own; /* from an object */
	const char *command, *cwd, *user, *id;
	const char *input; /* stdin, whole */
	size_t input_len;
	uint8_t *input_own;
	uint64_t timeout_ms, grace_ms, max_output, rows, cols;
	bool is_tty, is_merged, is_background, has_stdin, is_held;
};

static void wish_done(struct wish *w)
{
	free(w->argv);
	free(w->env);
	for (size_t i = 0; w->env_own && w->env_own[i]; i++)
		free(w->env_own[i]);
	free(w->env_own);
	free(w->input_own);
}

/* {"K": "V"} or ["K=V"]. */
static int read_env(struct call *c, struct wish *w, struct cell_error *err)
{
	json_t *env = json_object_get(c->body, "env"), *v;
	const char *key;
	size_t n = 0;

	if (!json_is_object(env))
		return call_texts(c, "env", &w->env, err);
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
	w->env = calloc(n + 1, sizeof *w->env);
	for (size_t i = 0; w->env && i < n; i++)
		w->env[i] = w->env_own[i];
	return w->env ? 0 : cell_fail_errno(err, ENOMEM, "read the environment");
}

static int read_input(struct call *c, struct wish *w, struct cell_error *err)
{
	json_t *in = json_object_get(c->body, "stdin"),
	       *b64 = json_object_get(c->body, "stdin_base64");

	if (json_is_true(in)) {
		w->has_stdin = true; /* it comes later */
		return 0;
	}
	if (in && !json_is_null(in) && !json_is_string(in) && !json_is_false(in))
		return cell_fail(err, CELL_EINVAL, 0,
			"'stdin' must be the text to be read, or true: it is sent later");
	if (json_is_string(in)) {
		w->input = json_string_value(in);
		w->input_len = json_string_length(in);
		return 0;
	}
	if (!b64)
		return 0;
	const char *text = json_string_value(b64);
	size_t n = json_string_length(b64), letters = text ? strspn(text, BASE64) : 0;
	/* the decoder below takes more than it should: blanks around it, and '=' anywhere */
	if (!text || n % 4 || n - letters > 2 || strspn(text + letters, "=") != n - letters)
		return cell_fail(err, CELL_EINVAL, 0, "'stdin_base64' must be base64");
	w->input_own = malloc(n / 4 * 3 + 1);
	if (!w->input_own)
		return cell_fail_errno(err, ENOMEM, "read stdin");
	int len = EVP_DecodeBlock(w->input_own, (const unsigned char *)text, (int)n);
	if (len < 0)
		return cell_fail(err, CELL_EINVAL, 0, "'stdin_base64' must be base64");
	len -= (int)(n - letters);
	w->input = (const char *)w->input_own;
	w->input_len = (size_t)len;
	return 0;
}

static int check_labels(struct call *c, struct cell_error *err)
{
	json_t *labels = json_object_get(c->body, "labels"), *v;
	const char *key;

	if (labels && !json_is_null(labels) && !json_is_object(labels))
		return cell_fail(err, CELL_EINVAL, 0, "'labels' must be an object");
	json_object_foreach (labels, key, v)
		if (!json_is_string(v))
			return cell_fail(err, CELL_EINVAL, 0, "labels.%.64s must be a string", key);
	return 0;
}

static int read_max_output(struct call *c, struct wish *w, struct cell_error *err)
{
	int r = call_uint(c, "max_output_bytes", OUTPUT_MAX, &w->max_output, err);

	return r < 0 ? cell_error_hint(err, r,
			       "for more, stream it (Accept: application/x-ndjson) or read it from "
			       "an offset: GET .../execs/ID/output")
		     : 0;
}

static int read_wish(struct call *c, struct wish *w, struct cell_error *err)
{
	static const char *const known[] = {"command", "argv", "cwd", "env", "user", "timeout",
		"stdin", "stdin_base64", "tty", "rows", "cols", "merge_stderr", "background",
		"max_output_bytes", "labels", "id", "grace", "hold", NULL};
	int r = call_known(c, known, err);

	*w = (struct wish){.max_output = OUTPUT_DEFAULT, .rows = 24, .cols = 80};
	if (r == 0 && json_is_array(json_object_get(c->body, "command")))
		r = call_texts(c, "command", &w->argv, err);
	else if (r == 0)
		r = call_text(c, "command", &w->command, err);
	if (r == 0 && !w->argv)
		r = call_texts(c, "argv", &w->argv, err);
	if (r == 0)
		r = call_text(c, "cwd", &w->cwd, err);
	if (r == 0)
		r = call_text(c, "user", &w->user, err);
	if (r == 0)
		r = read_env(c, w, err);
	if (r == 0)
		r = call_duration(c, "timeout", &w->timeout_ms, err);
	if (r == 0)
		r = call_duration(c, "grace", &w->grace_ms, err);
	if (r == 0)
		r = call_text(c, "id", &w->id, err);
	if (r == 0)
		r = exec_check_id(w->id, err);
	if (r == 0)
		r = call_bool(c, "tty", &w->is_tty, err);
	if (r == 0)
		r = call_bool(c, "merge_stderr", &w->is_merged, err);
	if (r == 0)
		r = call_bool(c, "background", &w->is_background, err);
	if (r == 0)
		r = call_bool(c, "hold", &w->is_held, err);
	if (r == 0)
		r = read_max_output(c, w, err);
	if (r == 0)
		r = check_labels(c, err);
	if (r == 0)
		r = call_uint(c, "rows", 4096, &w->rows, err);
	if (r == 0)
		r = call_uint(c, "cols", 4096, &w->cols, err);
	if (r == 0)
		r = read_input(c, w, err);
	if (r == 0 && (!w->command == !w->argv || (w->argv && !w->argv[0]) ||
			      (w->command && !*w->command))) {
		r = cell_fail(err, CELL_EINVAL, 0, "give either 'command' or 'argv'");
		(void)cell_error_hint(err, r,
			"{\"command\": \"ls -l\"} or {\"argv\": [\"ls\", \"-l\"]}");
	}
	return r;
}

static json_t *meta_of(struct call *c, const struct wish *w)
{
	char when[CLOCK_TEXT_MAX], trace[33], parent[TRACEPARENT_MAX];
	json_t *o = json_object(), *argv = w->argv ? json_array() : NULL;

	if (w->command)
		(void)json_object_set_new(o, "command", json_string(w->command));
	for (size_t i = 0; argv && w->argv[i]; i++)
		(void)json_array_append_new(argv, json_string(w->argv[i]));
	if (argv)
		(void)json_object_set_new(o, "argv", argv);
	if (w->cwd)
		(void)json_object_set_new(o, "cwd", json_string(w->cwd));
	if (json_is_object(json_object_get(c->body, "labels")))
		(void)json_object_set(o, "labels", json_object_get(c->body, "labels"));
	(void)json_object_set_new(o, "started_at", json_string(clock_text(clock_unix_ns(), when)));
	(void)json_object_set_new(o, "tty", json_boolean(w->is_tty));
	(void)json_object_set_new(o, "stdin", json_boolean(w->has_stdin || w->is_tty));
	if (w->is_held)
		(void)json_object_set_new(o, "hold", json_true());
	(void)json_object_set_new(o, "actor", json_string(c->who.id));
	(void)json_object_set_new(o, "request_id", json_string(http_request_id(c->x)));
	(void)json_object_set_new(o, "trace", json_string(trace_id_text(&c->span.context, trace)));
	(void)json_object_set_new(o, "traceparent",
		json_string(trace_format(&c->span.context, parent)));
	(void)json_object_set_new(o, "fingerprint", json_string(c->fingerprint));
	if (c->is_keyed)
		(void)json_object_set_new(o, "key", json_string(c->key));
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
		(void)http_add_headerf(c->x, "Location", "/v1/sessions/%s/execs/%s", c->session->id,
			e->id);
		call_json(c, 202, exec_json(e));
	} else if (flow_format_of(c, &format) == 0) {
		flow_stream(c, e, format, 0, 0, true);
	} else {
		flow_wait(c, e, w->max_output);
	}
}

static int begin(struct call *c, struct seat *seat, bool owns_seat, const struct wish *w,
	const char *id, struct exec **ret, struct cell_error *err)
{
	struct exec_order order = {.id = id,
		.opts = {.argv = (const char *const *)w->argv,
			.shell = w->command,
			.cwd = w->cwd,
			.env = (const char *const *)w->env,
			.user = w->user,
			.timeout_ms = w->timeout_ms,
			.grace_ms = w->grace_ms,
			.rows = (uint16_t)w->rows,
			.cols = (uint16_t)w->cols,
			.flags = (w->is_tty ? CELL_EXEC_TTY : 0u) |
				 (w->is_merged ? CELL_EXEC_MERGE : 0u) |
				 (w->has_stdin || w->input ? CELL_EXEC_STDIN : 0u)},
		.meta = meta_of(c, w)};
	if (owns_seat) /* so that the next server finds it */
		(void)json_object_set_new(order.meta, "cell", json_string(cell_name(seat->cell)));
	int r = exec_start(c->session, seat, &order, ret, err);

	json_decref(order.meta);
	if (r == 0 && w->input) {
		struct cell_error late = {0};
		(void)exec_write(*ret, w->input, w->input_len, &late);
		(void)exec_close_stdin(*ret, &late);
	}
	return r;
}

static void run_in(struct call *c, struct seat *seat, bool owns_seat)
{
	auto_(wish_done) struct wish w = {0};
	struct cell_error err = {0};
	struct exec *e = NULL;
	int r = read_wish(c, &w, &err);
	/* asked once more: a guard may have taken its time, and the same key come twice meanwhile */
	int again = r == 0 ? exec_find_first(c, c->exec_id, &e, &err) : r;

	if (again == 0)
		r = begin(c, seat, owns_seat, &w, c->exec_id, &e, &err);
	else if (again < 0)
		r = again;
	if (owns_seat && (r < 0 || again == 1))
		session_drop_seat(c->srv, seat);
	if (r < 0 || !e) {
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
	auto_(wish_done) struct wish w = {0};
	struct cell_error err = {0};

	if (read_wish(c, &w, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	struct exec *e = NULL;
	if (w.id)
		(void)snprintf(c->exec_id, sizeof c->exec_id, "%s", w.id);
	else
		idempotency_id(c, 'x', c->session->id, c->exec_id);
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
	struct policy_request q = {.argv = (const char *const *)w.argv, .shell = w.command};
	c->begin = run_in;
	call_permit(c, &q, exec_begin);
}

static void run(struct call *c)
{
	if (api_ready_session(c))
		run_checked(c);
}

/* GET .../exec/ws: the first message is the body. */
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
		call_failf(c, CELL_EINVAL,
			"?request={\"command\": \"bash\", \"tty\": true}, percent-encoded",
			"give the command as JSON in ?request=");
		return;
	}
	json_t *stdin_flag = json_object_get(c->body, "stdin");
	if (!stdin_flag)
		(void)json_object_set_new(c->body, "stdin", json_true());
	run_checked(c);
}

/* ---- one command ---- */

static void get(struct call *c)
{
	struct exec *e;

	if (!exec_of(c, false, &e))
		return;
	json_t *o = exec_json(e);
	exec_unref(e);
	call_json(c, 200, o);
}

static void list(struct call *c)
{
	if (api_session(c))
		call_json(c, 200,
			json_pack("{s:o}", "execs",
				exec_list_json(c, false, "state", http_query(c->x, "state"))));
}

static int offsets(struct call *c, uint64_t *out, uint64_t *err_from, struct cell_error *err)
{
	const char *last = http_header(c->x, "Last-Event-ID");
	int r = call_query_uint(c, "stdout_offset", 0, out, err);

	if (r == 0)
		r = call_query_uint(c, "stderr_offset", 0, err_from, err);
	if (r == 0 && last && sscanf(last, "%" SCNu64 ".%" SCNu64, out, err_from) != 2)
		r = cell_fail(err, CELL_EINVAL, 0, "Last-Event-ID '%.64s' is none of ours", last);
	return r;
}

static void output(struct call *c)
{
	struct cell_error err = {0};
	const char *follow = http_query(c->x, "follow");
	bool is_following = !follow || strcmp(follow, "false") != 0;
	enum flow_format format = FLOW_NDJSON;
	uint64_t out = 0, errs = 0;
	struct exec *e;

	if (!exec_of(c, false, &e))
		return;
	if (offsets(c, &out, &errs, &err) < 0) {
		exec_unref(e);
		call_fail(c, &err);
		return;
	}
	session_touch(c->session);
	(void)flow_format_of(c, &format);
	if (ws_is_asked(c->x))
		flow_socket(c, e,
			&(struct flow_socket_options){out, errs, .is_following = is_following});
	else
		flow_stream(c, e, format, out, errs, is_following);
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
	if (!exec_of(c, false, &e))
		return;
	if (offsets(c, &o.out_from, &o.err_from, &err) < 0)
		call_fail(c, &err);
	else
		flow_socket(c, e, &o);
	exec_unref(e);
}

/* "TERM", "SIGTERM". */
static int signal_number(const char *name, struct cell_error *err)
{
	const char *bare = strncmp(name, "SIG", 3) ? name : name + 3;

	for (int i = 1; i < NSIG; i++) {
		const char *word = sigabbrev_np(i);
		if (word && !strcmp(word, bare))
			return i;
	}
	int r = cell_fail(err, CELL_EINVAL, 0, "there is no signal '%.32s'", name);
	return cell_error_hint(err, r, "TERM, KILL, INT, HUP, USR1 ... or a number");
}

static int run_signal(struct filework *w, struct cell_error *err)
{
	return cell_signal(w->cell, w->call->exec_id, (int)w->number, true, err);
}

static void signal_sent(struct filework *w)
{
	struct call *c = w->call;

	filework_free(w);
	call_empty(c, 204);
}

static void signal_tree(struct call *c, int number)
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run_signal;
	w->done = signal_sent;
	w->number = (uint64_t)number;
	filework_start(w);
}

static void signal_permitted(struct call *c)
{
	struct cell_error err = {0};
	const char *name = NULL;
	bool is_tree = false;
	uint64_t number = 0;
	struct exec *e;

	if (!exec_running(c, false, &e))
		return;
	int r = json_is_integer(json_object_get(c->body, "signal"))
			? call_uint(c, "signal", 64, &number, &err)
			: call_text(c, "signal", &name, &err);
	if (r == 0)
		r = call_bool(c, "tree", &is_tree, &err);
	if (r == 0)
		r = name ? signal_number(name, &err) : number ? (int)number : SIGTERM;
	if (r > 0 && is_tree && r != SIGKILL) { /* the guest has to look for them: not here */
		exec_unref(e);
		signal_tree(c, r);
		return;
	}
	if (r > 0 && is_tree)
		r = cell_exec_kill(e->x, &err);
	else if (r > 0)
		r = cell_exec_signal(e->x, r, &err);
	exec_ordered(c, e, r, &err);
}

static void send_signal(struct call *c)
{
	static const char *const known[] = {"signal", "tree", NULL};
	struct cell_error err = {0};

	if (!api_session(c))
		return;
	if (call_known(c, known, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	c->details = json_incref(c->body);
	exec_permit(c, signal_permitted);
}

static void kill_permitted(struct call *c)
{
	struct cell_error err = {0};
	struct exec *e;

	if (!exec_running(c, false, &e))
		return;
	int r = cell_exec_kill(e->x, &err);
	exec_ordered(c, e, r, &err);
}

static void kill_exec(struct call *c)
{
	if (api_session(c))
		exec_permit(c, kill_permitted);
}

static void resize(struct call *c)
{
	static const char *const known[] = {"rows", "cols", NULL};
	struct cell_error err = {0};
	uint64_t rows = 24, cols = 80;
	struct exec *e;

	if (!exec_running(c, false, &e))
		return;
	int r = call_known(c, known, &err);
	if (r == 0)
		r = call_uint(c, "rows", 4096, &rows, &err);
	if (r == 0)
		r = call_uint(c, "cols", 4096, &cols, &err);
	if (r == 0)
		r = cell_exec_resize(e->x, (uint16_t)rows, (uint16_t)cols, &err);
	exec_ordered(c, e, r, &err);
}

/* ---- stdin ---- */

struct feeding {
	struct call *c;
	struct exec *e;
	uint64_t bytes;
	bool is_last;
	bool is_over; /* the body is complete */
	int result;
	struct cell_error err; /* of the command; without one a failure is the body's */
};

static void feeding_end(struct feeding *f)
{
	struct call *c = f->c;
	struct cell_error err = f->err;
	int r = f->result;
	uint64_t bytes = f->bytes;

	f->e->room = NULL;
	if (r == 0 && f->is_last)
		r = exec_close_stdin(f->e, &err);
	exec_unref(f->e);
	free(f);
	if (r < 0 && !err.code) {
		struct http_exchange *x = c->x;
		call_done(c, 400, NULL);
		http_fail_body(x, r);
	} else if (r < 0) {
		call_fail(c, &err);
	} else {
		call_json(c, 200, json_pack("{s:I}", "bytes", (json_int_t)bytes));
	}
}

static void have_room(struct exec *e, void *arg)
{
	struct feeding *f = arg;

	if (e->end && !f->is_over && !f->err.code) /* nobody reads the rest: it is not waited for */
		f->result = cell_fail(&f->err, CELL_EBUSY, 0, "write to '%s': it has ended", e->id);
	if (f->is_over || e->end)
		feeding_end(f);
	else
		http_resume(f->c->x);
}

static void stdin_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	struct feeding *f = arg;

	f->bytes += n;
	if (!exec_write(f->e, p, n, &f->err))
		http_pause(x);
	if (f->err.code)
		f->result = -EPIPE;
}

static void stdin_end(struct http_exchange *x, int result, void *arg)
{
	struct feeding *f = arg;

	(void)x;
	f->is_over = true;
	if (result < 0)
		f->result = result;
	if (f->e->in && result == 0 && f->e->x)
		return; /* have_room() ends it */
	feeding_end(f);
}

static void write_stdin(struct call *c)
{
	static const struct http_body_events events = {stdin_data, stdin_end};
	const char *eof = http_query(c->x, "eof");
	struct feeding *f;
	struct exec *e;

	if (!exec_running(c, false, &e))
		return;
	if (e->room || !(f = calloc(1, sizeof *f))) {
		exec_unref(e);
		call_failf(c, CELL_EBUSY, "one writer at a time",
			"somebody else writes to '%s' now", c->params[1]);
		return;
	}
	*f = (struct feeding){.c = c, .e = e, .is_last = eof && !strcmp(eof, "true")};
	e->room = have_room;
	e->room_arg = f;
	session_touch(c->session);
	http_read_body(c->x, UINT64_MAX, &events, f);
}

const struct route api_exec_routes[] = {
	{"POST", "/v1/sessions/{session}/exec", TOKEN_USER, .action = "exec.start",
		.has_json = true, .handler = run},
	{"GET", "/v1/sessions/{session}/exec/ws", TOKEN_USER, .action = "exec.start",
		.handler = run_socket},
	{"GET", "/v1/sessions/{session}/execs", TOKEN_READ_ONLY, .handler = list},
	{"GET", "/v1/sessions/{session}/execs/{exec}", TOKEN_READ_ONLY, .handler = get},
	{"DELETE", "/v1/sessions/{session}/execs/{exec}", TOKEN_USER, .action = "exec.kill",
		.is_replayable = true, .handler = kill_exec},
	{"GET", "/v1/sessions/{session}/execs/{exec}/output", TOKEN_READ_ONLY, .handler = output},
	{"GET", "/v1/sessions/{session}/execs/{exec}/ws", TOKEN_USER, .handler = attach_socket},
	{"POST", "/v1/sessions/{session}/execs/{exec}/stdin", TOKEN_USER, .handler = write_stdin},
	{"POST", "/v1/sessions/{session}/execs/{exec}/signal", TOKEN_USER, .action = "exec.signal",
		.has_json = true, .is_replayable = true, .handler = send_signal},
	{"POST", "/v1/sessions/{session}/execs/{exec}/resize", TOKEN_USER, .has_json = true,
		.handler = resize},
	{NULL},
};
