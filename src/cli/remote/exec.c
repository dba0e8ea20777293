/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c: a command of a server's, shown here. It is started by a request that carries an Idempotency-Key, so it runs once whatever happens to
 * the answer, and shown over a WebSocket from byte offsets, so a connection that breaks is made again from where we are: the server keeps the
 * output. What is sent to stdin is kept until the server says that it was taken; the rest is sent again.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "cli/signals.h"
#include "core/exec_fields.h"
#include "server/clock.h"

#define WINDOW \
	(128u * 1024) /* of stdin on its way: what the sockets' buffers hold, so that sending does not block */
#define FRAME_HEAD 9 /* stream, offset */

struct remote_exec {
	struct remote_cell *cell;
	char id[CELL_EXEC_ID_MAX];
	struct remote_line line;
	uint64_t next[3]; /* offsets: [1] stdout, [2] stderr */
	bool is_looking;  /* output only: no stdin, no signals, the command is not held back */
	bool is_following;
	bool is_tty;
	/* stdin */
	struct buf sent;     /* not known to be taken */
	uint64_t acked;	     /* by the server's count */
	bool is_count_known; /* the server's count was told on this command before */
	bool has_sent;	     /* any byte, ever */
	bool is_input_over, is_input_closed;
	uint16_t rows, cols;
	int pending_signal; /* asked for while it was lost */
	bool is_kill_pending;
};

static struct remote_exec *exec_of(const struct cell_exec *x)
{
	return (struct remote_exec *)(uintptr_t)x;
}

int remote_exec_fd(const struct remote_exec *x)
{
	return remote_line_fd(&x->line);
}

const char *remote_exec_id(const struct cell_exec *x)
{
	return exec_of(x)->id;
}

int remote_exec_patience_ms(const struct cell_exec *cx)
{
	return remote_line_patience_ms(&exec_of(cx)->line);
}

/* ---- sending ---- */

static int send_json(struct remote_exec *x, json_t *o, struct cell_error *err)
{
	auto_free char *text = json_dumps(o, JSON_COMPACT);
	int r = -EPIPE;

	json_decref(o);
	if (x->line.ws && text)
		r = ws_client_send(x->line.ws, WS_TEXT, text, strlen(text), err);
	if (r < 0 && x->line.ws)
		remote_line_lose(&x->line);
	return r;
}

static int send_input(struct remote_exec *x, const void *p, size_t n, struct cell_error *err)
{
	int r = x->line.ws ? ws_client_send(x->line.ws, WS_BINARY, p, n, err) : -EPIPE;

	if (r < 0 && x->line.ws)
		remote_line_lose(&x->line);
	return r;
}

/* ---- the connection ---- */

/* What the server has of stdin against what we sent: 0 when nothing is lost. */
static int settle_input(struct remote_exec *x, const json_t *started, struct cell_error *err)
{
	const json_t *count = json_object_get(started, "stdin_bytes");
	uint64_t taken = (uint64_t)json_integer_value(count);

	if (!x->is_count_known) { /* the first time: count from here */
		x->acked = taken;
		x->is_count_known = json_is_integer(count);
		if (json_is_integer(count) || !x->has_sent)
			return 0;
	}
	if (json_is_integer(count) && taken >= x->acked && taken - x->acked <= x->sent.len) {
		buf_consume(&x->sent, (size_t)(taken - x->acked));
		x->acked = taken;
		return 0;
	}
	/* Another server than the one that took it: what that had not passed on is gone with it. */
	if (!json_is_integer(count) && !x->sent.len &&
		(x->is_tty || x->is_input_over || !x->has_sent)) {
		x->is_count_known = false;
		return 0;
	}
	int r = cell_fail(err, CELL_EGONE, 0,
		"the server was started anew while stdin was sent: part of it may be lost");
	return cell_error_hint(err, r, "run the command again");
}

