/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h: an HTTP/1.1 server. Bytes in, requests out; knows nothing of cells.
 *
 * A request that has a well-formed head becomes an *exchange* and is given to the handler, before
 * its body is read. The handler answers at once or later, whole or as a stream:
 *
 *	static void hello(struct http_exchange *x, void *arg)
 *	{
 *		http_respond(x, 200, "text/plain", "hello\n", 6);
 *	}
 *
 * THE RULE: every exchange given to the handler is ended exactly once by exactly one of
 * http_respond(), http_respond_own(), http_fail(), http_end(), http_abort() (or handed to ws_accept()
 * or relay_start(), which end it). Until then it stays valid, also when the peer has gone away: then
 * what is written to it is dropped. So a worker thread may hold it without care. After the end the
 * pointer is dead: it is used again for the connection's next request.
 *
 * Everything here is called on the loop's thread. The head of a request (method, path, query, headers,
 * peer, request id, collected body) does not change while the exchange lives: other threads may read it,
 * as long as ending it is left to the loop's thread and happens after they are done.
 *
 * What is malformed or over a limit is answered 4xx by this layer and never seen by the handler; where
 * the rest of the stream cannot be trusted the connection is closed. Requests of one connection are
 * handled one after the other, so pipelined answers keep their order.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/error.h"

#include "base/buf.h"

struct net_loop;
struct net_tls;
struct http_server;
struct http_exchange;

/* Zero means the default in brackets. */
struct http_limits {
	size_t head_bytes;	/* request line and headers, else 431 [32 KiB] */
	size_t target_bytes;	/* of the request line's target, else 414 [8 KiB] */
	unsigned headers;	/* how many, else 431 [100] */
	size_t body_bytes;	/* announced or counted, else 413 [1 GiB] */
	size_t queued_bytes;	/* high-water mark of a connection's unsent bytes [256 KiB] */
	size_t pipelined_bytes; /* read ahead while a request is being handled [64 KiB] */
	unsigned connections;	/* in total; more wait in the kernel's queue [8192] */
	unsigned
		connections_per_peer; /* of one address (v6: /64; unix: uid), more get 503 [1024] */
	unsigned requests;	      /* per connection, then Connection: close [0: no limit] */
	unsigned head_ms; /* from first byte (or accept) to the end of a head, else 408 [10 s] */
	unsigned idle_ms; /* between requests [75 s] */
	unsigned progress_ms;  /* no byte of a body wanted, or of an answer taken [60 s] */
	unsigned handshake_ms; /* TLS [10 s] */
};

struct http_options {
	struct http_limits limits;
	/* Required. Called for each request. */
	void (*handler)(struct http_exchange *x, void *arg);
	/* The body for an answer this layer gives by itself (400, 408, 413, 414, 417, 431, 501, 503, 505), and
	 * for http_fail(): fill *ret and return its content type. x is NULL where there is no request to speak of.
	 * NULL: a line of plain text. */
	const char *(*error_body)(struct http_exchange *x, int status, const char *message,
		const char *request_id, struct buf *ret, void *arg);
	/* Called when an exchange is over, its answer given to the connection or dropped: for the access
	 * log and metrics. x is still readable. May be NULL. */
	void (*finished)(struct http_exchange *x, void *arg);
	/* Called for an answer without an exchange (malformed request, over a limit). May be NULL. */
	void (*refused)(int status, const char *message, const char *peer, const char *request_id,
		void *arg);
	void *arg; /* for all of them */
	/* Origins (as "https://app.example.org") whose scripts may read answers; NULL: none, no CORS
	 * header is ever sent. The single entry "*" means any. NULL-terminated, copied. */
	const char *const *cors_origins;
	const char *server_name; /* the Server header; NULL: none. Copied. */
	bool no_gzip;
};

int http_server_new(struct net_loop *l, const struct http_options *options,
	struct http_server **ret, struct cell_error *err);

/* Closes everything at once; exchanges that run are told (on_gone) and must still be ended; the memory goes
 * with the last of them. NULL is fine. */
void http_server_free(struct http_server *s);

/* --- listening -------------------------------------------------------------------------------- */

/* host: an address or a name, all of whose addresses are bound; NULL or "*": every address, v6 and v4.
 * port 0: the kernel chooses. tls may be NULL; borrowed until the server is freed. */
int http_listen_tcp(struct http_server *s, const char *host, unsigned port, struct net_tls *tls,
	struct cell_error *err);

/* A unix socket with this mode. A socket file without a listener behind it is replaced; a live one is
 * -EADDRINUSE, anything that is no socket -EEXIST. It is removed by drain and free. */
int http_listen_unix(struct http_server *s, const char *path, mode_t mode, struct cell_error *err);

/* A listening socket somebody else made (systemd). Owned from now on, also on failure. */
int http_listen_fd(struct http_server *s, int fd, struct net_tls *tls, struct cell_error *err);

