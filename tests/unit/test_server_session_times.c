/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of server/session_times.h. The clocks are the test's: one for sessions, one that somebody sets. */
#include "server/clock.h"
#include "server/session_times.h"
#include "test.h"

#define HOUR (3600 * NS_PER_S)

TEST(idle_is_what_nobody_used_for_longer_than_allowed)
{
	struct session_times t = {.used_ns = 10 * NS_PER_S, .idle_ms = 5000};

	ASSERT_EQ(session_times_due(&t, false, 15 * NS_PER_S), SESSION_NOT_DUE);
	ASSERT_EQ(session_times_due(&t, false, 15 * NS_PER_S + NS_PER_MS), SESSION_IDLE);
	ASSERT_EQ(session_times_due(&t, true, 100 * NS_PER_S), SESSION_NOT_DUE);
	t.idle_ms = 0;
	ASSERT_EQ(session_times_due(&t, false, INT64_MAX), SESSION_NOT_DUE);
	t.idle_ms = 5000;
	ASSERT_EQ(session_times_due(&t, false, 0), SESSION_NOT_DUE);
}

TEST(the_end_comes_also_to_the_busy)
{
	struct session_times t = {.end_ns = 20 * NS_PER_S};

	ASSERT_EQ(session_times_due(&t, true, 20 * NS_PER_S - 1), SESSION_NOT_DUE);
	ASSERT_EQ(session_times_due(&t, true, 20 * NS_PER_S), SESSION_EXPIRED);
}

TEST(a_wall_clock_that_is_set_neither_ends_nor_keeps)
{
	int64_t wall = 1700000000 * NS_PER_S, mono = 500 * NS_PER_S;
	struct session_times t = {.used_ns = mono, .idle_ms = 60000};

	/* made with an hour to live; then somebody sets the clock a day on or back: it is not even asked */
	t.end_ns = session_times_end(wall + HOUR, wall, mono);
	ASSERT_EQ(t.end_ns, mono + HOUR);
	ASSERT_EQ(session_times_due(&t, false, mono + 59 * NS_PER_S), SESSION_NOT_DUE);
	ASSERT_EQ(session_times_due(&t, true, mono + HOUR - 1), SESSION_NOT_DUE);
	ASSERT_EQ(session_times_due(&t, true, mono + HOUR), SESSION_EXPIRED);
}

TEST(an_end_in_the_past_is_now_and_never_stays_never)
{
	ASSERT_EQ(session_times_end(0, 1, 2), 0);
	ASSERT_EQ(session_times_end(5, 10 * NS_PER_S, 3), 1);
	ASSERT_EQ(session_times_end(INT64_MAX, -5, INT64_MAX), INT64_MAX);
	ASSERT_EQ(session_times_end(INT64_MIN, 5, 7), 1);
}
