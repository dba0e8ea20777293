/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws_frame.h: frames of a WebSocket, both ends; no I/O. A message is joined in one buffer that grows as bytes
 * arrive: neither an announced length nor a flood of tiny fragments costs more memory than was
 * really sent.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum ws_opcode {
	WS_OP_CONTINUATION = 0,
	WS_OP_TEXT = 1,
	WS_OP_BINARY = 2,
	WS_OP_CLOSE = 8,
	WS_OP_PING = 9,
	WS_OP_PONG = 10,
};

#define WS_HEAD_MAX    14
#define WS_CONTROL_MAX 125

struct ws_decoder {
	bool is_masked_wanted; /* a server's: the peer must mask; a client's: must not */
	struct buf message;    /* max: the largest message */
	uint8_t head[WS_HEAD_MAX];
	size_t head_len, head_need;
	uint8_t control[WS_CONTROL_MAX + 1];
	size_t control_len;
	uint8_t opcode;		/* of the frame */
	uint8_t message_opcode; /* of the message that is being joined; 0: none */
	bool is_final, is_in_payload, is_message_done;
	uint64_t payload_left;
	uint8_t mask[4];
	unsigned mask_at;
};

struct ws_frame {
	enum ws_opcode opcode; /* text, binary: a whole message; close, ping, pong */
	const uint8_t *p;      /* with a NUL behind it; valid until the next call */
	size_t n;
	unsigned code; /* of a close frame; p is its reason */
};

void ws_decoder_init(struct ws_decoder *d, bool is_server, size_t max_message);
void ws_decoder_done(struct ws_decoder *d);

/* Takes bytes. 1: *ret is a frame, *ret_used bytes were taken; 0: all taken, more is needed; negative: minus the
 * close code that fits what the peer did wrong (WS_PROTOCOL_ERROR, WS_BAD_TEXT, WS_TOO_BIG, WS_INTERNAL). */
int ws_decode(struct ws_decoder *d, const uint8_t *p, size_t n, size_t *ret_used,
	struct ws_frame *ret);

/* The head of a final frame; its length. mask NULL: a server's. */
size_t ws_encode_head(uint8_t ret[WS_HEAD_MAX], enum ws_opcode opcode, uint64_t len,
	const uint8_t *mask);
void ws_mask(uint8_t *dst, const uint8_t *src, size_t n, const uint8_t mask[4]);

/* The payload of a close frame; its length. */
size_t ws_encode_close(uint8_t ret[WS_CONTROL_MAX], unsigned code, const char *reason);

/* Sec-WebSocket-Accept for a key; ret has 29 bytes. */
void ws_accept_key(const char *key, char ret[29]);
bool ws_is_key(const char *key);
