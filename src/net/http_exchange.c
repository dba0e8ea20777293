/* SPDX-License-Identifier: Apache-2.0 */
/* http_exchange.c: one request as the handler sees it, and how its body reaches the handler. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/http_internal.h"
#include "net/text.h"

#define KEPT_BYTES 8192

void exchange_reset(struct http_exchange *x)
{
	struct http_exchange fresh = {.c = x->c,
		.head = x->head,
		.body = x->body,
		.headers = x->headers,
		.answer = ANSWER_NONE};

	head_reset(&fresh.head);
	fresh.headers.max = ANSWER_HEADERS_MAX;
	if (fresh.body.cap > KEPT_BYTES)
		buf_done(&fresh.body);
	if (fresh.headers.cap > KEPT_BYTES)
		buf_done(&fresh.headers);
	buf_reset(&fresh.body);
	buf_reset(&fresh.headers);
	*x = fresh;
}

void exchange_done(struct http_exchange *x)
{
	head_done(&x->head);
	buf_done(&x->body);
	buf_done(&x->headers);
}

void exchange_begin(struct http_exchange *x)
{
	struct http_conn *c = x->c;
	struct http_server *s = c->s;

	x->is_alive = true;
	x->is_head = !strcmp(x->head.method, "HEAD");
	x->started_ms = net_loop_now_ms(s->loop);
	x->body_max = s->o.limits.body_bytes;
	x->is_continued = !x->head.expects_continue;
	server_request_id(s, x->request_id);
	s->stats.requests++;
	s->stats.exchanges++;
	if (x->head.content_length > 0 && (uint64_t)x->head.content_length > x->body_max) {
		c->is_keeping = false;
		http_fail(x, 413, "the body is too large");
	} else if (answer_is_preflight(x)) {
		answer_preflight(x);
	} else {
		s->o.handler(x, s->o.arg);
	}
}

/* --- the head --- */

const char *http_method(const struct http_exchange *x)
{
	return x->head.method;
}

const char *http_path(const struct http_exchange *x)
{
	return (const char *)x->head.text.data;
}

const char *http_raw_path(const struct http_exchange *x)
{
	return x->head.raw_path;
}

const char *http_raw_query(const struct http_exchange *x)
{
	return x->head.raw_query;
}

bool http_query_at(const struct http_exchange *x, unsigned i, const char **ret_name,
	const char **ret_value)
{
	const char *p = (const char *)x->head.text.data;

	if (i >= x->head.n_params)
		return false;
	p += strlen(p) + 1; /* behind the path */
	for (unsigned skip = 0; skip < 2 * i; skip++)
		p += strlen(p) + 1;
	*ret_name = p;
	*ret_value = p + strlen(p) + 1;
	return true;
}

const char *http_query(const struct http_exchange *x, const char *name)
{
	const char *p = (const char *)x->head.text.data;

	for (unsigned i = 0; i < x->head.n_params; i++) {
		p += strlen(p) + 1;
		const char *value = p + strlen(p) + 1;
		if (!strcmp(p, name))
			return value;
		p = value;
	}
	return NULL;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
	/* An authority in the request line counts more than the header. */
	if (!strcasecmp(name, "host"))
		return x->head.host && x->head.host[0] ? x->head.host : NULL;
	return head_field(&x->head, name);
}

bool http_header_at(const struct http_exchange *x, unsigned i, const char **ret_name,
	const char **ret_value)
{
	if (i >= x->head.n_fields)
		return false;
	*ret_name = (const char *)x->head.raw.data + x->head.fields[i].name;
	*ret_value = (const char *)x->head.raw.data + x->head.fields[i].value;
	return true;
}

bool http_header_has(const struct http_exchange *x, const char *name, const char *token)
{
	const char *n, *value;

	for (unsigned i = 0; http_header_at(x, i, &n, &value); i++)
		if (!strcasecmp(n, name) && net_list_has(value, token))
			return true;
	return false;
}

int64_t http_content_length(const struct http_exchange *x)
{
	return x->head.content_length;
}

bool http_has_body(const struct http_exchange *x)
{
	return x->head.content_length != 0;
}

const struct http_peer *http_peer(const struct http_exchange *x)
{
	return &x->c->peer;
}

const char *http_request_id(const struct http_exchange *x)
{
	return x->request_id;
}

int http_set_request_id(struct http_exchange *x, const char *id)
{
	size_t n = strlen(id);

	if (n == 0 || n > REQUEST_ID_MAX ||
		strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
			n)
		return -EINVAL;
	memcpy(x->request_id, id, n + 1);
	return 0;
}

void http_set_user(struct http_exchange *x, void *user)
{
	x->user = user;
}

void *http_user(const struct http_exchange *x)
{
	return x->user;
}

struct http_server *http_server_of(const struct http_exchange *x)
{
	return x->c->s;
}

uint64_t http_started_ms(const struct http_exchange *x)
{
	return x->started_ms;
}

int http_status(const struct http_exchange *x)
{
	return x->status;
}

uint64_t http_bytes_in(const struct http_exchange *x)
{
	return x->body_in;
}

uint64_t http_bytes_out(const struct http_exchange *x)
{
	return x->body_out;
}

bool http_is_gone(const struct http_exchange *x)
{
	return x->c->phase == CONN_CLOSED;
}

