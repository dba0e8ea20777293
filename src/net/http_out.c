/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_out.c: what a connection has to send. Mostly nothing is kept: the bytes go straight to the socket, all
 * answers to one batch of input in one system call. What the socket does not take waits in segments.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_internal.h"

#define MAX_IOV 16

static void free_segment(struct out_segment *g)
{
	if (g->free_fn)
		g->free_fn(g->owned);
	free(g);
}

void out_done(struct http_conn *c)
{
	while (c->out) {
		struct out_segment *g = c->out;
		c->out = g->next;
		free_segment(g);
	}
	c->out_tail = &c->out;
	c->out_last = NULL;
	c->unsent = 0;
}

static void append(struct http_conn *c, struct out_segment *g)
{
	g->next = NULL;
	*c->out_tail = g;
	c->out_tail = &g->next;
	c->out_last = g;
	c->unsent += g->len;
	if (!c->out_deadline_ms)
		c->out_deadline_ms = net_loop_now_ms(c->s->loop) + c->s->o.limits.progress_ms;
}

/* Copies behind what waits already. Out of memory, the connection is of no use any more. */
static void append_copy(struct http_conn *c, const uint8_t *p, size_t n)
{
	struct out_segment *last = c->out_last;

	if (last && last->room > 0 && !last->free_fn) {
		size_t k = n < last->room ? n : last->room;
		memcpy((uint8_t *)(uintptr_t)last->p + last->len, p, k);
		last->len += k;
		last->room -= k;
		c->unsent += k;
		p += k;
		n -= k;
	}
	if (n == 0)
		return;
	size_t cap = n > SEGMENT_BYTES ? n : SEGMENT_BYTES;
	struct out_segment *g = malloc(sizeof *g + cap);
	if (!g) {
		conn_close(c);
		return;
	}
	*g = (struct out_segment){.p = g->data, .len = n, .room = cap - n};
	memcpy(g->data, p, n);
	append(c, g);
}

static void append_owned(struct http_conn *c, const uint8_t *p, size_t n, void *owned,
	void (*free_fn)(void *p))
{
	struct out_segment *g = malloc(sizeof *g);

	if (!g) {
		free_fn(owned);
		conn_close(c);
		return;
	}
	*g = (struct out_segment){.p = p, .len = n, .owned = owned, .free_fn = free_fn};
	append(c, g);
}

static void wrote(struct http_conn *c, size_t n)
{
	c->s->stats.bytes_out += n;
}

/* Writes straight to the socket; how much it took. */
static size_t write_now(struct http_conn *c, const struct iovec *iov, int n)
{
	ssize_t r = net_stream_write(&c->stream, iov, n);

	if (r > 0) {
		wrote(c, (size_t)r);
		return (size_t)r;
	}
	if (r < 0 && r != -EAGAIN)
		conn_close(c);
	return 0;
}

void out_flush(struct http_conn *c)
{
	while (c->out && c->phase != CONN_CLOSED) {
		struct iovec iov[MAX_IOV];
		int n = 0;

		for (struct out_segment *g = c->out; g && n < MAX_IOV; g = g->next)
			iov[n++] = (struct iovec){(void *)(uintptr_t)g->p, g->len};
		size_t k = write_now(c, iov, n);
		if (k == 0)
			return;
		c->unsent -= k;
		c->out_deadline_ms =
			c->unsent ? net_loop_now_ms(c->s->loop) + c->s->o.limits.progress_ms : 0;
		while (k > 0) {
			struct out_segment *g = c->out;
			size_t part = k < g->len ? k : g->len;
			g->p += part;
			g->len -= part;
			k -= part;
			if (g->len > 0)
				break;
			c->out = g->next;
			if (!c->out) {
				c->out_tail = &c->out;
				c->out_last = NULL;
			}
			free_segment(g);
		}
	}
}

void out_send(struct http_conn *c, const struct iovec *iov, int n, void *owned,
	void (*free_fn)(void *p))
{
	struct http_server *s = c->s;
	struct iovec all[5];
	size_t total = 0, taken = 0;
	int k = 0;

	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (c->phase == CONN_CLOSED) {
		if (free_fn)
			free_fn(owned);
		return;
	}
	if (n > 0 && s->batch_owner == c && s->batch.len + total <= SCRATCH_BYTES && !c->out &&
		buf_reserve(&s->batch, total) == 0) {
		for (int i = 0; i < n; i++)
			(void)buf_add(&s->batch, iov[i].iov_base, iov[i].iov_len);
		if (free_fn)
			free_fn(owned);
		return;
	}
	if (s->batch_owner == c && s->batch.len > 0)
		all[k++] = (struct iovec){s->batch.data, s->batch.len};
	total += k ? s->batch.len : 0;
	for (int i = 0; i < n; i++)
		all[k++] = iov[i];
	while (!c->out && taken < total && c->phase != CONN_CLOSED) {
		size_t w = write_now(c, all, k);
		if (w == 0)
			break;
		taken += w;
		for (int i = 0; i < k && w > 0; i++) {
			size_t part = w < all[i].iov_len ? w : all[i].iov_len;
			all[i].iov_base = (uint8_t *)all[i].iov_base + part;
			all[i].iov_len -= part;
			w -= part;
		}
	}
	for (int i = 0; i < k && c->phase != CONN_CLOSED; i++) {
		if (all[i].iov_len == 0)
			continue;
		if (i == k - 1 && free_fn) {
			append_owned(c, all[i].iov_base, all[i].iov_len, owned, free_fn);
			free_fn = NULL;
		} else {
			append_copy(c, all[i].iov_base, all[i].iov_len);
		}
	}
	if (s->batch_owner == c)
		buf_reset(&s->batch);
	if (free_fn)
		free_fn(owned);
	if (c->unsent)
		conn_kick(c); /* so that the socket is watched */
}

void out_put(struct http_conn *c, const void *p, size_t n)
{
	if (c->phase == CONN_CLOSED || n == 0)
		return;
	if (c->s->batch_owner == c && c->s->batch.len > 0)
		out_send(c, NULL, 0, NULL, NULL); /* keep the order */
	if (c->phase != CONN_CLOSED)
		append_copy(c, p, n);
	conn_kick(c);
}

void out_batch_begin(struct http_conn *c)
{
	if (!c->s->batch_owner) {
		c->s->batch_owner = c;
		buf_reset(&c->s->batch);
	}
}

void out_batch_end(struct http_conn *c)
{
	if (c->s->batch_owner != c)
		return;
	if (c->s->batch.len > 0 && c->phase != CONN_CLOSED)
		out_send(c, NULL, 0, NULL, NULL);
	buf_reset(&c->s->batch);
	c->s->batch_owner = NULL;
}
