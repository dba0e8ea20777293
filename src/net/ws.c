/* SPDX-License-Identifier: Apache-2.0 */
/* ws.c: a server's WebSocket on an exchange that was taken over. */
#include "net/ws.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "net/http.h"
#include "net/http_internal.h"
#include "net/ws_frame.h"

#define CLOSE_WAIT_MS  5000
#define PONG_QUEUE_MAX (64u * 1024) /* with more unsent, only the last ping is answered, later */

struct ws {
	struct http_exchange *x;
	struct net_loop *loop;
	const struct ws_events *events;
	void *arg;
	struct ws_decoder decoder;
	struct net_timer *timer;
	struct net_timer *again; /* what was received while paused */
	struct buf rest;
	unsigned ping_ms, pong_ms;
	uint64_t heard_ms;
	bool is_pinged, is_paused, is_closing;
	uint8_t pong[WS_CONTROL_MAX];
	size_t pong_len;
	bool has_pong;
	unsigned code; /* ours, when we close */
	char reason[WS_CONTROL_MAX];
};

static void send_frame(struct ws *w, enum ws_opcode opcode, const void *p, size_t n)
{
	uint8_t frame[WS_HEAD_MAX + WS_CONTROL_MAX];
	size_t k = ws_encode_head(frame, opcode, n, NULL);

	if (n > 0)
		memcpy(frame + k, p, n);
	(void)http_write(w->x, frame, k + n);
}

static void send_close(struct ws *w, unsigned code, const char *reason)
{
	uint8_t payload[WS_CONTROL_MAX];

	send_frame(w, WS_OP_CLOSE, payload, ws_encode_close(payload, code, reason));
}

/* It is over: tell the owner, end the exchange, free everything. */
static void finish(struct ws *w, unsigned code, const char *reason, bool is_cut)
{
	struct http_exchange *x = w->x;

	net_timer_free(w->timer);
	net_timer_free(w->again);
	w->is_closing = true;
	w->events->closed(w, code, reason, w->arg);
	ws_decoder_done(&w->decoder);
	buf_done(&w->rest);
	free(w);
	if (is_cut)
		http_abort(x);
	else
		http_end(x);
}

static void send_pong(struct ws *w)
{
	if (w->has_pong && !w->is_closing && http_unsent(w->x) < PONG_QUEUE_MAX) {
		w->has_pong = false;
		send_frame(w, WS_OP_PONG, w->pong, w->pong_len);
	}
}

/* One frame; false when the ws is gone. */
static bool take_frame(struct ws *w, const struct ws_frame *f)
{
	switch (f->opcode) {
	case WS_OP_PING:
		memcpy(w->pong, f->p, f->n);
		w->pong_len = f->n;
		w->has_pong = true;
		send_pong(w);
		return true;
	case WS_OP_PONG:
		return true;
	case WS_OP_CLOSE:
		if (!w->is_closing) {
			send_close(w, f->code == WS_NO_CODE ? WS_NORMAL : f->code, NULL);
			finish(w, f->code, (const char *)f->p, false);
		} else {
			finish(w, w->code, w->reason, false);
		}
		return false;
	default:
		if (!w->is_closing)
			w->events->message(w, (enum ws_type)f->opcode, f->p, f->n, w->arg);
		return true;
	}
}

/* Takes bytes until they are used up or the owner pauses; false when the ws is gone. */
static bool take_bytes(struct ws *w, const uint8_t *p, size_t n)
{
	size_t at = 0;

	for (;;) {
		struct ws_frame f;
		size_t used;

		if (w->is_paused && !w->is_closing) {
			if (at < n && buf_add(&w->rest, p + at, n - at) < 0) {
				finish(w, WS_INTERNAL, "out of memory", true);
				return false;
			}
			return true;
		}
		int r = ws_decode(&w->decoder, p + at, n - at, &used, &f);
		at += used;
		if (r == 0)
			return true;
		if (r < 0) {
			const char *why = r == -WS_TOO_BIG    ? "message too big"
					  : r == -WS_BAD_TEXT ? "text is not UTF-8"
							      : "protocol error";
			if (!w->is_closing)
				send_close(w, (unsigned)-r, why);
			finish(w, (unsigned)-r, why, false);
			return false;
		}
		if (!take_frame(w, &f))
			return false;
	}
}