static int catch_up(struct remote_exec *x, struct cell_error *err)
{
	int r = 0;

	if (x->sent.len)
		r = send_input(x, x->sent.data, x->sent.len, err);
	if (r == 0 && x->is_input_over)
		r = send_json(x, json_pack("{s:s}", "type", "eof"), err);
	if (r == 0 && x->rows)
		r = send_json(x,
			json_pack("{s:s, s:i, s:i}", "type", "resize", "rows", x->rows, "cols",
				x->cols),
			err);
	if (r == 0 && (x->pending_signal || x->is_kill_pending)) {
		r = send_json(x,
			json_pack("{s:s, s:i, s:b}", "type", "signal", "signal",
				x->is_kill_pending ? SIGKILL : x->pending_signal, "tree",
				x->is_kill_pending),
			err);
		x->pending_signal = 0;
		x->is_kill_pending = false;
	}
	return r;
}

/* The first message tells what the server knows of the command. */
static int greet(struct remote_exec *x, struct cell_error *err)
{
	enum ws_type type;
	const void *p;
	size_t n;
	int r = ws_client_recv(x->line.ws, 10000, &type, &p, &n, err);
	json_t *o = r == 1 && type == WS_TEXT ? json_loadb(p, n, 0, NULL) : NULL;

	if (r == 1 && strcmp(remote_text(o, "type"), "started") != 0)
		r = -EPROTO;
	else if (r == 0)
		r = -ETIMEDOUT;
	if (r == 1) {
		r = x->is_looking ? 0 : settle_input(x, o, err);
	} else {
		remote_set_away();
		if (!err->code)
			cell_fail(err, CELL_EPROTOCOL, -r, "join command '%s'", x->id);
	}
	json_decref(o);
	return r;
}

static int join(void *user, struct cell_error *err)
{
	struct remote_exec *x = user;
	auto_free char *path = cli_format("/execs/%s/%s", x->id, x->is_looking ? "output" : "ws");
	auto_free char *out = cli_format("%" PRIu64, x->next[1]),
		       *errs = cli_format("%" PRIu64, x->next[2]);
	auto_free char *target = remote_target(x->cell->id, path, "stdout_offset", out,
		"stderr_offset", errs, "hold", x->is_looking ? NULL : "true", "follow",
		x->is_following ? NULL : "false", NULL);
	int r = remote_socket(target, &x->line.ws, err);

	if (r < 0)
		return r;
	r = greet(x, err);
	if (r == 0 && !x->is_looking) {
		r = catch_up(x, err);
		if (r < 0)
			remote_set_away();
	}
	if (r < 0) {
		ws_client_free(x->line.ws);
		x->line.ws = NULL;
	}
	return r;
}

/* ---- what comes ---- */

static int take_exit(struct remote_exec *x, const json_t *o, struct cell_event *ret,
	struct cell_error *err)
{
	const json_t *error = json_object_get(o, "error");

	x->line.is_over = true;
	if (error)
		return remote_error(error, err);
	ret->type = CELL_EVENT_EXIT;
	ret->exit = (struct cell_exit){.exit_code = (int)remote_int(o, "exit_code"),
		.signal = (int)remote_int(o, "signal"),
		.timed_out = json_is_true(json_object_get(o, "timed_out")),
		.oom = json_is_true(json_object_get(o, "oom")),
		.usage = {.cpu_ns = (uint64_t)remote_int(o, "cpu_us") * 1000,
			.max_rss_bytes = (uint64_t)remote_int(o, "max_rss_bytes"),
			.wall_ns = (uint64_t)remote_int(o, "duration_ms") * 1000000}};
	return 0;
}

/* 1: there is an event; 0: it was only for us. */
static int take_text(struct remote_exec *x, const void *p, size_t n, struct cell_event *ret,
	struct cell_error *err)
{
	json_t *o = json_loadb(p, n, 0, NULL);
	const char *type = remote_text(o, "type");
	int r = 0;

	if (!strcmp(type, "exit")) {
		r = take_exit(x, o, ret, err);
		r = r < 0 ? r : 1;
	} else if (!strcmp(type, "end")) {
		x->line.is_over = true;
		ret->type = CELL_EVENT_END;
		r = 1;
	} else if (!strcmp(type, "gap")) {
		ret->type = CELL_EVENT_GAP;
		ret->stream = !strcmp(remote_text(o, "stream"), "stderr") ? 2 : 1;
		ret->offset = (uint64_t)remote_int(o, "offset");
		x->next[ret->stream] = ret->offset;
		r = 1;
	} else if (!strcmp(type, "stdin")) {
		uint64_t taken = (uint64_t)remote_int(o, "bytes");
		if (taken >= x->acked && taken - x->acked <= x->sent.len)
			buf_consume(&x->sent, (size_t)(taken - x->acked));
		x->acked = taken;
		x->is_count_known = true;
	}
	json_decref(o);
	return r;
}

