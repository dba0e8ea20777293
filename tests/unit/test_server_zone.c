/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "server/clock.h"
#include "server/zone.h"
#include "test.h"

static struct zone *zone_of(const char *name)
{
	struct zone *z = NULL;
	struct cell_error err = {0};

	CHECK_(zone_open(name, &z, &err) == 0, "%s", err.msg);
	return z;
}

static int64_t utc(const char *text)
{
	int64_t ns;

	CHECK_(clock_parse(text, &ns) == 0, "%s", text);
	return ns / NS_PER_S;
}

/* A process of its own may set TZ: libc is the judge. */
TEST(offsets_are_those_of_libc)
{
	static const char *const names[] = {"Europe/Berlin", "America/New_York",
		"Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata", "America/Sao_Paulo",
		"Europe/Dublin", "Pacific/Apia", "Asia/Tehran", "Antarctica/Troll", "America/Nuuk",
		"UTC", "Etc/GMT+5"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct zone *z = zone_of(names[i]);
		ASSERT(setenv("TZ", names[i], 1) == 0);
		tzset();
		/* 1950 to 2090: the table, its end, and the rule behind it */
		for (int64_t s = -631152000; s < INT64_C(3786912000); s += 86400 * 3 + 7919) {
			time_t t = (time_t)s;
			struct tm tm;
			ASSERT(localtime_r(&t, &tm));
			CHECK_(zone_offset(z, s) == tm.tm_gmtoff, "%s at %lld: %d, libc %ld",
				names[i], (long long)s, zone_offset(z, s), tm.tm_gmtoff);
		}
		zone_free(z);
	}
}

TEST(a_local_time_may_come_once_twice_or_never)
{
	struct zone *z = zone_of("Europe/Berlin");
	int64_t at[2];

	ASSERT_EQ(zone_moments(z, utc("2026-01-15T12:00:00Z"), at), 1);
	ASSERT_EQ(at[0], utc("2026-01-15T11:00:00Z"));
	ASSERT_EQ(zone_moments(z, utc("2026-03-29T02:30:00Z"), at), 0);
	ASSERT_EQ(at[0], utc("2026-03-29T01:00:00Z"));
	ASSERT_EQ(zone_moments(z, utc("2026-10-25T02:30:00Z"), at), 2);
	ASSERT_EQ(at[0], utc("2026-10-25T00:30:00Z"));
	ASSERT_EQ(at[1], utc("2026-10-25T01:30:00Z"));
	ASSERT_EQ(zone_moments(z, utc("2060-10-31T02:30:00Z"), at), 2);
	zone_free(z);
	z = zone_of("Pacific/Apia"); /* 30 December 2011 did not happen there */
	ASSERT_EQ(zone_moments(z, utc("2011-12-30T12:00:00Z"), at), 0);
	ASSERT_EQ(at[0], utc("2011-12-30T10:00:00Z"));
	zone_free(z);
}

TEST(names_do_not_lead_out_of_the_directory)
{
	static const char *const bad[] = {"", "/etc/passwd", "../etc/passwd", "Europe/../../x",
		"Europe", "No/Where", "Europe//Berlin", "zone.tab", "a\nb"};
	struct zone *z = NULL;
	struct cell_error err = {0};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK_(zone_open(bad[i], &z, &err) < 0, "%s", bad[i]);
		ASSERT(err.code != CELL_OK);
	}
	ASSERT_ERR(zone_parse("TZif2", 5, &z), -EINVAL);
}
