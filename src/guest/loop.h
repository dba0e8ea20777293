/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: one epoll loop. A source is embedded in whatever owns the fd; the loop never owns either.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct source {
	int fd; /* -1: not watched */
	uint32_t events;
	bool is_added; /* the loop's */
	void (*fn)(struct source *s, uint32_t events);
};

int loop_init(void);
/* Begin to watch s->fd for s->events (may be 0). Negative errno when the kernel says no. */
int loop_add(struct source *s);
/* Change what is waited for; 0 hears nothing, not even that the other end is gone. */
void loop_want(struct source *s, uint32_t events);
/* Stop watching; events of it already fetched are dropped, so its owner may be freed at once. */
void loop_remove(struct source *s);
/* Serve until loop_stop(). */
int loop_run(void);
void loop_stop(void);
