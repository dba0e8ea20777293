/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_conn.c: a connection from accept to close: what is read when, where its bytes go, when it ends. Callbacks
 * of the handler's are called from here or from conn_kicked(), never from inside a call of the handler's own;
 * a closed connection is freed from there too, so nothing on the stack loses it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_internal.h"
#include "net/tls.h"

#define READS_IN_A_ROW 8 /* then the other connections have their turn */

static int on_body(llhttp_t *p, const char *at, size_t n);
static int on_complete(llhttp_t *p);
static int on_field(llhttp_t *p, const char *at, size_t n);
static void on_watch(void *arg, int events);

static const llhttp_settings_t settings = {
	.on_body = on_body,
	.on_message_complete = on_complete,
	.on_header_field = on_field,
};

static uint64_t in_ms(const struct http_conn *c, unsigned ms)
{
	return net_loop_now_ms(c->s->loop) + ms;
}

/* --- birth and death --- */

static void note_peer(struct http_conn *c, int fd, bool is_tls)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} a = {.any.sa_family = AF_UNSPEC};
	socklen_t len = sizeof a;
	struct ucred who;
	socklen_t who_len = sizeof who;
	struct http_peer *p = &c->peer;

	p->is_tls = is_tls;
	(void)getpeername(fd, &a.any, &len);
	if (a.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)) {
		struct in_addr v4;
		memcpy(&v4, &a.v6.sin6_addr.s6_addr[12], 4);
		p->port = ntohs(a.v6.sin6_port);
		(void)inet_ntop(AF_INET, &v4, p->address, sizeof p->address);
		p->is_loopback = a.v6.sin6_addr.s6_addr[12] == 127;
	} else if (a.any.sa_family == AF_INET6) {
		p->port = ntohs(a.v6.sin6_port);
		(void)inet_ntop(AF_INET6, &a.v6.sin6_addr, p->address, sizeof p->address);
		p->is_loopback = IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr);
	} else if (a.any.sa_family == AF_INET) {
		p->port = ntohs(a.v4.sin_port);
		(void)inet_ntop(AF_INET, &a.v4.sin_addr, p->address, sizeof p->address);
		p->is_loopback = ntohl(a.v4.sin_addr.s_addr) >> 24 == 127;
	} else {
		(void)snprintf(p->address, sizeof p->address, "unix");
		p->is_unix = p->is_loopback = true;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_len) == 0) {
			p->has_credentials = true;
			p->uid = who.uid;
			p->gid = who.gid;
			p->pid = who.pid;
		}
	}
	if (p->is_unix)
		return;
	/* Without NODELAY an answer in two pieces waits 40 ms for an acknowledgement. Keep-alive probes find a peer
	 * that vanished while nothing is sent. */
	static const int on = 1, idle_s = 30, between_s = 10, probes = 3;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static void begin_head(struct http_conn *c, unsigned wait_ms)
{
	c->phase = CONN_HEAD;
	c->is_keeping = true;
	c->in_deadline_ms = in_ms(c, wait_ms);
	llhttp_init(&c->parser, HTTP_REQUEST, &settings);
	c->parser.data = c;
}

static int wanted_events(const struct http_conn *c);

static void update_watch(struct http_conn *c)
{
	if (c->phase == CONN_CLOSED)
		return;
	int events = wanted_events(c);
	if (events == c->watched)
		return;
	c->watched = events;
	if (net_watch_set(c->watch, events) < 0)
		conn_close(c);
}

static void conn_free(struct http_conn *c)
{
	struct http_server *s = c->s;

	exchange_done(&c->x);
	buf_done(&c->in);
	server_remove(s, c);
	free(c);
}

int conn_new(struct http_server *s, int fd, struct net_tls *tls)
{
	struct http_conn *c = calloc(1, sizeof *c);
	int r = -ENOMEM;

	if (!c) {
		close(fd);
		return r;
	}
	c->s = s;
	c->x.c = c;
	c->stream.fd = -1;
	c->out_tail = &c->out;
	c->in.max = s->o.limits.pipelined_bytes + SCRATCH_BYTES;
	note_peer(c, fd, tls != NULL);
	r = net_stream_init(&c->stream, fd, tls ? net_tls_ctx(tls) : NULL, true, NULL, NULL);
	if (r < 0) {
		close(fd);
		free(c);
		return r;
	}
	r = net_watch_new(s->loop, fd, on_watch, c, &c->watch, NULL);
	if (r < 0) {
		net_stream_done(&c->stream);
		free(c);
		return r;
	}
	exchange_reset(&c->x);
	server_add(s, c);
	if (!server_count_peer(s, c)) {
		begin_head(c, s->o.limits.head_ms);
		if (tls)
			conn_close(c);
		else
			conn_refuse(c, 503, "too many connections from this address");
	} else if (tls) {
		c->phase = CONN_HANDSHAKE;
		c->in_deadline_ms = in_ms(c, s->o.limits.handshake_ms);
	} else {
		begin_head(c, s->o.limits.head_ms);
	}
	update_watch(c);
	return 0;
}

