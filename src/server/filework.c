/* SPDX-License-Identifier: Apache-2.0 */
/* filework.c: see filework.h. */
#include "server/filework.h"

#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "server/session.h"

#define HEARTBEAT_MS 15000

struct filework *filework_new(struct call *c)
{
	struct filework *w = calloc(1, sizeof *w);

	if (!w) {
		call_failf(c, CELL_ENOSPACE, "", "no memory for another operation");
		return NULL;
	}
	w->call = c;
	w->x = c->x;
	w->guest_fd = -1;
	return w;
}

void filework_free(struct filework *w)
{
	if (w->is_upload)
		DL_DELETE(w->call->session->uploads, w);
	if (w->is_stream) {
		w->call->srv->n_streams--;
		quota_stream_close(w->call->srv->quota, w->call->who.tenant);
	}
	net_timer_free(w->beat);
	json_decref(w->answer);
	if (w->pipe)
		conduit_loop_done(w->pipe);
	free(w);
}

static void work(void *arg)
{
	struct filework *w = arg;

	if (!w->cell)
		w->result = cell_reopen(w->name, &w->cell, &w->err);
	if (w->result == 0 && w->is_watch)
		w->guest_fd = cell_poll_fd(w->cell);
	if (w->result == 0)
		w->result = w->is_cancelled ? -ECANCELED : w->run(w, &w->err);
	w->guest_fd = -1;
	if (w->mine)
		conduit_thread_done(w->mine);
}

/* The connection is good for another one unless it broke. */
static void give_back(struct filework *w, struct session *s)
{
	if (!w->cell)
		return;
	if (w->result == -EPIPE || w->is_gone || !session_keep_spare(s, w->cell))
		(void)cell_close(w->cell, NULL);
	w->cell = NULL;
}

static void fail(struct filework *w)
{
	struct call *c = w->call;
	struct cell_error err = w->err;

	filework_free(w);
	call_fail(c, &err);
}

/* What was begun cannot become an error any more: the connection is cut. */
static void cut(struct filework *w)
{
	struct call *c = w->call;
	struct http_exchange *x = w->x;
	struct cell_error err = w->err;

	filework_free(w);
	call_done(c, 200, err.code ? &err : NULL);
	http_abort(x);
}

static void finish_download(struct filework *w)
{
	struct call *c = w->call;
	struct http_exchange *x = w->x;

	filework_free(w);
	call_done(c, 200, NULL);
	http_end(x);
}

static void pump_down(struct filework *w)
{
	static char piece[65536];
	size_t n;

	while (w->pipe && !w->is_blocked && (n = conduit_pull(w->pipe, piece, sizeof piece))) {
		w->call->usage.bytes_out += n;
		int r = http_write(w->x, piece, n);
		if (r < 0)
			break; /* it is gone, and that will be told */
		w->is_blocked = r == 1;
	}
	if (!w->is_over || w->is_blocked)
		return;
	if (w->is_gone || (w->result < 0 && !w->is_leaving))
		cut(w);
	else if (conduit_is_over(w->pipe))
		finish_download(w);
}

static void done(void *arg)
{
	struct filework *w = arg;

	w->is_over = true;
	give_back(w, w->call->session);
	if (!w->is_look)
		session_touch(w->call->session);
	if (w->is_lost && w->result < 0)
		(void)cell_fail(&w->err, CELL_EGONE, 0, "session '%s' ended meanwhile",
			w->call->session->id);
	if (!w->done)
		pump_down(w);
	else if (w->is_gone)
		cut(w);
	else if (w->result < 0)
		fail(w);
	else
		w->done(w);
}

void filework_start(struct filework *w)
{
	struct call *c = w->call;

	(void)snprintf(w->name, sizeof w->name, "%s", c->session->cell_name);
	w->cell = session_take_spare(c->session);
	/* what goes at a client's pace is not in the way of what is quick */
	struct net_pool *pool = w->is_watch ? c->srv->watches
				: w->mine   ? c->srv->transfers
					    : c->srv->files;
	if (net_pool_work(pool, work, done, w) == 0)
		return;
	if (w->cell)
		(void)cell_close(w->cell, NULL);
	if (w->mine)
		conduit_thread_done(w->mine);
	if (w->mine && !w->done) { /* its answer has begun */
		cut(w);
		return;
	}
	filework_free(w);
	call_failf(c, CELL_EBUSY, "try again in a second",
		"too many operations on files are under way");
}

/* ---- down ---- */

static void wake_down(void *arg)
{
	pump_down(arg);
}

