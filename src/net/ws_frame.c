/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws_frame.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "net/ws.h"

void ws_decoder_init(struct ws_decoder *d, bool is_server, size_t max_message)
{
	*d = (struct ws_decoder){
		.is_masked_wanted = is_server, .message = BUF_INIT(max_message), .head_need = 2};
}

void ws_decoder_done(struct ws_decoder *d)
{
	buf_done(&d->message);
}

/* The first two bytes: what kind of frame, and how long its head is. */
static int begin_head(struct ws_decoder *d)
{
	bool is_masked = d->head[1] & 0x80;
	unsigned len = d->head[1] & 0x7f;

	d->is_final = d->head[0] & 0x80;
	d->opcode = d->head[0] & 0x0f;
	if ((d->head[0] & 0x70) || is_masked != d->is_masked_wanted)
		return -WS_PROTOCOL_ERROR;
	switch (d->opcode) {
	case WS_OP_CONTINUATION:
		if (!d->message_opcode)
			return -WS_PROTOCOL_ERROR;
		break;
	case WS_OP_TEXT:
	case WS_OP_BINARY:
		if (d->message_opcode)
			return -WS_PROTOCOL_ERROR;
		break;
	case WS_OP_CLOSE:
	case WS_OP_PING:
	case WS_OP_PONG:
		if (!d->is_final || len > WS_CONTROL_MAX)
			return -WS_PROTOCOL_ERROR;
		break;
	default:
		return -WS_PROTOCOL_ERROR;
	}
	d->head_need = 2u + (len == 126 ? 2 : len == 127 ? 8 : 0) + (is_masked ? 4 : 0);
	return 0;
}

/* The whole head is here. */
static int end_head(struct ws_decoder *d)
{
	unsigned len = d->head[1] & 0x7f, bytes = len == 126 ? 2 : len == 127 ? 8 : 0;
	uint64_t n = bytes ? 0 : len;

	for (unsigned i = 0; i < bytes; i++)
		n = n << 8 | d->head[2 + i];
	/* Only the shortest form is allowed, and 63 bits. */
	if ((bytes == 2 && n < 126) || (bytes == 8 && (n < 65536 || n >> 63)))
		return -WS_PROTOCOL_ERROR;
	if (d->is_masked_wanted)
		memcpy(d->mask, d->head + 2 + bytes, 4);
	d->mask_at = 0;
	d->payload_left = n;
	d->is_in_payload = true;
	d->control_len = 0;
	if (d->opcode < WS_OP_CLOSE) {
		if (n > d->message.max - d->message.len)
			return -WS_TOO_BIG;
		if (d->opcode != WS_OP_CONTINUATION)
			d->message_opcode = d->opcode;
	}
	return 0;
}

static void unmask(struct ws_decoder *d, uint8_t *p, size_t n)
{
	size_t i = 0;

	for (; i < n && (d->mask_at & 3); i++)
		p[i] ^= d->mask[d->mask_at++ & 3];
	uint64_t wide;
	memcpy(&wide, d->mask, 4);
	memcpy((uint8_t *)&wide + 4, d->mask, 4);
	for (; i + 8 <= n; i += 8) {
		uint64_t v;
		memcpy(&v, p + i, 8);
		v ^= wide;
		memcpy(p + i, &v, 8);
	}
	for (; i < n; i++)
		p[i] ^= d->mask[d->mask_at++ & 3];
}

static int take_payload(struct ws_decoder *d, const uint8_t *p, size_t n)
{
	uint8_t *at;

	if (d->opcode >= WS_OP_CLOSE) {
		at = d->control + d->control_len;
		memcpy(at, p, n);
		d->control_len += n;
	} else {
		if (buf_add(&d->message, p, n) < 0)
			return -WS_INTERNAL;
		at = d->message.data + d->message.len - n;
	}
	if (d->is_masked_wanted)
		unmask(d, at, n);
	d->payload_left -= n;
	return 0;
}