void conn_close(struct http_conn *c)
{
	if (c->phase == CONN_CLOSED)
		return;
	c->phase = CONN_CLOSED;
	net_watch_free(c->watch);
	c->watch = NULL;
	net_stream_done(&c->stream);
	server_uncount_peer(c->s, c);
	out_done(c);
	buf_done(&c->in);
	c->in_deadline_ms = c->out_deadline_ms = 0;
	conn_kick(c);
}

void conn_finish(struct http_conn *c)
{
	if (c->phase == CONN_CLOSED || c->phase == CONN_LINGER)
		return;
	c->phase = CONN_LINGER;
	c->wants_finish = true;
	/* Its time begins when our last byte is sent; until then the limit on sending holds. */
	c->in_deadline_ms = 0;
	buf_done(&c->in);
	conn_kick(c);
}

void conn_refuse(struct http_conn *c, int status, const char *why)
{
	c->is_input_dead = true;
	c->is_keeping = false;
	answer_error(c, NULL, status, why);
	conn_finish(c);
}

void conn_kick(struct http_conn *c)
{
	if (!c->is_kicked) {
		c->is_kicked = true;
		server_kick(c->s, c);
	}
}

bool conn_is_idle(const struct http_conn *c)
{
	return c->phase == CONN_HANDSHAKE ||
	       (c->phase == CONN_HEAD && c->x.head.raw.len == 0 && c->in.len == 0);
}

/* --- what comes in --- */

static bool is_body_wanted(const struct http_conn *c)
{
	return c->x.mode != BODY_WAITING && (!c->x.is_paused || c->x.mode == BODY_DISCARD);
}

/* May feed() take bytes now? */
static bool is_hungry(const struct http_conn *c)
{
	switch (c->phase) {
	case CONN_HEAD:
		return !c->is_input_dead && c->unsent <= c->s->o.limits.queued_bytes;
	case CONN_BODY:
		return !c->is_input_dead && is_body_wanted(c);
	case CONN_RAW:
		return !c->x.is_paused && c->x.is_alive;
	case CONN_LINGER:
		return true;
	default:
		return false;
	}
}

static int wanted_events(const struct http_conn *c)
{
	bool is_reading = c->phase == CONN_HANDSHAKE ||
			  (c->phase == CONN_WAIT ? c->in.len < c->s->o.limits.pipelined_bytes &&
							   !c->is_input_dead
						 : is_hungry(c));
	bool is_writing = c->unsent > 0 || c->stream.read_needs_write;
	int events = 0;

	if (c->is_eof)
		is_reading = false;
	if (is_reading || c->stream.write_needs_read)
		events |= NET_READABLE;
	if (is_writing && !(c->stream.write_needs_read && !c->stream.read_needs_write))
		events |= NET_WRITABLE;
	return events ? events : NET_HANGUP;
}

static int on_field(llhttp_t *p, const char *at, size_t n)
{
	struct http_conn *c = p->data;

	(void)at;
	(void)n;
	/* Behind a body these are trailers. Nobody needs them, and readers differ over what they mean. */
	return c->phase == CONN_BODY ? -1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
	struct http_conn *c = p->data;

	c->x.body_in += n;
	exchange_body_data(&c->x, at, n);
	return c->phase == CONN_BODY && !is_body_wanted(c) ? HPE_PAUSED : 0;
}

static int on_complete(llhttp_t *p)
{
	struct http_conn *c = p->data;

	c->x.is_complete = true;
	return HPE_PAUSED;
}

static void next_request(struct http_conn *c)
{
	exchange_reset(&c->x);
	begin_head(c, c->s->o.limits.idle_ms);
	if (c->in.len > 0 || c->is_eof)
		conn_kick(c);
}

