/* SPDX-License-Identifier: Apache-2.0 */
/* units.c: numbers, sizes and times as people write and read them. Pure: no input but the text. */
#include "cli/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

int cli_parse_number(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (const char *p = text; *p; p++) {
		if (!isdigit((unsigned char)*p))
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

/* "12.75xyz": whole part, thousandths, and where the unit begins. More digits behind the point than
 * three are read and dropped. */
static int split_number(const char *text, uint64_t *whole, uint64_t *thousandths, const char **unit)
{
	const char *p = text;
	uint64_t scale = 100;

	*whole = 0;
	*thousandths = 0;
	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(*whole, 10, whole) ||
			__builtin_add_overflow(*whole, (uint64_t)(*p - '0'), whole))
			return -ERANGE;
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return -EINVAL;
		for (; isdigit((unsigned char)*p); p++, scale /= 10)
			*thousandths += (uint64_t)(*p - '0') * scale;
	}
	*unit = p;
	return 0;
}

static int scale_number(uint64_t whole, uint64_t thousandths, uint64_t factor, uint64_t *ret)
{
	uint64_t value, part;

	if (__builtin_mul_overflow(whole, factor, &value) ||
		__builtin_mul_overflow(thousandths, factor, &part) ||
		__builtin_add_overflow(value, part / 1000, &value))
		return -ERANGE;
	*ret = value;
	return 0;
}

int cli_parse_size(const char *text, uint64_t *ret)
{
	static const char prefixes[] = "kmgtpe";
	uint64_t whole, thousandths, factor = 1;
	const char *unit, *prefix;
	int r = split_number(text, &whole, &thousandths, &unit);

	if (r < 0)
		return r;
	if (*unit && (prefix = strchr(prefixes, tolower((unsigned char)*unit)))) {
		factor <<= 10 * (prefix - prefixes + 1);
		unit++;
		if (!strcasecmp(unit, "ib"))
			unit += 2;
	}
	if (!strcasecmp(unit, "b"))
		unit++;
	if (*unit || (factor == 1 && thousandths))
		return -EINVAL;
	return scale_number(whole, thousandths, factor, ret);
}

int cli_parse_duration_ms(const char *text, uint64_t *ret)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000},
		{"d", 86400000}, {"", 1000}};
	uint64_t total = 0;

	for (const char *p = text; p == text || *p;) {
		uint64_t whole, thousandths, part;
		const char *unit;
		size_t i = 0, len = 0;
		int r = split_number(p, &whole, &thousandths, &unit);
		if (r < 0)
			return r;
		while (isalpha((unsigned char)unit[len]))
			len++;
		while (i < sizeof(units) / sizeof(units[0]) &&
			(strlen(units[i].unit) != len || strncmp(unit, units[i].unit, len) != 0))
			i++;
		/* without a unit it is seconds, and stands alone */
		if (i == sizeof(units) / sizeof(units[0]) || (!len && (p != text || *unit)))
			return -EINVAL;
		r = scale_number(whole, thousandths, units[i].ms, &part);
		if (r < 0)
			return r;
		if (__builtin_add_overflow(total, part, &total))
			return -ERANGE;
		p = unit + len;
	}
	*ret = total;
	return 0;
}

const char *cli_format_size(char out[CLI_UNIT_MAX], uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	uint64_t rest = 0;
	size_t i = 0;

	for (; bytes >= 1024; i++) {
		rest = bytes % 1024;
		bytes /= 1024;
	}
	if (i == 0 || bytes >= 10)
		snprintf(out, CLI_UNIT_MAX, "%" PRIu64 " %s", bytes, units[i]);
	else
		snprintf(out, CLI_UNIT_MAX, "%" PRIu64 ".%" PRIu64 " %s", bytes, rest * 10 / 1024,
			units[i]);
	return out;
}

const char *cli_format_age(char out[CLI_UNIT_MAX], uint64_t seconds)
{
	if (seconds < 120)
		snprintf(out, CLI_UNIT_MAX, "%" PRIu64 "s", seconds);
	else if (seconds < 120 * 60)
		snprintf(out, CLI_UNIT_MAX, "%" PRIu64 "m", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(out, CLI_UNIT_MAX, "%" PRIu64 "h", seconds / 3600);
	else
		snprintf(out, CLI_UNIT_MAX, "%" PRIu64 "d", seconds / 86400);
	return out;
}

const char *cli_format_time(char out[CLI_UNIT_MAX], uint64_t unix_ms)
{
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(out, CLI_UNIT_MAX, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(out, CLI_UNIT_MAX, "?");
	return out;
}

const char *cli_format_rfc3339(char *out, size_t size, uint64_t unix_ms)
{
	time_t seconds = (time_t)(unix_ms / 1000);
	char head[32];
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(head, sizeof(head), "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(out, size, "?");
	else
		snprintf(out, size, "%s.%03" PRIu64 "Z", head, unix_ms % 1000);
	return out;
}
