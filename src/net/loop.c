/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c: a uv loop, posts from other threads into it, timers, signals, foreign descriptors. The threads
 * that may block are in pool.c.
 */
#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/error.h"
#include "net/loop_internal.h"

/* Hands the posts that have come so far to the loop's thread. */
static void run_posts(struct net_loop *l)
{
	pthread_mutex_lock(&l->lock);
	struct net_post *p = l->posts;
	l->posts = NULL;
	l->posts_tail = &l->posts;
	bool is_stopping = l->is_stopping;
	l->is_stopping = false;
	pthread_mutex_unlock(&l->lock);

	while (p) {
		struct net_post *next = p->next;
		p->fn(p);
		p = next;
	}
	if (is_stopping)
		uv_stop(&l->uv);
}

static void on_wake(uv_async_t *a)
{
	run_posts(a->data);
}

int net_loop_new(const struct net_loop_options *options, struct net_loop **ret,
	struct cell_error *err)
{
	struct net_loop *l = calloc(1, sizeof *l);

	if (!l)
		return cell_fail_errno(err, ENOMEM, "make an event loop");
	pthread_mutex_init(&l->lock, NULL);
	l->posts_tail = &l->posts;
	int r = uv_loop_init(&l->uv);
	if (r < 0) {
		pthread_mutex_destroy(&l->lock);
		free(l);
		return cell_fail_errno(err, -r, "make an event loop");
	}
	r = uv_async_init(&l->uv, &l->wake, on_wake);
	l->wake.data = l;
	if (r == 0)
		r = net_pool_new(l, "cell-worker",
			options && options->workers ? options->workers : 4,
			options && options->work_queue ? options->work_queue : 256, &l->pool, NULL);
	else
		l->has_no_wake = true;
	if (r < 0) {
		net_loop_free(l);
		return cell_fail_errno(err, -r, "make an event loop");
	}
	(void)signal(SIGPIPE, SIG_IGN);
	*ret = l;
	return 0;
}