/* The body cannot be had: tell whoever waits for it; nothing more is read. */
static void body_failed(struct http_conn *c, int result)
{
	c->is_input_dead = true;
	c->is_keeping = false;
	c->in_deadline_ms = 0;
	if (c->x.is_alive)
		exchange_body_end(&c->x, result);
	else
		conn_finish(c);
}

static size_t feed_head(struct http_conn *c, const uint8_t *p, size_t n)
{
	const char *why = "";
	size_t used = 0;
	bool is_first = c->x.head.raw.len == 0;
	int r = head_take(&c->x.head, &c->s->o.limits, p, n, &used, &why);

	if (r == 0 && is_first && c->x.head.raw.len > 0)
		c->in_deadline_ms = in_ms(c, c->s->o.limits.head_ms);
	if (r == 0)
		return used;
	if (r > 0)
		r = head_parse(&c->x.head, &c->parser, &why);
	if (r < 0) {
		conn_refuse(c, -r, why);
		return n;
	}
	c->n_requests++;
	c->in_deadline_ms = 0;
	/* llhttp forgets its flags when a message is complete, so ask the header itself. */
	c->is_keeping =
		!http_header_has(&c->x, "connection", "close") &&
		(!c->x.head.is_http_1_0 || http_header_has(&c->x, "connection", "keep-alive"));
	if (c->s->o.limits.requests && c->n_requests >= c->s->o.limits.requests)
		c->is_keeping = false;
	c->phase = c->x.is_complete ? CONN_WAIT : CONN_BODY;
	exchange_begin(&c->x);
	return used;
}

static size_t feed_body(struct http_conn *c, const uint8_t *p, size_t n)
{
	struct http_exchange *x = &c->x;
	uint64_t before = x->body_in;
	enum llhttp_errno e = llhttp_execute(&c->parser, (const char *)p, n);
	size_t used = n;

	if (e == HPE_PAUSED || e == HPE_PAUSED_UPGRADE) {
		used = (size_t)(llhttp_get_error_pos(&c->parser) - (const char *)p);
		llhttp_resume(&c->parser);
		e = HPE_OK;
		x->is_parser_held = true;
	}
	if (c->phase != CONN_BODY)
		return n; /* closed or given up by the handler meanwhile */
	x->body_overhead += used - (x->body_in - before);
	/* llhttp takes a bare LF for the very last line end of a chunked body. */
	uint8_t before_last = used > 1 ? p[used - 2] : x->last_byte;
	if (x->is_complete && x->head.content_length < 0 && before_last != '\r')
		e = HPE_LF_EXPECTED;
	if (used > 0)
		x->last_byte = p[used - 1];
	/* Chunks of one byte cost five more; beyond that somebody feeds us extensions to no end. */
	if (e != HPE_OK || x->body_overhead > 64u * 1024 + 16 * x->body_in) {
		body_failed(c, -EPROTO);
		return n;
	}
	if (x->body_in > x->body_max) {
		/* Before the look at its end: a body cut short must not pass for a whole one. */
		body_failed(c, x->body_result ? x->body_result : -EMSGSIZE);
	} else if (x->is_complete) {
		c->in_deadline_ms = 0;
		if (x->is_alive) {
			c->phase = CONN_WAIT;
			exchange_body_end(x, 0);
		} else {
			next_request(c);
		}
	}
	return used;
}

/* Takes what it can of the bytes; how many. */
static size_t feed(struct http_conn *c, const uint8_t *p, size_t n)
{
	size_t used = 0;

	c->is_feeding = true;
	out_batch_begin(c);
	while (used < n && is_hungry(c)) {
		if (c->phase == CONN_HEAD) {
			used += feed_head(c, p + used, n - used);
		} else if (c->phase == CONN_BODY) {
			used += feed_body(c, p + used, n - used);
		} else if (c->phase == CONN_RAW) {
			c->x.body_in += n - used;
			exchange_body_data(&c->x, (const char *)p + used, n - used);
			used = n;
		} else {
			c->lingered += n - used;
			used = n;
		}
	}
	if (c->phase == CONN_LINGER || c->phase == CONN_CLOSED)
		used = n;
	out_batch_end(c);
	c->is_feeding = false;
	return used;
}

/* Paused at its last byte, a body's end is still to be told: the parser goes on without bytes. */
static void let_parser_go(struct http_conn *c)
{
	if (!c->x.is_parser_held || c->phase != CONN_BODY || !is_hungry(c))
		return;
	c->x.is_parser_held = false;
	c->is_feeding = true;
	out_batch_begin(c);
	(void)feed_body(c, (const uint8_t *)"", 0);
	out_batch_end(c);
	c->is_feeding = false;
}