static void on_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	struct ws *w = arg;

	(void)x;
	w->heard_ms = net_loop_now_ms(w->loop);
	w->is_pinged = false;
	if (w->rest.len > 0) {
		/* Behind what waits already. */
		if (buf_add(&w->rest, p, n) < 0)
			finish(w, WS_INTERNAL, "out of memory", true);
		return;
	}
	(void)take_bytes(w, p, n);
}

static void on_end(struct http_exchange *x, int result, void *arg)
{
	struct ws *w = arg;

	(void)x;
	if (w->is_closing)
		finish(w, w->code, w->reason, false);
	else
		finish(w, WS_ABNORMAL, result == 0 ? "closed without a word" : "connection lost",
			result != 0);
}

static const struct http_body_events body_events = {.data = on_data, .end = on_end};

static void on_again(void *arg)
{
	struct ws *w = arg;
	struct buf rest = w->rest;

	w->rest = (struct buf)BUF_INIT(rest.max);
	bool is_there = take_bytes(w, rest.data, rest.len);
	buf_done(&rest);
	if (is_there && !w->is_paused)
		http_resume(w->x);
}

static void on_drain(struct http_exchange *x, void *arg)
{
	struct ws *w = arg;

	(void)x;
	send_pong(w);
	if (w->events->drain && !w->is_closing)
		w->events->drain(w, w->arg);
}

static void on_server_drain(struct http_exchange *x, void *arg)
{
	struct ws *w = arg;

	(void)x;
	if (w->events->draining)
		w->events->draining(w, w->arg);
	else
		ws_close(w, WS_GOING_AWAY, "the server is stopping");
}

/* Silence: a ping; more silence: the end. */
static void on_timer(void *arg)
{
	struct ws *w = arg;
	uint64_t silent_ms = net_loop_now_ms(w->loop) - w->heard_ms;

	if (w->is_closing) {
		finish(w, w->code, w->reason, true);
		return;
	}
	send_pong(w);
	if (w->is_paused) {
		w->heard_ms = net_loop_now_ms(w->loop);
	} else if (w->is_pinged && silent_ms >= w->ping_ms + w->pong_ms) {
		finish(w, WS_ABNORMAL, "no answer to a ping", true);
		return;
	} else if (!w->is_pinged && silent_ms >= w->ping_ms) {
		w->is_pinged = true;
		send_frame(w, WS_OP_PING, NULL, 0);
	}
	uint64_t due_ms = w->heard_ms + w->ping_ms + (w->is_pinged ? w->pong_ms : 0);
	uint64_t now_ms = net_loop_now_ms(w->loop);
	net_timer_start(w->timer, due_ms > now_ms ? due_ms - now_ms : 1, 0);
}

bool ws_is_asked(const struct http_exchange *x)
{
	return http_is_upgrade(x, "websocket");
}

static int check_request(struct http_exchange *x, struct cell_error *err)
{
	const char *version = http_header(x, "sec-websocket-version");
	const char *key = http_header(x, "sec-websocket-key");

	if (!ws_is_asked(x))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, EINVAL, "this is no WebSocket request"),
			"send GET with Connection: Upgrade and Upgrade: websocket");
	if (!version || strcmp(version, "13") != 0) {
		(void)http_add_header(x, "Sec-WebSocket-Version", "13");
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, EPROTONOSUPPORT,
				"this WebSocket version is not spoken here"),
			"send Sec-WebSocket-Version: 13");
	}
	if (!key || !ws_is_key(key))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, EINVAL,
				"Sec-WebSocket-Key is missing or malformed"),
			"send 16 random bytes in base64");
	if (!http_origin_is_allowed(x))
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, EACCES,
				"web pages of this origin may not connect"),
			"add the origin to the list of CORS origins in the server's configuration");
	return 0;
}

