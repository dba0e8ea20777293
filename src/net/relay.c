/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "net/http_internal.h"

struct relay {
	struct http_exchange *x;
	struct net_loop *loop;
	int fd_in, fd_out; /* -1: ended */
	struct net_watch *in, *out;
	struct net_timer *timer;
	struct buf waiting; /* from the client, for fd_in */
	bool is_raw;
	bool is_client_done; /* it sends no more */
	bool is_stopped;
	unsigned idle_ms;
	uint64_t moved_ms;
	struct relay_result result;
	void (*done)(const struct relay_result *result, void *arg);
	void *arg;
};

static void close_in(struct relay *r)
{
	if (r->fd_in < 0)
		return;
	net_watch_free(r->in);
	r->in = NULL;
	/* A socket's other direction lives on in fd_out; a pipe has only this one. */
	(void)shutdown(r->fd_in, SHUT_WR);
	close(r->fd_in);
	r->fd_in = -1;
	buf_done(&r->waiting);
}

static void close_out(struct relay *r)
{
	if (r->fd_out < 0)
		return;
	net_watch_free(r->out);
	r->out = NULL;
	close(r->fd_out);
	r->fd_out = -1;
}

static void finish(struct relay *r, int error)
{
	struct http_exchange *x = r->x;
	void (*done)(const struct relay_result *, void *) = r->done;
	void *arg = r->arg;
	struct relay_result result = r->result;

	result.error = error;
	close_in(r);
	close_out(r);
	net_timer_free(r->timer);
	free(r);
	if (error < 0)
		http_abort(x);
	else
		http_end(x);
	if (done)
		done(&result, arg);
}

/* Both directions over? A streamed answer is complete when its own direction is. */
static bool maybe_finish(struct relay *r)
{
	if (r->fd_out >= 0 || (r->fd_in >= 0 && r->is_raw))
		return false;
	finish(r, 0);
	return true;
}

static void moved(struct relay *r)
{
	r->moved_ms = net_loop_now_ms(r->loop);
}

/* --- from the client --- */

/* Writes what the descriptor takes. False when it takes no more ever. */
static size_t write_in(struct relay *r, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k = write(r->fd_in, p + done, n - done);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			break;
		if (k < 0) {
			/* It does not read any more: what else the client sends has nowhere to go. */
			close_in(r);
			return n;
		}
		done += (size_t)k;
		r->result.bytes_in += (uint64_t)k;
		moved(r);
	}
	return done;
}

static void on_client_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	struct relay *r = arg;

	if (r->fd_in < 0)
		return;
	size_t k = r->waiting.len ? 0 : write_in(r, p, n);
	if (k == n)
		return;
	if (buf_add(&r->waiting, (const uint8_t *)p + k, n - k) < 0) {
		r->is_stopped = true;
		r->result.error = -ENOMEM;
		net_timer_start(r->timer, 0, 0);
		return;
	}
	http_pause(x);
	(void)net_watch_set(r->in, NET_WRITABLE);
}

static void on_client_end(struct http_exchange *x, int result, void *arg)
{
	struct relay *r = arg;

	(void)x;
	r->is_client_done = true;
	if (result < 0) {
		finish(r, result);
		return;
	}
	if (r->waiting.len == 0)
		close_in(r);
	(void)maybe_finish(r);
}

static const struct http_body_events client_events = {.data = on_client_data, .end = on_client_end};

static void on_in(void *arg, int events)
{
	struct relay *r = arg;

	(void)events;
	buf_consume(&r->waiting, write_in(r, r->waiting.data, r->waiting.len));
	if (r->fd_in >= 0 && r->waiting.len > 0)
		return;
	if (r->fd_in >= 0)
		(void)net_watch_set(r->in, 0);
	if (r->is_client_done) {
		close_in(r);
		(void)maybe_finish(r);
	} else {
		http_resume(r->x);
		if (r->fd_in < 0)
			(void)maybe_finish(r);
	}
}

/* --- to the client --- */

