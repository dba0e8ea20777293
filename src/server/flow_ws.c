/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow_ws.c: a command over a WebSocket, both ways.
 *
 *	to the client    binary: 1 byte stream (1 stdout, 2 stderr), 8 bytes offset (big endian), the bytes
 *	                 text:   {"type":"started"|"gap"|"exit"|"end", ...}, {"type":"stdin","bytes":n}: so much was taken
 *	from the client  binary: bytes for stdin
 *	                 text:   {"type":"eof"} {"type":"resize","rows":..,"cols":..} {"type":"signal","signal":"INT"}
 *
 * A run of code gives its events as text, {"type":"stdout"|"display"|...|"done", "next": offset, ...}, and takes
 *	{"type":"input","text":..} {"type":"eof"} {"type":"interrupt"} {"type":"kill"}
 *
 * It closes with 1000 after the exit. A client that comes back attaches from the offsets it has.
 */
#include <signal.h>
#include <string.h>

#include "cell/exec.h"

#include "base/cleanup.h"
#include "net/ws.h"
#include "server/call.h"
#include "server/exec.h"
#include "server/flow.h"
#include "server/flow_text.h"
#include "server/run.h"
#include "server/seat.h"
#include "server/session.h"

struct socket {
	struct call *c;
	struct server *srv;
	struct ws *ws;
	struct exec_reader r;
	struct run_reader *run; /* of code: events; NULL: a command's bytes */
	bool is_blocked, is_closing, is_feeding, is_following, takes_input;
	char tenant[TENANT_NAME_MAX];
};

static void send_json(struct socket *s, json_t *o)
{
	auto_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));

	json_decref(o);
	if (text)
		(void)ws_send(s->ws, WS_TEXT, text, strlen(text));
}

static int send_bytes(struct socket *s, const struct spool_event *ev)
{
	auto_buf struct buf b = BUF_INIT(SPOOL_MAX_DATA + 16);
	uint8_t head[9] = {(uint8_t)ev->stream};

	for (int i = 0; i < 8; i++)
		head[8 - i] = (uint8_t)(ev->offset >> (8 * i));
	if (buf_add(&b, head, sizeof head) < 0 || buf_add(&b, ev->data, ev->len) < 0)
		return -ENOMEM;
	return ws_send(s->ws, WS_BINARY, b.data, b.len);
}

static void finish(struct socket *s, unsigned code, const char *why)
{
	s->is_closing = true;
	ws_close(s->ws, code, why);
}

/* A run's events are text, each with its type. */
static void pump_run(struct socket *s)
{
	struct exec *e = s->r.exec;
	struct run_item item;
	const char *type;

	while (!s->is_blocked && !s->is_closing) {
		if (run_reader_next(s->run, e->spool, &s->r.at, &item) < 0) {
			finish(s, WS_INTERNAL, "the events cannot be read");
			return;
		}
		if (item.news == RUN_NOTHING && !s->is_following) {
			send_json(s, json_pack("{s:s}", "type", "end"));
			finish(s, WS_NORMAL, "this is all so far");
		}
		if (item.news == RUN_NOTHING)
			return;
		json_t *o = run_item_json(e, &item, &type);
		auto_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
		json_decref(o);
		int r = text ? ws_send(s->ws, WS_TEXT, text, strlen(text)) : -ENOMEM;
		if (r < 0)
			finish(s, WS_INTERNAL, "the events cannot be sent");
		else if (item.news == RUN_END)
			finish(s, WS_NORMAL, "the run has ended");
		s->is_blocked = r == 1;
	}
}

static void pump(struct socket *s)
{
	struct exec *e = s->r.exec;
	struct spool_event ev;
	const char *type;

	if (s->run) {
		pump_run(s);
		return;
	}

	while (!s->is_blocked && !s->is_closing) {
		if (spool_read(e->spool, &s->r.at, &ev, NULL) < 0) {
			finish(s, WS_INTERNAL, "the output cannot be read");
			return;
		}
		if (ev.kind == SPOOL_NONE && !s->is_following) {
			send_json(s, json_pack("{s:s}", "type", "end"));
			finish(s, WS_NORMAL, "this is all so far");
		}
		if (ev.kind == SPOOL_NONE)
			return;
		if (ev.kind == SPOOL_OUT || ev.kind == SPOOL_ERR) {
			int r = send_bytes(s, &ev);
			if (r < 0) {
				finish(s, WS_INTERNAL, "the output cannot be sent");
				return;
			}
			s->is_blocked = r == 1;
			continue;
		}
		send_json(s, flow_event_json(e, &ev, &type));
		if (ev.kind == SPOOL_END)
			finish(s, WS_NORMAL, "the command has ended");
	}
}

