/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carry.h: a stream as a file descriptor, for who takes nothing else: a thread carries bytes between it and one end of a socket pair,
 * through TLS, and takes off the framing of who is at its other end.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/client.h"
#include "net/stream.h"

/* Pieces, each behind a head. What goes the other way has none. */
struct net_framing {
	size_t head_size; /* at most NET_CARRY_CHUNK */
	/* How long the piece is. False: it is not for us, and passed over. */
	bool (*read)(const uint8_t *head, uint32_t *ret_size);
};
#define NET_CARRY_CHUNK 65536u

/* The other end of the pair, CLOEXEC, the caller's. Takes the stream, and what came of it already (rest), unless it fails.
 * framing: NULL for none. The thread ends when either side does; a process that ends waits a moment for it. */
int net_carry(struct net_stream *remote, struct buf *rest, const struct net_framing *framing);

/* http_client_upgrade() and that: the stream which a call becomes. Any other answer than 101: -EPROTO, with it in *ret_reply. */
int net_carry_upgrade(struct http_client *c, const struct http_call *call, const char *protocol,
	const struct net_framing *framing, struct http_reply *ret_reply, struct cell_error *err);
