/* SPDX-License-Identifier: Apache-2.0 */
#include "net/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "net/client_internal.h"

#define HEAD_MAX    (64u * 1024)
#define REFUSAL_MAX (1u << 20) /* kept of an answer that is not what a sink is for */
#define MAX_BODY    (16u * 1024 * 1024)
#define CHUNK_BYTES (64u * 1024)
#define CONTINUE_MS 1000

/* --- the client --- */

int http_client_new(const char *url, const struct http_client_options *options,
	struct http_client **ret, struct cell_error *err)
{
	struct http_client *c = calloc(1, sizeof *c);
	int r = c ? net_url_parse(url, &c->url, err)
		  : cell_fail_errno(err, ENOMEM, "make a client");

	if (r < 0) {
		free(c);
		return r;
	}
	if (options)
		c->o = *options;
	c->o.connect_ms = c->o.connect_ms ? c->o.connect_ms : 10000;
	if ((c->o.ca_file && !(c->ca_file = strdup(c->o.ca_file))) ||
		(c->o.cert_file && !(c->cert_file = strdup(c->o.cert_file))) ||
		(c->o.key_file && !(c->key_file = strdup(c->o.key_file))) ||
		!(c->user_agent =
				strdup(c->o.user_agent ? c->o.user_agent : "cell/" CELL_VERSION))) {
		http_client_free(c);
		return cell_fail_errno(err, ENOMEM, "make a client");
	}
	*ret = c;
	return 0;
}

static void hang_up(struct http_client *c)
{
	if (c->is_open)
		net_stream_done(&c->stream);
	c->is_open = false;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	hang_up(c);
	dial_tls_free(c->ctx);
	free(c->ca_file);
	free(c->cert_file);
	free(c->key_file);
	free(c->user_agent);
	free(c);
}

int client_fail(const struct http_client *c, int r, const char *doing, struct cell_error *err)
{
	enum cell_code code = r == -ETIMEDOUT  ? CELL_ETIMEOUT
			      : r == -EPROTO   ? CELL_EPROTOCOL
			      : r == -EMSGSIZE ? CELL_ELIMIT
			      : r == -EINTR    ? CELL_EBUSY
					       : CELL_EBACKEND;
	const char *name = c->url.scheme == NET_UNIX ? c->url.host : c->url.authority;

	(void)cell_fail(err, code, -r, "%s '%s'", doing, name);
	return cell_error_hint(err, r, "%s",
		r == -ETIMEDOUT	 ? "the server is busy or gone: try again, or allow more time"
		: r == -EPROTO	 ? "what answers there speaks no proper HTTP: check the URL"
		: r == -EMSGSIZE ? "ask for less at a time"
		: r == -EINTR	 ? "it was interrupted"
				 : "the connection broke: see the server's log, then try again");
}

int client_open(struct http_client *c, const struct dial_wait *w, struct net_stream *ret,
	struct cell_error *err)
{
	struct dial_wait own = *w;
	uint64_t limit_ms = dial_now_ms() + c->o.connect_ms;

	own.stall_ms = 0;
	if (!own.deadline_ms || limit_ms < own.deadline_ms)
		own.deadline_ms = limit_ms;
	if (c->url.scheme == NET_HTTPS && !c->ctx) {
		int r = dial_tls(c->ca_file, c->o.is_insecure, &c->ctx, err);
		if (r == 0 && c->cert_file)
			r = dial_tls_identity(c->ctx, c->cert_file, c->key_file, err);
		if (r < 0)
			return r;
	}
	return dial(&c->url, c->ctx, &own, ret, err);
}

/* --- the request --- */

int client_build_head(const struct http_client *c, const struct http_call *call, const char *extra,
	struct buf *b, struct cell_error *err)
{
	const char *target = call->target ? call->target : "/";
	const char *method = call->method ? call->method : "GET";
	const char *prefix = !strcmp(c->url.path, "/") ? "" : c->url.path;

