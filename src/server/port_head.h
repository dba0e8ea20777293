/* SPDX-License-Identifier: Apache-2.0 */
/* port_head.h: heads of requests into a cell, and of the answers out of it. */
#pragma once
#include "net/client.h"
#include "net/http.h"

/* prefix: the path this port has here; target: the path in the cell, as sent. */
int port_request_head(const struct http_exchange *x, unsigned port, const char *prefix,
	const char *target, struct buf *b);
bool port_is_asked_to_upgrade(const struct http_exchange *x);
/* What of an answer's fields goes to the client, put into the exchange. */
void port_answer_fields(struct http_exchange *x, const char *prefix,
	const struct http_field *fields);
