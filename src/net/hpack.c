/* SPDX-License-Identifier: Apache-2.0 */
#include "net/hpack.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define STATIC_LAST  61u
#define STATUS_FIRST 8u /* :status 200 204 206 304 400 404 500 */
#define STATUS_LAST  14u

/* The code of appendix B is canonical: how many symbols have each length, and the symbols in the order of their codes. */
static const uint8_t lengths[31] = {[5] = 10,
	[6] = 26,
	[7] = 32,
	[8] = 6,
	[10] = 5,
	[11] = 3,
	[12] = 2,
	[13] = 6,
	[14] = 2,
	[15] = 3,
	[19] = 3,
	[20] = 8,
	[21] = 13,
	[22] = 26,
	[23] = 29,
	[24] = 12,
	[25] = 4,
	[26] = 15,
	[27] = 19,
	[28] = 29,
	[30] = 3};
static const uint8_t symbols[256] = {48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46,
	47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95, 98, 100, 102, 103, 104, 108, 109, 110, 112, 114,
	117, 58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86,
	87, 89, 106, 107, 113, 118, 119, 120, 121, 122, 38, 42, 44, 59, 88, 90, 33, 34, 40, 41, 63,
	39, 43, 124, 35, 62, 0, 36, 64, 91, 93, 126, 94, 125, 60, 96, 123, 92, 195, 208, 128, 130,
	131, 162, 184, 194, 224, 226, 153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229,
	230, 129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185,
	186, 187, 189, 190, 196, 198, 228, 232, 233, 1, 135, 137, 138, 139, 140, 141, 143, 147, 149,
	150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231,
	239, 9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237, 199, 207, 234, 235, 192, 193,
	200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255, 203, 204, 211, 212, 214,
	221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254, 2, 3, 4, 5, 6, 7, 8,
	11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220, 249,
	10, 13, 22};

struct block {
	const uint8_t *p, *end;
};

/* An integer with a prefix of so many bits. */
static int read_number(struct block *b, unsigned bits, uint32_t *ret)
{
	const uint32_t most = (1u << bits) - 1;

	if (b->p == b->end)
		return -EPROTO;
	uint32_t n = *b->p++ & most;
	for (unsigned shift = 0; n >= most; shift += 7) {
		if (b->p == b->end || shift > 14)
			return -EPROTO;
		uint8_t byte = *b->p++;
		n += (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	*ret = n;
	return 0;
}

static void put(char *to, size_t size, size_t *at, uint8_t byte)
{
	if (*at + 1 < size)
		to[(*at)++] = (char)byte;
}

static int read_compressed(const uint8_t *p, const uint8_t *end, char *to, size_t size, size_t *at)
{
	uint32_t code = 0, first = 0;
	unsigned length = 0, seen = 0;
	bool is_ones = true;

	for (; p < end; p++) {
		for (int bit = 7; bit >= 0; bit--) {
			uint32_t one = *p >> bit & 1;

			code = code << 1 | one;
			first <<= 1;
			is_ones &= one;
			if (++length > 30)
				return -EPROTO;
			if (code - first < lengths[length]) {
				put(to, size, at, symbols[seen + code - first]);
				code = first = length = seen = 0;
				is_ones = true;
				continue;
			}
			first += lengths[length];
			seen += lengths[length];
		}
	}
	return length < 8 && is_ones
		       ? 0
		       : -EPROTO; /* what is left over is the beginning of the longest code */
}

static int read_string(struct block *b, char *to, size_t size)
{
	bool is_compressed = b->p < b->end && *b->p & 0x80;
	uint32_t n;
	size_t at = 0;
	int r = read_number(b, 7, &n);

	if (r < 0 || n > (size_t)(b->end - b->p))
		return -EPROTO;
	if (is_compressed)
		r = read_compressed(b->p, b->p + n, to, size, &at);
	else
		for (uint32_t i = 0; i < n; i++)
			put(to, size, &at, b->p[i]);
	b->p += n;
	to[at] = '\0';
	return r;
}

static int read_literal(struct block *b, unsigned bits, hpack_fn fn, void *user)
{
	char name[HPACK_NAME_MAX] = "", value[HPACK_VALUE_MAX];
	uint32_t index;
	int r = read_number(b, bits, &index);

	if (r < 0 || index > STATIC_LAST)
		return -EPROTO;
	if (index >= STATUS_FIRST && index <= STATUS_LAST)
		memcpy(name, ":status", sizeof ":status");
	if (index == 0)
		r = read_string(b, name, sizeof name);
	if (r == 0)
		r = read_string(b, value, sizeof value);
	return r == 0 && *name ? fn(user, name, value) : r;
}

static int read_indexed(struct block *b, hpack_fn fn, void *user)
{
	static const char *const statuses[] = {"200", "204", "206", "304", "400", "404", "500"};
	uint32_t index;
	int r = read_number(b, 7, &index);

	if (r < 0 || index == 0 || index > STATIC_LAST)
		return -EPROTO;
	if (index < STATUS_FIRST || index > STATUS_LAST)
		return 0;
	return fn(user, ":status", statuses[index - STATUS_FIRST]);
}

static int read_size(struct block *b)
{
	uint32_t size;
	int r = read_number(b, 5, &size);

	return r < 0 || size > 0 ? -EPROTO : 0;
}

int hpack_decode(const uint8_t *p, size_t n, hpack_fn fn, void *user)
{
	struct block b = {p, p + n};
	int r = 0;

	while (r == 0 && b.p < b.end) {
		uint8_t kind = *b.p;

		if (kind & 0x80)
			r = read_indexed(&b, fn, user);
		else if (kind & 0x40) /* to be remembered, in a table of size 0 */
			r = read_literal(&b, 6, fn, user);
		else if (kind & 0x20)
			r = read_size(&b);
		else
			r = read_literal(&b, 4, fn, user);
	}
	return r;
}

static int add_string(struct buf *b, const char *text)
{
	size_t n = strlen(text);
	int r;

	if (n < 0x7f) {
		r = buf_addc(b, (char)n);
	} else {
		r = buf_addc(b, 0x7f);
		for (n -= 0x7f; r == 0 && n >= 0x80; n >>= 7)
			r = buf_addc(b, (char)(0x80 | (n & 0x7f)));
		if (r == 0)
			r = buf_addc(b, (char)n);
	}
	return r < 0 ? r : buf_addz(b, text);
}

int hpack_add(struct buf *b, const char *name, const char *value)
{
	int r = buf_addc(b, 0x10);

	if (r == 0)
		r = add_string(b, name);
	return r < 0 ? r : add_string(b, value);
}
