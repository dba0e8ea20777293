/* SPDX-License-Identifier: Apache-2.0 */
/* session_times.c: see session_times.h. */
#include "server/session_times.h"

#include "server/clock.h"

enum session_due session_times_due(const struct session_times *t, bool is_busy, int64_t now_ns)
{
	if (t->end_ns && now_ns >= t->end_ns)
		return SESSION_EXPIRED;
	int64_t idle_ms = (now_ns - t->used_ns) / NS_PER_MS;
	if (t->idle_ms && !is_busy && idle_ms >= 0 && (uint64_t)idle_ms > t->idle_ms)
		return SESSION_IDLE;
	return SESSION_NOT_DUE;
}

int64_t session_times_end(int64_t end_unix_ns, int64_t now_unix_ns, int64_t now_ns)
{
	int64_t end;

	if (!end_unix_ns)
		return 0;
	if (__builtin_sub_overflow(end_unix_ns, now_unix_ns, &end) ||
		__builtin_add_overflow(end, now_ns, &end))
		return end_unix_ns < now_unix_ns ? 1 : INT64_MAX;
	return end > 0 ? end : 1; /* 0 would be never */
}