static int take_bytes(struct remote_exec *x, const uint8_t *p, size_t n, struct cell_event *ret)
{
	uint64_t offset = 0;
	int stream = n > FRAME_HEAD ? p[0] : 0;

	if (stream != 1 && stream != 2)
		return 0;
	for (int i = 1; i < FRAME_HEAD; i++)
		offset = offset << 8 | p[i];
	p += FRAME_HEAD;
	n -= FRAME_HEAD;
	if (offset + n <= x->next[stream])
		return 0; /* seen */
	if (offset < x->next[stream]) {
		size_t seen = (size_t)(x->next[stream] - offset);
		p += seen;
		n -= seen;
		offset += seen;
	}
	*ret = (struct cell_event){.type = stream == 1 ? CELL_EVENT_STDOUT : CELL_EVENT_STDERR,
		.stream = stream,
		.data = p,
		.len = n,
		.offset = offset};
	x->next[stream] = offset + n;
	return 1;
}

static int take_message(struct remote_exec *x, struct cell_event *ret, struct cell_error *err)
{
	enum ws_type type;
	const void *p;
	size_t n;

	for (;;) {
		struct cell_error why = {0};
		int r = ws_client_recv(x->line.ws, 0, &type, &p, &n, &why);
		if (r == 0)
			return 0;
		if (r < 0) { /* also when it says goodbye without an end: a server that leaves comes back */
			remote_line_lose(&x->line);
			return 0;
		}
		r = type == WS_TEXT ? take_text(x, p, n, ret, err) : take_bytes(x, p, n, ret);
		if (r != 0)
			return r;
	}
}

int remote_exec_next(struct cell_exec *cx, int timeout_ms, struct cell_event *ret,
	struct cell_error *err)
{
	struct remote_exec *x = exec_of(cx);
	int r = 0;

	(void)timeout_ms; /* our callers poll */
	*ret = (struct cell_event){.type = CELL_EVENT_NONE};
	if (x->line.is_over)
		return 0;
	if (!x->line.ws)
		r = remote_line_rejoin(&x->line, join, x, err);
	if (r == 0 && x->line.ws)
		r = take_message(x, ret, err);
	return r < 0 ? r : 0;
}

/* ---- beginning ---- */

static struct remote_exec *exec_new(struct cell *c, const char *id)
{
	struct remote_exec *x = cli_calloc(1, sizeof *x);

	x->cell = remote_cell_of(c);
	x->cell->shown = x;
	x->sent = (struct buf)BUF_INIT(2 * WINDOW);
	x->is_following = true;
	(void)snprintf(x->id, sizeof x->id, "%s", id);
	return x;
}

static int order_json(const struct cell_exec_opts *o, json_t **ret, struct cell_error *err)
{
	json_t *body = json_pack("{s:b}", "background", 1), *env = NULL, *argv = NULL;
	int r = remote_check_text("the command line", o->shell, err);

	for (size_t i = 0; r == 0 && o->argv && o->argv[i]; i++)
		r = remote_check_text("a word of the command", o->argv[i], err);
	if (r == 0)
		r = remote_check_text("--cwd", o->cwd, err);
	if (r == 0)
		r = remote_check_text("--user", o->user, err);
	if (r == 0)
		r = exec_id_check(o->id, "run a command", err);
	if (r == 0)
		r = remote_env_json(o->env, &env, err);
	if (r == 0 && o->keep_bytes) {
		cell_fail(err, CELL_ENOTSUP, 0,
			"--keep-output: how much output is kept is the server's setting");
		r = cell_error_hint(err, -ENOTSUP,
			"leave it out; the server's owner sets server.spool");
	}
	if (r < 0) {
		json_decref(body);
		json_decref(env);
		return r;
	}
	if (o->shell) {
		(void)json_object_set_new(body, "command", json_string(o->shell));
	} else {
		argv = json_array();
		for (size_t i = 0; o->argv[i]; i++)
			(void)json_array_append_new(argv, json_string(o->argv[i]));
		(void)json_object_set_new(body, "argv", argv);
	}
	if (o->id)
		(void)json_object_set_new(body, "id", json_string(o->id));
	if (o->cwd)
		(void)json_object_set_new(body, "cwd", json_string(o->cwd));
	if (o->user)
		(void)json_object_set_new(body, "user", json_string(o->user));
	if (json_object_size(env))
		(void)json_object_set(body, "env", env);
	json_decref(env);
	if (o->timeout_ms)
		(void)json_object_set_new(body, "timeout", json_real((double)o->timeout_ms / 1000));
	if (o->grace_ms)
		(void)json_object_set_new(body, "grace", json_real((double)o->grace_ms / 1000));
	if (!(o->flags & CELL_EXEC_DETACH)) /* we are coming to read */
		(void)json_object_set_new(body, "hold", json_true());
	if (o->flags & CELL_EXEC_STDIN)
		(void)json_object_set_new(body, "stdin", json_true());
	if (o->flags & CELL_EXEC_MERGE)
		(void)json_object_set_new(body, "merge_stderr", json_true());
	if (o->flags & CELL_EXEC_TTY) {
		(void)json_object_set_new(body, "tty", json_true());
		(void)json_object_set_new(body, "rows", json_integer(o->rows ? o->rows : 24));
		(void)json_object_set_new(body, "cols", json_integer(o->cols ? o->cols : 80));
	}
	*ret = body;
	return 0;
}

