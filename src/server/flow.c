/* SPDX-License-Identifier: Apache-2.0 */
/* flow.c: see flow.h. */
#include "server/flow.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/sse.h"
#include "net/text.h"
#include "server/call.h"
#include "server/exec.h"
#include "server/flow_text.h"
#include "server/run.h"
#include "server/session.h"

#define HEARTBEAT_MS 15000
#define EVENT_MAX    (512u * 1024)

struct flow {
	struct call *c;
	struct http_exchange *x;
	struct server *srv;
	struct exec_reader r;
	enum flow_format format;
	bool is_following;
	bool is_blocked; /* the client is slow: on_drain goes on */
	struct net_timer *heartbeat;
	uint64_t max_output;	      /* waiting */
	struct run_reader *run;	      /* of code: events instead of bytes; NULL: a command's */
	uint64_t next;		      /* of a run: where to go on after what was sent */
	char tenant[TENANT_NAME_MAX]; /* whose stream it counts as */
};

static void flow_free(struct flow *f)
{
	f->srv->n_streams--;
	quota_stream_close(f->srv->quota, f->tenant);
	exec_reader_remove(&f->r);
	net_timer_free(f->heartbeat);
	if (f->run)
		run_reader_done(f->run);
	free(f->run);
	free(f);
}

static struct flow *flow_new(struct call *c, struct exec *e)
{
	struct quota_verdict v = quota_stream_open(c->srv->quota, c->who.tenant);
	struct cell_error err = {0};
	struct flow *f;

	if (!v.is_allowed) {
		(void)quota_fail(&v, c->who.tenant, &err);
		c->retry_after_s = (unsigned)(v.retry_after_ms / 1000) + 1;
		call_fail(c, &err);
		return NULL;
	}
	f = calloc(1, sizeof *f);
	if (!f) {
		quota_stream_close(c->srv->quota, c->who.tenant);
		call_failf(c, CELL_ENOSPACE, "", "no memory for another stream");
		return NULL;
	}
	f->c = c;
	f->x = c->x;
	f->srv = c->srv;
	(void)snprintf(f->tenant, sizeof f->tenant, "%s", c->who.tenant);
	f->r.arg = f;
	f->srv->n_streams++;
	exec_reader_add(e, &f->r);
	return f;
}

/* ---- as a whole ---- */

static json_t *result_json(struct flow *f)
{
	struct exec *e = f->r.exec;
	json_t *o = exec_json(e);
	struct spool_cursor at = {0};
	struct spool_event ev;
	struct buf text[3] = {BUF_INIT(0), BUF_INIT(f->max_output), BUF_INIT(f->max_output)};
	bool is_cut = false;

	while (spool_read(e->spool, &at, &ev, NULL) == 0 && ev.kind != SPOOL_NONE &&
		ev.kind != SPOOL_END) {
		struct buf *b = &text[ev.stream];
		size_t room = b->max - b->len, n = ev.len < room ? ev.len : room;

		is_cut |= ev.kind == SPOOL_GAP || n < ev.len;
		if (ev.kind != SPOOL_GAP && buf_add(b, ev.data, n) < 0)
			is_cut = true;
		if (text[1].len == f->max_output && text[2].len == f->max_output)
			break;
	}
	is_cut |= text[1].len < spool_next(e->spool, 1) || text[2].len < spool_next(e->spool, 2);
	flow_put_text(o, "stdout", text[1].data, text[1].len);
	flow_put_text(o, "stderr", text[2].data, text[2].len);
	(void)json_object_set_new(o, "truncated", json_boolean(is_cut));
	buf_done(&text[1]);
	buf_done(&text[2]);
	return o;
}

