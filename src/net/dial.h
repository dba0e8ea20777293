/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h: a client's connection: made, waited for, read and written under a deadline. Blocking, on a
 * non-blocking socket, so that a deadline and the user's ^C count everywhere. */
#pragma once
#include <stdint.h>

#include "cell/error.h"

#include "net/stream.h"
#include "net/text.h"

struct dial_wait {
	uint64_t deadline_ms; /* monotonic; 0: none */
	unsigned stall_ms;    /* without progress; 0: no limit */
	bool (*is_cancelled)(void *arg);
	void *arg;
};

uint64_t dial_now_ms(void);

/* Waits for poll events on fd. 0, -ETIMEDOUT or -EINTR (cancelled). */
int dial_wait_for(int fd, short events, const struct dial_wait *w);

/* ctx: for https. */
int dial(const struct net_url *url, struct ssl_ctx_st *ctx, const struct dial_wait *w,
	struct net_stream *ret, struct cell_error *err);

/* Like net_stream_read() and net_stream_write(), waiting. All is written, or it fails. */
ssize_t dial_read(struct net_stream *s, void *p, size_t n, const struct dial_wait *w);
int dial_write(struct net_stream *s, const void *p, size_t n, const struct dial_wait *w);

/* A TLS context for clients. */
int dial_tls(const char *ca_file, bool is_insecure, struct ssl_ctx_st **ret,
	struct cell_error *err);
/* And who we are, for a server that asks. */
int dial_tls_identity(struct ssl_ctx_st *ctx, const char *cert_file, const char *key_file,
	struct cell_error *err);
void dial_tls_free(struct ssl_ctx_st *ctx);
