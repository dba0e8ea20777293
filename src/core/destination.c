/* SPDX-License-Identifier: Apache-2.0 */
#include "core/destination.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define TEXT_MAX 64

/* A number without sign, blanks or leading zeros, at most `max`; -1. */
static long number(const char *s, size_t n, long max)
{
	long v = 0;

	if (!n || n > 5 || (n > 1 && s[0] == '0'))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (s[i] - '0');
	}
	return v <= max ? v : -1;
}

/* ADDRESS or ADDRESS/BITS, n bytes of it. */
static int parse_range(const char *s, size_t n, struct cell_destination *ret)
{
	char text[TEXT_MAX];
	const char *slash = memchr(s, '/', n);
	size_t len = slash ? (size_t)(slash - s) : n;

	if (!len || len >= sizeof text)
		return -EINVAL;
	memcpy(text, s, len);
	text[len] = '\0';
	if (inet_pton(AF_INET, text, ret->addr) == 1)
		ret->family = 4;
	else if (inet_pton(AF_INET6, text, ret->addr) == 1)
		ret->family = 6;
	else
		return -EINVAL;
	unsigned bits = ret->family == 4 ? 32 : 128;
	long prefix = slash ? number(slash + 1, n - len - 1, bits) : (long)bits;
	if (prefix < 0)
		return -EINVAL;
	ret->prefix = (uint8_t)prefix;
	for (unsigned i = ret->prefix; i < bits; i++)
		if (ret->addr[i / 8] & (0x80 >> i % 8))
			return -EINVAL;
	return 0;
}

int cell_destination_parse(const char *text, struct cell_destination *ret)
{
	size_t n = strlen(text);
	const char *port = NULL;

	*ret = (struct cell_destination){0};
	if (text[0] == '[') {
		const char *end = strchr(text, ']');

		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		port = end[1] ? end + 2 : NULL;
		n = (size_t)(end - ++text);
		if (!memchr(text, ':', n))
			return -EINVAL;
	} else if (strchr(text, ':') == strrchr(text, ':') && strchr(text, ':')) {
		port = strchr(text, ':') + 1;
		n = (size_t)(port - 1 - text);
	}
	if (port) {
		long v = number(port, strlen(port), 65535);

		if (v <= 0)
			return -EINVAL;
		ret->port = (uint16_t)v;
	}
	return parse_range(text, n, ret);
}

bool cell_destination_is_address(const char *text)
{
	struct cell_destination d;

	return !strpbrk(text, "/[") && cell_destination_parse(text, &d) == 0 && !d.port;
}
