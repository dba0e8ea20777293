/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: see clock.h. Dates are the proleptic Gregorian calendar. */
#include "server/clock.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/config/units.h"

#define DAY_S	 INT64_C(86400)
#define YEAR_MIN INT64_C(-62167219200) /* 0000-01-01 */
#define YEAR_MAX INT64_C(253402300799) /* 9999-12-31T23:59:59 */

static int64_t now(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_unix_ns(void)
{
	return now(CLOCK_REALTIME);
}

int64_t clock_monotonic_ns(void)
{
	return now(CLOCK_MONOTONIC);
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int clock_days_in_month(int64_t year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

/* Days since 1970 of a date, by years that begin in March, so that the leap day is the last. */
static int64_t days_of(int64_t year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = floor_div(y, 400);
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void clock_split(int64_t unix_s, struct clock_date *ret)
{
	int64_t days = floor_div(unix_s, DAY_S);
	int64_t rest = unix_s - days * DAY_S;
	int64_t z = days + 719468;
	int64_t era = floor_div(z, 146097);
	int64_t of_era = z - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;

	ret->day = (int)(of_year - (153 * month + 2) / 5 + 1);
	ret->month = (int)(month < 10 ? month + 3 : month - 9);
	ret->year = year + era * 400 + (ret->month <= 2);
	ret->hour = (int)(rest / 3600);
	ret->minute = (int)(rest / 60 % 60);
	ret->second = (int)(rest % 60);
	ret->weekday = (int)(((days + 4) % 7 + 7) % 7);
}

int64_t clock_join(const struct clock_date *d)
{
	return days_of(d->year, d->month, d->day) * DAY_S + d->hour * INT64_C(3600) +
	       d->minute * INT64_C(60) + d->second;
}

const char *clock_text(int64_t unix_ns, char out[CLOCK_TEXT_MAX])
{
	int64_t s = floor_div(unix_ns, NS_PER_S), ns = unix_ns - s * NS_PER_S;
	struct clock_date d;

	if (s < YEAR_MIN || s > YEAR_MAX) {
		s = s < YEAR_MIN ? YEAR_MIN : YEAR_MAX;
		ns = 0;
	}
	clock_split(s, &d);
	(void)snprintf(out, CLOCK_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ", (int)d.year,
		d.month, d.day, d.hour, d.minute, d.second, (long long)ns);
	return out;
}

/* n digits; -1 when there are not so many. */
static int digits(const char **p, int n)
{
	int value = 0;

	for (int i = 0; i < n; i++) {
		if (!isdigit((unsigned char)**p))
			return -1;
		value = value * 10 + *(*p)++ - '0';
	}
	return value;
}

static bool is_next(const char **p, const char *any)
{
	if (!**p || !strchr(any, **p))
		return false;
	(*p)++;
	return true;
}

/* ".123456789": up to nine digits. */
static int fraction(const char **p, int64_t *ret_ns)
{
	int64_t unit = NS_PER_S / 10;

	*ret_ns = 0;
	if (!is_next(p, ".,"))
		return 0;
	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); (*p)++, unit /= 10) {
		if (!unit)
			return -EINVAL;
		*ret_ns += (**p - '0') * unit;
	}
	return 0;
}

static int offset(const char **p, int64_t *ret_s)
{
	char sign = **p;

	*ret_s = 0;
	if (is_next(p, "Zz"))
		return 0;
	if (!is_next(p, "+-"))
		return -EINVAL;
	int hours = digits(p, 2);
	int minutes = is_next(p, ":") ? digits(p, 2) : -1;
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return -EINVAL;
	*ret_s = (hours * INT64_C(3600) + minutes * INT64_C(60)) * (sign == '-' ? -1 : 1);
	return 0;
}

static int parse_date(const char **p, struct clock_date *d)
{
	d->year = digits(p, 4);
	if (d->year < 0 || !is_next(p, "-"))
		return -EINVAL;
	d->month = digits(p, 2);
	if (d->month < 1 || d->month > 12 || !is_next(p, "-"))
		return -EINVAL;
	d->day = digits(p, 2);
	return d->day < 1 || d->day > clock_days_in_month(d->year, d->month) ? -EINVAL : 0;
}

static int parse_time(const char **p, struct clock_date *d)
{
	d->hour = digits(p, 2);
	if (d->hour < 0 || d->hour > 23 || !is_next(p, ":"))
		return -EINVAL;
	d->minute = digits(p, 2);
	if (d->minute < 0 || d->minute > 59 || !is_next(p, ":"))
		return -EINVAL;
	d->second = digits(p, 2);
	return d->second < 0 || d->second > 60 ? -EINVAL : 0; /* 60: a leap second */
}

static int to_ns(int64_t s, int64_t ns, int64_t *ret)
{
	return __builtin_mul_overflow(s, NS_PER_S, ret) || __builtin_add_overflow(*ret, ns, ret)
		       ? -EINVAL
		       : 0;
}

int clock_parse(const char *text, int64_t *ret_unix_ns)
{
	struct clock_date d = {0};
	const char *p = text;
	int64_t ns = 0, east = 0;
	uint64_t seconds;

	if (parse_uint(text, &seconds) == 0)
		return seconds > INT64_MAX ? -EINVAL : to_ns((int64_t)seconds, 0, ret_unix_ns);
	if (parse_date(&p, &d) < 0)
		return -EINVAL;
	if (*p && (!is_next(&p, "Tt ") || parse_time(&p, &d) < 0 || fraction(&p, &ns) < 0 ||
			  offset(&p, &east) < 0 || *p))
		return -EINVAL;
	return to_ns(clock_join(&d) - east, ns, ret_unix_ns);
}

int clock_parse_since(const char *text, int64_t now_ns, int64_t *ret_unix_ns)
{
	uint64_t ms;

	if (clock_parse(text, ret_unix_ns) == 0)
		return 0;
	if (parse_duration(text, &ms) < 0 || ms > (uint64_t)(INT64_MAX / NS_PER_MS))
		return -EINVAL;
	*ret_unix_ns = now_ns - (int64_t)ms * NS_PER_MS;
	return 0;
}
