/* SPDX-License-Identifier: Apache-2.0 */
/* units.c: values as people write them; see units.h. */
#include "core/config/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* whole + fraction / scale; scale is a power of ten, at most 10^9. */
struct decimal {
	uint64_t whole, fraction, scale;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads a decimal at *text and moves behind it. Digits past the ninth of the fraction must be 0. */
static int parse_decimal(const char **text, struct decimal *ret)
{
	const char *p = *text;
	struct decimal d = {.scale = 1};

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(d.whole, 10, &d.whole) ||
			__builtin_add_overflow(d.whole, (uint64_t)(*p - '0'), &d.whole))
			return -ERANGE;
	if (*p == '.') {
		if (!is_digit(*++p))
			return -EINVAL;
		for (; is_digit(*p); p++) {
			if (d.scale == 1000000000) {
				if (*p != '0')
					return -ERANGE;
				continue;
			}
			d.fraction = d.fraction * 10 + (uint64_t)(*p - '0');
			d.scale *= 10;
		}
	}
	*text = p;
	*ret = d;
	return 0;
}

/* d * unit, rounded up. */
static int scale(const struct decimal *d, uint64_t unit, uint64_t *ret)
{
	unsigned __int128 v = (unsigned __int128)d->whole * unit +
			      ((unsigned __int128)d->fraction * unit + d->scale - 1) / d->scale;

	if (v > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

int parse_bytes(const char *text, uint64_t bare_unit, uint64_t *ret)
{
	static const char letters[] = "kmgt";
	struct decimal d;
	uint64_t unit = bare_unit;

	int r = parse_decimal(&text, &d);
	if (r < 0)
		return r;
	while (*text == ' ')
		text++;
	if (*text) {
		const char *at = strchr(letters, *text | 0x20);
		unit = at ? UINT64_C(1) << (10 * (at - letters + 1)) : 1;
		text += at != NULL;
		bool is_known = !*text || !strcasecmp(text, "b") ||
				(at && (!strcasecmp(text, "ib") || !strcasecmp(text, "i")));
		if (!is_known)
			return -EINVAL;
	}
	return scale(&d, unit, ret);
}

int parse_duration(const char *text, uint64_t *ret_ms)
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	uint64_t total = 0, part;
	uint64_t largest = UINT64_MAX;

	if (!strcasecmp(text, "none")) {
		*ret_ms = 0;
		return 0;
	}
	do {
		struct decimal d;
		int r = parse_decimal(&text, &d);
		if (r < 0)
			return r;
		size_t n = strcspn(text, "0123456789"), i = 0;
		uint64_t ms = 1000;
		if (n) {
			while (i < sizeof units / sizeof units[0] &&
				(strlen(units[i].suffix) != n ||
					strncasecmp(units[i].suffix, text, n) != 0))
				i++;
			if (i == sizeof units / sizeof units[0])
				return -EINVAL;
			ms = units[i].ms;
		} else if (largest != UINT64_MAX) {
			return -EINVAL; /* "1h30": thirty what? */
		}
		if (ms >= largest)
			return -EINVAL;
		largest = ms;
		text += n;
		r = scale(&d, ms, &part);
		if (r < 0)
			return r;
		total += part;
		if (total > INT64_MAX)
			return -ERANGE;
	} while (*text);
	*ret_ms = total;
	return 0;
}

int parse_cpus(const char *text, uint64_t *ret_millis)
{
	struct decimal d;

	int r = parse_decimal(&text, &d);
	if (r < 0)
		return r;
	if (!strcmp(text, "m"))
		return scale(&d, 1, ret_millis);
	return *text ? -EINVAL : scale(&d, 1000, ret_millis);
}

int parse_bool(const char *text, bool *ret)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		for (int value = 0; value < 2; value++)
			if (!strcasecmp(text, words[i][value])) {
				*ret = value;
				return 0;
			}
	return -EINVAL;
}

int parse_uint(const char *text, uint64_t *ret)
{
	struct decimal d;

	if (strchr(text, '.'))
		return -EINVAL;
	int r = parse_decimal(&text, &d);
	if (r < 0)
		return r;
	if (*text)
		return -EINVAL;
	if (d.whole > INT64_MAX)
		return -ERANGE;
	*ret = d.whole;
	return 0;
}

const char *format_bytes(uint64_t bytes, char buf[UNIT_TEXT_MAX])
{
	static const char letters[] = "kmgt";
	int i = -1;

	while (bytes && i < 3 && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	(void)snprintf(buf, UNIT_TEXT_MAX, "%llu%.1s", (unsigned long long)bytes,
		i < 0 ? "" : &letters[i]);
	return buf;
}

const char *format_duration(uint64_t ms, char buf[UNIT_TEXT_MAX])
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
	size_t i = ms ? 0 : 3;

	while (ms % units[i].ms)
		i++;
	(void)snprintf(buf, UNIT_TEXT_MAX, "%llu%s", (unsigned long long)(ms / units[i].ms),
		units[i].suffix);
	return buf;
}

const char *format_cpus(uint64_t millis, char buf[UNIT_TEXT_MAX])
{
	int n = snprintf(buf, UNIT_TEXT_MAX, "%llu.%03llu", (unsigned long long)(millis / 1000),
		(unsigned long long)(millis % 1000));

	while (n > 1 && buf[n - 1] == '0')
		buf[--n] = '\0';
	if (n > 1 && buf[n - 1] == '.')
		buf[--n] = '\0';
	return buf;
}

#define PRICE_UNIT UINT64_C(1000000000)

int parse_price(const char *text, uint64_t *ret_billionths)
{
	uint64_t whole = 0, part = 0, unit = PRICE_UNIT;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
			__builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return -ERANGE;
	if (p == text)
		return -EINVAL;
	if (*p == '.') {
		const char *digits = ++p;
		for (; *p >= '0' && *p <= '9'; p++) {
			unit /= 10;
			if (!unit && *p != '0')
				return -ERANGE; /* finer than can be counted */
			part += unit * (uint64_t)(*p - '0');
		}
		if (p == digits)
			return -EINVAL;
	}
	if (*p)
		return -EINVAL;
	return __builtin_mul_overflow(whole, PRICE_UNIT, ret_billionths) ||
			       __builtin_add_overflow(*ret_billionths, part, ret_billionths)
		       ? -ERANGE
		       : 0;
}

const char *format_price(uint64_t billionths, char buf[UNIT_TEXT_MAX])
{
	int n = snprintf(buf, UNIT_TEXT_MAX, "%llu.%09llu",
		(unsigned long long)(billionths / PRICE_UNIT),
		(unsigned long long)(billionths % PRICE_UNIT));

	while (buf[n - 1] == '0')
		buf[--n] = '\0';
	if (buf[n - 1] == '.')
		buf[--n] = '\0';
	return buf;
}
