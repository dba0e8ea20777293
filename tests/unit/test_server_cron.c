/* SPDX-License-Identifier: Apache-2.0 */
#include "server/clock.h"
#include "server/cron.h"
#include "test.h"

static int64_t utc(const char *text)
{
	int64_t ns;

	CHECK_(clock_parse(text, &ns) == 0, "%s", text);
	return ns / NS_PER_S;
}

/* The next n runs after a moment, as UTC without seconds, separated by blanks. */
static const char *runs(const char *schedule, const char *zone, const char *after, int n)
{
	static char out[1000];
	struct cron c;
	auto_zone struct zone *z = NULL;
	struct cell_error err = {0};
	int64_t at = utc(after);

	out[0] = '\0';
	CHECK_(cron_parse(schedule, &c, &err) == 0, "%s", err.msg);
	CHECK_(zone_open(zone, &z, &err) == 0, "%s", err.msg);
	while (n--) {
		char text[CLOCK_TEXT_MAX];
		if (cron_next(&c, z, at, &at) < 0)
			return "never";
		clock_text(at * NS_PER_S, text);
		(void)snprintf(out + strlen(out), sizeof out - strlen(out), "%s%.16s",
			*out ? " " : "", text);
	}
	return out;
}

TEST(schedules_run_when_they_say)
{
	ASSERT_STR(runs("*/15 * * * *", "UTC", "2026-01-01T00:07:00Z", 3),
		"2026-01-01T00:15 2026-01-01T00:30 2026-01-01T00:45");
	ASSERT_STR(runs("30 9 * * mon-fri", "UTC", "2026-01-02T10:00:00Z", 2),
		"2026-01-05T09:30 2026-01-06T09:30");
	ASSERT_STR(runs("0 0 1,15 * *", "UTC", "2026-01-02T00:00:00Z", 2),
		"2026-01-15T00:00 2026-02-01T00:00");
	/* day or weekday, when both are restricted */
	ASSERT_STR(runs("0 0 13 * 5", "UTC", "2026-02-01T00:00:00Z", 3),
		"2026-02-06T00:00 2026-02-13T00:00 2026-02-20T00:00");
	ASSERT_STR(runs("0 0 */2 * 5", "UTC", "2026-02-01T00:00:00Z", 2),
		"2026-02-13T00:00 2026-02-27T00:00");
	ASSERT_STR(runs("0 12 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2),
		"2028-02-29T12:00 2032-02-29T12:00");
	ASSERT_STR(runs("0 12 29 2 sun,7", "UTC", "2026-02-27T00:00:00Z", 1), "2027-02-07T12:00");
	ASSERT_STR(runs("5/20 3 * JAN *", "UTC", "2026-06-01T00:00:00Z", 3),
		"2027-01-01T03:05 2027-01-01T03:25 2027-01-01T03:45");
	ASSERT_STR(runs("@weekly", "UTC", "2026-01-01T00:00:00Z", 1), "2026-01-04T00:00");
	ASSERT_STR(runs("@yearly", "Asia/Tokyo", "2026-01-01T00:00:00Z", 1), "2026-12-31T15:00");
	ASSERT_STR(runs("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", 1), "never");
	ASSERT_STR(runs("0 0 31 2,4,6,9,11 *", "Europe/Berlin", "2026-01-01T00:00:00Z", 1),
		"never");
	/* the moment itself is not after it */
	ASSERT_STR(runs("0 0 * * *", "UTC", "2026-01-02T00:00:00Z", 1), "2026-01-03T00:00");
	ASSERT_STR(runs("0 0 * * *", "UTC", "2026-01-01T23:59:59Z", 1), "2026-01-02T00:00");
}

TEST(a_time_the_clock_skips_runs_at_the_change_and_once)
{
	ASSERT_STR(runs("30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", 2),
		"2026-03-29T01:00 2026-03-30T00:30");
	ASSERT_STR(runs("15,45 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2),
		"2026-03-29T01:00 2026-03-30T00:15");
	ASSERT_STR(runs("0 3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2),
		"2026-03-29T01:00 2026-03-30T01:00");
	/* an interval just goes on */
	ASSERT_STR(runs("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3),
		"2026-03-29T00:30 2026-03-29T01:30 2026-03-29T02:30");
	/* midnight itself is skipped */
	ASSERT_STR(runs("0 0 * * *", "America/Santiago", "2026-09-05T05:00:00Z", 2),
		"2026-09-06T04:00 2026-09-07T03:00");
}

TEST(a_time_that_comes_twice_runs_the_first_time)
{
	ASSERT_STR(runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
		"2026-10-25T00:30 2026-10-26T01:30");
	ASSERT_STR(runs("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", 1),
		"2026-10-26T01:30");
	ASSERT_STR(runs("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3),
		"2026-10-25T00:30 2026-10-25T01:30 2026-10-25T02:30");
	/* half an hour back, as on Lord Howe Island */
	ASSERT_STR(runs("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2),
		"2026-04-04T14:45 2026-04-05T15:15");
	/* back over midnight: Havana, 00:30 comes twice */
	ASSERT_STR(runs("30 0 * * *", "America/Havana", "2026-10-31T12:00:00Z", 2),
		"2026-11-01T04:30 2026-11-02T05:30");
}

TEST(what_is_no_schedule_is_refused_by_field)
{
	static const struct {
		const char *text, *word;
	} bad[] = {{"", "without minute"}, {"* * * *", "without weekday"},
		{"* * * * * *", "behind the weekday"}, {"60 * * * *", "minute"},
		{"* 24 * * *", "hour"}, {"* * 0 * *", "day"}, {"* * 32 * *", "day"},
		{"* * * 13 *", "month"}, {"* * * * 8", "weekday"},
		{"5-1 * * * *", "goes backwards"}, {"*/0 * * * *", "step"}, {"*/ * * * *", "step"},
		{"1,,2 * * * *", "not understood"}, {"1- * * * *", "not understood"},
		{"a * * * *", "not understood"}, {"* * * janu *", "not understood"},
		{"* * * * monday", "not understood"}, {"*5 * * * *", "not understood"},
		{"-1 * * * *", "not understood"}, {"@never", "is no schedule"},
		{"99999999999 * * * *", "out of range"}};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct cron c;
		struct cell_error err = {0};
		CHECK_(cron_parse(bad[i].text, &c, &err) == -EINVAL, "accepted: '%s'", bad[i].text);
		CHECK_(strstr(err.msg, bad[i].word), "'%s': %s", bad[i].text, err.msg);
		ASSERT(*err.hint);
	}
}

static int due(const char *schedule, const char *last, const char *now, enum cron_missed missed,
	int64_t at[CRON_CATCH_UP], uint64_t *dropped)
{
	struct cron c;
	auto_zone struct zone *z = NULL;
	struct cell_error err = {0};

	ASSERT_OK(cron_parse(schedule, &c, &err));
	ASSERT_OK(zone_open("UTC", &z, &err));
	return cron_due(&c, z, utc(last), utc(now), missed, at, dropped);
}

TEST(runs_that_were_missed_are_skipped_run_once_or_all_run)
{
	int64_t at[CRON_CATCH_UP];
	uint64_t dropped;

	ASSERT_EQ(due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T05:30:00Z", CRON_MISSED_SKIP,
			  at, &dropped),
		0);
	ASSERT_EQ(dropped, 5);
	ASSERT_EQ(due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T05:00:30Z", CRON_MISSED_SKIP,
			  at, &dropped),
		1);
	ASSERT_EQ(dropped, 4);
	ASSERT_EQ(due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T05:30:00Z", CRON_MISSED_ONCE,
			  at, &dropped),
		1);
	ASSERT_EQ(at[0], utc("2026-01-01T05:00:00Z"));
	ASSERT_EQ(due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T05:30:00Z", CRON_MISSED_ALL,
			  at, &dropped),
		5);
	ASSERT_EQ(at[0], utc("2026-01-01T01:00:00Z"));
	ASSERT_EQ(dropped, 0);
	/* away for years: the latest hundred, and it does not take years */
	ASSERT_EQ(due("* * * * *", "2016-01-01T00:00:00Z", "2026-01-01T00:00:30Z", CRON_MISSED_ALL,
			  at, &dropped),
		CRON_CATCH_UP);
	ASSERT_EQ(at[CRON_CATCH_UP - 1], utc("2026-01-01T00:00:00Z"));
	ASSERT(dropped >= CRON_COUNT_MAX);
	ASSERT_EQ(due("0 0 1 1 *", "2016-01-01T00:00:00Z", "2026-06-01T00:00:00Z", CRON_MISSED_ALL,
			  at, &dropped),
		10);
	ASSERT_EQ(due("0 0 1 1 *", "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", CRON_MISSED_ALL,
			  at, &dropped),
		0);
	/* a clock that was set back */
	ASSERT_EQ(due("* * * * *", "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z", CRON_MISSED_ALL,
			  at, &dropped),
		0);
}

TEST(a_run_that_overlaps_is_skipped_waits_or_kills)
{
	ASSERT_EQ(cron_step(CRON_OVERLAP_KILL, false, false), CRON_STEP_RUN);
	ASSERT_EQ(cron_step(CRON_OVERLAP_SKIP, true, false), CRON_STEP_SKIP);
	ASSERT_EQ(cron_step(CRON_OVERLAP_QUEUE, true, false), CRON_STEP_WAIT);
	ASSERT_EQ(cron_step(CRON_OVERLAP_QUEUE, true, true), CRON_STEP_SKIP);
	ASSERT_EQ(cron_step(CRON_OVERLAP_KILL, true, false), CRON_STEP_KILL_AND_RUN);
	ASSERT_EQ(cron_missed_find("once"), CRON_MISSED_ONCE);
	ASSERT_EQ(cron_overlap_find("kill"), CRON_OVERLAP_KILL);
	ASSERT_EQ(cron_overlap_find("x"), -1);
}

/* tests/data/cron/make.py computed these with Python's zoneinfo, minute by minute. */
TEST(runs_are_those_that_python_computes)
{
	FILE *f = fopen(CELL_SOURCE_ROOT "/tests/data/cron/runs.txt", "r");
	static char line[4096];
	int lines = 0, compared = 0;

	ASSERT(f);
	while (fgets(line, sizeof line, f)) {
		char schedule[64], zone[64];
		long long after;
		int n = 0;
		struct cron c;
		auto_zone struct zone *z = NULL;
		struct cell_error err = {0};

		ASSERT(sscanf(line, "%63[^|]| %63s | %lld |%n", schedule, zone, &after, &n) == 3 &&
			n);
		ASSERT_OK(cron_parse(schedule, &c, &err));
		ASSERT_OK(zone_open(zone, &z, &err));
		int64_t at = after;
		for (char *p = line + n, *end; *p; p = end) {
			long long want = strtoll(p, &end, 10);
			if (end == p)
				break;
			ASSERT_OK(cron_next(&c, z, at, &at));
			CHECK_(at == want, "%s in %s: %lld, Python says %lld", schedule, zone,
				(long long)at, want);
			compared++;
		}
		lines++;
	}
	(void)fclose(f);
	ASSERT(lines > 500 && compared > 2000);
}
