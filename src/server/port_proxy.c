/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_proxy.c: see port_proxy.h. The connection into the cell is a stream of the session's seat, so everything happens on the loop:
 *
 *	client --body--> waiting --cell_conn_write--> the program
 *	client <--http_write-- upstream parser <--cell_conn_next-- the program
 *
 * Either side that is slow holds the other back. After a 101 the same lane carries raw bytes.
 */
#include "server/port_proxy.h"

#include <string.h>
#include <strings.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "net/upstream.h"
#include "server/call.h"
#include "server/port_head.h"
#include "server/seat.h"
#include "server/session.h"

#define WAITING_MAX (1u << 20)
#define HEAD_MAX    (48u * 1024)
#define CHUNK_HEAD  20
#define PREFIX_MAX  600

struct proxy {
	struct seat_lane lane;
	struct call *c;
	struct http_exchange *x;
	struct server *srv;
	struct cell_conn *conn;
	struct upstream *up;
	struct net_timer *timer;
	struct buf waiting; /* for the cell */
	char tenant[TENANT_NAME_MAX];
	unsigned port;
	bool is_chunked;      /* the request's body */
	bool is_input_over;   /* the client has sent everything */
	bool is_input_closed; /* and the cell was told */
	bool is_paused;	      /* the client is held back */
	bool has_answer;      /* its head has gone out */
	bool is_raw;	      /* 101: bytes */
	int status;	      /* of the answer */
};

static void proxy_free(struct proxy *p)
{
	session_touch(p->c->session);
	seat_remove_lane(&p->lane);
	cell_conn_free(p->conn);
	upstream_free(p->up);
	net_timer_free(p->timer);
	buf_done(&p->waiting);
	quota_stream_close(p->srv->quota, p->tenant);
	p->srv->n_streams--;
	free(p);
}

/* It cannot be answered in order: an error when nothing has gone out yet, else the connection is cut, so that nobody takes a part for
 * the whole. */
static void fail(struct proxy *p, const struct cell_error *err)
{
	struct call *c = p->c;
	struct http_exchange *x = p->x;
	bool has_answer = p->has_answer;
	int status = p->status;
	struct cell_error copy = *err;

	proxy_free(p);
	if (!has_answer) {
		call_fail(c, &copy);
		return;
	}
	call_done(c, status, &copy);
	http_abort(x);
}

static void failf(struct proxy *p, enum cell_code code, const char *hint, const char *what)
{
	struct cell_error err = {.code = code};

	(void)snprintf(err.msg, sizeof err.msg, "port %u of the cell: %s", p->port, what);
	(void)snprintf(err.hint, sizeof err.hint, "%s", hint);
	fail(p, &err);
}

static void finish(struct proxy *p)
{
	struct call *c = p->c;
	struct http_exchange *x = p->x;
	int status = p->status;

	proxy_free(p);
	call_done(c, status, NULL);
	http_end(x);
}

/* ---- into the cell ---- */

/* What the window takes. False: the proxy is gone. */
static bool push(struct proxy *p)
{
	struct cell_error err = {0};

	while (p->waiting.len) {
		ssize_t n = cell_conn_write(p->conn, p->waiting.data, p->waiting.len, 0, &err);
		if (n < 0) {
			fail(p, &err);
			return false;
		}
		if (n == 0)
			break;
		buf_consume(&p->waiting, (size_t)n);
	}
	if (!p->waiting.len && p->is_input_over && !p->is_input_closed && p->is_raw) {
		p->is_input_closed = true;
		(void)cell_conn_close_write(p->conn, &err);
	}
	if (p->is_paused && p->waiting.len < WAITING_MAX / 4) {
		p->is_paused = false;
		http_resume(p->x);
	}
	seat_kick(p->lane.seat);
	return true;
}

static void client_data(struct http_exchange *x, const void *bytes, size_t n, void *arg)
{
	struct proxy *p = arg;
	char size[CHUNK_HEAD];
	int r = 0;

	if (n == 0) /* an empty chunk would be the last */
		return;
	p->c->usage.bytes_in += n;
	if (p->is_chunked) {
		(void)snprintf(size, sizeof size, "%zx\r\n", n);
		r = buf_addz(&p->waiting, size);
	}
	r = r ? r : buf_add(&p->waiting, bytes, n);
	r = r || !p->is_chunked ? r : buf_addz(&p->waiting, "\r\n");
	if (r < 0) {
		failf(p, CELL_ENOSPACE, "try again", "no memory for the request's body");
		return;
	}
	if (push(p) && p->waiting.len > WAITING_MAX / 2 && !p->is_paused) {
		p->is_paused = true;
		http_pause(x);
	}
}

