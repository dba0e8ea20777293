/* SPDX-License-Identifier: Apache-2.0 */
/* ws_client.c: the client's end of a WebSocket, on a connection of its own. */
#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "net/client_internal.h"
#include "net/ws_frame.h"

#define CHUNK_BYTES 16384

struct ws_client {
	struct http_client *c;
	struct net_stream stream;
	struct ws_decoder decoder;
	struct buf in; /* received and not yet looked at */
	size_t in_at;
	struct dial_wait wait;
	bool is_close_sent, is_closed;
	unsigned code;
	char reason[WS_CONTROL_MAX + 1];
};

static int check_answer(const struct http_reply *reply, const char *key)
{
	const char *accept = http_reply_header(reply, "sec-websocket-accept");
	char wanted[29];

	ws_accept_key(key, wanted);
	return reply->status == 101 && accept && !strcmp(accept, wanted) ? 0 : -EPROTO;
}

static int open_it(struct ws_client *w, const char *target, const struct http_field *headers,
	struct http_reply *reply, struct cell_error *err)
{
	auto_buf struct buf head = BUF_INIT(64u * 1024);
	struct http_call call = {.target = target, .headers = headers};
	auto_(client_reader_done) struct answer_reader a = {0};
	unsigned char random[16];
	char key[25], extra[200];

	if (getrandom(random, sizeof random, 0) != sizeof random)
		return cell_fail_errno(err, errno, "make a key");
	(void)EVP_EncodeBlock((unsigned char *)key, random, sizeof random);
	(void)snprintf(extra, sizeof extra,
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
		"13\r\nSec-WebSocket-Key: %s\r\n",
		key);
	int r = client_build_head(w->c, &call, extra, &head, err);
	if (r == 0)
		r = client_open(w->c, &w->wait, &w->stream, err);
	if (r < 0)
		return r;
	struct dial_wait wait = w->wait;
	wait.deadline_ms = dial_now_ms() + w->c->o.connect_ms;
	r = dial_write(&w->stream, head.data, head.len, &wait);
	if (r < 0)
		return client_fail(w->c, r, "open a WebSocket at", err);
	r = client_reader_init(&a, &call, reply, err);
	if (r < 0)
		return r;
	r = client_read(w->c, &w->stream, &a, &wait, &w->in, err);
	if (r < 0)
		return r;
	if (check_answer(reply, key) < 0) {
		(void)cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"open a WebSocket at '%s': the server answered %d", target, reply->status);
		return cell_error_hint(err, -EPROTO, "its answer says why");
	}
	return 0;
}

int ws_client_open(struct http_client *c, const char *target, const struct http_field *headers,
	size_t max_message, struct ws_client **ret, struct http_reply *ret_reply,
	struct cell_error *err)
{
	struct http_reply reply = {0};
	struct ws_client *w = calloc(1, sizeof *w);

	if (ret_reply)
		*ret_reply = reply;
	if (!w)
		return cell_fail_errno(err, ENOMEM, "open a WebSocket");
	max_message = max_message ? max_message : 16u * 1024 * 1024;
	*w = (struct ws_client){.c = c,
		.stream.fd = -1,
		.in = BUF_INIT(max_message + 1024u * 1024),
		.wait = {.stall_ms = c->o.stall_ms,
			.is_cancelled = c->o.is_cancelled,
			.arg = c->o.arg},
		.code = WS_ABNORMAL};
	ws_decoder_init(&w->decoder, false, max_message);
	int r = open_it(w, target, headers, &reply, err);
	if (r < 0) {
		ws_client_free(w);
		if (ret_reply && reply.status)
			*ret_reply = reply;
		else
			http_reply_done(&reply);
		return r;
	}
	http_reply_done(&reply);
	*ret = w;
	return 0;
}

void ws_client_free(struct ws_client *w)
{
	if (!w)
		return;
	net_stream_done(&w->stream);
	ws_decoder_done(&w->decoder);
	buf_done(&w->in);
	free(w);
}

int ws_client_fd(const struct ws_client *w)
{
	return w->stream.fd;
}