static void pump(struct http_conn *c)
{
	let_parser_go(c);
	while (c->in.len > 0 && is_hungry(c)) {
		/* Moved aside: what the handler does may close the connection and its buffer. */
		struct buf in = c->in;
		c->in = (struct buf)BUF_INIT(in.max);
		size_t used = feed(c, in.data, in.len);
		if (c->phase != CONN_CLOSED && used < in.len) {
			buf_consume(&in, used);
			buf_done(&c->in);
			c->in = in;
		} else {
			buf_done(&in);
		}
		if (used == 0)
			break;
	}
}

/* The peer sends no more. */
static void at_eof(struct http_conn *c)
{
	switch (c->phase) {
	case CONN_HANDSHAKE:
		conn_close(c);
		break;
	case CONN_HEAD:
		if (c->unsent == 0)
			conn_close(c);
		else
			conn_finish(c);
		break;
	case CONN_BODY:
		if (is_body_wanted(c))
			body_failed(c, -ECONNRESET);
		break;
	case CONN_RAW:
		if (!c->x.is_end_told && !c->x.is_paused)
			exchange_body_end(&c->x, 0);
		break;
	case CONN_LINGER:
		if (c->is_finished)
			conn_close(c);
		break;
	default:
		break;
	}
}

static void keep_rest(struct http_conn *c, const uint8_t *p, size_t n)
{
	if (n > 0 && c->phase != CONN_CLOSED && c->phase != CONN_LINGER &&
		buf_add(&c->in, p, n) < 0)
		conn_close(c);
}

/* One read; false when there is nothing more to read for now. */
static bool read_once(struct http_conn *c)
{
	struct http_server *s = c->s;
	size_t room = SCRATCH_BYTES;

	if (c->in.len > 0 && !is_hungry(c))
		room = c->in.len < s->o.limits.pipelined_bytes
			       ? s->o.limits.pipelined_bytes - c->in.len
			       : 0;
	if (room == 0)
		return false;
	if (room > SCRATCH_BYTES)
		room = SCRATCH_BYTES;
	ssize_t n = net_stream_read(&c->stream, s->scratch, room);
	if (n == -EAGAIN)
		return false;
	if (n < 0) {
		conn_close(c);
		return false;
	}
	if (n == 0) {
		c->is_eof = true;
		conn_kick(c);
		return false;
	}
	s->stats.bytes_in += (uint64_t)n;
	if (c->phase == CONN_BODY && c->in_deadline_ms)
		c->in_deadline_ms = in_ms(c, s->o.limits.progress_ms);
	if (c->in.len > 0) {
		keep_rest(c, s->scratch, (size_t)n);
		pump(c);
	} else {
		size_t used = feed(c, s->scratch, (size_t)n);
		keep_rest(c, s->scratch + used, (size_t)n - used);
	}
	return (size_t)n == room || c->stream.ssl;
}

