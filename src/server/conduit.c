/* SPDX-License-Identifier: Apache-2.0 */
/* conduit.c: see conduit.h. */
#include "server/conduit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "net/loop.h"

#define FULL (512u * 1024)
#define MOST (4u * 1024 * 1024)

struct conduit {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct net_loop *loop;
	void (*wake)(void *arg);
	void *arg;
	struct buf bytes;
	size_t at;
	bool is_ended; /* the loop has pushed everything */
	bool is_thread_done, is_loop_done, is_cancelled;
	bool is_posted; /* a wake is on its way */
	unsigned refs;
};

struct conduit *conduit_new(struct net_loop *l, void (*wake)(void *arg), void *arg)
{
	struct conduit *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->loop = l;
	c->wake = wake;
	c->arg = arg;
	c->bytes.max = MOST + FULL;
	c->refs = 2;
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->changed, NULL);
	return c;
}

/* With the lock held; gives it back. */
static void unref(struct conduit *c)
{
	bool is_last = --c->refs == 0;

	(void)pthread_mutex_unlock(&c->lock);
	if (!is_last)
		return;
	(void)pthread_mutex_destroy(&c->lock);
	(void)pthread_cond_destroy(&c->changed);
	buf_done(&c->bytes);
	free(c);
}

static size_t waiting(const struct conduit *c)
{
	return c->bytes.len - c->at;
}

static void on_loop(void *arg)
{
	struct conduit *c = arg;

	(void)pthread_mutex_lock(&c->lock);
	c->is_posted = false;
	bool is_wanted = !c->is_loop_done;
	if (!is_wanted) {
		unref(c);
		return;
	}
	/* the loop's own reference keeps it while wake() runs, and wake() may end with conduit_loop_done() */
	unref(c);
	c->wake(c->arg);
}

/* With the lock held. */
static void tell_loop(struct conduit *c)
{
	if (c->is_posted || c->is_loop_done)
		return;
	c->is_posted = true;
	c->refs++;
	if (net_loop_post(c->loop, on_loop, c) < 0) {
		c->is_posted = false;
		c->refs--;
	}
}

/* ---- the thread's side ---- */

int conduit_put(struct conduit *c, const void *p, size_t n)
{
	int r = 0;

	(void)pthread_mutex_lock(&c->lock);
	while (!c->is_loop_done && !c->is_cancelled && waiting(c) > FULL)
		(void)pthread_cond_wait(&c->changed, &c->lock);
	if (c->is_loop_done || c->is_cancelled)
		r = -EPIPE;
	else
		r = buf_add(&c->bytes, p, n);
	tell_loop(c);
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

ssize_t conduit_get(struct conduit *c, void *p, size_t n)
{
	ssize_t r;

	(void)pthread_mutex_lock(&c->lock);
	while (!c->is_loop_done && !c->is_cancelled && !c->is_ended && !waiting(c))
		(void)pthread_cond_wait(&c->changed, &c->lock);
	if (c->is_loop_done || c->is_cancelled) {
		r = -ECANCELED;
	} else {
		if (n > waiting(c))
			n = waiting(c);
		if (n)
			memcpy(p, c->bytes.data + c->at, n);
		c->at += n;
		r = (ssize_t)n;
		tell_loop(c);
	}
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

void conduit_thread_done(struct conduit *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->is_thread_done = true;
	tell_loop(c);
	unref(c);
}

/* ---- the loop's side ---- */

static void compact(struct conduit *c)
{
	if (c->at && c->at >= c->bytes.len / 2) {
		buf_consume(&c->bytes, c->at);
		c->at = 0;
	}
}

bool conduit_push(struct conduit *c, const void *p, size_t n)
{
	(void)pthread_mutex_lock(&c->lock);
	compact(c);
	if (!c->is_thread_done)
		(void)buf_add(&c->bytes, p, n);
	bool is_full = !c->is_thread_done && waiting(c) > FULL;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	return is_full;
}

void conduit_push_end(struct conduit *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->is_ended = true;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
}

bool conduit_has_room(struct conduit *c)
{
	(void)pthread_mutex_lock(&c->lock);
	bool r = c->is_thread_done || waiting(c) <= FULL / 2;
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

size_t conduit_pull(struct conduit *c, void *p, size_t n)
{
	(void)pthread_mutex_lock(&c->lock);
	if (n > waiting(c))
		n = waiting(c);
	if (n)
		memcpy(p, c->bytes.data + c->at, n);
	c->at += n;
	compact(c);
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	return n;
}

bool conduit_is_over(struct conduit *c)
{
	(void)pthread_mutex_lock(&c->lock);
	bool r = c->is_thread_done && !waiting(c);
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

void conduit_cancel(struct conduit *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->is_cancelled = true;
	(void)pthread_cond_signal(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
}

void conduit_loop_done(struct conduit *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->is_loop_done = true;
	(void)pthread_cond_signal(&c->changed);
	unref(c);
}
