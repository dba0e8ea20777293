/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_times.h: when a session is over. Everything is measured on the monotonic clock: setting the wall clock, an hour on or
 * back, ends no session early and keeps none. Pure.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct session_times {
	int64_t used_ns;  /* last */
	uint64_t idle_ms; /* how long it may stand unused; 0: for ever */
	int64_t end_ns;	  /* 0: never */
};

enum session_due {
	SESSION_NOT_DUE,
	SESSION_IDLE,
	SESSION_EXPIRED,
};

/* is_busy: a command runs. */
enum session_due session_times_due(const struct session_times *t, bool is_busy, int64_t now_ns);
/* The end on the monotonic clock of what ends at end_unix_ns of the wall clock; 0 stays 0. */
int64_t session_times_end(int64_t end_unix_ns, int64_t now_unix_ns, int64_t now_ns);