static void on_out(void *arg, int events)
{
	struct relay *r = arg;
	uint8_t chunk[32u * 1024];

	(void)events;
	for (int i = 0; i < 4; i++) {
		ssize_t n = read(r->fd_out, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EIO) { /* EIO: a terminal whose other side was closed */
			finish(r, -errno);
			return;
		}
		if (n <= 0) {
			close_out(r);
			if (!maybe_finish(r))
				(void)http_finish_sending(r->x);
			return;
		}
		moved(r);
		r->result.bytes_out += (uint64_t)n;
		int w = http_write(r->x, chunk, (size_t)n);
		if (w < 0) {
			finish(r, w);
			return;
		}
		if (w > 0) {
			(void)net_watch_set(r->out, 0);
			return;
		}
	}
}

static void on_drain(struct http_exchange *x, void *arg)
{
	struct relay *r = arg;

	(void)x;
	moved(r);
	if (r->out)
		(void)net_watch_set(r->out, NET_READABLE);
}

static void on_gone(struct http_exchange *x, void *arg)
{
	(void)x;
	finish(arg, -ECONNRESET);
}

static void on_timer(void *arg)
{
	struct relay *r = arg;
	uint64_t now_ms = net_loop_now_ms(r->loop);

	if (r->is_stopped)
		finish(r, r->result.error ? r->result.error : -ECANCELED);
	else if (now_ms - r->moved_ms >= r->idle_ms)
		finish(r, -ETIMEDOUT);
	else
		net_timer_start(r->timer, r->moved_ms + r->idle_ms - now_ms, 0);
}

static int set_up(struct relay *r, struct cell_error *err)
{
	int k = net_watch_new(r->loop, r->fd_in, on_in, r, &r->in, err);

	k = k ? k : net_watch_new(r->loop, r->fd_out, on_out, r, &r->out, err);
	if (k == 0 && net_timer_new(r->loop, on_timer, r, &r->timer) < 0)
		k = cell_fail_errno(err, ENOMEM, "relay a connection");
	return k;
}

int relay_start(struct http_exchange *x, const char *protocol, int fd_in, int fd_out,
	unsigned idle_ms, void (*done)(const struct relay_result *result, void *arg), void *arg,
	struct relay **ret, struct cell_error *err)
{
	struct relay *r = calloc(1, sizeof *r);
	int k = 0;

	if (fd_in == fd_out)
		fd_out = fcntl(fd_in, F_DUPFD_CLOEXEC, 3);
	if (!r || fd_out < 0) {
		k = cell_fail_errno(err, r ? errno : ENOMEM, "relay a connection");
		close(fd_in);
		if (fd_out >= 0)
			close(fd_out);
		free(r);
		return k;
	}
	*r = (struct relay){.x = x,
		.loop = x->c->s->loop,
		.fd_in = fd_in,
		.fd_out = fd_out,
		.waiting = BUF_INIT(4u * SCRATCH_BYTES + x->c->in.max),
		.is_raw = protocol != NULL,
		.idle_ms = idle_ms,
		.done = done,
		.arg = arg};
	moved(r);
	k = set_up(r, err);
	if (k == 0 && protocol && http_take_over(x, protocol, &client_events, r) < 0)
		k = cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, EINVAL, "this request does not ask for '%s'",
				protocol),
			"send GET with Connection: Upgrade and Upgrade: %s", protocol);
	if (k < 0) {
		close_in(r);
		close_out(r);
		net_timer_free(r->timer);
		free(r);
		return k;
	}
	if (!protocol)
		http_read_body(x, UINT64_MAX, &client_events, r);
	http_on_drain(x, on_drain, r);
	http_on_gone(x, on_gone, r);
	(void)net_watch_set(r->out, NET_READABLE);
	if (idle_ms)
		net_timer_start(r->timer, idle_ms, 0);
	*ret = r;
	return 0;
}

void relay_stop(struct relay *r)
{
	r->is_stopped = true;
	net_timer_start(r->timer, 0, 0);
}
