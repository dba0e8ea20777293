/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.h: a client of gRPC services on a unix socket: HTTP/2 without TLS, one call at a time. Blocking. What a message means is the
 * caller's (protobuf.h).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

#include "base/buf.h"

#define GRPC_MESSAGE_MAX (16u << 20) /* of one message that comes */

/* What a service answers when it refuses; the rest of the codes is not told apart. */
enum {
	GRPC_OK = 0,
	GRPC_INVALID = 3,
	GRPC_NOT_FOUND = 5,
	GRPC_EXISTS = 6,
	GRPC_DENIED = 7,
	GRPC_PRECONDITION = 9,
	GRPC_UNIMPLEMENTED = 12,
};

struct grpc;

int grpc_open(const char *path, struct grpc **ret, struct cell_error *err);
void grpc_free(struct grpc *g); /* NULL is fine */

struct grpc_field {
	const char *name, *value;
};

struct grpc_call {
	const char *method;		   /* "/package.Service/Method" */
	const struct grpc_field *metadata; /* ends with a NULL name; may be NULL */
	int (*take)(void *arg, const uint8_t *p,
		size_t n); /* each message of the answer; may be NULL */
	void *arg;
	unsigned timeout_ms; /* of all of it; 0: a minute */
};

/* One message goes, any number comes. The status of the answer, or negative errno: the connection, or what take said. said (may be
 * NULL): what the service says about a status that is not 0. */
int grpc_call(struct grpc *g, const struct grpc_call *call, const struct buf *request, char *said,
	size_t size, struct cell_error *err);

/* The same with any number of messages: begin, send ..., end. Negative errno; grpc_end as grpc_call. A service may have answered
 * before all was sent: then grpc_send does nothing. */
int grpc_begin(struct grpc *g, const struct grpc_call *call, struct cell_error *err);
int grpc_send(struct grpc *g, const struct buf *message, struct cell_error *err);
int grpc_end(struct grpc *g, char *said, size_t size, struct cell_error *err);
