/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c: see utf8.h. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

int utf8_next(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint8_t low = 0x80, high = 0xbf;
	int len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return -1;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (int i = 1; i < len; i++) {
		if ((size_t)i >= n)
			return 0;
		if (p[i] < low || p[i] > high)
			return -1;
		low = 0x80;
		high = 0xbf;
	}
	return len;
}

bool utf8_is_valid(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n;) {
		uint64_t eight;
		if (n - i >= 8 && (memcpy(&eight, p + i, 8), !(eight & 0x8080808080808080u))) {
			i += 8;
			continue;
		}
		int len = utf8_next(p + i, n - i);
		if (len <= 0)
			return false;
		i += (size_t)len;
	}
	return true;
}

unsigned utf8_number(const void *bytes, int len)
{
	const uint8_t *p = bytes;
	unsigned number = len == 1 ? p[0] : p[0] & (0x7fu >> len);

	for (int i = 1; i < len; i++)
		number = number << 6 | (p[i] & 0x3fu);
	return number;
}

bool utf8_is_hidden(unsigned number)
{
	static const struct {
		unsigned first, last;
	} ranges[] = {
		{0x00, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, /* Arabic letter mark */
		{0x200b, 0x200b},			    /* zero width space */
		{0x200e, 0x200f},   /* left-to-right and right-to-left marks */
		{0x2028, 0x202e},   /* separators of lines and paragraphs; embeddings, overrides */
		{0x2060, 0x206f},   /* word joiner, invisible operators, isolates */
		{0xfeff, 0xfeff},   /* byte order mark */
		{0xfff9, 0xfffb},   /* interlinear annotation */
		{0xe0000, 0xe007f}, /* tags: a whole alphabet that is never seen */
	};

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (number >= ranges[i].first && number <= ranges[i].last)
			return true;
	return false;
}