static void drained(struct http_exchange *x, void *arg)
{
	struct filework *w = arg;

	(void)x;
	w->is_blocked = false;
	pump_down(w);
}

static void gone_down(struct http_exchange *x, void *arg)
{
	struct filework *w = arg;

	(void)x;
	w->is_gone = true;
	w->is_blocked = false;
	if (w->is_over) {
		pump_down(w);
		return;
	}
	/* end the thread's call, wherever it waits; done() cleans up */
	w->is_cancelled = true;
	int fd = w->guest_fd;
	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
	conduit_loop_done(w->pipe);
	w->pipe = NULL;
}

/* The server leaves: a watch has no end of its own. */
static void leave(struct http_exchange *x, void *arg)
{
	struct filework *w = arg;

	(void)x;
	if (w->is_over || w->is_gone)
		return;
	w->is_leaving = true;
	w->is_cancelled = true;
	int fd = w->guest_fd;
	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
}

static void beat(void *arg)
{
	struct filework *w = arg;

	if (!w->is_blocked && !w->is_gone)
		(void)http_write(w->x, w->is_sse ? ": ping\n\n" : "{\"type\":\"ping\"}\n",
			w->is_sse ? 8 : 16);
}

static bool make_pipe(struct filework *w, void (*wake)(void *arg))
{
	struct call *c = w->call;
	struct quota_verdict v = quota_stream_open(c->srv->quota, c->who.tenant);
	struct cell_error err = {0};

	if (!v.is_allowed) {
		(void)quota_fail(&v, c->who.tenant, &err);
		c->retry_after_s = (unsigned)(v.retry_after_ms / 1000) + 1;
		filework_free(w);
		call_fail(c, &err);
		return false;
	}
	w->is_stream = true;
	c->srv->n_streams++;
	w->pipe = w->mine = conduit_new(c->srv->loop, wake, w);
	if (w->pipe)
		return true;
	filework_free(w);
	call_failf(c, CELL_ENOSPACE, "", "no memory for another stream");
	return false;
}

void filework_download(struct filework *w, int status, const char *type, int64_t length)
{
	struct call *c = w->call;

	w->done = NULL;
	w->is_over = false;
	if (!make_pipe(w, wake_down))
		return;
	(void)http_begin(c->x, status, type, length);
	http_on_drain(c->x, drained, w);
	http_on_gone(c->x, gone_down, w);
	if (w->is_watch)
		http_on_drain_server(c->x, leave, w);
	if (w->is_watch && net_timer_new(c->srv->loop, beat, w, &w->beat) == 0)
		net_timer_start(w->beat, HEARTBEAT_MS, HEARTBEAT_MS);
	filework_start(w);
}

/* ---- waiting ---- */

static void gone_asking(struct http_exchange *x, void *arg)
{
	struct filework *w = arg;

	(void)x;
	w->is_gone = true;
	w->is_cancelled = true;
	int fd = w->guest_fd;
	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
}

void filework_ask(struct filework *w)
{
	w->is_watch = true;
	http_on_gone(w->x, gone_asking, w);
	filework_start(w);
}

/* ---- up ---- */

static void wake_up(void *arg)
{
	struct filework *w = arg;

	if (w->is_blocked && conduit_has_room(w->pipe)) {
		w->is_blocked = false;
		http_resume(w->x);
	}
}

static void up_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	struct filework *w = arg;

	w->call->usage.bytes_in += n;
	if (conduit_push(w->pipe, p, n)) {
		w->is_blocked = true;
		http_pause(x);
	}
}

static void up_end(struct http_exchange *x, int result, void *arg)
{
	struct filework *w = arg;

	(void)x;
	if (result == 0) {
		conduit_push_end(w->pipe);
		return;
	}
	w->is_gone = true;
	w->is_cancelled = true; /* nothing is written then; done() ends the call */
	conduit_loop_done(w->pipe);
	w->pipe = NULL;
}

void filework_upload(struct filework *w)
{
	static const struct http_body_events events = {up_data, up_end};
	struct call *c = w->call;

	if (!make_pipe(w, wake_up))
		return;
	w->is_upload = true;
	DL_APPEND(c->session->uploads, w);
	http_read_body(c->x, UINT64_MAX, &events, w);
	filework_start(w);
}

void filework_lose(struct session *s)
{
	struct filework *w;

	DL_FOREACH (s->uploads, w) {
		w->is_lost = true;
		if (w->pipe)
			conduit_cancel(w->pipe);
	}
}