int remote_exec_start(struct cell *c, const struct cell_exec_opts *opts, struct cell_exec **ret,
	struct cell_error *err)
{
	auto_free char *target = remote_target(remote_cell_of(c)->id, "/exec", NULL);
	json_t *body = NULL, *o = NULL;
	int r = order_json(opts, &body, err);

	if (r == 0)
		r = remote_call(&(struct remote_request){.method = "POST",
					.target = target,
					.body = body,
					.is_change = true},
			&o, err);
	if (r < 0)
		return r;
	struct remote_exec *x = exec_new(c, remote_text(o, "id"));
	json_decref(o);
	x->is_tty = opts->flags & CELL_EXEC_TTY;
	*ret = (struct cell_exec *)x;
	return 0;
}

int remote_exec_attach(struct cell *c, const char *id, const struct cell_attach_opts *opts,
	struct cell_exec **ret, struct cell_error *err)
{
	struct remote_exec *x = exec_new(c, id);
	int r;

	x->next[1] = opts->out_offset;
	x->next[2] = opts->err_offset;
	x->is_looking = !opts->hold;
	x->is_following = !opts->no_follow;
	r = join(x, err);
	if (r < 0) {
		remote_exec_free((struct cell_exec *)x);
		return r;
	}
	*ret = (struct cell_exec *)x;
	return 0;
}

void remote_exec_free(struct cell_exec *cx)
{
	struct remote_exec *x = exec_of(cx);

	if (!x)
		return;
	if (x->cell->shown == x)
		x->cell->shown = NULL;
	ws_client_free(x->line.ws);
	buf_done(&x->sent);
	free(x);
}

/* ---- our side ---- */

ssize_t remote_exec_write(struct cell_exec *cx, const void *p, size_t n, int timeout_ms,
	struct cell_error *err)
{
	struct remote_exec *x = exec_of(cx);
	size_t room = x->sent.len < WINDOW ? WINDOW - x->sent.len : 0;

	(void)timeout_ms;
	n = n < room ? n : room;
	if (!n || !x->line.ws)
		return 0; /* later */
	if (buf_add(&x->sent, p, n) < 0)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "keep %zu bytes of stdin", n);
	x->has_sent = true;
	(void)send_input(x, p, n, NULL); /* lost with the connection: it is sent again */
	return (ssize_t)n;
}

int remote_exec_close_stdin(struct cell_exec *cx, struct cell_error *err)
{
	struct remote_exec *x = exec_of(cx);

	x->is_input_over = true;
	(void)err;
	(void)send_json(x, json_pack("{s:s}", "type", "eof"), NULL);
	return 0;
}

int remote_exec_resize(struct cell_exec *cx, uint16_t rows, uint16_t cols, struct cell_error *err)
{
	struct remote_exec *x = exec_of(cx);

	x->rows = rows;
	x->cols = cols;
	return send_json(x,
		json_pack("{s:s, s:i, s:i}", "type", "resize", "rows", rows, "cols", cols), err);
}

