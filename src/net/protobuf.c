/* SPDX-License-Identifier: Apache-2.0 */
#include "net/protobuf.h"

#include <string.h>

enum {
	VARINT = 0,
	FIXED64 = 1,
	BYTES = 2,
	FIXED32 = 5
};

static int add_number(struct buf *b, uint64_t n)
{
	int r = 0;

	for (; r == 0 && n >= 0x80; n >>= 7)
		r = buf_addc(b, (char)(0x80 | (n & 0x7f)));
	return r < 0 ? r : buf_addc(b, (char)n);
}

int pb_add_uint(struct buf *b, unsigned field, uint64_t value)
{
	if (!value)
		return 0;
	int r = add_number(b, (uint64_t)field << 3 | VARINT);
	return r < 0 ? r : add_number(b, value);
}

static int add_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
	int r = add_number(b, (uint64_t)field << 3 | BYTES);

	if (r == 0)
		r = add_number(b, n);
	return r < 0 || n == 0 ? r : buf_add(b, p, n);
}

int pb_add_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
	return n ? add_bytes(b, field, p, n) : 0;
}

int pb_add_str(struct buf *b, unsigned field, const char *text)
{
	return pb_add_bytes(b, field, text, text ? strlen(text) : 0);
}

int pb_add_message(struct buf *b, unsigned field, const struct buf *message)
{
	return add_bytes(b, field, message->data, message->len);
}

int pb_add_pair(struct buf *b, unsigned field, const char *key, const char *value)
{
	auto_buf struct buf pair = BUF_INIT(16384);
	int r = pb_add_str(&pair, 1, key);

	if (r == 0)
		r = pb_add_str(&pair, 2, value);
	return r < 0 ? r : pb_add_message(b, field, &pair);
}

struct pb_reader pb_read(const void *p, size_t n)
{
	return (struct pb_reader){.p = p, .end = p ? (const uint8_t *)p + n : NULL};
}

static bool read_number(struct pb_reader *r, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
		uint8_t byte = *r->p++;
		n |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = n;
			return true;
		}
	}
	return false;
}

static bool read_bytes(struct pb_reader *r, uint64_t n, struct pb_field *ret)
{
	if (n > (uint64_t)(r->end - r->p))
		return false;
	ret->data = r->p;
	ret->size = (size_t)n;
	r->p += n;
	return true;
}

bool pb_next(struct pb_reader *r, struct pb_field *ret)
{
	uint64_t key, n;
	bool is_fine;

	if (r->is_broken || r->p == r->end)
		return false;
	*ret = (struct pb_field){0};
	is_fine = read_number(r, &key) && key >> 3 > 0 && key >> 3 < 1u << 29;
	if (is_fine) {
		ret->number = (unsigned)(key >> 3);
		switch (key & 7) {
		case VARINT:
			is_fine = read_number(r, &ret->value);
			break;
		case BYTES:
			is_fine = read_number(r, &n) && read_bytes(r, n, ret);
			break;
		case FIXED64:
			is_fine = read_bytes(r, 8, ret);
			break;
		case FIXED32:
			is_fine = read_bytes(r, 4, ret);
			break;
		default:
			is_fine = false;
		}
	}
	r->is_broken = !is_fine;
	return is_fine;
}

bool pb_find(const void *p, size_t n, unsigned number, struct pb_field *ret)
{
	struct pb_reader r = pb_read(p, n);
	struct pb_field f;
	bool is_found = false;

	while (pb_next(&r, &f)) {
		if (f.number != number)
			continue;
		*ret = f;
		is_found = true;
	}
	return is_found;
}

void pb_text(const struct pb_field *f, char *ret, size_t size)
{
	size_t n = f->size < size ? f->size : size - 1;

	if (n)
		memcpy(ret, f->data, n);
	ret[n] = '\0';
}

void pb_find_str(const void *p, size_t n, unsigned number, char *ret, size_t size)
{
	struct pb_field f = {0};

	(void)pb_find(p, n, number, &f);
	pb_text(&f, ret, size);
}