static void client_end(struct http_exchange *x, int result, void *arg)
{
	struct proxy *p = arg;

	(void)x;
	if (result < 0) { /* the body was cut short: the program must not take it for whole */
		struct call *c = p->c;
		bool has_answer = p->has_answer;
		proxy_free(p);
		call_done(c, result == -EMSGSIZE ? 413 : 400, NULL);
		if (has_answer)
			http_abort(x);
		else
			http_fail_body(x, result);
		return;
	}
	p->is_input_over = true;
	if (p->is_chunked && buf_addz(&p->waiting, "0\r\n\r\n") < 0) {
		failf(p, CELL_ENOSPACE, "try again", "no memory for the request's body");
		return;
	}
	(void)push(p);
}

static const struct http_body_events client_events = {client_data, client_end};

/* ---- out of it ---- */

/* Where this port is here: "/v1/sessions/S/ports/8080", as sent. */
static const char *prefix_of(const struct proxy *p, char ret[PREFIX_MAX])
{
	const char *path = http_raw_path(p->x), *rest = p->c->rest - 1; /* with its slash */

	(void)snprintf(ret, PREFIX_MAX, "%.*s", (int)(rest - path), path);
	return ret;
}

static int send_on(struct proxy *p, const void *bytes, size_t n)
{
	p->c->usage.bytes_out += n;
	int r = http_write(p->x, bytes, n);
	if (r == 1)
		p->lane.is_blocked = true;
	return r < 0 ? r : 0;
}

static int take_over(struct proxy *p, const struct http_field *fields)
{
	const char *asked = http_header(p->x, "Upgrade"),
		   *given = upstream_field(fields, "Upgrade");
	char prefix[PREFIX_MAX];

	if (!port_is_asked_to_upgrade(p->x) || !given || strcasecmp(asked, given) != 0)
		return -EPROTO;
	port_answer_fields(p->x, prefix_of(p, prefix), fields);
	p->has_answer = p->is_raw = true;
	p->status = 101;
	p->is_input_over = p->is_chunked = false;
	return http_take_over(p->x, asked, &client_events, p);
}

static int have_head(void *arg, int status, const struct http_field *fields, int64_t length)
{
	struct proxy *p = arg;
	char prefix[PREFIX_MAX];

	net_timer_stop(p->timer);
	if (status == 101)
		return take_over(p, fields);
	port_answer_fields(p->x, prefix_of(p, prefix), fields);
	p->has_answer = true;
	p->status = status;
	if (status == 204 || status == 304)
		length = 0;
	return http_begin(p->x, status, upstream_field(fields, "Content-Type"), length);
}

static int have_body(void *arg, const void *bytes, size_t n)
{
	return send_on(arg, bytes, n);
}

static const struct upstream_events upstream_events = {have_head, have_body};

/* False: the proxy is gone. */
static bool have_bytes(struct proxy *p, const uint8_t *bytes, size_t n)
{
	size_t used = 0;
	int r = 0;

	if (!n)
		return true;
	if (!p->is_raw) {
		r = upstream_feed(p->up, bytes, n, &used);
		if (r == 0 && p->is_raw) { /* what came behind the 101 */
			bytes += used;
			n -= used;
		}
	}
	if (r == 0 && p->is_raw && n)
		r = send_on(p, bytes, n);
	if (r == -EPROTO) {
		failf(p, CELL_EPROTOCOL, "is it HTTP/1.1 that is spoken there?",
			"its answer is no proper HTTP");
		return false;
	}
	if (r < 0) {
		failf(p, CELL_EGONE, "", "the client has gone");
		return false;
	}
	if (!p->is_raw && upstream_is_complete(p->up)) {
		finish(p);
		return false;
	}
	return true;
}

static void have_end(struct proxy *p)
{
	if (p->is_raw || upstream_finish(p->up) == 0)
		finish(p);
	else
		failf(p, CELL_EBACKEND, "see the program's own log",
			upstream_has_head(p->up)
				? "the connection was closed in the middle of the answer"
				: "the connection was closed without an answer");
}

static bool lane_pump(struct seat_lane *l)
{
	struct proxy *p = (struct proxy *)((char *)l - offsetof(struct proxy, lane));
	struct cell_error err = {0};
	struct cell_conn_event ev;

	if (cell_conn_next(p->conn, 0, &ev, &err) < 0) {
		fail(p, &err);
		return false;
	}
	switch (ev.type) {
	case CELL_CONN_NONE:
		return false;
	case CELL_CONN_OPEN:
	case CELL_CONN_DATA:
		return have_bytes(p, ev.data, ev.len);
	case CELL_CONN_ROOM:
		return push(p);
	case CELL_CONN_END:
		have_end(p);
		return false;
	}
	return false;
}

