/* SPDX-License-Identifier: Apache-2.0 */
/* waker.h: one timer for many deadlines: it goes off at the earliest that was asked for, and whoever has it looks what is due. */
#pragma once
#include <stdint.h>

#include "guest/loop.h"

struct waker {
	struct source source;
	uint64_t armed_ns; /* 0: not */
	/* At the time, or after it. Asks again for what is still to come. */
	void (*fn)(uint64_t now_ns);
};
/* Static initialiser. */
#define WAKER_INIT(f)                           \
	{                                       \
		.source = {.fd = -1}, .fn = (f) \
	}

uint64_t waker_now_ns(void);
/* At this time at the latest. Without a timer (too few descriptors) it never goes off. */
void waker_set(struct waker *w, uint64_t at_ns);