/* Descriptors handed over by systemd (LISTEN_PID, LISTEN_FDS): how many, from 3 on; 0 if none are
 * for us. Clears the variables and sets CLOEXEC. */
int http_inherited_fds(void);

/* The i-th bound address: "http://127.0.0.1:8080", "https://[::1]:8443", "unix:/run/cell.sock".
 * NULL past the last one. */
const char *http_address(const struct http_server *s, unsigned i);

/* A connected stream socket as a connection of its own. Owned from now on. */
int http_serve_fd(struct http_server *s, int fd);

/* --- the end ---------------------------------------------------------------------------------- */

/* Stops accepting, closes idle connections, lets running exchanges finish (their answers say Connection:
 * close), cuts what is left after deadline_ms, then calls done(arg) once. Streams and WebSockets are told
 * through `draining` if the exchange has set http_on_drain_server(). May be called again with a shorter
 * deadline (its done replaces the former). */
void http_drain(struct http_server *s, unsigned deadline_ms, void (*done)(void *arg), void *arg);
bool http_is_draining(const struct http_server *s);

struct http_stats {
	unsigned connections, exchanges; /* now */
	uint64_t accepted, requests,
		refused; /* since the start: connections, requests, answers without one */
	uint64_t bytes_in, bytes_out;
	uint64_t accept_pauses; /* how often we were out of descriptors or connections */
};
void http_stats(const struct http_server *s, struct http_stats *ret);

/* --- the request ------------------------------------------------------------------------------ */

const char *http_method(const struct http_exchange *x); /* GET HEAD POST PUT PATCH DELETE OPTIONS */
/* The path, percent-decoded once; begins with '/', has no NUL, no control character, no "." or ".."
 * segment. "*" for OPTIONS *. An encoded slash is decoded like any other byte: where that matters split
 * http_raw_path() and decode the pieces with net_decode() (text.h). */
const char *http_path(const struct http_exchange *x);
const char *http_raw_path(const struct http_exchange *x);  /* as sent, without the query */
const char *http_raw_query(const struct http_exchange *x); /* as sent, "" when there is none */

/* A query parameter, decoded ('+' is a space); NULL when it is not there; the first when there are several. */
const char *http_query(const struct http_exchange *x, const char *name);
/* The i-th parameter; false past the last. */
bool http_query_at(const struct http_exchange *x, unsigned i, const char **ret_name,
	const char **ret_value);

/* A header, any spelling of case; NULL when it is not there, the first of several. Host, Content-Length,
 * Transfer-Encoding, Authorization, Content-Type, Idempotency-Key and the like are never there twice: that is 400. */
const char *http_header(const struct http_exchange *x, const char *name);
bool http_header_at(const struct http_exchange *x, unsigned i, const char **ret_name,
	const char **ret_value);
/* Is this token in the header's comma list (in any of its lines)? */
bool http_header_has(const struct http_exchange *x, const char *name, const char *token);

int64_t http_content_length(const struct http_exchange *x); /* -1: chunked, unknown */
bool http_has_body(const struct http_exchange *x);

struct http_peer {
	char address[64]; /* "192.0.2.1", "2001:db8::1", "unix" */
	unsigned port;
	bool is_unix, is_loopback, is_tls; /* is_loopback: 127/8, ::1, unix */
	bool has_credentials;		   /* unix sockets: who it was when it connected */
	uid_t uid;
	gid_t gid;
	pid_t pid;
};
const struct http_peer *http_peer(const struct http_exchange *x);

/* Without an Origin header, or with that of our own Host, or one of cors_origins: true. False means
 * a foreign web page in somebody's browser: refuse what changes anything. ws_accept() asks by itself. */
bool http_origin_is_allowed(const struct http_exchange *x);

/* Made for each request (32 hex digits, random); sent as X-Request-Id. The handler may set another
 * (1-64 of [A-Za-z0-9._-], else -EINVAL and the old one stays). */
const char *http_request_id(const struct http_exchange *x);
int http_set_request_id(struct http_exchange *x, const char *id);

void http_set_user(struct http_exchange *x, void *user);
void *http_user(const struct http_exchange *x);
struct http_server *http_server_of(const struct http_exchange *x);
uint64_t http_started_ms(const struct http_exchange *x); /* loop time when the head was complete */

/* --- the request's body ----------------------------------------------------------------------- */

/* Collect the whole body, then call done once with result 0 (see http_body()) or a negative errno:
 * -EMSGSIZE more than max_bytes, -EPROTO malformed, -ETIMEDOUT no progress, -ECONNRESET the peer is gone,
 * -ENOMEM. On failure http_fail_body() gives the fitting answer; the exchange must be ended in any
 * case. done may be called before this returns (when everything is here already). Sends "100 Continue" when the
 * client waits for it. */
void http_collect(struct http_exchange *x, size_t max_bytes,
	void (*done)(struct http_exchange *x, int result, void *arg), void *arg);
const void *http_body(const struct http_exchange *x, size_t *ret_len); /* NUL behind; never NULL */