static bool lane_has_news(const struct seat_lane *l)
{
	return cell_conn_has_news(((const struct proxy *)((const char *)l -
							  offsetof(struct proxy, lane)))
					  ->conn);
}

static void lane_lost(struct seat_lane *l, const struct cell_error *why)
{
	fail((struct proxy *)((char *)l - offsetof(struct proxy, lane)), why);
}

static void drained(struct http_exchange *x, void *arg)
{
	struct proxy *p = arg;

	(void)x;
	p->lane.is_blocked = false;
	seat_pump(p->lane.seat);
}

static void gone(struct http_exchange *x, void *arg)
{
	struct proxy *p = arg;
	struct call *c = p->c;

	proxy_free(p); /* closes the connection in the cell */
	call_done(c, 499, NULL);
	http_end(x);
}

static void too_late(void *arg)
{
	failf(arg, CELL_ETIMEOUT, "the program is busy or stuck: see what it does",
		"no answer in time");
}

/* The server leaves. A request is let finish; a raw connection has no end of its own. */
static void leaving(struct http_exchange *x, void *arg)
{
	struct proxy *p = arg;

	(void)x;
	if (p->is_raw)
		finish(p);
}

/* ---- beginning ---- */

static int build_head(struct proxy *p, struct buf *b)
{
	char prefix[PREFIX_MAX];

	return port_request_head(p->x, p->port, prefix_of(p, prefix), p->c->rest - 1, b);
}

static int begin(struct proxy *p, struct cell_error *err)
{
	auto_buf struct buf head = BUF_INIT(HEAD_MAX);
	struct seat *seat = p->c->session->seat;
	int r = build_head(p, &head);

	if (r < 0)
		return cell_fail(err, CELL_EINVAL, 0, "the request's head is too large for port %u",
			p->port);
	p->up = upstream_new(!strcmp(http_method(p->x), "HEAD"), &upstream_events, p);
	if (!p->up || net_timer_new(p->srv->loop, too_late, p, &p->timer) < 0 ||
		buf_add(&p->waiting, head.data, head.len) < 0)
		return cell_fail_errno(err, ENOMEM, "reach port %u of the cell", p->port);
	return cell_connect(seat->cell, p->port, &p->conn, err);
}

static struct proxy *proxy_new(struct call *c, unsigned port)
{
	struct quota_verdict v = quota_stream_open(c->srv->quota, c->who.tenant);
	struct cell_error err = {0};
	struct proxy *p;

	if (!v.is_allowed) {
		(void)quota_fail(&v, c->who.tenant, &err);
		c->retry_after_s = (unsigned)(v.retry_after_ms / 1000) + 1;
		call_fail(c, &err);
		return NULL;
	}
	p = calloc(1, sizeof *p);
	if (!p) {
		quota_stream_close(c->srv->quota, c->who.tenant);
		call_failf(c, CELL_ENOSPACE, "", "no memory for another connection");
		return NULL;
	}
	*p = (struct proxy){.c = c,
		.x = c->x,
		.srv = c->srv,
		.port = port,
		.waiting = BUF_INIT(4 * WAITING_MAX),
		.is_chunked = http_header(c->x, "Transfer-Encoding") != NULL,
		.lane = {.pump = lane_pump, .has_news = lane_has_news, .lost = lane_lost}};
	(void)snprintf(p->tenant, sizeof p->tenant, "%s", c->who.tenant);
	p->srv->n_streams++;
	return p;
}

void port_proxy(struct call *c, unsigned port)
{
	struct cell_error err = {0};
	struct proxy *p = proxy_new(c, port);

	if (!p)
		return;
	if (begin(p, &err) < 0) {
		fail(p, &err);
		return;
	}
	session_touch(c->session);
	http_no_gzip(c->x);
	http_on_gone(c->x, gone, p);
	http_on_drain(c->x, drained, p);
	http_on_drain_server(c->x, leaving, p);
	if (c->srv->set.port_timeout_ms)
		net_timer_start(p->timer, c->srv->set.port_timeout_ms, 0);
	seat_add_lane(c->session->seat, &p->lane);
	if (port_is_asked_to_upgrade(c->x))
		p->is_input_over = true; /* nothing follows the head before the 101 */
	else
		http_read_body(c->x, UINT64_MAX, &client_events, p);
	(void)push(p);
}