void net_loop_free(struct net_loop *l)
{
	if (!l)
		return;
	net_pool_free(l->pool);
	/* Posts may post, and end things whose handles then close: a few rounds until nothing is left. */
	for (int i = 0; i < 16; i++) {
		if (!l->has_no_wake)
			run_posts(l);
		(void)uv_run(&l->uv, UV_RUN_NOWAIT);
	}
	if (!l->has_no_wake)
		uv_close((uv_handle_t *)&l->wake, NULL);
	/* Handles that were not freed would keep a default run from ever returning. */
	for (int i = 0; i < 16 && uv_loop_close(&l->uv) == UV_EBUSY; i++)
		(void)uv_run(&l->uv, UV_RUN_NOWAIT);
	while (l->posts) {
		struct net_post *p = l->posts;
		l->posts = p->next;
		p->fn(p);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void net_loop_run(struct net_loop *l)
{
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
}

void net_loop_step(struct net_loop *l, bool is_waiting)
{
	(void)uv_run(&l->uv, is_waiting ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

void net_loop_stop(struct net_loop *l)
{
	pthread_mutex_lock(&l->lock);
	l->is_stopping = true;
	pthread_mutex_unlock(&l->lock);
	(void)uv_async_send(&l->wake);
}

uint64_t net_loop_now_ms(const struct net_loop *l)
{
	return uv_now(&l->uv);
}

struct uv_loop_s *net_loop_uv(struct net_loop *l)
{
	return &l->uv;
}

struct net_pool *net_loop_pool(struct net_loop *l)
{
	return l->pool;
}

void net_loop_post_node(struct net_loop *l, struct net_post *p)
{
	p->next = NULL;
	pthread_mutex_lock(&l->lock);
	*l->posts_tail = p;
	l->posts_tail = &p->next;
	pthread_mutex_unlock(&l->lock);
	(void)uv_async_send(&l->wake);
}

struct call {
	struct net_post post; /* first: the post is the call */
	void (*fn)(void *arg);
	void *arg;
};

static void run_call(struct net_post *p)
{
	struct call call = *(struct call *)p;

	free(p);
	call.fn(call.arg);
}

int net_loop_post(struct net_loop *l, void (*fn)(void *arg), void *arg)
{
	struct call *c = malloc(sizeof *c);

	if (!c)
		return -ENOMEM;
	*c = (struct call){.post.fn = run_call, .fn = fn, .arg = arg};
	net_loop_post_node(l, &c->post);
	return 0;
}

static void free_handle(uv_handle_t *h)
{
	free(h->data);
}

/* --- timers --- */

struct net_timer {
	uv_timer_t uv;
	void (*fn)(void *arg);
	void *arg;
};

static void on_timer(uv_timer_t *uv)
{
	struct net_timer *t = uv->data;
	t->fn(t->arg);
}

int net_timer_new(struct net_loop *l, void (*fn)(void *arg), void *arg, struct net_timer **ret)
{
	struct net_timer *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	(void)uv_timer_init(&l->uv, &t->uv);
	t->uv.data = t;
	t->fn = fn;
	t->arg = arg;
	*ret = t;
	return 0;
}

void net_timer_start(struct net_timer *t, uint64_t after_ms, uint64_t repeat_ms)
{
	(void)uv_timer_start(&t->uv, on_timer, after_ms, repeat_ms);
}

void net_timer_stop(struct net_timer *t)
{
	(void)uv_timer_stop(&t->uv);
}

void net_timer_free(struct net_timer *t)
{
	if (t)
		uv_close((uv_handle_t *)&t->uv, free_handle);
}

/* --- signals --- */

struct net_signal {
	uv_signal_t uv;
	void (*fn)(void *arg, int signum);
	void *arg;
};

static void on_signal(uv_signal_t *uv, int signum)
{
	struct net_signal *s = uv->data;
	s->fn(s->arg, signum);
}

int net_signal_new(struct net_loop *l, int signum, void (*fn)(void *arg, int signum), void *arg,
	struct net_signal **ret, struct cell_error *err)
{
	struct net_signal *s = calloc(1, sizeof *s);

	if (!s)
		return cell_fail_errno(err, ENOMEM, "watch for signal %d", signum);
	int r = uv_signal_init(&l->uv, &s->uv);
	if (r < 0) {
		free(s);
		return cell_fail_errno(err, -r, "watch for signal %d", signum);
	}
	s->uv.data = s;
	s->fn = fn;
	s->arg = arg;
	r = uv_signal_start(&s->uv, on_signal, signum);
	if (r < 0) {
		net_signal_free(s);
		return cell_fail_errno(err, -r, "watch for signal %d", signum);
	}
	*ret = s;
	return 0;
}

void net_signal_free(struct net_signal *s)
{
	if (s)
		uv_close((uv_handle_t *)&s->uv, free_handle);
}

/* --- foreign file descriptors --- */

struct net_watch {
	uv_poll_t uv;
	void (*fn)(void *arg, int events);
	void *arg;
	int fd;
	int wanted; /* events asked for */
	int armed;  /* events uv polls for now */
};

static void on_poll(uv_poll_t *uv, int status, int uv_events);

static int arm(struct net_watch *w)
{
	if (w->armed == w->wanted)
		return 0;
	w->armed = w->wanted;
	if (!w->wanted)
		return uv_poll_stop(&w->uv);
	/* epoll tells of hang-ups and errors whatever was asked for; "priority" data is what asks for
	 * nothing else. */
	int events = (w->wanted & NET_READABLE ? UV_READABLE : 0) |
		     (w->wanted & NET_WRITABLE ? UV_WRITABLE : 0) |
		     (w->wanted & NET_HANGUP ? UV_PRIORITIZED : 0);
	return uv_poll_start(&w->uv, events, on_poll);
}

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
	struct net_watch *w = uv->data;
	int events = (uv_events & UV_READABLE ? NET_READABLE : 0) |
		     (uv_events & UV_WRITABLE ? NET_WRITABLE : 0) |
		     (uv_events & UV_PRIORITIZED ? NET_HANGUP : 0);

	if (status < 0) {
		/* An error on the descriptor: uv has stopped polling. Whoever reads or writes will see which
		 * one it is. */
		w->armed = 0;
		events = w->wanted;
	}
	w->fn(w->arg, events);
	if (status < 0 && !uv_is_closing((uv_handle_t *)uv)) {
		int r = arm(w);
		if (r < 0)
			w->fn(w->arg, r);
	}
}

int net_watch_new(struct net_loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
	struct net_watch **ret, struct cell_error *err)
{
	struct net_watch *w = calloc(1, sizeof *w);

	if (!w)
		return cell_fail_errno(err, ENOMEM, "watch descriptor %d", fd);
	int r = uv_poll_init(&l->uv, &w->uv, fd);
	if (r < 0) {
		free(w);
		return cell_fail_errno(err, -r, "watch descriptor %d", fd);
	}
	w->uv.data = w;
	w->fd = fd;
	w->fn = fn;
	w->arg = arg;
	*ret = w;
	return 0;
}

int net_watch_set(struct net_watch *w, int events)
{
	w->wanted = events;
	return arm(w);
}

int net_watch_fd(const struct net_watch *w)
{
	return w->fd;
}

void net_watch_free(struct net_watch *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->uv, free_handle);
}
