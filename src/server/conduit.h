/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conduit.h: bytes between a thread that may wait and the loop, which may not: bounded, either way, with an end and a way to give up. One
 * thread and the loop hold it; the last to let go frees it.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct net_loop;
struct conduit;

/* wake(arg) is called on the loop after the thread has put or taken something, or let go. */
struct conduit *conduit_new(struct net_loop *l, void (*wake)(void *arg), void *arg);

/* ---- the thread's side ---- */
int conduit_put(struct conduit *c, const void *p,
	size_t n); /* waits for room; -EPIPE: nobody wants it */
ssize_t conduit_get(struct conduit *c, void *p, size_t n); /* waits; 0: the end; -ECANCELED */
void conduit_thread_done(struct conduit *c);

/* ---- the loop's side ---- */
/* Takes all of it; true: enough for now, go on after a wake that finds conduit_has_room(). */
bool conduit_push(struct conduit *c, const void *p, size_t n);
void conduit_push_end(struct conduit *c);
bool conduit_has_room(struct conduit *c);
/* Up to n bytes that are there. */
size_t conduit_pull(struct conduit *c, void *p, size_t n);
bool conduit_is_over(struct conduit *c); /* the thread is done, and everything was pulled */
/* The thread's calls fail from now on, wherever it waits. */
void conduit_cancel(struct conduit *c);
/* The same, and the loop lets go of it; wake() is not called any more. */
void conduit_loop_done(struct conduit *c);
