/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "net/dial.h"
#include "net/hpack.h"

#define TIMEOUT_MS   60000u
#define FRAME_HEAD   9u
#define FRAME_MAX    16384u /* ours to receive, and what any peer takes */
#define WINDOW	     65535
#define WINDOW_MAX   0x7fffffff
#define HEADERS_MAX  (64u * 1024)
#define MESSAGE_HEAD 5u

enum {
	DATA,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH_PROMISE,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUATION
};
enum {
	END_STREAM = 0x1,
	ACK = 0x1,
	END_HEADERS = 0x4,
	PADDED = 0x8,
	WITH_PRIORITY = 0x20
};
enum {
	SET_TABLE_SIZE = 1,
	SET_PUSH = 2,
	SET_WINDOW = 4
};

struct grpc {
	struct net_stream stream;
	struct dial_wait wait;
	struct buf out;	    /* not sent yet */
	struct buf block;   /* headers that go on in the next frame */
	struct buf message; /* a message that is not here as a whole */
	uint32_t id;	    /* of the call's stream */
	int64_t window, call_window,
		first_window; /* what may be sent: on the connection, in this call, in a new one */
	bool is_headers_last; /* the block ends the stream */
	bool is_ended;
	int status; /* grpc-status; -1: not told */
	int http;   /* :status */
	int taken;  /* what `take` said */
	char said[400];
	char what
		[80]; /* the method's own name: the caller's text may be gone when something breaks */
	struct grpc_call call;
};

void grpc_free(struct grpc *g)
{
	if (!g)
		return;
	net_stream_done(&g->stream);
	buf_done(&g->out);
	buf_done(&g->block);
	buf_done(&g->message);
	free(g);
}

/* ---- frames that go ---- */

static int add_frame(struct grpc *g, unsigned type, unsigned flags, uint32_t id, const void *p,
	size_t n)
{
	const uint8_t head[FRAME_HEAD] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n,
		(uint8_t)type, (uint8_t)flags, (uint8_t)(id >> 24), (uint8_t)(id >> 16),
		(uint8_t)(id >> 8), (uint8_t)id};
	int r = buf_add(&g->out, head, sizeof head);

	return r < 0 || n == 0 ? r : buf_add(&g->out, p, n);
}

static int add_window(struct grpc *g, uint32_t id, uint32_t more)
{
	const uint8_t p[4] = {
		(uint8_t)(more >> 24), (uint8_t)(more >> 16), (uint8_t)(more >> 8), (uint8_t)more};

	return add_frame(g, WINDOW_UPDATE, 0, id, p, sizeof p);
}

static int flush(struct grpc *g)
{
	int r = g->out.len ? dial_write(&g->stream, g->out.data, g->out.len, &g->wait) : 0;

	buf_reset(&g->out);
	return r;
}

static int greet(struct grpc *g)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	static const uint8_t settings[] = {0, SET_TABLE_SIZE, 0, 0, 0, 0, 0, SET_PUSH, 0, 0, 0, 0,
		0, SET_WINDOW, 0x01, 0, 0, 0};
	int r = buf_addz(&g->out, preface);

	if (r == 0)
		r = add_frame(g, SETTINGS, 0, 0, settings, sizeof settings);
	return r < 0 ? r : add_window(g, 0, GRPC_MESSAGE_MAX);
}

/* ---- frames that come ---- */

