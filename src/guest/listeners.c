/* SPDX-License-Identifier: Apache-2.0 */
/* listeners.c: see listeners.h. Addresses stand there as 32-bit words in the machine's own byte order. */
#include "guest/listeners.h"

#include <arpa/inet.h>
#include <string.h>

#define STATE_LISTEN 0x0a

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 8 hex digits at s. */
static int word_of(const char *s, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < 8; i++) {
		int d = digit(s[i]);
		if (d < 0)
			return -1;
		v = v << 4 | (uint32_t)d;
	}
	*ret = v;
	return 0;
}

static int read_address(const char *hex, char ret[INET6_ADDRSTRLEN])
{
	size_t n = strlen(hex) / 8;
	uint32_t words[4];

	if ((n != 1 && n != 4) || strlen(hex) % 8)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (word_of(hex + 8 * i, &words[i]) < 0)
			return -1;
	return inet_ntop(n == 1 ? AF_INET : AF_INET6, words, ret, INET6_ADDRSTRLEN) ? 0 : -1;
}

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 ..." */
static int read_line(const char *line, struct listener *ret)
{
	char address[40];
	unsigned port, state, uid;

	if (sscanf(line,
		    " %*u: %39[0-9A-Fa-f]:%4x %*39[0-9A-Fa-f]:%*4x %2x %*8x:%*8x %*2x:%*8x %*8x %u",
		    address, &port, &state, &uid) != 4 ||
		state != STATE_LISTEN || !port || port > 65535 ||
		read_address(address, ret->address) < 0)
		return -1;
	ret->port = (uint16_t)port;
	ret->uid = uid;
	return 0;
}

int listeners_read(FILE *f, int (*fn)(const struct listener *l, void *user), void *user)
{
	char line[512];
	int r = 0;

	while (r == 0 && fgets(line, sizeof line, f)) {
		struct listener l;
		if (read_line(line, &l) == 0)
			r = fn(&l, user);
	}
	return r;
}