static void handshake(struct http_conn *c)
{
	int r = net_stream_handshake(&c->stream, NULL);

	if (r == 0) {
		begin_head(c, c->s->o.limits.head_ms);
	} else if (r == -EPROTOTYPE) {
		static const char text[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
					   "Content-Type: text/plain\r\nContent-Length: 41\r\n\r\n"
					   "This port speaks TLS: use an https:// URL";
		(void)!send(c->stream.fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		conn_close(c);
	} else if (r != -EAGAIN) {
		conn_close(c);
	}
}

static void read_some(struct http_conn *c)
{
	if (c->phase == CONN_HANDSHAKE)
		handshake(c);
	for (int i = 0; i < READS_IN_A_ROW; i++) {
		if (c->phase == CONN_CLOSED || c->phase == CONN_HANDSHAKE || c->is_eof ||
			!(wanted_events(c) & NET_READABLE) || !read_once(c))
			return;
	}
	if (net_stream_has_pending(&c->stream))
		conn_kick(c);
}

/* --- what is due --- */

static void settle(struct http_conn *c)
{
	struct http_exchange *x = &c->x;

	if (c->phase == CONN_CLOSED)
		return;
	if (c->wants_finish && !c->is_finished && c->unsent == 0) {
		c->is_finished = true;
		net_stream_finish(&c->stream);
		if (c->phase == CONN_LINGER) {
			c->in_deadline_ms = in_ms(c, LINGER_MS);
			if (c->is_eof) {
				conn_close(c);
				return;
			}
		}
	}
	if (c->phase == CONN_LINGER && c->lingered > LINGER_BYTES) {
		conn_close(c);
		return;
	}
	if (x->is_alive && x->wants_drain && c->unsent <= c->s->o.limits.queued_bytes / 2) {
		x->wants_drain = false;
		if (x->on_drain)
			x->on_drain(x, x->drain_arg);
	}
	update_watch(c);
}

static void on_watch(void *arg, int events)
{
	struct http_conn *c = arg;

	if (events < 0 || events == NET_HANGUP) {
		conn_close(c);
		return;
	}
	if ((events & NET_WRITABLE) || c->stream.write_needs_read)
		out_flush(c);
	if (c->phase != CONN_CLOSED && ((events & NET_READABLE) || c->stream.read_needs_write))
		read_some(c);
	settle(c);
}

/* The connection is gone and the handler still has the exchange: say so, once. */
static void tell_gone(struct http_exchange *x)
{
	if (!x->is_alive)
		return;
	if (!x->is_complete || x->is_body_due)
		exchange_body_end(x, x->is_complete ? 0 : -ECONNRESET);
	if (x->is_alive && x->on_gone) {
		void (*fn)(struct http_exchange *, void *) = x->on_gone;
		x->on_gone = NULL;
		fn(x, x->gone_arg);
	}
}

static void tell_once(struct http_exchange *x, void (**slot)(struct http_exchange *x, void *arg),
	void *arg)
{
	void (*fn)(struct http_exchange *, void *) = *slot;

	*slot = NULL;
	if (fn && x->is_alive)
		fn(x, arg);
}

void conn_kicked(struct http_conn *c)
{
	struct http_exchange *x = &c->x;

	if (c->phase == CONN_CLOSED) {
		tell_gone(x);
		if (!x->is_alive && !c->is_kicked)
			conn_free(c);
		return;
	}
	if (x->is_body_due && x->is_alive) {
		x->is_body_due = false;
		exchange_body_end(x, x->is_complete   ? 0
				     : x->body_result ? x->body_result
						      : -ECONNRESET);
	}
	pump(c);
	if (c->phase != CONN_CLOSED && !c->is_eof && net_stream_has_pending(&c->stream))
		read_some(c);
	if (c->phase != CONN_CLOSED && c->is_eof && c->in.len == 0)
		at_eof(c);
	if (c->phase != CONN_CLOSED && c->is_eof)
		tell_once(x, &x->on_half_close, x->half_close_arg);
	if (c->phase != CONN_CLOSED && c->s->is_draining)
		tell_once(x, &x->on_drain_server, x->drain_server_arg);
	if (c->phase != CONN_CLOSED)
		out_flush(c);
	settle(c);
}

void conn_check_time(struct http_conn *c, uint64_t now_ms)
{
	if (c->out_deadline_ms && now_ms >= c->out_deadline_ms) {
		conn_close(c);
		return;
	}
	if (!c->in_deadline_ms || now_ms < c->in_deadline_ms)
		return;
	if (c->phase == CONN_BODY)
		body_failed(c, -ETIMEDOUT);
	else if (c->phase == CONN_HEAD && c->x.head.raw.len > 0)
		conn_refuse(c, 408, "the request's head took too long");
	else
		conn_close(c);
}

/* --- the exchange's orders --- */

void conn_want_body(struct http_conn *c)
{
	if (c->phase == CONN_BODY)
		c->in_deadline_ms = in_ms(c, c->s->o.limits.progress_ms);
	if (!c->is_feeding)
		conn_kick(c);
}

void conn_take_over(struct http_conn *c)
{
	c->phase = CONN_RAW;
	c->is_keeping = false;
	c->in_deadline_ms = 0;
	conn_kick(c);
}

void conn_exchange_over(struct http_conn *c)
{
	struct http_exchange *x = &c->x;

	if (c->phase == CONN_CLOSED) {
		conn_kick(c);
	} else if (!c->is_keeping || c->is_input_dead || c->phase == CONN_RAW ||
		   c->s->is_draining) {
		conn_finish(c);
	} else if (!x->is_complete) {
		x->mode = BODY_DISCARD;
		x->body_max = x->body_in + DISCARD_BYTES;
		conn_want_body(c);
	} else {
		next_request(c);
	}
}
