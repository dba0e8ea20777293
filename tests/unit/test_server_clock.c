/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "server/clock.h"
#include "test.h"

TEST(times_are_written_with_nine_digits_and_read_back)
{
	char text[CLOCK_TEXT_MAX];
	int64_t ns;

	ASSERT_STR(clock_text(0, text), "1970-01-01T00:00:00.000000000Z");
	ASSERT_STR(clock_text(-1, text), "1969-12-31T23:59:59.999999999Z");
	ASSERT_STR(clock_text(INT64_C(1769864759123456789), text),
		"2026-01-31T13:05:59.123456789Z");
	ASSERT_OK(clock_parse(text, &ns));
	ASSERT_EQ(ns, INT64_C(1769864759123456789));
}

TEST(dates_are_those_of_libc)
{
	for (int64_t s = INT64_C(-62135596800); s < INT64_C(253402300800);
		s += INT64_C(86400) * 97 + 12345) {
		struct clock_date d;
		struct tm tm;
		time_t t = (time_t)s;

		clock_split(s, &d);
		ASSERT(gmtime_r(&t, &tm));
		CHECK_(d.year == tm.tm_year + 1900 && d.month == tm.tm_mon + 1 &&
				d.day == tm.tm_mday && d.hour == tm.tm_hour &&
				d.minute == tm.tm_min && d.second == tm.tm_sec &&
				d.weekday == tm.tm_wday,
			"%lld", (long long)s);
		ASSERT_EQ(clock_join(&d), s);
	}
}

TEST(what_people_write_as_a_time_is_understood)
{
	static const struct {
		const char *text;
		int64_t s;
	} good[] = {{"2026-01-31", 1769817600}, {"2026-01-31T13:05:59Z", 1769864759},
		{"2026-01-31 13:05:59+01:00", 1769861159}, {"2024-02-29T00:00:00Z", 1709164800},
		{"1769864759", 1769864759}};
	static const char *const bad[] = {"", "x", "2026-02-29", "2026-13-01",
		"2026-01-31T25:00:00Z", "2026-01-31T13:05", "2026-01-31T13:05:59",
		"2026-01-31T13:05:59.Z", "2026-01-31T13:05:59Zx", "2026-01-31T13:05:59.1234567890Z",
		"99999999999999999999", "9999999999999"};
	int64_t ns;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		CHECK_(clock_parse(good[i].text, &ns) == 0, "%s", good[i].text);
		ASSERT_EQ(ns, good[i].s * NS_PER_S);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_(clock_parse(bad[i], &ns) == -EINVAL, "%s", bad[i]);
	ASSERT_OK(clock_parse_since("2h", 7200 * NS_PER_S, &ns));
	ASSERT_EQ(ns, 0);
	ASSERT_ERR(clock_parse_since("soon", 0, &ns), -EINVAL);
}
