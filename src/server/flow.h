/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.h: a command's output on its way to one client: waited for as a whole, as lines of JSON, as server-sent events, as plain bytes, or
 * over a WebSocket. Each reads the spool at its own pace.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct call;
struct exec;

/* All end the call and the exchange, now or later, and take a reference of their own on the command. */

/* The result as one object, when it has ended; at most max_output bytes of each stream. */
void flow_wait(struct call *c, struct exec *e, uint64_t max_output);

enum flow_format {
	FLOW_NDJSON,
	FLOW_SSE,
	FLOW_BYTES_1, /* stdout alone */
	FLOW_BYTES_2,
};
/* What the Accept header asks for: 0 and *ret, or -1: a whole result. */
int flow_format_of(const struct call *c, enum flow_format *ret);
/* from: the next byte wanted of each stream. Not following ends with what there is. */
void flow_stream(struct call *c, struct exec *e, enum flow_format format, uint64_t out_from,
	uint64_t err_from, bool is_following);

/* flow_ws.c: over a WebSocket. */
struct flow_socket_options {
	uint64_t out_from, err_from;
	bool is_following; /* false: ends with what there is */
	bool takes_input;  /* both ways: stdin, signals, sizes */
	bool is_holding; /* a command that is far ahead of this reader waits, instead of its oldest output being dropped */
};
void flow_socket(struct call *c, struct exec *e, const struct flow_socket_options *o);
