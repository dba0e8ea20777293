/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h: a blocking HTTP/1.1 and WebSocket client: for the command line, the external guard, OTLP export.
 * No loop, no threads of its own, no global state: a client belongs to one thread at a time. Redirects are not
 * followed, cookies not kept, proxies not used.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/error.h"

#include "base/buf.h"
#include "net/ws.h" /* enum ws_type, enum ws_code */

struct http_client;
struct http_reply;
struct ws_client;

struct http_client_options {
	unsigned connect_ms; /* to be connected, with TLS; 0: 10 s */
	unsigned stall_ms;   /* without a byte moving, in either direction; 0: no limit */
	const char *ca_file; /* PEM; NULL: the system's */
	const char *cert_file, *key_file; /* PEM, our own, for a server that asks; NULL: none */
	bool is_insecure;		  /* do not verify the server's certificate */
	const char *user_agent;		  /* NULL: "cell/VERSION" */
	/* Asked while waiting, a few times a second; true ends the call with -EINTR (the user's ^C). May be NULL. */
	bool (*is_cancelled)(void *arg);
	void *arg;
};

struct http_field {
	const char *name, *value;
};

/* url: http://host[:port][/prefix], https://, unix:/path. Connects when first needed. options may be
 * NULL; strings are copied. */
int http_client_new(const char *url, const struct http_client_options *options,
	struct http_client **ret, struct cell_error *err);
void http_client_free(struct http_client *c); /* NULL is fine */

struct http_call {
	const char *method; /* NULL: GET */
	const char *target; /* "/v1/x?y=z", put behind the URL's prefix; already encoded */
	const struct http_field *headers; /* ends with a NULL name; may be NULL */

	/* The body: bytes, or a source that fills up to max bytes and returns how many (0: the end, negative
	 * errno: give up). length -1: chunked. `expect_continue` waits (up to a second) for the server's word before
	 * a large upload. */
	const void *body;
	size_t body_len;
	ssize_t (*source)(void *arg, void *buf, size_t max);
	int64_t source_len;
	bool expect_continue;

	/* The body of a success (2xx) goes there, piece by piece as it comes; negative gives up. That of any other answer is in
	 * the reply, cut at 1 MiB. NULL: all are, up to max_body bytes (0: 16 MiB). */
	int (*sink)(void *arg, const void *p, size_t n);
	size_t max_body;

	unsigned timeout_ms; /* for the whole call; 0: none */
	void *arg;	     /* for source, sink */
};

struct http_reply {
	int status;
	struct buf body;  /* what no sink took; NUL-terminated */
	struct buf head_; /* private: the fields below point into it */
	struct http_field *fields;
	unsigned n_fields;
};

/* Makes the call. 0 when an answer of any status was received whole. A connection kept from an earlier call
 * that turns out to be closed is opened again, once, where nothing of an answer was seen and the body can be sent again. A
 * server that answers before it has read the whole body is heard. On failure *ret is empty. Codes: -ECONNREFUSED,
 * -ENOENT (unix socket), -ETIMEDOUT, -EPROTO, -EMSGSIZE (max_body), -EINTR (cancelled), what source or
 * sink returned. The message names the URL, the hint what to do. */
int http_client_call(struct http_client *c, const struct http_call *call, struct http_reply *ret,
	struct cell_error *err);
void http_reply_done(struct http_reply *r);
const char *http_reply_header(const struct http_reply *r, const char *name); /* NULL: not there */

struct net_stream;
/* Makes the call on a connection of its own, which after 101 is raw bytes: Docker's "Upgrade: tcp". *ret is then the caller's,
 * as are bytes that came behind the answer, in *ret_rest. Any other status: -EPROTO with the answer in *ret_reply. */
int http_client_upgrade(struct http_client *c, const struct http_call *call, const char *protocol,
	struct net_stream *ret, struct buf *ret_rest, struct http_reply *ret_reply,
	struct cell_error *err);

/* --- WebSocket -------------------------------------------------------------------------------- */

/* Opens one on a connection of its own. A refusal (any status but 101) fills *ret_reply (may be NULL) with the
 * answer, whose body says why, and returns -EPROTO. */
int ws_client_open(struct http_client *c, const char *target, const struct http_field *headers,
	size_t max_message, struct ws_client **ret, struct http_reply *ret_reply,
	struct cell_error *err);
void ws_client_free(struct ws_client *w); /* cuts the connection; NULL is fine */

/* For poll(): wait for POLLIN on it together with others, then call ws_client_recv() until it returns 0.
 * Call it before the first poll() too: bytes may be here already. */
int ws_client_fd(const struct ws_client *w);

/* 1: a message, valid until the next call on w; 0: none within timeout_ms (0: do not wait, -1: for ever);
 * -ESHUTDOWN: closed in order, see ws_client_closed(); other negative errno: broken. Pings are answered. */
int ws_client_recv(struct ws_client *w, int timeout_ms, enum ws_type *ret_type, const void **ret_p,
	size_t *ret_n, struct cell_error *err);

/* Sends whole, waiting as long as the peer takes something within stall_ms. */
int ws_client_send(struct ws_client *w, enum ws_type type, const void *p, size_t n,
	struct cell_error *err);

/* Sends a close frame; go on receiving until -ESHUTDOWN, or free it. */
int ws_client_close(struct ws_client *w, unsigned code, const char *reason, struct cell_error *err);

/* The code and reason of the peer's close frame; WS_ABNORMAL when there was none. */
unsigned ws_client_closed(const struct ws_client *w, const char **ret_reason);