static uint32_t number(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Messages are cut into frames as the sender likes. */
static int take_data(struct grpc *g, const uint8_t *p, size_t n)
{
	int r = buf_add(&g->message, p, n);

	while (r == 0 && g->message.len >= MESSAGE_HEAD) {
		const uint8_t *m = g->message.data;
		uint32_t size = number(m + 1);

		if (m[0] != 0 || size > GRPC_MESSAGE_MAX)
			return -EPROTO; /* compression was not offered */
		if (g->message.len - MESSAGE_HEAD < size)
			break;
		if (g->call.take && g->taken == 0)
			g->taken = g->call.take(g->call.arg, m + MESSAGE_HEAD, size);
		buf_consume(&g->message, MESSAGE_HEAD + size);
	}
	return r;
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? (c | 0x20) - 'a' + 10
					    : -1;
}

/* grpc-message has %XX for what a header cannot have; it goes into one line. */
static void take_words(struct grpc *g, const char *text)
{
	size_t n = 0;

	for (const char *p = text; *p && n + 1 < sizeof g->said; p++) {
		int high = *p == '%' ? hex_digit(p[1]) : -1, low = high >= 0 ? hex_digit(p[2]) : -1;
		int c = low >= 0 ? high << 4 | low : (unsigned char)*p;

		if (low >= 0)
			p += 2;
		g->said[n++] = c < ' ' ? ' ' : (char)c;
	}
	g->said[n] = '\0';
}

static int take_field(void *user, const char *name, const char *value)
{
	struct grpc *g = user;

	if (!strcmp(name, ":status"))
		g->http = (int)strtol(value, NULL, 10);
	else if (!strcmp(name, "grpc-status"))
		g->status = (int)strtol(value, NULL, 10) & 0xff;
	else if (!strcmp(name, "grpc-message"))
		take_words(g, value);
	return 0;
}

/* Without padding and priority; false: they are larger than the frame. */
static bool strip(unsigned flags, bool with_priority, const uint8_t **p, size_t *n)
{
	size_t before = 0, behind = 0;

	if (flags & PADDED) {
		if (*n < 1)
			return false;
		before = 1;
		behind = (*p)[0];
	}
	if (with_priority && flags & WITH_PRIORITY)
		before += 5;
	if (before + behind > *n)
		return false;
	*p += before;
	*n -= before + behind;
	return true;
}

static int take_block(struct grpc *g, uint32_t id, unsigned flags, const uint8_t *p, size_t n)
{
	int r = buf_add(&g->block, p, n);

	if (r < 0 || !(flags & END_HEADERS))
		return r;
	if (id == g->id)
		r = hpack_decode(g->block.data, g->block.len, take_field, g);
	buf_reset(&g->block);
	if (id == g->id && g->is_headers_last)
		g->is_ended = true;
	return r;
}

static int take_settings(struct grpc *g, unsigned flags, const uint8_t *p, size_t n)
{
	if (flags & ACK)
		return 0;
	for (; n >= 6; p += 6, n -= 6) {
		if ((p[0] << 8 | p[1]) != SET_WINDOW)
			continue;
		int64_t size = number(p + 2);
		g->call_window += size - g->first_window;
		g->first_window = size;
	}
	return n ? -EPROTO : add_frame(g, SETTINGS, ACK, 0, NULL, 0);
}

static int take_window(struct grpc *g, uint32_t id, const uint8_t *p, size_t n)
{
	if (n != 4)
		return -EPROTO;
	uint32_t more = number(p) & WINDOW_MAX;
	if (id == 0)
		g->window += more;
	else if (id == g->id)
		g->call_window += more;
	return g->window > WINDOW_MAX || g->call_window > WINDOW_MAX ? -EPROTO : 0;
}

static int take_frame(struct grpc *g, unsigned type, unsigned flags, uint32_t id, const uint8_t *p,
	size_t n)
{
	size_t whole = n;
	int r = 0;

	if (g->block.len && type != CONTINUATION)
		return -EPROTO;
	switch (type) {
	case DATA:
		if (!strip(flags, false, &p, &n))
			return -EPROTO;
		if (whole)
			r = add_window(g, 0, (uint32_t)whole);
		if (r == 0 && whole && id == g->id)
			r = add_window(g, id, (uint32_t)whole);
		if (r == 0 && id == g->id)
			r = take_data(g, p, n);
		g->is_ended |= id == g->id && flags & END_STREAM;
		return r;
	case HEADERS:
		g->is_headers_last = flags & END_STREAM;
		return strip(flags, true, &p, &n) ? take_block(g, id, flags, p, n) : -EPROTO;
	case CONTINUATION:
		return take_block(g, id, flags, p, n);
	case RST_STREAM:
		g->is_ended |= id == g->id;
		return n == 4 ? 0 : -EPROTO;
	case SETTINGS:
		return take_settings(g, flags, p, n);
	case PING:
		return flags & ACK ? 0 : add_frame(g, PING, ACK, 0, p, n);
	case GOAWAY: /* calls up to the one it names are still answered */
		return n >= 8 && (number(p) & WINDOW_MAX) >= g->id ? 0 : -ECONNRESET;
	case WINDOW_UPDATE:
		return take_window(g, id, p, n);
	case PUSH_PROMISE:
		return -EPROTO;
	default:
		return 0;
	}
}

static int read_all(struct grpc *g, uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t k = dial_read(&g->stream, p, n, &g->wait);
		if (k <= 0)
			return k < 0 ? (int)k : -ECONNRESET;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

/* Sends what waits, then takes one frame. */
static int turn(struct grpc *g)
{
	uint8_t head[FRAME_HEAD], body[FRAME_MAX];
	int r = flush(g);

	if (r == 0)
		r = read_all(g, head, sizeof head);
	if (r < 0)
		return r;
	size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
	if (n > FRAME_MAX)
		return -EPROTO;
	r = read_all(g, body, n);
	return r < 0 ? r : take_frame(g, head[3], head[4], number(head + 5) & WINDOW_MAX, body, n);
}

/* ---- calls ---- */

static int broken(const struct grpc *g, int r, struct cell_error *err)
{
	return cell_fail(err,
		r == -ETIMEDOUT ? CELL_ETIMEOUT
		: r == -EPROTO	? CELL_EPROTOCOL
				: CELL_EBACKEND,
		-r, "ask for '%s'", g->what);
}

int grpc_begin(struct grpc *g, const struct grpc_call *call, struct cell_error *err)
{
	auto_buf struct buf block = BUF_INIT(FRAME_MAX);
	const char *slash = strrchr(call->method, '/');

	g->id = g->id ? g->id + 2 : 1;
	g->call = *call;
	(void)snprintf(g->what, sizeof g->what, "%s", slash ? slash + 1 : call->method);
	g->call.method = NULL; /* the caller's, for this call alone, as is */
	g->call.metadata = NULL;
	g->call_window = g->first_window;
	g->is_ended = false;
	g->status = -1;
	g->http = g->taken = 0;
	g->said[0] = '\0';
	g->wait.deadline_ms = dial_now_ms() + (call->timeout_ms ? call->timeout_ms : TIMEOUT_MS);
	buf_reset(&g->message);
	int r = hpack_add(&block, ":method", "POST");
	if (r == 0)
		r = hpack_add(&block, ":scheme", "http");
	if (r == 0)
		r = hpack_add(&block, ":path", call->method);
	if (r == 0)
		r = hpack_add(&block, ":authority", "localhost");
	if (r == 0)
		r = hpack_add(&block, "content-type", "application/grpc");
	if (r == 0)
		r = hpack_add(&block, "te", "trailers");
	for (const struct grpc_field *f = call->metadata; r == 0 && f && f->name; f++)
		r = hpack_add(&block, f->name, f->value);
	if (r == 0)
		r = add_frame(g, HEADERS, END_HEADERS, g->id, block.data, block.len);
	return r < 0 ? broken(g, r, err) : 0;
}

static int send_bytes(struct grpc *g, const uint8_t *p, size_t n)
{
	int r = 0;

	while (r == 0 && n > 0 && !g->is_ended) {
		int64_t may = g->window < g->call_window ? g->window : g->call_window;
		size_t k = n < FRAME_MAX ? n : FRAME_MAX;

		if (may <= 0) {
			r = turn(g);
			continue;
		}
		k = (int64_t)k < may ? k : (size_t)may;
		r = add_frame(g, DATA, 0, g->id, p, k);
		if (r == 0 && g->out.len >= 4 * FRAME_MAX)
			r = flush(g);
		g->window -= (int64_t)k;
		g->call_window -= (int64_t)k;
		p += k;
		n -= k;
	}
	return r;
}

int grpc_send(struct grpc *g, const struct buf *message, struct cell_error *err)
{
	const size_t n = message->len;
	const uint8_t head[MESSAGE_HEAD] = {
		0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
	int r = send_bytes(g, head, sizeof head);

	if (r == 0)
		r = send_bytes(g, message->data, n);
	return r < 0 ? broken(g, r, err) : 0;
}

int grpc_end(struct grpc *g, char *said, size_t size, struct cell_error *err)
{
	int r = g->is_ended ? 0 : add_frame(g, DATA, END_STREAM, g->id, NULL, 0);

	while (r == 0 && !g->is_ended)
		r = turn(g);
	if (r == 0)
		r = flush(g);
	if (r < 0)
		return broken(g, r, err);
	if (g->status < 0) { /* a reset, or something that is no gRPC */
		r = cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"what answers is no gRPC service (HTTP status %d)", g->http);
		return r;
	}
	if (said)
		(void)snprintf(said, size, "%s", g->said);
	return g->status == 0 && g->taken < 0 ? g->taken : g->status;
}

int grpc_call(struct grpc *g, const struct grpc_call *call, const struct buf *request, char *said,
	size_t size, struct cell_error *err)
{
	int r = grpc_begin(g, call, err);

	if (r == 0)
		r = grpc_send(g, request, err);
	return r < 0 ? r : grpc_end(g, said, size, err);
}

int grpc_open(const char *path, struct grpc **ret, struct cell_error *err)
{
	struct net_url url = {.scheme = NET_UNIX, .path = "/", .authority = "localhost"};
	struct grpc *g = calloc(1, sizeof *g);

	if (!g)
		return cell_fail_errno(err, ENOMEM, "reach '%s'", path);
	g->stream.fd = -1;
	g->out.max = GRPC_MESSAGE_MAX;
	g->block.max = HEADERS_MAX;
	g->message.max = GRPC_MESSAGE_MAX + MESSAGE_HEAD + FRAME_MAX;
	g->window = g->first_window = WINDOW;
	g->wait.deadline_ms = dial_now_ms() + TIMEOUT_MS;
	int r = (size_t)snprintf(url.host, sizeof url.host, "%s", path) < sizeof url.host
			? dial(&url, NULL, &g->wait, &g->stream, err)
			: cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "the path of the socket");
	if (r == 0 && greet(g) < 0)
		r = cell_fail_errno(err, ENOMEM, "reach '%s'", path);
	if (r < 0) {
		grpc_free(g);
		return r;
	}
	*ret = g;
	return 0;
}