	if (!net_is_token(method, strlen(method)) || target[0] != '/' || strpbrk(target, " \r\n\t"))
		return cell_fail(err, CELL_EINVAL, EINVAL, "request '%s' '%s': malformed", method,
			target);
	int r = buf_addf(b, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", method, prefix,
		target, c->url.authority, c->user_agent);
	for (const struct http_field *f = call->headers; f && f->name && r == 0; f++) {
		if (!net_is_token(f->name, strlen(f->name)) ||
			!net_is_field_value(f->value, strlen(f->value)))
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"the header '%s' has characters that headers cannot have", f->name);
		r = buf_addf(b, "%s: %s\r\n", f->name, f->value);
	}
	if (r == 0 && call->source && call->source_len < 0)
		r = buf_addz(b, "Transfer-Encoding: chunked\r\n");
	else if (r == 0 && call->source)
		r = buf_addf(b, "Content-Length: %lld\r\n", (long long)call->source_len);
	else if (r == 0 && (call->body_len || !strcmp(method, "POST") || !strcmp(method, "PUT") ||
				   !strcmp(method, "PATCH")))
		r = buf_addf(b, "Content-Length: %zu\r\n", call->body_len);
	if (r == 0 && call->expect_continue)
		r = buf_addz(b, "Expect: 100-continue\r\n");
	if (r == 0)
		r = buf_addf(b, "%s\r\n", extra ? extra : "");
	return r < 0 ? cell_fail(err, CELL_EINVAL, -r, "the request's headers are too large") : 0;
}

/* Is there something to read (an early answer, or the end)? */
static bool has_input(struct net_stream *s)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};

	return net_stream_has_pending(s) || poll(&p, 1, 0) > 0;
}

/* Takes a "100 Continue" out of the way, when that is what there is: it is no answer, and must not be taken for one. Not through
 * TLS, which cannot be looked at without taking it: there the answer's reader passes over it. */