int ws_accept(struct http_exchange *x, const struct ws_options *options,
	const struct ws_events *events, void *arg, struct ws **ret, struct cell_error *err)
{
	static const struct ws_options usual = {0};
	const struct ws_options *o = options ? options : &usual;
	char accept[29];
	int r = check_request(x, err);

	if (r < 0)
		return r;
	struct ws *w = calloc(1, sizeof *w);
	if (!w)
		return cell_fail_errno(err, ENOMEM, "open a WebSocket");
	w->x = x;
	w->loop = x->c->s->loop;
	w->events = events;
	w->arg = arg;
	w->ping_ms = o->ping_ms ? o->ping_ms : 30000;
	w->pong_ms = o->pong_ms ? o->pong_ms : 20000;
	w->heard_ms = net_loop_now_ms(w->loop);
	w->rest.max = 4u * SCRATCH_BYTES + x->c->in.max;
	ws_decoder_init(&w->decoder, true, o->max_message ? o->max_message : 1024u * 1024);
	if (net_timer_new(w->loop, on_timer, w, &w->timer) < 0 ||
		net_timer_new(w->loop, on_again, w, &w->again) < 0) {
		net_timer_free(w->timer);
		free(w);
		return cell_fail_errno(err, ENOMEM, "open a WebSocket");
	}
	ws_accept_key(http_header(x, "sec-websocket-key"), accept);
	(void)http_add_header(x, "Sec-WebSocket-Accept", accept);
	if (o->subprotocol && http_header_has(x, "sec-websocket-protocol", o->subprotocol))
		(void)http_add_header(x, "Sec-WebSocket-Protocol", o->subprotocol);
	*ret = w;
	(void)http_take_over(x, "websocket", &body_events, w); /* check_request() has seen to it */
	http_on_drain(x, on_drain, w);
	http_on_drain_server(x, on_server_drain, w);
	net_timer_start(w->timer, w->ping_ms, 0);
	return 0;
}

int ws_send(struct ws *w, enum ws_type type, const void *p, size_t n)
{
	uint8_t head[WS_HEAD_MAX];
	size_t k = ws_encode_head(head, (enum ws_opcode)type, n, NULL);

	if (w->is_closing)
		return -EPIPE;
	if (type == WS_TEXT && !utf8_is_valid(p, n))
		return -EILSEQ;
	/* In one call, so that the frame is refused whole or taken whole. */
	return answer_raw(w->x, (struct iovec[]){{head, k}, {(void *)(uintptr_t)p, n}}, 2);
}

void ws_pause(struct ws *w)
{
	w->is_paused = true;
	http_pause(w->x);
}

void ws_resume(struct ws *w)
{
	if (!w->is_paused)
		return;
	w->is_paused = false;
	w->heard_ms = net_loop_now_ms(w->loop);
	w->is_pinged = false;
	if (w->rest.len > 0)
		net_timer_start(w->again, 0, 0);
	else
		http_resume(w->x);
}

void ws_close(struct ws *w, unsigned code, const char *reason)
{
	if (w->is_closing)
		return;
	send_close(w, code, reason);
	w->is_closing = true;
	w->code = code;
	(void)snprintf(w->reason, sizeof w->reason, "%s", reason ? reason : "");
	/* What the peer still sends is read and dropped, up to its own close frame. */
	ws_resume(w);
	net_timer_start(w->timer, CLOSE_WAIT_MS, 0);
}

struct http_exchange *ws_exchange(const struct ws *w)
{
	return w->x;
}

size_t ws_unsent(const struct ws *w)
{
	return http_unsent(w->x);
}
