/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h: the one thread that moves bytes, and the threads that may block.
 *
 * Everything in src/net belongs to the loop's thread: call it from there, in callbacks. What may be
 * called from any thread says so: net_loop_post(), net_loop_stop(), net_work(). Callbacks may free
 * the object they are called for. Nothing here logs.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

struct net_loop;
struct net_pool;
struct net_timer;
struct net_signal;
struct net_watch;

struct net_loop_options {
	unsigned workers;    /* threads of the loop's own pool; 0: 4 */
	unsigned work_queue; /* calls that may wait for a thread; 0: 256 */
};

/* A loop with its pool of threads (started when first needed). options may be NULL. SIGPIPE is set
 * to ignored for the whole process: a peer that goes away must not end it. */
int net_loop_new(const struct net_loop_options *options, struct net_loop **ret,
	struct cell_error *err);

/* After net_loop_run() has returned, or instead of it. Work that was accepted is finished and its
 * done functions and all posts are called first. Servers, timers, signals and watches must have
 * been freed before. NULL is fine. */
void net_loop_free(struct net_loop *l);

/* Runs until net_loop_stop(). */
void net_loop_run(struct net_loop *l);

/* Runs what is ready now and returns; waits for something to happen when `is_waiting`. For tests. */
void net_loop_step(struct net_loop *l, bool is_waiting);

/* Any thread: net_loop_run() returns soon. Not safe in a signal handler: use net_signal_new(). */
void net_loop_stop(struct net_loop *l);

/* Monotonic milliseconds, as of the beginning of this round of the loop. */
uint64_t net_loop_now_ms(const struct net_loop *l);

/* Any thread: fn(arg) is called on the loop's thread, in the order of the posts of one thread.
 * 0 or -ENOMEM. */
int net_loop_post(struct net_loop *l, void (*fn)(void *arg), void *arg);

/* --- work that blocks ------------------------------------------------------------------------- */

/* Any thread: work(arg) on a thread of the loop's pool, then done(arg) (may be NULL) on the loop's
 * thread. Never waits: -EBUSY when the queue is full (answer 503 with Retry-After), -ENOMEM,
 * or -EAGAIN when no thread can be started; then neither function is called. */
int net_work(struct net_loop *l, void (*work)(void *arg), void (*done)(void *arg), void *arg);

/* A pool of its own for a kind of work that must not wait behind another kind. Freed before the
 * loop; freeing finishes what was accepted (the done functions are called by net_loop_free() at the
 * latest). `name` (up to 15 bytes) is the threads' name in ps. */
int net_pool_new(struct net_loop *l, const char *name, unsigned workers, unsigned queue,
	struct net_pool **ret, struct cell_error *err);
void net_pool_free(struct net_pool *p);
int net_pool_work(struct net_pool *p, void (*work)(void *arg), void (*done)(void *arg), void *arg);

struct net_pool_stats {
	unsigned workers, busy, queued, queue_max;
	uint64_t accepted, refused;
};
void net_pool_stats(struct net_pool *p, struct net_pool_stats *ret); /* any thread */
struct net_pool *net_loop_pool(struct net_loop *l);

/* --- timers ----------------------------------------------------------------------------------- */

int net_timer_new(struct net_loop *l, void (*fn)(void *arg), void *arg, struct net_timer **ret);
/* Calls fn after after_ms, then every repeat_ms when that is not 0. Starting again starts over. */
void net_timer_start(struct net_timer *t, uint64_t after_ms, uint64_t repeat_ms);
void net_timer_stop(struct net_timer *t);
void net_timer_free(struct net_timer *t); /* NULL is fine */

/* --- signals ---------------------------------------------------------------------------------- */

int net_signal_new(struct net_loop *l, int signum, void (*fn)(void *arg, int signum), void *arg,
	struct net_signal **ret, struct cell_error *err);
void net_signal_free(struct net_signal *s); /* the signal has its default action again */

/* --- foreign file descriptors ----------------------------------------------------------------- */

enum {
	NET_READABLE = 1,
	NET_WRITABLE = 2,
	NET_HANGUP = 4, /* neither: only that both directions are closed, or an error */
};

/* Calls fn(arg, events) whenever one of the events asked for by net_watch_set() is true (level
 * triggered; at first none is asked for). A hang-up or an error counts as every event asked for: read
 * or write and see. A negative `events` is an errno: the watch has stopped, free it. The fd is
 * borrowed, made non-blocking, and stays open; regular files are refused (-EPERM). One watch an fd:
 * dup() it for a second. */
int net_watch_new(struct net_loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
	struct net_watch **ret, struct cell_error *err);
int net_watch_set(struct net_watch *w, int events); /* of the three, or 0 */
int net_watch_fd(const struct net_watch *w);
void net_watch_free(struct net_watch *w); /* then the fd may be closed at once; NULL is fine */

struct uv_loop_s *net_loop_uv(struct net_loop *l);