static void wake(struct exec_reader *r)
{
	pump(r->arg);
}

static void on_drain(struct ws *w, void *arg)
{
	struct socket *s = arg;

	(void)w;
	s->is_blocked = false;
	pump(s);
	if (s->r.is_holding && s->r.exec->seat)
		seat_wake(s->r.exec->seat);
}

/* A client that knows how much was taken can send the rest again after a broken connection, and nothing twice. */
static void acknowledge(struct socket *s)
{
	send_json(s,
		json_pack("{s:s, s:I}", "type", "stdin", "bytes", (json_int_t)s->r.exec->in_total));
}

static void have_room(struct exec *e, void *arg)
{
	struct socket *s = arg;

	e->room = NULL;
	s->is_feeding = false;
	if (!s->is_closing) {
		acknowledge(s);
		ws_resume(s->ws);
	}
}

static void complain(struct socket *s, const struct cell_error *err)
{
	json_t *o = call_error_json(err, NULL);

	(void)json_object_set_new(o, "type", json_string("error"));
	send_json(s, o);
}

static void take_run_order(struct socket *s, const char *type, const json_t *o,
	struct cell_error *err)
{
	const char *line = json_string_value(json_object_get(o, "text"));
	struct exec *e = s->r.exec;

	if (!strcmp(type, "input") && line)
		(void)run_answer(e, line, err);
	else if (!strcmp(type, "eof"))
		(void)exec_close_stdin(e, err);
	else if (!strcmp(type, "interrupt") && e->x)
		(void)cell_exec_signal(e->x, SIGINT, err);
	else if (!strcmp(type, "kill") && e->x)
		(void)cell_exec_signal(e->x, SIGKILL, err);
	else if (strcmp(type, "interrupt") && strcmp(type, "kill"))
		(void)cell_fail(err, CELL_EINVAL, 0,
			"there is no message of type '%.32s' for a run", type);
}

static void take_order(struct socket *s, json_t *o, struct cell_error *err)
{
	const char *type = json_string_value(json_object_get(o, "type"));
	json_t *which = json_object_get(o, "signal");
	const char *name = json_is_integer(which) ? "a number" : json_string_value(which);
	struct exec *e = s->r.exec;

	if (!type) {
		(void)cell_fail(err, CELL_EINVAL, 0,
			"a text message must be an object with a type");
	} else if (s->run) {
		take_run_order(s, type, o, err);
	} else if (!strcmp(type, "eof")) {
		(void)exec_close_stdin(e, err);
	} else if (!strcmp(type, "resize") && e->x) {
		(void)cell_exec_resize(e->x,
			(uint16_t)json_integer_value(json_object_get(o, "rows")),
			(uint16_t)json_integer_value(json_object_get(o, "cols")), err);
	} else if (!strcmp(type, "signal") && e->x && name) {
		int number = json_is_integer(which) ? (int)json_integer_value(which) : 0;
		for (int i = 1; i < NSIG && !json_is_integer(which); i++) {
			const char *word = sigabbrev_np(i);
			if (word && !strcmp(word, strncmp(name, "SIG", 3) ? name : name + 3))
				number = i;
		}
		if (number == SIGKILL && json_is_true(json_object_get(o, "tree")))
			(void)cell_exec_kill(e->x, err);
		else if (number > 0 && number < NSIG)
			(void)cell_exec_signal(e->x, number, err);
		else
			(void)cell_fail(err, CELL_EINVAL, 0, "there is no signal '%.32s'", name);
	} else if (strcmp(type, "resize") != 0 && strcmp(type, "signal") != 0) {
		(void)cell_fail(err, CELL_EINVAL, 0, "there is no message of type '%.32s'", type);
	}
	if (e->seat)
		seat_kick(e->seat);
}

