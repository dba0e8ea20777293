/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream.h: an answer of another server taken apart as its bytes come, for the proxy and the client. Strict: what could be read in two ways is refused, so
 * that nobody behind the proxy sees another message than it does.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/client.h" /* struct http_field */

struct upstream;

#define UPSTREAM_CLOSE (-1) /* length: chunked, or until the connection ends */

struct upstream_events {
	/* The head of the final answer; 1xx but 101 are passed over. fields end with a NULL name and are valid during the call. length: of the
	 * body, or UPSTREAM_CLOSE. Negative gives up. */
	int (*head)(void *arg, int status, const struct http_field *fields, int64_t length);
	int (*body)(void *arg, const void *p, size_t n);
};

/* is_head: the request was HEAD, so no body follows whatever the head says. NULL on no memory. events are borrowed (static). */
struct upstream *upstream_new(bool is_head, const struct upstream_events *events, void *arg);
void upstream_free(struct upstream *u);

/* Bytes. 0; -EPROTO: no proper answer; or what an event returned. *ret_used: how many belong to the answer: fewer than n when it is complete. */
int upstream_feed(struct upstream *u, const void *p, size_t n, size_t *ret_used);
/* The connection has ended: 0 when the answer is complete, perhaps by that; -EPROTO when it was cut short. */
int upstream_finish(struct upstream *u);
bool upstream_is_complete(const struct upstream *u);
/* May the connection be used again, as its head says? */
bool upstream_is_keeping(const struct upstream *u);
/* Inside of the event `head`: the text that its fields point into is the caller's from now on. */
void upstream_take_head(struct upstream *u, struct buf *ret);
bool upstream_has_head(const struct upstream *u);

/* A header's value; NULL: not there. */
const char *upstream_field(const struct http_field *fields, const char *name);
/* Is `token` in a list such as Connection's? */
bool upstream_list_has(const char *list, const char *token);
/* Of one connection, not of the message (RFC 9110, 7.6.1): a proxy does not pass it on. */
bool upstream_is_hop_by_hop(const char *name);
