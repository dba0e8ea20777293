/* SPDX-License-Identifier: Apache-2.0 */
/* http_answer.c: the answer to a request: its head, whole or streamed bodies, what scripts of other
 * origins may see. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/http_internal.h"
#include "net/text.h"

/* --- headers --- */

static bool is_ours(const char *name)
{
	static const char *const names[] = {"content-length", "transfer-encoding", "connection",
		"date", "x-request-id", "server", "content-type"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

int http_add_header(struct http_exchange *x, const char *name, const char *value)
{
	size_t n = strlen(name), m = strlen(value);

	if (!net_is_token(name, n) || !net_is_field_value(value, m) || is_ours(name))
		return -EINVAL;
	if (x->answer != ANSWER_NONE)
		return -EALREADY;
	size_t before = x->headers.len;
	int r = buf_add(&x->headers, name, n);
	r = r ? r : buf_add(&x->headers, ": ", 2);
	r = r ? r : buf_add(&x->headers, value, m);
	r = r ? r : buf_add(&x->headers, "\r\n", 2);
	if (r < 0)
		x->headers.len = before;
	return r;
}

int http_add_headerf(struct http_exchange *x, const char *name, const char *fmt, ...)
{
	char value[1024];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(value, sizeof value, fmt, ap);
	va_end(ap);
	return n < 0 || (size_t)n >= sizeof value ? -EINVAL : http_add_header(x, name, value);
}

void http_no_gzip(struct http_exchange *x)
{
	x->is_gzip_off = true;
}

/* --- other origins --- */

static const char *listed_origin(const struct http_exchange *x)
{
	const char *origin = head_field(&x->head, "origin");
	char **list = x->c->s->origins;

	for (size_t i = 0; origin && list && list[i]; i++)
		if (!strcmp(list[i], "*") || !strcasecmp(list[i], origin))
			return origin;
	return NULL;
}

bool http_origin_is_allowed(const struct http_exchange *x)
{
	const char *origin = head_field(&x->head, "origin");

	if (!origin || listed_origin(x))
		return true;
	const char *host = strstr(origin, "://");
	return host && x->head.host[0] && !strcasecmp(host + 3, x->head.host);
}

bool answer_is_preflight(const struct http_exchange *x)
{
	return !strcmp(x->head.method, "OPTIONS") && listed_origin(x) &&
	       head_field(&x->head, "access-control-request-method");
}

void answer_preflight(struct http_exchange *x)
{
	const char *wanted = head_field(&x->head, "access-control-request-headers");

	(void)http_add_header(x, "Access-Control-Allow-Methods",
		"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
	if (wanted)
		(void)http_add_header(x, "Access-Control-Allow-Headers", wanted);
	(void)http_add_header(x, "Access-Control-Max-Age", "600");
	http_respond(x, 204, NULL, NULL, 0);
}

/* --- the head --- */

struct plan {
	int status;
	const char *type;
	int64_t length; /* -1: chunked, -2: until the end of the connection, -3: no body at all */
	const char *upgrade;
	bool is_gzipped, is_vary;
};

static void add_number(struct buf *b, uint64_t n)
{
	char digits[20];
	size_t i = sizeof digits;

	do {
		digits[--i] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	(void)buf_add(b, digits + i, sizeof digits - i);
}

static void add_line(struct buf *b, const char *name, const char *value)
{
	(void)buf_addz(b, name);
	(void)buf_addz(b, value);
	(void)buf_add(b, "\r\n", 2);
}

/* Is this connection of use after the answer? Says so in advance. */
static bool decide_keeping(struct http_exchange *x)
{
	struct http_conn *c = x->c;

	if (c->s->is_draining || c->is_input_dead)
		c->is_keeping = false;
	if (!x->is_complete) {
		/* The rest of a body nobody reads is only worth swallowing when it is small. */
		int64_t left = x->head.content_length - (int64_t)x->body_in;
		if (!x->is_continued || x->head.content_length < 0 || left > DISCARD_BYTES)
			c->is_keeping = false;
	}
	return c->is_keeping;
}

/* Into s->build, whose room was made beforehand: adding cannot fail. */
static int build_head(struct http_server *s, struct http_exchange *x, const char *request_id,
	const struct plan *p, bool is_keeping)
{
	struct buf *b = &s->build;
	const char *origin = x ? listed_origin(x) : NULL;

	buf_reset(b);
	int r = buf_reserve(b, 1024 + (x ? x->headers.len : 0) + (p->type ? strlen(p->type) : 0) +
				       (origin ? strlen(origin) : 0));
	if (r < 0)
		return r;
	(void)buf_addz(b, "HTTP/1.1 ");
	add_number(b, (uint64_t)p->status);
	(void)buf_addc(b, ' ');
	add_line(b, net_status_text(p->status), "");
	(void)buf_addz(b, server_date_line(s));
	if (request_id)
		add_line(b, "X-Request-Id: ", request_id);
	if (p->type && net_is_field_value(p->type, strlen(p->type))) /* it may come from a client */
		add_line(b, "Content-Type: ", p->type);
	if (p->length >= 0) {
		(void)buf_addz(b, "Content-Length: ");
		add_number(b, (uint64_t)p->length);
		(void)buf_add(b, "\r\n", 2);
	} else if (p->length == -1) {
		(void)buf_addz(b, "Transfer-Encoding: chunked\r\n");
	}
	if (p->is_gzipped)
		(void)buf_addz(b, "Content-Encoding: gzip\r\n");
	if (p->is_vary)
		(void)buf_addz(b, "Vary: Accept-Encoding\r\n");
	if (origin) {
		add_line(b, "Access-Control-Allow-Origin: ", origin);
		(void)buf_addz(b, "Vary: Origin\r\nAccess-Control-Expose-Headers: X-Request-Id, "
				  "Retry-After, Location\r\n");
	}
	if (x && x->headers.len)
		(void)buf_add(b, x->headers.data, x->headers.len);
	if (p->upgrade) {
		add_line(b, "Upgrade: ", p->upgrade);
		(void)buf_addz(b, "Connection: Upgrade\r\n");
	} else if (!is_keeping) {
		(void)buf_addz(b, "Connection: close\r\n");
	} else if (x && x->head.is_http_1_0) {
		(void)buf_addz(b, "Connection: keep-alive\r\n");
	}
	return buf_add(b, "\r\n", 2);
}

/* --- the end --- */

static void over(struct http_exchange *x)
{
	struct http_conn *c = x->c;
	struct http_server *s = c->s;

	x->answer = ANSWER_OVER;
	if (s->o.finished)
		s->o.finished(x, s->o.arg);
	x->is_alive = false;
	s->stats.exchanges--;
	conn_exchange_over(c);
}

void http_abort(struct http_exchange *x)
{
	conn_close(x->c);
	over(x);
}

/* --- whole answers --- */

static bool has_no_body(int status)
{
	return status < 200 || status == 204 || status == 304;
}

static void respond(struct http_exchange *x, int status, const char *type, const void *body,
	size_t len, void *owned, void (*free_fn)(void *p))
{
	struct http_conn *c = x->c;
	struct http_server *s = c->s;
	struct plan p = {.status = status, .type = type, .length = (int64_t)len};

	if (x->answer != ANSWER_NONE || c->phase == CONN_CLOSED) {
		if (free_fn)
			free_fn(owned);
		if (x->answer != ANSWER_NONE)
			conn_close(c); /* a second answer: the first one is broken off */
		over(x);
		return;
	}
	if (has_no_body(status)) {
		p.length = -3;
		p.type = NULL;
		len = 0;
	}
	if (len >= GZIP_MIN_BYTES && !s->o.no_gzip && !x->is_gzip_off &&
		net_is_compressible(type)) {
		const struct buf *small;
		p.is_vary = true;
		if (net_accepts_gzip(head_field(&x->head, "accept-encoding")) &&
			(small = gzip_body(s, body, len))) {
			p.is_gzipped = true;
			body = small->data;
			len = small->len;
			p.length = (int64_t)len;
			if (free_fn)
				free_fn(owned);
			free_fn = NULL;
		}
	}
	x->status = status;
	if (build_head(s, x, x->request_id, &p, decide_keeping(x)) < 0) {
		if (free_fn)
			free_fn(owned);
		http_abort(x);
		return;
	}
	if (x->is_head)
		len = 0;
	x->body_out = len;
	struct iovec iov[2] = {{s->build.data, s->build.len}, {(void *)(uintptr_t)body, len}};
	if (len == 0 && free_fn) {
		free_fn(owned);
		free_fn = NULL;
	}
	out_send(c, iov, len ? 2 : 1, owned, free_fn);
	over(x);
}

void http_respond(struct http_exchange *x, int status, const char *type, const void *body,
	size_t len)
{
	respond(x, status, type, body, len, NULL, NULL);
}

void http_respond_own(struct http_exchange *x, int status, const char *type, void *body, size_t len,
	void (*free_fn)(void *body))
{
	respond(x, status, type, body, len, body, free_fn);
}

/* --- errors --- */

static const char *error_text(struct http_server *s, struct http_exchange *x, int status,
	const char *why, const char *request_id)
{
	const char *type = NULL;

	s->error_text.max = 64u * 1024;
	buf_reset(&s->error_text);
	if (s->o.error_body)
		type = s->o.error_body(x, status, why, request_id, &s->error_text, s->o.arg);
	if (!type) {
		buf_reset(&s->error_text);
		(void)buf_addf(&s->error_text, "%s\n", why);
		type = "text/plain; charset=utf-8";
	}
	return type;
}

void http_fail(struct http_exchange *x, int status, const char *message)
{
	struct http_server *s = x->c->s;
	const char *type = error_text(s, x, status, message, x->request_id);

	http_respond(x, status, type, s->error_text.data, s->error_text.len);
}

void http_fail_body(struct http_exchange *x, int result)
{
	switch (result) {
	case -EMSGSIZE:
		http_fail(x, 413, "the body is too large");
		break;
	case -ETIMEDOUT:
		http_fail(x, 408, "the body took too long");
		break;
	case -ENOMEM:
		http_fail(x, 503, "the server is out of memory");
		break;
	case -ECONNRESET:
		http_fail(x, 400, "the connection ended in the middle of the body");
		break;
	default:
		http_fail(x, 400, "the body is malformed");
	}
}

void answer_error(struct http_conn *c, struct http_exchange *x, int status, const char *why)
{
	struct http_server *s = c->s;
	char id[REQUEST_ID_MAX + 1];

	server_request_id(s, id);
	s->stats.refused++;
	const char *type = error_text(s, x, status, why, id);
	struct plan p = {.status = status, .type = type, .length = (int64_t)s->error_text.len};
	if (s->o.refused)
		s->o.refused(status, why, c->peer.address, id, s->o.arg);
	if (build_head(s, NULL, id, &p, false) < 0)
		return;
	struct iovec iov[2] = {
		{s->build.data, s->build.len}, {s->error_text.data, s->error_text.len}};
	out_send(c, iov, s->error_text.len ? 2 : 1, NULL, NULL);
}

void answer_continue(struct http_exchange *x)
{
	static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct iovec iov = {text, sizeof text - 1};

	out_send(x->c, &iov, 1, NULL, NULL);
}

/* --- streams --- */

static int begin(struct http_exchange *x, const struct plan *p, bool is_keeping)
{
	struct http_conn *c = x->c;

	x->status = p->status;
	x->answer = ANSWER_BEGUN;
	if (c->phase == CONN_CLOSED)
		return -EPIPE;
	if (build_head(c->s, x, x->request_id, p, is_keeping) < 0) {
		conn_close(c);
		return -ENOMEM;
	}
	/* With the first bytes of the body, if they come soon. */
	out_put(c, c->s->build.data, c->s->build.len);
	return c->phase == CONN_CLOSED ? -EPIPE : 0;
}

int http_begin(struct http_exchange *x, int status, const char *type, int64_t length)
{
	struct plan p = {.status = status, .type = type, .length = length < 0 ? -1 : length};

	if (x->answer != ANSWER_NONE)
		return -EALREADY;
	if (length < 0 && x->head.is_http_1_0) {
		p.length = -2;
		x->c->is_keeping = false;
	}
	if (has_no_body(status))
		p.length = -3;
	x->answer_left = p.length == -3 ? 0 : p.length;
	bool is_keeping = decide_keeping(x);
	return begin(x, &p, is_keeping);
}

/* Small pieces are put together and sent from the loop; a large one goes straight to the socket. */
static void send_pieces(struct http_conn *c, const struct iovec *iov, int n)
{
	size_t total = 0;

	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (total > SMALL_WRITE && !c->out) {
		out_send(c, iov, n, NULL, NULL);
		return;
	}
	for (int i = 0; i < n; i++)
		out_put(c, iov[i].iov_base, iov[i].iov_len);
	if (c->unsent >= 2u * SEGMENT_BYTES && c->phase != CONN_CLOSED)
		out_flush(c);
}

static int may_write(const struct http_exchange *x)
{
	const struct http_conn *c = x->c;

	if (x->answer != ANSWER_BEGUN)
		return -EINVAL;
	if (c->phase == CONN_CLOSED || c->wants_finish)
		return -EPIPE;
	return c->unsent >= 4 * c->s->o.limits.queued_bytes ? -ENOBUFS : 0;
}

/* What http_write() returns after it. */
static int written(struct http_exchange *x)
{
	if (x->c->phase == CONN_CLOSED)
		return -EPIPE;
	x->wants_drain |= x->c->unsent > x->c->s->o.limits.queued_bytes;
	return x->wants_drain;
}

int http_write(struct http_exchange *x, const void *p, size_t n)
{
	char size[20];
	int r = may_write(x);

	if (r < 0)
		return r;
	if (x->answer_left >= 0) {
		if (n > (uint64_t)x->answer_left)
			return -EMSGSIZE;
		x->answer_left -= (int64_t)n;
	}
	x->body_out += n;
	struct iovec iov[3] = {{size, 0}, {(void *)(uintptr_t)p, n}, {(char[]){"\r\n"}, 2}};
	if (n > 0 && !x->is_head && x->answer_left == -1) {
		iov[0].iov_len = (size_t)snprintf(size, sizeof size, "%zx\r\n", n);
		send_pieces(x->c, iov, 3);
	} else if (n > 0 && !x->is_head) {
		send_pieces(x->c, iov + 1, 1);
	}
	return written(x);
}

int answer_raw(struct http_exchange *x, const struct iovec *iov, int n)
{
	int r = may_write(x);

	if (r < 0)
		return r;
	for (int i = 0; i < n; i++)
		x->body_out += iov[i].iov_len;
	send_pieces(x->c, iov, n);
	return written(x);
}

size_t http_unsent(const struct http_exchange *x)
{
	return x->c->unsent;
}

void http_end(struct http_exchange *x)
{
	if (x->answer == ANSWER_NONE || (x->answer_left > 0 && !x->is_head)) {
		http_abort(x);
		return;
	}
	if (x->answer_left == -1 && !x->is_head)
		out_put(x->c, "0\r\n\r\n", 5);
	over(x);
}

/* --- taking over --- */

int http_take_over(struct http_exchange *x, const char *protocol,
	const struct http_body_events *events, void *arg)
{
	struct plan p = {.status = 101, .length = -3, .upgrade = protocol};

	if (x->answer != ANSWER_NONE || !http_is_upgrade(x, protocol))
		return -EINVAL;
	x->body_events = events;
	x->body_arg = arg;
	x->mode = BODY_STREAM;
	x->body_max = UINT64_MAX;
	x->body_in = 0;
	x->is_complete = x->is_end_told = false;
	x->answer_left = -2;
	int r = begin(x, &p, true);
	if (r == 0)
		conn_take_over(x->c);
	return 0; /* gone already: end() says so */
}

int http_finish_sending(struct http_exchange *x)
{
	if (x->c->phase != CONN_RAW)
		return x->c->phase == CONN_CLOSED ? -EPIPE : -EINVAL;
	x->c->wants_finish = true;
	conn_kick(x->c);
	return 0;
}