/* Reads what is there into `in`, without waiting. Bytes, 0 at the end, or a negative errno. */
static ssize_t read_more(struct ws_client *w)
{
	char chunk[CHUNK_BYTES];

	buf_consume(&w->in, w->in_at);
	w->in_at = 0;
	ssize_t n = net_stream_read(&w->stream, chunk, sizeof chunk);
	if (n > 0) {
		int r = buf_add(&w->in, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
	return n;
}

/* Sends all. The peer may be waiting for us to read: what comes meanwhile is kept. */
static int send_all(struct ws_client *w, const uint8_t *p, size_t n)
{
	while (n > 0) {
		struct iovec iov = {(void *)(uintptr_t)p, n};
		ssize_t k = net_stream_write(&w->stream, &iov, 1);
		if (k == -EAGAIN) {
			k = dial_wait_for(w->stream.fd, POLLIN | POLLOUT, &w->wait);
			if (k == 0)
				k = read_more(w);
			if (k == 0)
				return -EPIPE;
			if (k < 0 && k != -EAGAIN)
				return (int)k;
			/* Nothing to read, so it was room to write. */
			continue;
		}
		if (k < 0)
			return (int)k;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

static int send_frame(struct ws_client *w, enum ws_opcode opcode, const uint8_t *p, size_t n)
{
	uint8_t chunk[CHUNK_BYTES], mask[4];

	if (getrandom(mask, sizeof mask, 0) != sizeof mask)
		return -errno;
	size_t at = ws_encode_head(chunk, opcode, n, mask), done = 0;
	int r = 0;
	do {
		/* A multiple of four, so that each piece begins with the mask's first byte. */
		size_t k = (sizeof chunk - at) & ~(size_t)3;
		if (k > n - done)
			k = n - done;
		if (k > 0)
			ws_mask(chunk + at, p + done, k, mask);
		r = send_all(w, chunk, at + k);
		done += k;
		at = 0;
	} while (r == 0 && done < n);
	return r;
}

int ws_client_send(struct ws_client *w, enum ws_type type, const void *p, size_t n,
	struct cell_error *err)
{
	int r = w->is_close_sent || w->is_closed ? -EPIPE
						 : send_frame(w, (enum ws_opcode)type, p, n);

	return r < 0 ? client_fail(w->c, r, "send to", err) : 0;
}

int ws_client_close(struct ws_client *w, unsigned code, const char *reason, struct cell_error *err)
{
	uint8_t payload[WS_CONTROL_MAX];

	if (w->is_close_sent || w->is_closed)
		return 0;
	w->is_close_sent = true;
	int r = send_frame(w, WS_OP_CLOSE, payload, ws_encode_close(payload, code, reason));
	return r < 0 ? client_fail(w->c, r, "send to", err) : 0;
}

unsigned ws_client_closed(const struct ws_client *w, const char **ret_reason)
{
	if (ret_reason)
		*ret_reason = w->reason;
	return w->code;
}

/* 1: a message for the caller; 0: go on; -ESHUTDOWN: closed. */
static int take_frame(struct ws_client *w, const struct ws_frame *f)
{
	switch (f->opcode) {
	case WS_OP_PING:
		return w->is_close_sent ? 0 : send_frame(w, WS_OP_PONG, f->p, f->n);
	case WS_OP_PONG:
		return 0;
	case WS_OP_CLOSE:
		w->is_closed = true;
		w->code = f->code;
		(void)snprintf(w->reason, sizeof w->reason, "%s", (const char *)f->p);
		if (!w->is_close_sent) {
			uint8_t payload[WS_CONTROL_MAX];
			w->is_close_sent = true;
			(void)send_frame(w, WS_OP_CLOSE, payload,
				ws_encode_close(payload,
					f->code == WS_NO_CODE ? WS_NORMAL : f->code, NULL));
		}
		return -ESHUTDOWN;
	default:
		return 1;
	}
}

/* Looks at what is in `in`. As take_frame(). */
static int take_input(struct ws_client *w, struct ws_frame *ret)
{
	int r = 0;

	while (r == 0 && w->in_at < w->in.len) {
		/* Moved aside: answering a ping may read more. */
		struct buf in = w->in;
		size_t used, at = w->in_at;

		w->in = (struct buf)BUF_INIT(in.max);
		w->in_at = 0;
		int k = ws_decode(&w->decoder, in.data + at, in.len - at, &used, ret);
		if (k > 0)
			r = take_frame(w, ret);
		else if (k < 0) {
			uint8_t payload[WS_CONTROL_MAX];
			(void)send_frame(w, WS_OP_CLOSE, payload,
				ws_encode_close(payload, (unsigned)-k, "protocol error"));
			w->is_close_sent = w->is_closed = true;
			r = -EPROTO;
		}
		at += used;
		if (r >= 0 && w->in.len > 0 && buf_add(&in, w->in.data, w->in.len) < 0)
			r = -ENOBUFS;
		buf_done(&w->in);
		w->in = in;
		w->in_at = at;
	}
	return r;
}

int ws_client_recv(struct ws_client *w, int timeout_ms, enum ws_type *ret_type, const void **ret_p,
	size_t *ret_n, struct cell_error *err)
{
	struct dial_wait wait = w->wait;
	struct ws_frame f;

	wait.stall_ms = 0;
	if (timeout_ms >= 0)
		wait.deadline_ms = dial_now_ms() + (unsigned)timeout_ms;
	if (w->is_closed)
		return cell_fail(err, CELL_EGONE, ESHUTDOWN,
			"the server has closed the connection");
	for (;;) {
		int r = take_input(w, &f);
		if (r > 0) {
			*ret_type = (enum ws_type)f.opcode;
			*ret_p = f.p;
			*ret_n = f.n;
			return 1;
		}
		if (r == -ESHUTDOWN)
			return cell_fail(err, CELL_EGONE, ESHUTDOWN,
				"the server has closed the connection");
		ssize_t n = r < 0 ? r : read_more(w);
		if (n == -EAGAIN) {
			n = dial_wait_for(w->stream.fd,
				w->stream.read_needs_write ? POLLOUT : POLLIN, &wait);
			if (n == -ETIMEDOUT)
				return 0;
			if (n == 0)
				continue;
		}
		if (n <= 0) {
			w->is_closed = true;
			return client_fail(w->c, n == 0 ? -ECONNRESET : (int)n, "read from", err);
		}
	}
}
