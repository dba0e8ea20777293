/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c: encoding and decoding of frames and fields. No state, no I/O. */
#include "wire/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void wire_u16_put(uint8_t out[2], uint16_t v)
{
	out[0] = (uint8_t)v;
	out[1] = (uint8_t)(v >> 8);
}

void wire_u32_put(uint8_t out[4], uint32_t v)
{
	wire_u16_put(out, (uint16_t)v);
	wire_u16_put(out + 2, (uint16_t)(v >> 16));
}

void wire_u64_put(uint8_t out[8], uint64_t v)
{
	wire_u32_put(out, (uint32_t)v);
	wire_u32_put(out + 4, (uint32_t)(v >> 32));
}

uint16_t wire_u16_get(const uint8_t in[2])
{
	return (uint16_t)(in[0] | (unsigned)in[1] << 8);
}

uint32_t wire_u32_get(const uint8_t in[4])
{
	return wire_u16_get(in) | (uint32_t)wire_u16_get(in + 2) << 16;
}

uint64_t wire_u64_get(const uint8_t in[8])
{
	return wire_u32_get(in) | (uint64_t)wire_u32_get(in + 4) << 32;
}

void wire_header_put(uint8_t out[WIRE_HEADER_SIZE], const struct wire_header *h)
{
	wire_u32_put(out, h->len);
	out[4] = h->type;
	out[5] = h->chan;
	wire_u16_put(out + 6, h->flags);
	wire_u32_put(out + 8, h->stream);
}

static bool is_connection_type(unsigned type)
{
	return type == WIRE_HELLO || type == WIRE_PING || type == WIRE_PONG || type == WIRE_GOAWAY;
}

static bool has_channel(unsigned type)
{
	return type == WIRE_DATA || type == WIRE_ACK || type == WIRE_EOF;
}

int wire_header_get(const uint8_t in[WIRE_HEADER_SIZE], struct wire_header *h, const char **why)
{
	h->len = wire_u32_get(in);
	h->type = in[4];
	h->chan = in[5];
	h->flags = wire_u16_get(in + 6);
	h->stream = wire_u32_get(in + 8);

	*why = NULL;
	if (h->type == 0 || h->type >= WIRE_TYPE_COUNT)
		*why = "unknown frame type";
	else if (h->len > WIRE_MAX_PAYLOAD)
		*why = "frame too long";
	else if (h->flags & ~WIRE_MORE || (h->flags && h->type != WIRE_REQUEST))
		*why = "unknown frame flag";
	else if (has_channel(h->type) ? h->chan >= WIRE_CHAN_COUNT : h->chan != 0)
		*why = "bad channel";
	else if (is_connection_type(h->type) != (h->stream == 0))
		*why = "wrong stream for this frame type";
	else if (h->type == WIRE_DATA && h->len < 8)
		*why = "data frame without an offset";
	else if ((h->type == WIRE_ACK || h->type == WIRE_EOF) && h->len != 8)
		*why = "acknowledgement of a wrong length";
	else if ((h->type == WIRE_PING || h->type == WIRE_PONG) && h->len > 8)
		*why = "ping too long";
	else if (h->type == WIRE_CANCEL && h->len != 0)
		*why = "cancel with a payload";
	return *why ? -EPROTO : 0;
}

int wire_put(struct buf *b, unsigned tag, const void *p, size_t n)
{
	uint8_t head[6];

	if (n > WIRE_MAX_MESSAGE)
		return -ENOBUFS;
	int r = buf_reserve(b, sizeof head + n);
	if (r < 0)
		return r;
	wire_u16_put(head, (uint16_t)tag);
	wire_u32_put(head + 2, (uint32_t)n);
	(void)buf_add(b, head, sizeof head);
	return buf_add(b, p, n);
}

int wire_put_str(struct buf *b, unsigned tag, const char *s)
{
	return s ? wire_put(b, tag, s, strlen(s)) : 0;
}

int wire_put_u64(struct buf *b, unsigned tag, uint64_t v)
{
	uint8_t bytes[8];

	wire_u64_put(bytes, v);
	return wire_put(b, tag, bytes, sizeof bytes);
}

int wire_next(struct wire_reader *r, struct wire_field *f)
{
	if (r->len == 0)
		return 0;
	if (r->len < 6)
		return -EPROTO;
	unsigned tag = wire_u16_get(r->p);
	uint32_t len = wire_u32_get(r->p + 2);
	if (len > r->len - 6)
		return -EPROTO;
	f->tag = (uint16_t)(tag & ~WIRE_CRITICAL);
	f->is_critical = tag & WIRE_CRITICAL;
	f->p = r->p + 6;
	f->len = len;
	r->p += 6 + len;
	r->len -= 6 + len;
	return 1;
}

int wire_field_u64(const struct wire_field *f, uint64_t *ret)
{
	if (f->len != 8)
		return -EPROTO;
	*ret = wire_u64_get(f->p);
	return 0;
}

int wire_field_str(const struct wire_field *f, size_t max, char **ret)
{
	if (f->len > max)
		return -EINVAL;
	if (f->len && memchr(f->p, 0, f->len))
		return -EPROTO;
	char *s = malloc((size_t)f->len + 1);
	if (!s)
		return -ENOMEM;
	if (f->len)
		memcpy(s, f->p, f->len);
	s[f->len] = '\0';
	*ret = s;
	return 0;
}

bool wire_find(const void *p, size_t len, unsigned tag, struct wire_field *ret)
{
	struct wire_reader r = {.p = p, .len = len};

	while (wire_next(&r, ret) > 0) {
		if (ret->tag == tag)
			return true;
	}
	return false;
}

uint64_t wire_find_u64(const void *p, size_t len, unsigned tag, uint64_t otherwise)
{
	struct wire_field f;
	uint64_t v;

	if (!wire_find(p, len, tag, &f) || wire_field_u64(&f, &v) < 0)
		return otherwise;
	return v;
}

char *wire_find_str(const void *p, size_t len, unsigned tag, size_t max)
{
	struct wire_field f;
	char *s;

	if (!wire_find(p, len, tag, &f) || wire_field_str(&f, max, &s) < 0)
		return NULL;
	return s;
}

int wire_check(const void *p, size_t len, const uint16_t *known, size_t n_known, unsigned *ret_tag)
{
	struct wire_reader r = {.p = p, .len = len};
	struct wire_field f;
	int more;

	while ((more = wire_next(&r, &f)) > 0) {
		size_t i = 0;

		if (!f.is_critical)
			continue;
		while (i < n_known && known[i] != f.tag)
			i++;
		if (i == n_known) {
			*ret_tag = f.tag;
			return -EOPNOTSUPP;
		}
	}
	return more;
}

int wire_record_next(const uint8_t *p, size_t n, const uint8_t **ret, size_t *ret_len,
	size_t *ret_used)
{
	if (n < 4)
		return 0;
	uint32_t len = wire_u32_get(p);
	if (len > WIRE_MAX_RECORD)
		return -EPROTO;
	if (n - 4 < len)
		return 0;
	*ret = p + 4;
	*ret_len = len;
	*ret_used = 4 + (size_t)len;
	return 1;
}

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool wire_is_id(const char *id)
{
	size_t n = 0;

	if (!is_letter_or_digit(*id))
		return false;
	for (; id[n]; n++)
		if (!is_letter_or_digit(id[n]) && !strchr("._-", id[n]))
			return false;
	return n <= WIRE_MAX_ID;
}