static bool is_sendable_code(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static int take_close(struct ws_decoder *d, struct ws_frame *ret)
{
	ret->code = WS_NO_CODE;
	if (d->control_len == 0)
		return 1;
	if (d->control_len == 1)
		return -WS_PROTOCOL_ERROR;
	ret->code = (unsigned)d->control[0] << 8 | d->control[1];
	ret->p += 2;
	ret->n -= 2;
	if (!is_sendable_code(ret->code))
		return -WS_PROTOCOL_ERROR;
	return utf8_is_valid(ret->p, ret->n) ? 1 : -WS_BAD_TEXT;
}

/* A frame is complete. 1: so is a message. */
static int end_frame(struct ws_decoder *d, struct ws_frame *ret)
{
	d->is_in_payload = false;
	d->head_len = 0;
	d->head_need = 2;
	if (d->opcode >= WS_OP_CLOSE) {
		d->control[d->control_len] = '\0';
		*ret = (struct ws_frame){d->opcode, d->control, d->control_len, 0};
		return d->opcode == WS_OP_CLOSE ? take_close(d, ret) : 1;
	}
	if (!d->is_final)
		return 0;
	*ret = (struct ws_frame){
		d->message_opcode, (const uint8_t *)buf_str(&d->message), d->message.len, 0};
	d->message_opcode = 0;
	d->is_message_done = true;
	if (ret->opcode == WS_OP_TEXT && !utf8_is_valid(ret->p, ret->n))
		return -WS_BAD_TEXT;
	return 1;
}

int ws_decode(struct ws_decoder *d, const uint8_t *p, size_t n, size_t *ret_used,
	struct ws_frame *ret)
{
	size_t used = 0;
	int r = 0;

	if (d->is_message_done) {
		d->is_message_done = false;
		if (d->message.cap > 65536)
			buf_done(&d->message);
		buf_reset(&d->message);
	}
	while (r == 0 && (used < n || (d->is_in_payload && d->payload_left == 0))) {
		if (!d->is_in_payload) {
			d->head[d->head_len++] = p[used++];
			if (d->head_len == 2)
				r = begin_head(d);
			if (r == 0 && d->head_len >= 2 && d->head_len == d->head_need)
				r = end_head(d);
		} else if (d->payload_left > 0) {
			size_t k = n - used;
			if (k > d->payload_left)
				k = (size_t)d->payload_left;
			r = take_payload(d, p + used, k);
			used += k;
		}
		if (r == 0 && d->is_in_payload && d->payload_left == 0)
			r = end_frame(d, ret);
	}
	*ret_used = used;
	return r;
}

size_t ws_encode_head(uint8_t ret[WS_HEAD_MAX], enum ws_opcode opcode, uint64_t len,
	const uint8_t *mask)
{
	size_t n = 2, bytes = len < 126 ? 0 : len < 65536 ? 2 : 8;

	ret[0] = (uint8_t)(0x80 | opcode);
	ret[1] = (uint8_t)((mask ? 0x80 : 0) | (bytes == 0 ? len : bytes == 2 ? 126 : 127));
	for (size_t i = bytes; i > 0; i--)
		ret[n++] = (uint8_t)(len >> (8 * (i - 1)));
	if (mask) {
		memcpy(ret + n, mask, 4);
		n += 4;
	}
	return n;
}

void ws_mask(uint8_t *dst, const uint8_t *src, size_t n, const uint8_t mask[4])
{
	for (size_t i = 0; i < n; i++)
		dst[i] = src[i] ^ mask[i & 3];
}

size_t ws_encode_close(uint8_t ret[WS_CONTROL_MAX], unsigned code, const char *reason)
{
	size_t n = reason ? strlen(reason) : 0;

	if (!is_sendable_code(code))
		return 0;
	if (n > WS_CONTROL_MAX - 2)
		n = WS_CONTROL_MAX - 2;
	/* Not in the middle of a character. */
	while (n > 0 && !utf8_is_valid(reason, n))
		n--;
	ret[0] = (uint8_t)(code >> 8);
	ret[1] = (uint8_t)code;
	if (n > 0)
		memcpy(ret + 2, reason, n);
	return n + 2;
}

void ws_accept_key(const char *key, char ret[29])
{
	unsigned char digest[SHA_DIGEST_LENGTH];
	char text[128];
	int n = snprintf(text, sizeof text, "%.64s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);

	(void)SHA1((const unsigned char *)text, (size_t)n, digest);
	(void)EVP_EncodeBlock((unsigned char *)ret, digest, sizeof digest);
}

bool ws_is_key(const char *key)
{
	unsigned char bytes[24];

	return strlen(key) == 24 && !strcmp(key + 22, "==") &&
	       EVP_DecodeBlock(bytes, (const unsigned char *)key, 24) == 18;
}
