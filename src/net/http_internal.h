/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_internal.h: what the files of the HTTP server share.
 *
 *	http_head.c      a request's head: one strict look of our own, then llhttp's
 *	http_conn.c      a connection: its phases, what is read when, when it ends
 *	http_out.c       what waits to be sent
 *	http_exchange.c  one request as the handler sees it; http_answer.c its answer
 *	http_server.c    all connections: limits, time, drain; http_listen.c where they come from
 */
#pragma once
#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <uv.h>
#include <zlib.h>

#include "base/buf.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/stream.h"

#define SCRATCH_BYTES	   (64u * 1024)
#define SMALL_WRITE	   (8u * 1024)	/* copied and sent together with others */
#define SEGMENT_BYTES	   (16u * 1024) /* of copied output */
#define DISCARD_BYTES	   (64u * 1024) /* of a body nobody wants, to keep a connection */
#define LINGER_MS	   2000		/* for the peer to take our last words */
#define LINGER_BYTES	   (1024u * 1024)
#define REQUEST_ID_MAX	   64
#define ANSWER_HEADERS_MAX (32u * 1024)

/* --- a request's head --- */

struct head_field {
	uint32_t name, name_len, value, value_len; /* in raw */
};

struct http_head {
	struct buf raw;	 /* as received; when parsed, with NULs behind names and values */
	struct buf text; /* the decoded path, then names and values of the query, each with a NUL */
	size_t line;	 /* where the line that is being received begins */
	struct head_field *fields;
	unsigned n_fields, cap_fields;
	const char *method, *raw_path, *raw_query, *host;
	unsigned n_params;
	int64_t content_length; /* -1: chunked; 0: no body */
	bool is_http_1_0;
	bool expects_continue;
};

void head_done(struct http_head *h);
void head_reset(struct http_head *h); /* for the next request; keeps a little memory */

/* Takes bytes up to the head's end. 1: it is complete; 0: more is needed; else -status, and *why. */
int head_take(struct http_head *h, const struct http_limits *l, const uint8_t *p, size_t n,
	size_t *ret_used, const char **why);
/* Takes it apart and gives it to llhttp. 0 or -status. */
int head_parse(struct http_head *h, llhttp_t *parser, const char **why);
const char *head_field(const struct http_head *h, const char *name);

/* --- what waits to be sent --- */

struct out_segment {
	struct out_segment *next;
	const uint8_t *p; /* the next byte to send */
	size_t len;	  /* bytes left from p on */
	size_t room;	  /* behind them, in data[] */
	void *owned;	  /* bytes that were given away, with their free_fn */
	void (*free_fn)(void *p);
	uint8_t data[];
};

/* --- exchange and connection --- */

enum body_mode {
	BODY_WAITING, /* nobody has asked for it yet */
	BODY_STREAM,
	BODY_COLLECT,
	BODY_DISCARD,
};

enum answer_state {
	ANSWER_NONE,
	ANSWER_BEGUN,
	ANSWER_OVER,
};

struct http_exchange {
	struct http_conn *c;
	struct http_head head;
	bool is_alive; /* the handler has it */
	char request_id[REQUEST_ID_MAX + 1];
	void *user;
	uint64_t started_ms;

	/* the request's body */
	enum body_mode mode;
	bool is_complete; /* all of it has come */
	bool is_paused;
	bool is_end_told;
	bool is_body_due;    /* its end is to be told from the loop */
	bool is_parser_held; /* it was paused in the middle of what it was given */
	bool is_continued;   /* "100 Continue" was sent, or is not needed any more */
	uint8_t last_byte;   /* of what llhttp has taken */
	int body_result;     /* why it will not be complete */
	uint64_t body_in, body_overhead, body_max;
	struct buf body;
	void (*collected)(struct http_exchange *x, int result, void *arg);
	const struct http_body_events *body_events;
	void *body_arg;

	/* the answer */
	enum answer_state answer;
	int status;
	struct buf headers;
	int64_t answer_left; /* of the announced length; -1: chunked, -2: until close or raw */
	uint64_t body_out;
	bool is_gzip_off;
	bool is_head;
	bool wants_drain;

	void (*on_drain)(struct http_exchange *x, void *arg);
	void *drain_arg;
	void (*on_gone)(struct http_exchange *x, void *arg);
	void *gone_arg;
	void (*on_half_close)(struct http_exchange *x, void *arg);
	void *half_close_arg;
	void (*on_drain_server)(struct http_exchange *x, void *arg);
	void *drain_server_arg;
};

enum conn_phase {
	CONN_HANDSHAKE,
	CONN_HEAD, /* waiting for a request or in the middle of its head */
	CONN_BODY,
	CONN_WAIT, /* the request is here; what comes now is the next one's */
	CONN_RAW,  /* taken over */
	CONN_LINGER,
	CONN_CLOSED, /* no socket any more; stays while the handler has the exchange */
};

struct peer_count;

struct http_conn {
	struct http_server *s;
	struct http_conn *prev, *next;
	struct http_conn *next_kick;
	bool is_kicked;
	struct net_stream stream;
	struct net_watch *watch;
	int watched;
	enum conn_phase phase;
	llhttp_t parser;
	struct http_exchange x;
	struct http_peer peer;
	struct peer_count *counted;

