/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: a connected non-blocking socket, with or without TLS on it. Used by server and client. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "cell/error.h"

struct ssl_st;
struct ssl_ctx_st;

struct net_stream {
	int fd;
	struct ssl_st *ssl;    /* NULL: plain */
	bool read_needs_write; /* TLS wants to send before it can read on */
	bool write_needs_read;
	bool is_handshaken; /* always true for a plain one, after net_stream_init() */
};

/* Takes the fd (not on failure). ctx NULL: plain. server_name (clients): for SNI and verification. */
int net_stream_init(struct net_stream *s, int fd, struct ssl_ctx_st *ctx, bool is_server,
	const char *server_name, struct cell_error *err);
void net_stream_done(struct net_stream *s); /* closes */

/* 0 done, -EAGAIN wait, -EPROTO failed (err says why), -EPROTOTYPE the client speaks plain HTTP. */
int net_stream_handshake(struct net_stream *s, struct cell_error *err);

/* Bytes; 0 at the end; -EAGAIN or another negative errno. */
ssize_t net_stream_read(struct net_stream *s, void *p, size_t n);

/* Bytes taken, possibly fewer than given; -EAGAIN or another negative errno. After -EAGAIN the same
 * bytes must come first again. */
ssize_t net_stream_write(struct net_stream *s, const struct iovec *iov, int n);

/* Are bytes here that poll() does not know of? */
bool net_stream_has_pending(const struct net_stream *s);

/* Ends our direction. */
void net_stream_finish(struct net_stream *s);