static bool pass_continue(struct net_stream *s)
{
	static const char begin[] = "HTTP/1.1 100";
	char head[1024];

	if (s->ssl)
		return false;
	ssize_t n = recv(s->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
	const char *end = n > 0 ? memmem(head, (size_t)n, "\r\n\r\n", 4) : NULL;
	if (!end || n < (ssize_t)sizeof begin || strncmp(head, begin, sizeof begin - 1) != 0)
		return false;
	return recv(s->fd, head, (size_t)(end + 4 - head), MSG_DONTWAIT) == end + 4 - head;
}

/* Has a connection kept from an earlier call been closed meanwhile, or is it out of step? Reading finds out: with
 * TLS what is there to read may be its own business. */
static bool is_stale(struct net_stream *s)
{
	char c;

	return net_stream_read(s, &c, 1) != -EAGAIN;
}

/* Sends, listening: 1 when the server has begun to answer. */
static int send_listening(struct net_stream *s, const char *p, size_t n, const struct dial_wait *w)
{
	while (n > 0) {
		struct iovec iov = {(void *)(uintptr_t)p, n};
		ssize_t k = net_stream_write(s, &iov, 1);
		if (k == -EAGAIN) {
			k = dial_wait_for(s->fd, s->write_needs_read ? POLLIN : POLLIN | POLLOUT,
				w);
			if (k == 0 && !s->ssl && has_input(s) && !pass_continue(s))
				return 1;
		}
		if (k < 0)
			return (int)k;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

static int send_source(struct net_stream *s, const struct http_call *call,
	const struct dial_wait *w)
{
	auto_free char *chunk = malloc(CHUNK_BYTES + 32);
	int64_t left = call->source_len;
	bool is_chunked = left < 0;

	if (!chunk)
		return -ENOMEM;
	for (;;) {
		size_t room = CHUNK_BYTES;
		if (!is_chunked && left < (int64_t)room)
			room = (size_t)left;
		ssize_t n = room ? call->source(call->arg, chunk + 16, room) : 0;
		if (n < 0)
			return (int)n;
		if (n == 0 && !is_chunked)
			return left ? -EPIPE : 0;
		int r = 0;
		if (is_chunked) {
			char size[16];
			int k = snprintf(size, sizeof size, "%zx\r\n", (size_t)n);
			memcpy(chunk + 16 - k, size, (size_t)k);
			memcpy(chunk + 16 + n, "\r\n", 2);
			r = send_listening(s, chunk + 16 - k, (size_t)(k + n + 2), w);
		} else {
			left -= n;
			r = send_listening(s, chunk + 16, (size_t)n, w);
		}
		if (r != 0 || n == 0)
			return r;
	}
}

/* 0: all sent; 1: the server answers already; negative: broken. */
static int send_request(struct http_client *c, const struct http_call *call, const struct buf *head,
	const struct dial_wait *w, bool *ret_has_started)
{
	struct net_stream *s = &c->stream;
	int r = dial_write(s, head->data, head->len, w);

	if (r < 0)
		return r;
	if (call->expect_continue) {
		struct dial_wait brief = *w;
		uint64_t limit_ms = dial_now_ms() + CONTINUE_MS;
		if (!brief.deadline_ms || limit_ms < brief.deadline_ms)
			brief.deadline_ms = limit_ms;
		r = dial_wait_for(s->fd, POLLIN, &brief);
		if (r == -EINTR)
			return r;
		/* Another answer comes instead of it. */
		if (r == 0 && !s->ssl && !pass_continue(s))
			return 1;
	}
	*ret_has_started = true;
	if (call->source)
		return send_source(s, call, w);
	return call->body_len ? send_listening(s, call->body, call->body_len, w) : 0;
}

/* --- the answer --- */

void http_reply_done(struct http_reply *r)
{
	buf_done(&r->body);
	buf_done(&r->head_);
	free(r->fields);
	*r = (struct http_reply){0};
}

const char *http_reply_header(const struct http_reply *r, const char *name)
{
	for (unsigned i = 0; i < r->n_fields; i++)
		if (!strcasecmp(r->fields[i].name, name))
			return r->fields[i].value;
	return NULL;
}

/* The fields go to the reply, and the text they point into with them. */
static int keep_fields(struct answer_reader *a, const struct http_field *fields)
{
	struct http_reply *r = a->reply;

	while (fields[r->n_fields].name)
		r->n_fields++;
	r->fields = calloc(r->n_fields + 1u, sizeof *r->fields);
	if (!r->fields)
		return -ENOMEM;
	memcpy(r->fields, fields, r->n_fields * sizeof *fields);
	upstream_take_head(a->up, &r->head_);
	return 0;
}

static int on_head(void *arg, int status, const struct http_field *fields, int64_t length)
{
	struct answer_reader *a = arg;

	(void)length;
	a->reply->status = status;
	a->error = keep_fields(a, fields);
	return a->error;
}

static int on_body(void *arg, const void *p, size_t n)
{
	struct answer_reader *a = arg;

	if (!a->call->sink)
		a->error = buf_add(&a->reply->body, p, n);
	else if (a->reply->status / 100 == 2)
		a->error = a->call->sink(a->call->arg, p, n);
	else if (a->reply->body.len + n <= REFUSAL_MAX)
		a->error = buf_add(&a->reply->body, p, n);
	if (a->error == -ENOBUFS)
		a->error = -EMSGSIZE;
	return a->error;
}

int client_reader_init(struct answer_reader *a, const struct http_call *call,
	struct http_reply *reply, struct cell_error *err)
{
	static const struct upstream_events events = {on_head, on_body};
	bool is_head = call->method && !strcmp(call->method, "HEAD");

	*a = (struct answer_reader){.call = call, .reply = reply};
	a->up = upstream_new(is_head, &events, a);
	reply->body.max = call->sink ? REFUSAL_MAX : call->max_body ? call->max_body : MAX_BODY;
	return a->up ? 0 : cell_fail_errno(err, ENOMEM, "read an answer");
}

void client_reader_done(struct answer_reader *a)
{
	upstream_free(a->up);
}

static int feed(struct answer_reader *a, const char *p, size_t n, struct buf *ret_rest)
{
	size_t used;
	int r = upstream_feed(a->up, p, n, &used);

	if (r < 0 || used == n)
		return r;
	a->has_rest = true;
	return ret_rest ? buf_add(ret_rest, p + used, n - used) : 0;
}

int client_read(struct http_client *c, struct net_stream *s, struct answer_reader *a,
	const struct dial_wait *w, struct buf *ret_rest, struct cell_error *err)
{
	auto_free char *chunk = malloc(CHUNK_BYTES);
	int r = chunk ? 0 : -ENOMEM;

	while (r == 0 && !upstream_is_complete(a->up)) {
		ssize_t n = dial_read(s, chunk, CHUNK_BYTES, w);
		if (n < 0) {
			r = (int)n;
		} else if (n == 0) {
			/* The end of the connection may be the end of the body. */
			r = upstream_finish(a->up);
			if (r < 0 && !a->has_bytes)
				r = -ECONNRESET;
		} else {
			a->has_bytes = true;
			r = feed(a, chunk, (size_t)n, ret_rest);
		}
	}
	if (r == 0 || (a->error < 0 && a->error == r && r != -EMSGSIZE))
		return r < 0 ? cell_fail_errno(err, -r, "take the answer") : 0;
	return client_fail(c, r, "read the answer of", err);
}

/* One attempt. *ret_is_stale: nothing was heard, and the connection was an old one. */
static int attempt(struct http_client *c, const struct http_call *call, const struct dial_wait *w,
	struct http_reply *ret, bool *ret_is_stale, struct cell_error *err)
{
	auto_buf struct buf head = BUF_INIT(HEAD_MAX);
	auto_(client_reader_done) struct answer_reader a = {0};
	bool was_kept = c->is_open, has_started = false;
	int r = client_build_head(c, call, NULL, &head, err);

	*ret_is_stale = false;
	if (r < 0)
		return r;
	if (was_kept && is_stale(&c->stream)) {
		hang_up(c);
		was_kept = false;
	}
	if (!c->is_open) {
		r = client_open(c, w, &c->stream, err);
		if (r < 0)
			return r;
		c->is_open = true;
	}
	r = client_reader_init(&a, call, ret, err);
	if (r < 0)
		return r;
	int sent = send_request(c, call, &head, w, &has_started);
	bool is_broken = sent == -EPIPE || sent == -ECONNRESET;
	if (sent < 0 && !is_broken)
		r = client_fail(c, sent, "send the request to", err);
	else /* also when sending failed: the reason may have come before */
		r = client_read(c, &c->stream, &a, w, NULL, err);
	/* what is left over belongs to no answer: the next one could not be told from it */
	if (r < 0 || sent != 0 || a.has_rest || !upstream_is_keeping(a.up))
		hang_up(c);
	*ret_is_stale = r < 0 && was_kept && !a.has_bytes && !(call->source && has_started) &&
			r != -ETIMEDOUT && r != -EINTR;
	return r;
}

int http_client_call(struct http_client *c, const struct http_call *call, struct http_reply *ret,
	struct cell_error *err)
{
	struct dial_wait w = {
		.deadline_ms = call->timeout_ms ? dial_now_ms() + call->timeout_ms : 0,
		.stall_ms = c->o.stall_ms,
		.is_cancelled = c->o.is_cancelled,
		.arg = c->o.arg};
	bool is_stale;

	*ret = (struct http_reply){0};
	int r = attempt(c, call, &w, ret, &is_stale, err);
	if (r < 0)
		http_reply_done(ret);
	if (is_stale) {
		r = attempt(c, call, &w, ret, &is_stale, err);
		if (r < 0)
			http_reply_done(ret);
	}
	return r;
}

int http_client_upgrade(struct http_client *c, const struct http_call *call, const char *protocol,
	struct net_stream *ret, struct buf *ret_rest, struct http_reply *ret_reply,
	struct cell_error *err)
{
	auto_buf struct buf head = BUF_INIT(HEAD_MAX);
	struct dial_wait w = {
		.deadline_ms = call->timeout_ms ? dial_now_ms() + call->timeout_ms : 0,
		.is_cancelled = c->o.is_cancelled,
		.arg = c->o.arg};
	auto_(client_reader_done) struct answer_reader a = {0};
	struct net_stream s;
	char extra[100];

	*ret_reply = (struct http_reply){0};
	(void)snprintf(extra, sizeof extra, "Connection: Upgrade\r\nUpgrade: %.40s\r\n", protocol);
	int r = client_build_head(c, call, extra, &head, err);
	if (r == 0 && call->body_len && buf_add(&head, call->body, call->body_len) < 0)
		r = cell_fail(err, CELL_EINVAL, ENOBUFS, "the request is too large");
	if (r == 0)
		r = client_reader_init(&a, call, ret_reply, err);
	if (r == 0)
		r = client_open(c, &w, &s, err);
	if (r < 0)
		return r;
	r = dial_write(&s, head.data, head.len, &w);
	r = r < 0 ? client_fail(c, r, "send the request to", err)
		  : client_read(c, &s, &a, &w, ret_rest, err);
	if (r == 0 && ret_reply->status != 101)
		r = -EPROTO;
	if (r < 0)
		net_stream_done(&s);
	else
		*ret = s;
	return r;
}