static void wait_over(struct flow *f)
{
	struct call *c = f->c;
	json_t *error = json_object_get(f->r.exec->end, "error");

	if (error) { /* it has no result: the guest died, or would not start it */
		struct cell_error err = {
			.code = flow_code(json_string_value(json_object_get(error, "code")))};
		const char *m = json_string_value(json_object_get(error, "message"));
		const char *h = json_string_value(json_object_get(error, "hint"));
		(void)snprintf(err.msg, sizeof err.msg, "%s", m ? m : "");
		(void)snprintf(err.hint, sizeof err.hint, "%s", h ? h : "");
		flow_free(f);
		call_fail(c, &err);
		return;
	}
	json_t *o =
		exec_is_run(f->r.exec) ? run_result_json(f->r.exec, f->max_output) : result_json(f);
	flow_free(f);
	call_json(c, 200, o);
}

static void wake_waiter(struct exec_reader *r)
{
	struct flow *f = r->arg;

	if (r->exec->end)
		wait_over(f);
}

static void waiter_gone(struct http_exchange *x, void *arg)
{
	struct flow *f = arg;
	struct call *c = f->c;

	flow_free(f); /* the command goes on: its output is in the spool */
	call_done(c, 499, NULL);
	http_end(x);
}

void flow_wait(struct call *c, struct exec *e, uint64_t max_output)
{
	struct flow *f = flow_new(c, e);

	if (!f)
		return;
	f->max_output = max_output;
	f->r.wake = wake_waiter;
	if (e->end)
		wait_over(f);
	else
		http_on_gone(c->x, waiter_gone, f);
}

/* ---- as a stream ---- */

int flow_format_of(const struct call *c, enum flow_format *ret)
{
	const char *stream = http_query(c->x, "stream");

	if (http_header_has(c->x, "Accept", "text/event-stream"))
		*ret = FLOW_SSE;
	else if (http_header_has(c->x, "Accept", "application/x-ndjson") ||
		 http_header_has(c->x, "Accept", "application/jsonl"))
		*ret = FLOW_NDJSON;
	else if (stream && !strcmp(stream, "stdout"))
		*ret = FLOW_BYTES_1;
	else if (stream && !strcmp(stream, "stderr"))
		*ret = FLOW_BYTES_2;
	else
		return -1;
	return 0;
}

static int send_text(struct flow *f, const char *type, const char *text, size_t len)
{
	auto_buf struct buf b = BUF_INIT(2 * EVENT_MAX + 2 * len);
	char id[48];

	if (f->format == FLOW_NDJSON) {
		(void)buf_add(&b, text, len);
		(void)buf_addc(&b, '\n');
	} else {
		/* where to go on after this event: what Last-Event-ID gives back */
		if (f->run)
			(void)snprintf(id, sizeof id, "%" PRIu64, f->next);
		else
			(void)snprintf(id, sizeof id, "%" PRIu64 ".%" PRIu64, f->r.at.want[1],
				f->r.at.want[2]);
		(void)sse_event(&b, id, type, text, len);
	}
	return http_write(f->x, b.data, b.len);
}

static int send_event(struct flow *f, const struct spool_event *ev)
{
	if (f->format == FLOW_BYTES_1 || f->format == FLOW_BYTES_2) {
		int want = f->format == FLOW_BYTES_1 ? SPOOL_OUT : SPOOL_ERR;
		return (int)ev->kind == want ? http_write(f->x, ev->data, ev->len) : 0;
	}
	const char *type;
	json_t *o = flow_event_json(f->r.exec, ev, &type);
	auto_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(o);
	return text ? send_text(f, type, text, strlen(text)) : -ENOMEM;
}

static void stream_over(struct flow *f, bool is_whole)
{
	struct call *c = f->c;
	struct http_exchange *x = f->x;

	flow_free(f);
	call_done(c, 200, NULL);
	if (is_whole)
		http_end(x);
	else
		http_abort(x);
}

/* The same for a run: its events. */
static void pump_run(struct flow *f)
{
	struct exec *e = f->r.exec;
	struct run_item item;

	while (!f->is_blocked) {
		const char *type;
		if (run_reader_next(f->run, e->spool, &f->r.at, &item) < 0) {
			stream_over(f, false);
			return;
		}
		if (item.news == RUN_NOTHING && (!f->is_following || (e->end && !e->seat))) {
			stream_over(f, true);
			return;
		}
		if (item.news == RUN_NOTHING)
			return;
		f->next = item.next;
		json_t *o = run_item_json(e, &item, &type);
		auto_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
		json_decref(o);
		int r = text ? send_text(f, type, text, strlen(text)) : -ENOMEM;
		if (r < 0 || item.news == RUN_END) {
			stream_over(f, r >= 0);
			return;
		}
		f->is_blocked = r == 1;
	}
}