	struct buf in; /* received and not yet looked at */
	bool is_eof;
	bool is_input_dead; /* what follows cannot be trusted */
	bool is_keeping;    /* alive after this answer */
	bool is_finished;   /* our direction is closed */
	bool wants_finish;  /* close it when everything is sent */
	bool is_feeding;    /* feed() is on the stack */
	unsigned n_requests;

	struct out_segment *out, **out_tail, *out_last;
	size_t unsent;
	uint64_t in_deadline_ms, out_deadline_ms; /* 0: none */
	uint64_t lingered;
};

/* --- the server --- */

#define PEER_BUCKETS 1024

/* How many connections an address has; only those that have one are there. */
struct peer_count {
	struct peer_count *next;
	uint8_t key[17];
	unsigned n;
};

struct listener {
	struct http_server *s;
	struct listener *next;
	int fd;
	struct net_watch *watch;
	struct net_tls *tls;
	char *unix_path; /* to be removed */
	dev_t dev;
	ino_t ino;
};

struct http_server {
	struct net_loop *loop;
	struct http_options o;
	char **origins;
	char *server_name;
	struct listener *listeners;
	char **addresses;
	unsigned n_addresses;
	struct http_conn *conns;
	struct http_conn *kicks, **kicks_tail;
	struct peer_count *peers[PEER_BUCKETS];
	uint64_t peer_seed; /* so that nobody can choose addresses that share a bucket */
	struct http_stats stats;

	uv_prepare_t prepare; /* does what was put off, before the loop waits */
	uv_idle_t hurry;      /* keeps it from waiting */
	uv_timer_t sweep;     /* looks for what took too long */
	uv_timer_t accept_again;
	uv_timer_t drain_limit;
	unsigned n_handles; /* open ones of the five */
	uint64_t sweep_ms;

	int reserve_fd; /* given up for a moment to refuse politely when there is no other */
	bool is_accept_paused;
	bool is_draining, is_freed, is_kicking;
	void (*drained)(void *arg);
	void *drained_arg;

	uint8_t *scratch; /* what was just read */
	struct buf batch; /* answers to one batch of input, sent together */
	struct http_conn *batch_owner;
	struct buf build; /* the head that is being made */
	struct buf error_text;
	z_stream gzip;
	bool has_gzip;
	struct buf gzipped;
	int64_t date_s;
	char date_line[160]; /* Date and Server */
	uint8_t random[512];
	size_t random_left;
};

/* http_conn.c */
int conn_new(struct http_server *s, int fd, struct net_tls *tls);
void conn_close(struct http_conn *c);  /* at once; freed later, from the loop */
void conn_finish(struct http_conn *c); /* when everything is sent */
void conn_kick(struct http_conn *c);   /* look at it again soon, from the loop */
void conn_kicked(struct http_conn *c);
void conn_exchange_over(struct http_conn *c);
void conn_check_time(struct http_conn *c, uint64_t now_ms);
void conn_want_body(struct http_conn *c); /* begins to read the body */
void conn_take_over(struct http_conn *c);
void conn_refuse(struct http_conn *c, int status, const char *why);
bool conn_is_idle(const struct http_conn *c);

/* http_out.c */
void out_done(struct http_conn *c);
/* Sends or queues. The last piece may be given away: freed by free_fn when it is sent. */
void out_send(struct http_conn *c, const struct iovec *iov, int n, void *owned,
	void (*free_fn)(void *p));
void out_put(struct http_conn *c, const void *p, size_t n); /* small: sent from the loop */
void out_flush(struct http_conn *c);
void out_batch_begin(struct http_conn *c);
void out_batch_end(struct http_conn *c);

/* http_exchange.c */
void exchange_begin(struct http_exchange *x); /* the head is here: to the handler */
void exchange_reset(struct http_exchange *x);
void exchange_done(struct http_exchange *x);
/* The body is complete (0) or will not be. */
void exchange_body_end(struct http_exchange *x, int result);
void exchange_body_data(struct http_exchange *x, const char *p, size_t n);

/* http_answer.c */
void answer_error(struct http_conn *c, struct http_exchange *x, int status, const char *why);
/* http_write() of several pieces as one, on a connection that was taken over. */
int answer_raw(struct http_exchange *x, const struct iovec *iov, int n);
void answer_continue(struct http_exchange *x);
void answer_preflight(struct http_exchange *x);
bool answer_is_preflight(const struct http_exchange *x);

#define GZIP_MIN_BYTES 1024

/* http_gzip.c: the compressed body, or NULL when it does not pay. Valid until the next call. */
const struct buf *gzip_body(struct http_server *s, const void *p, size_t n);

/* http_server.c */
void server_add(struct http_server *s, struct http_conn *c);
void server_remove(struct http_server *s, struct http_conn *c);
void server_kick(struct http_server *s, struct http_conn *c);
void server_request_id(struct http_server *s, char ret[REQUEST_ID_MAX + 1]);
const char *server_date_line(struct http_server *s);
bool server_count_peer(struct http_server *s, struct http_conn *c);
void server_uncount_peer(struct http_server *s, struct http_conn *c);

/* http_listen.c */
void listeners_close(struct http_server *s);
void listeners_pause(struct http_server *s);
void listeners_resume(struct http_server *s);
