/* SPDX-License-Identifier: Apache-2.0 */
/* loop_internal.h: what loop.c and pool.c share. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "net/loop.h"

/* A call that waits for the loop's thread; part of something larger, which fn frees. */
struct net_post {
	struct net_post *next;
	void (*fn)(struct net_post *p);
};

struct net_loop {
	uv_loop_t uv;
	uv_async_t wake;
	bool has_no_wake; /* half-built */
	struct net_pool *pool;

	pthread_mutex_t lock; /* guards what is below */
	struct net_post *posts, **posts_tail;
	bool is_stopping;
};

/* Any thread; cannot fail. */
void net_loop_post_node(struct net_loop *l, struct net_post *p);
