/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: the time of day as the server writes it down: nanoseconds since 1970, RFC 3339 text.
 * Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CLOCK_TEXT_MAX 40
#define NS_PER_S       INT64_C(1000000000)
#define NS_PER_MS      INT64_C(1000000)

int64_t clock_unix_ns(void);	  /* wall clock */
int64_t clock_monotonic_ns(void); /* never goes back */

/* "2026-01-31T13:05:59.123456789Z", always UTC, always nine digits, so that texts sort as times
 * do. For years 0 to 9999; others are brought to the nearest of these. Returns out. */
const char *clock_text(int64_t unix_ns, char out[CLOCK_TEXT_MAX]);
/* RFC 3339 with any offset and up to nine digits, a date alone (midnight UTC), or a plain number
 * of seconds since 1970. -EINVAL. */
int clock_parse(const char *text, int64_t *ret_unix_ns);
/* As clock_parse, or a time before now: "15m", "2h", "7d". */
int clock_parse_since(const char *text, int64_t now_ns, int64_t *ret_unix_ns);

struct clock_date {
	int64_t year;
	int month, day; /* from 1 */
	int hour, minute, second;
	int weekday; /* 0: Sunday */
};
void clock_split(int64_t unix_s, struct clock_date *ret); /* UTC */
int64_t clock_join(const struct clock_date *d);		  /* weekday is not read */
int clock_days_in_month(int64_t year, int month);