static void pump(struct flow *f)
{
	struct exec *e = f->r.exec;
	struct spool_event ev;

	if (f->run) {
		pump_run(f);
		return;
	}
	while (!f->is_blocked) {
		if (spool_read(e->spool, &f->r.at, &ev, NULL) < 0) {
			stream_over(f, false);
			return;
		}
		if (ev.kind == SPOOL_NONE) {
			/* an end that found no room in the spool is still an end */
			if (!f->is_following || (e->end && !e->seat))
				stream_over(f, true);
			return;
		}
		int r = send_event(f, &ev);
		if (r < 0) {
			stream_over(f, false);
			return;
		}
		if (ev.kind == SPOOL_END) {
			stream_over(f, true);
			return;
		}
		f->is_blocked = r == 1;
	}
}

static void wake_stream(struct exec_reader *r)
{
	pump(r->arg);
}

static void drained(struct http_exchange *x, void *arg)
{
	struct flow *f = arg;

	(void)x;
	f->is_blocked = false;
	pump(f);
}

static void stream_gone(struct http_exchange *x, void *arg)
{
	(void)x;
	stream_over(arg, false);
}

/* The server leaves: no `exit` was sent, so the client comes back and goes on where it was. */
static void stream_leaves(struct http_exchange *x, void *arg)
{
	(void)x;
	stream_over(arg, true);
}

static void beat(void *arg)
{
	struct flow *f = arg;
	static const char line[] = "{\"type\":\"ping\"}\n";

	if (f->is_blocked)
		return;
	if (f->format == FLOW_NDJSON)
		(void)http_write(f->x, line, sizeof line - 1);
	else
		(void)http_write(f->x, ": ping\n\n", 8);
}

void flow_stream(struct call *c, struct exec *e, enum flow_format format, uint64_t out_from,
	uint64_t err_from, bool is_following)
{
	static const char *const types[] = {"application/x-ndjson", "text/event-stream",
		"application/octet-stream", "application/octet-stream"};
	bool is_text = format == FLOW_NDJSON || format == FLOW_SSE;
	struct flow *f = flow_new(c, e);

	if (!f)
		return;
	f->format = format;
	f->is_following = is_following;
	f->r.at.want[1] = out_from;
	f->r.at.want[2] = err_from;
	f->r.wake = wake_stream;
	f->next = out_from;
	if (exec_is_run(e)) {
		f->run = calloc(1, sizeof *f->run);
		if (!f->run || run_reader_init(f->run, out_from, &f->r.at) < 0) {
			flow_free(f);
			call_failf(c, CELL_ENOSPACE, "", "no memory for another stream");
			return;
		}
	}
	(void)http_add_header(c->x, "Cache-Control", "no-store");
	(void)http_add_header(c->x, "X-Accel-Buffering", "no");
	(void)http_add_header(c->x, "X-Cell-Exec", e->id);
	if (http_begin(c->x, 200, types[format], -1) < 0) {
		stream_over(f, false);
		return;
	}
	http_on_drain(c->x, drained, f);
	http_on_gone(c->x, stream_gone, f);
	if (is_text) /* plain bytes have no way to say that they are not all */
		http_on_drain_server(c->x, stream_leaves, f);
	if (is_text && net_timer_new(c->srv->loop, beat, f, &f->heartbeat) == 0)
		net_timer_start(f->heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
	if (is_text) {
		json_t *o = exec_json(e);
		(void)json_object_set_new(o, "type", json_string("started"));
		auto_free char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
		json_decref(o);
		if (text)
			(void)send_text(f, "started", text, strlen(text));
	}
	pump(f);
}