struct http_body_events {
	/* Some bytes, valid during the call. */
	void (*data)(struct http_exchange *x, const void *p, size_t n, void *arg);
	/* The body is complete (0), or failed as for http_collect(); once; no data afterwards. */
	void (*end)(struct http_exchange *x, int result, void *arg);
};
/* Receive the body as it comes. Up to max_bytes, then end(-EMSGSIZE). Works while an answer is being
 * streamed too. Events come only from the loop, never before this returns. events is borrowed (static). */
void http_read_body(struct http_exchange *x, uint64_t max_bytes,
	const struct http_body_events *events, void *arg);
void http_pause(struct http_exchange *x);  /* no more data() until resume; the peer is held back */
void http_resume(struct http_exchange *x); /* data() comes again, from the loop */

/* --- the answer ------------------------------------------------------------------------------- */

/* Before the answer begins. Date, Content-Length, Transfer-Encoding, Connection, X-Request-Id, Server
 * and the CORS headers are ours. -EINVAL for a name that is no token or a value with CR, LF or NUL. */
int http_add_header(struct http_exchange *x, const char *name, const char *value);
int http_add_headerf(struct http_exchange *x, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void http_no_gzip(struct http_exchange *x); /* not this answer */

/* A whole answer. type may be NULL (no Content-Type). The body is copied, or sent before this
 * returns. 204 and 304 have no body; HEAD has its length only. Ends the exchange. */
void http_respond(struct http_exchange *x, int status, const char *type, const void *body,
	size_t len);

/* The same with a body that is given away: free_fn(body) is called when it has been sent. */
void http_respond_own(struct http_exchange *x, int status, const char *type, void *body, size_t len,
	void (*free_fn)(void *body));

/* An answer made by options.error_body. message is a short sentence. Ends the exchange. */
void http_fail(struct http_exchange *x, int status, const char *message);
void http_fail_body(struct http_exchange *x, int result); /* of http_collect() or end() */

/* A streamed answer. length -1: unknown, so chunked (HTTP/1.0: until close). Never gzipped. Returns
 * 0 or a negative errno, as http_write(). */
int http_begin(struct http_exchange *x, int status, const char *type, int64_t length);

/* Some of its body. 0: go on; 1: taken, but more than queued_bytes are unsent: wait for on_drain
 * (nothing is refused before 4 times that mark, then -ENOBUFS: taken not); -EPIPE: the peer is gone;
 * -EMSGSIZE: more than the announced length. Small writes of one round of the loop go out together. */
int http_write(struct http_exchange *x, const void *p, size_t n);

/* Called when the unsent bytes have fallen below half the mark after http_write() returned 1. */
void http_on_drain(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg);
size_t http_unsent(const struct http_exchange *x);

/* The end of a streamed answer: the last chunk. Ends the exchange. Fewer bytes than announced: the
 * connection is cut. */
void http_end(struct http_exchange *x);

/* Cut the connection, so that the client sees a broken answer and not a short one. Ends the exchange. */
void http_abort(struct http_exchange *x);

/* Called once when the peer is gone while the exchange lives: reset, closed, or timed out. The exchange must
 * still be ended (http_end() does nothing more then). Called from the loop, also when it is set after the
 * fact. A peer that only closed its sending side is not gone: its answer is sent. */
void http_on_gone(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg);
bool http_is_gone(const struct http_exchange *x);

/* Called once when the peer has closed its sending side (or closed altogether: TCP does not tell before
 * something is sent). A stream that is silent for long may write a heartbeat now: on_gone follows if nobody is
 * there. */
void http_on_half_close(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg);

/* Called once when the server begins to drain, for streams without an end of their own. */
void http_on_drain_server(struct http_exchange *x, void (*fn)(struct http_exchange *x, void *arg),
	void *arg);

/* For options.finished. */
int http_status(const struct http_exchange *x); /* of the answer; 0: none was sent, 499 in logs */
uint64_t http_bytes_in(const struct http_exchange
		*x); /* of the body, after chunks are taken apart */
uint64_t http_bytes_out(const struct http_exchange *x); /* of the answer's body, before chunks */

/* --- taking the connection over --------------------------------------------------------------- */

/* Is this GET with Connection: upgrade and this Upgrade token (case-insensitive)? */
bool http_is_upgrade(const struct http_exchange *x, const char *protocol);

/* Answer 101 with Upgrade: protocol (headers added before go along). From then on the connection carries
 * raw bytes: they arrive through events->data (http_pause(), http_resume()), events->end(0) says that the peer
 * sends no more, http_write() sends raw, http_end() sends what is queued, then closes. http_finish_sending()
 * closes only our direction. -EINVAL when it is no upgrade request (nothing was sent). The progress
 * limit applies only to sending. */
int http_take_over(struct http_exchange *x, const char *protocol,
	const struct http_body_events *events, void *arg);
int http_finish_sending(struct http_exchange *x);
