/* SPDX-License-Identifier: Apache-2.0 */
/* client_internal.h: what client.c and ws_client.c share. */
#pragma once
#include "net/client.h"
#include "net/dial.h"
#include "net/upstream.h"

struct http_client {
	struct net_url url;
	struct http_client_options o;
	char *ca_file, *cert_file, *key_file, *user_agent;
	struct ssl_ctx_st *ctx;
	struct net_stream stream;
	bool is_open;
};

/* Reads one answer. */
struct answer_reader {
	struct upstream *up;
	const struct http_call *call;
	struct http_reply *reply;
	bool has_bytes; /* anything has come at all */
	bool has_rest;	/* and more than the answer */
	int error;	/* what a callback of the caller's returned, or ours */
};

int client_open(struct http_client *c, const struct dial_wait *w, struct net_stream *ret,
	struct cell_error *err);

/* The request's head into b. extra: further lines, each with its CRLF. */
int client_build_head(const struct http_client *c, const struct http_call *call, const char *extra,
	struct buf *b, struct cell_error *err);

int client_reader_init(struct answer_reader *a, const struct http_call *call,
	struct http_reply *reply, struct cell_error *err);
void client_reader_done(struct answer_reader *a);
/* Reads until the answer is complete, or it is 101: then the bytes behind it are in *ret_rest (may be NULL). */
int client_read(struct http_client *c, struct net_stream *s, struct answer_reader *a,
	const struct dial_wait *w, struct buf *ret_rest, struct cell_error *err);
int client_fail(const struct http_client *c, int r, const char *doing, struct cell_error *err);