int remote_exec_signal(struct cell_exec *cx, int number, struct cell_error *err)
{
	struct remote_exec *x = exec_of(cx);

	if (x->line.ws &&
		send_json(x, json_pack("{s:s, s:i}", "type", "signal", "signal", number), err) == 0)
		return 0;
	x->pending_signal = number;
	return 0;
}

int remote_exec_kill(struct cell_exec *cx, struct cell_error *err)
{
	struct remote_exec *x = exec_of(cx);

	if (x->line.ws && send_json(x,
				  json_pack("{s:s, s:i, s:b}", "type", "signal", "signal", SIGKILL,
					  "tree", 1),
				  err) == 0)
		return 0;
	x->is_kill_pending = true;
	return 0;
}

/* ---- by id ---- */

int remote_signal(struct cell *c, const char *id, int number, bool is_tree, struct cell_error *err)
{
	auto_free char *path = cli_format("/execs/%s/signal", id);
	auto_free char *target = remote_target(remote_cell_of(c)->id, path, NULL);

	return remote_call(&(struct remote_request){.method = "POST",
				   .target = target,
				   .body = json_pack("{s:i, s:b}", "signal", number, "tree",
					   is_tree),
				   .is_change = true},
		NULL, err);
}

static char *command_of(const json_t *o)
{
	const json_t *argv = json_object_get(o, "argv");
	const char *code = remote_text(o, "code");
	struct buf b = BUF_INIT(4096);

	if (json_object_get(o, "context")) /* as a guest says it */
		return cli_format("%s: %.*s", remote_text(o, "context"), (int)strcspn(code, "\n"),
			code);
	if (!argv)
		return cli_strdup(remote_text(o, "command"));
	for (size_t i = 0; i < json_array_size(argv) && b.len < 200; i++) {
		if (i)
			(void)buf_addc(&b, ' ');
		(void)buf_addf(&b, "%.200s", json_string_value(json_array_get(argv, i)));
	}
	char *text = buf_steal(&b);
	if (text && strlen(text) > 200)
		text[200] = '\0';
	return text ? text : cli_strdup("");
}

static struct cell_exec_info info_of(const json_t *o, bool is_code, const char *command)
{
	bool is_running = !strcmp(remote_text(o, is_code ? "status" : "state"), "running");
	int64_t started_ns = 0;

	(void)clock_parse(remote_text(o, "started_at"), &started_ns);
	return (struct cell_exec_info){.id = remote_text(o, "id"),
		.command = command,
		.state = is_running ? CELL_EXEC_RUNNING : CELL_EXEC_EXITED,
		.pid = remote_int(o, "pid"),
		.is_tty = json_is_true(json_object_get(o, "tty")),
		.is_code = is_code,
		.started_unix_ms = (uint64_t)started_ns / 1000000,
		.exit = {.exit_code = (int)remote_int(o, "exit_code"),
			.signal = (int)remote_int(o, "signal"),
			.timed_out = json_is_true(json_object_get(o, "timed_out"))},
		.out_bytes = (uint64_t)remote_int(o, is_code ? "next" : "stdout_bytes"),
		.err_bytes = (uint64_t)remote_int(o, "stderr_bytes"),
		.out_oldest = (uint64_t)remote_int(o, is_code ? "oldest" : "stdout_oldest"),
		.err_oldest = (uint64_t)remote_int(o, "stderr_oldest"),
		.label = remote_text(o, "request_id")};
}

static int list_some(struct cell *c, bool is_code, cell_exec_info_fn fn, void *user,
	struct cell_error *err)
{
	auto_free char *target =
		remote_target(remote_cell_of(c)->id, is_code ? "/runs" : "/execs", NULL);
	json_t *page = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &page, err);

	json_array_foreach (json_object_get(page, is_code ? "runs" : "execs"), i, o) {
		auto_free char *command = command_of(o);
		struct cell_exec_info info = info_of(o, is_code, command);
		r = fn(&info, user);
		if (r)
			break;
	}
	json_decref(page);
	return r;
}

int remote_ps(struct cell *c, cell_exec_info_fn fn, void *user, struct cell_error *err)
{
	int r = list_some(c, false, fn, user, err);

	return r ? r : list_some(c, true, fn, user, err);
}