/* --- the body --- */

/* From now on the body is read. */
static void want(struct http_exchange *x, enum body_mode mode, uint64_t max_bytes)
{
	x->mode = mode;
	if (max_bytes < x->body_max)
		x->body_max = max_bytes;
	if (!x->is_continued) {
		x->is_continued = true;
		if (x->body_in == 0 && x->c->in.len == 0 && x->answer == ANSWER_NONE)
			answer_continue(x);
	}
	conn_want_body(x->c);
}

void exchange_body_end(struct http_exchange *x, int result)
{
	if (x->is_end_told)
		return;
	x->body_result = result;
	if (x->mode == BODY_STREAM && x->body_events->end) {
		x->is_end_told = true;
		x->body_events->end(x, result, x->body_arg);
	} else if (x->mode == BODY_COLLECT) {
		x->is_end_told = true;
		x->collected(x, result, x->body_arg);
	}
}

void exchange_body_data(struct http_exchange *x, const char *p, size_t n)
{
	if (!x->is_alive || x->is_end_told || x->body_in > x->body_max)
		return;
	if (x->mode == BODY_STREAM) {
		x->body_events->data(x, p, n, x->body_arg);
	} else if (x->mode == BODY_COLLECT && x->body_result == 0 && buf_add(&x->body, p, n) < 0) {
		x->body_result = -ENOMEM;
		x->body_max = x->body_in - 1; /* the next look ends it */
	}
}

static void fail_collect(struct http_exchange *x, int result,
	void (*done)(struct http_exchange *x, int result, void *arg), void *arg)
{
	x->is_end_told = true;
	x->body_result = result;
	done(x, result, arg);
}

void http_collect(struct http_exchange *x, size_t max_bytes,
	void (*done)(struct http_exchange *x, int result, void *arg), void *arg)
{
	struct http_conn *c = x->c;

	x->collected = done;
	x->body_arg = arg;
	x->body.max = max_bytes;
	if (x->is_complete) {
		fail_collect(x, 0, done, arg);
		return;
	}
	if (c->phase == CONN_CLOSED || c->is_input_dead) {
		fail_collect(x, x->body_result ? x->body_result : -ECONNRESET, done, arg);
		return;
	}
	if (x->head.content_length > 0) {
		if ((uint64_t)x->head.content_length > max_bytes) {
			c->is_keeping = false;
			fail_collect(x, -EMSGSIZE, done, arg);
			return;
		}
		/* Its size is known: no growing. But an announcement alone gets no more than 64 KiB. */
		size_t known = (size_t)x->head.content_length;
		(void)buf_reserve(&x->body, known < 65536 ? known : 65536);
	}
	want(x, BODY_COLLECT, max_bytes);
}

const void *http_body(const struct http_exchange *x, size_t *ret_len)
{
	if (ret_len)
		*ret_len = x->body.len;
	return buf_str(&x->body);
}

/* For a body that is over before anybody asked: the news comes from the loop all the same. */
static void end_later(struct http_conn *c)
{
	c->x.is_body_due = true;
	conn_kick(c);
}

void http_read_body(struct http_exchange *x, uint64_t max_bytes,
	const struct http_body_events *events, void *arg)
{
	x->body_events = events;
	x->body_arg = arg;
	if (x->is_complete || x->c->phase == CONN_CLOSED || x->c->is_input_dead) {
		x->mode = BODY_STREAM;
		end_later(x->c);
		return;
	}
	if (x->head.content_length > 0 && (uint64_t)x->head.content_length > max_bytes) {
		x->c->is_keeping = false;
		x->c->is_input_dead = true;
		x->body_result = -EMSGSIZE;
		x->mode = BODY_STREAM;
		end_later(x->c);
		return;
	}
	want(x, BODY_STREAM, max_bytes);
}

void http_pause(struct http_exchange *x)
{
	x->is_paused = true;
	if (x->c->phase == CONN_BODY)
		x->c->in_deadline_ms = 0; /* we are the slow ones now */
	if (!x->c->is_feeding)
		conn_kick(x->c);
}

void http_resume(struct http_exchange *x)
{
	if (!x->is_paused)
		return;
	x->is_paused = false;
	conn_want_body(x->c);
	conn_kick(x->c);
}

void http_on_gone(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg)
{
	x->on_gone = fn;
	x->gone_arg = arg;
	if (fn && x->c->phase == CONN_CLOSED)
		conn_kick(x->c);
}

void http_on_half_close(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg)
{
	x->on_half_close = fn;
	x->half_close_arg = arg;
	if (fn && x->c->is_eof)
		conn_kick(x->c);
}

void http_on_drain_server(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg)
{
	x->on_drain_server = fn;
	x->drain_server_arg = arg;
	if (fn && x->c->s->is_draining)
		conn_kick(x->c);
}

void http_on_drain(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg)
{
	x->on_drain = fn;
	x->drain_arg = arg;
}

/* --- taking over --- */

bool http_is_upgrade(const struct http_exchange *x, const char *protocol)
{
	return !strcmp(x->head.method, "GET") && !x->head.is_http_1_0 && x->is_complete &&
	       http_header_has(x, "connection", "upgrade") &&
	       http_header_has(x, "upgrade", protocol);
}
