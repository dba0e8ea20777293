/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h: bytes between an exchange and file descriptors, both ways, with back pressure and half-close.
 * This is how a port of a cell is reached through the server.
 */
#pragma once
#include <stdint.h>

#include "cell/error.h"

struct http_exchange;
struct relay;

struct relay_result {
	uint64_t bytes_in;  /* from the client to the descriptor */
	uint64_t bytes_out; /* from the descriptor to the client */
	int error;	    /* 0: both sides ended in order; else a negative errno */
};

/* Relays between the exchange and the descriptors until both directions have ended or one is broken;
 * then closes the descriptors, ends the exchange, and calls done once (from the loop, never before this
 * returns).
 *
 * The exchange must be at one of two points: after nothing (then `protocol` is given, 101 is sent and raw bytes flow:
 * http_take_over()), or after http_begin() (protocol NULL: the request's body goes to the descriptor, what comes
 * from it is the answer's body). fd_in is written to, fd_out read from; they may be the same socket. Both are owned
 * from now on, also on failure. When the client has sent everything, a socket is shut down for
 * writing, a pipe closed. idle_ms without a byte in either direction ends it with -ETIMEDOUT; 0: never. */
int relay_start(struct http_exchange *x, const char *protocol, int fd_in, int fd_out,
	unsigned idle_ms, void (*done)(const struct relay_result *result, void *arg), void *arg,
	struct relay **ret, struct cell_error *err);

/* End it now; done is called (from the loop) with -ECANCELED. */
void relay_stop(struct relay *r);