static void on_message(struct ws *w, enum ws_type type, const void *p, size_t n, void *arg)
{
	struct socket *s = arg;
	struct exec *e = s->r.exec;
	struct cell_error err = {0};

	if (!s->takes_input) {
		finish(s, WS_POLICY, "this socket only gives output");
		return;
	}
	session_touch(e->session);
	if (type == WS_TEXT) {
		json_t *o = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
		take_order(s, o, &err);
		json_decref(o);
	} else if (s->run) {
		(void)cell_fail(&err, CELL_EINVAL, 0,
			"a run takes text messages: {\"type\": \"input\", \"text\": ...}");
	} else if (e->x && !exec_write(e, p, n, &err)) {
		if (!e->room) {
			e->room = have_room;
			e->room_arg = s;
			s->is_feeding = true;
			ws_pause(w);
		}
	} else if (e->x && !err.code) {
		acknowledge(s);
	}
	if (err.code)
		complain(s, &err);
}

static void on_closed(struct ws *w, unsigned code, const char *reason, void *arg)
{
	struct socket *s = arg;
	struct exec *e = s->r.exec;

	(void)w;
	(void)code;
	(void)reason;
	if (s->is_feeding && e->room_arg == s)
		e->room = NULL;
	exec_ref(e);
	exec_reader_remove(&s->r);
	if (s->r.is_holding && e->seat)
		seat_wake(e->seat);
	exec_unref(e);
	quota_stream_close(s->srv->quota, s->tenant);
	s->srv->n_streams--;
	call_done(s->c, 101, NULL);
	if (s->run)
		run_reader_done(s->run);
	free(s->run);
	free(s);
}

void flow_socket(struct call *c, struct exec *e, const struct flow_socket_options *o)
{
	static const struct ws_events events = {
		.message = on_message, .drain = on_drain, .closed = on_closed};
	static const struct ws_options options = {
		.max_message = 1u << 20, .subprotocol = "cell.v1"};
	struct quota_verdict v = quota_stream_open(c->srv->quota, c->who.tenant);
	struct cell_error err = {0};
	struct socket *s = calloc(1, sizeof *s);

	if (!v.is_allowed || !s) {
		if (!v.is_allowed)
			(void)quota_fail(&v, c->who.tenant, &err);
		else
			(void)cell_fail_errno(&err, ENOMEM, "open a stream");
		if (v.is_allowed)
			quota_stream_close(c->srv->quota, c->who.tenant);
		free(s);
		call_fail(c, &err);
		return;
	}
	(void)snprintf(s->tenant, sizeof s->tenant, "%s", c->who.tenant);
	s->c = c;
	s->srv = c->srv;
	s->r.arg = s;
	s->r.wake = wake;
	s->r.at.want[1] = o->out_from;
	s->r.at.want[2] = o->err_from;
	s->r.is_holding = o->is_holding;
	s->is_following = o->is_following;
	s->takes_input = o->takes_input;
	if (exec_is_run(e) && (!(s->run = calloc(1, sizeof *s->run)) ||
				      run_reader_init(s->run, o->out_from, &s->r.at) < 0)) {
		quota_stream_close(c->srv->quota, c->who.tenant);
		free(s->run);
		free(s);
		call_failf(c, CELL_ENOSPACE, "", "no memory for another stream");
		return;
	}
	int r = ws_accept(c->x, &options, &events, s, &s->ws, &err);
	if (r < 0) {
		quota_stream_close(c->srv->quota, c->who.tenant);
		if (s->run)
			run_reader_done(s->run);
		free(s->run);
		free(s);
		if (!err.code)
			err.code = r == -EACCES ? CELL_EDENIED : CELL_EINVAL;
		call_fail(c, &err);
		return;
	}
	s->srv->n_streams++;
	exec_reader_add(e, &s->r);
	json_t *started = exec_json(e);
	(void)json_object_set_new(started, "type", json_string("started"));
	send_json(s, started);
	pump(s);
}
