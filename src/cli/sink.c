/* SPDX-License-Identifier: Apache-2.0 */
/* sink.c: where a stream of a command goes, without blocking and without buffering beyond one
 * piece. */
#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/signals.h"

#define PIECE_MAX   (256u * 1024)	    /* the library hands out at most half of it at once */
#define WAITING_MAX (4u * PIECE_MAX + 4096) /* a piece made visible grows at most fourfold */

/* A description of our own for the same pipe or terminal, so that O_NONBLOCK stays with us: the one
 * we inherited is shared with our parent and its other children. */
static int reopen_nonblocking(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void cli_sink_fd(struct cli_sink *s, int fd, bool is_raw, uint64_t limit)
{
	struct stat st;
	int own;

	*s = (struct cli_sink){.fd = fd, .limit = limit, .waiting = BUF_INIT(WAITING_MAX)};
	s->is_neutral = !is_raw && isatty(fd);
	if (fstat(fd, &st) < 0)
		return;
	s->is_socket = S_ISSOCK(st.st_mode);
	if (!S_ISFIFO(st.st_mode) && !isatty(fd))
		return;
	own = reopen_nonblocking(fd);
	s->is_fd_owned = own >= 0;
	s->is_blocking = own < 0;
	if (own >= 0)
		s->fd = own;
}

void cli_sink_collect(struct cli_sink *s, uint64_t limit)
{
	*s = (struct cli_sink){.fd = -1, .limit = limit, .waiting = BUF_INIT(SIZE_MAX / 2)};
}

void cli_sink_drop(struct cli_sink *s)
{
	*s = (struct cli_sink){.fd = -1, .is_dropped = true};
}

void cli_sink_done(struct cli_sink *s)
{
	if (s->is_fd_owned)
		close(s->fd);
	s->is_fd_owned = false;
	buf_done(&s->waiting);
}

bool cli_sink_is_full(const struct cli_sink *s)
{
	return s->fd >= 0 && s->waiting.len > 0;
}

/* Write what can be written now. Returns how much. */
static ssize_t write_some(struct cli_sink *s, const uint8_t *p, size_t n, struct cell_error *err)
{
	size_t done = 0;

	while (done < n && !s->is_broken) {
		struct pollfd ready = {.fd = s->fd, .events = POLLOUT};
		ssize_t w;
		size_t step = n - done;
		if (s->is_blocking) {
			if (poll(&ready, 1, 0) == 0)
				break;
			step = step < PIPE_BUF ? step : PIPE_BUF;
		}
		if (s->is_socket)
			w = send(s->fd, p + done, step, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			w = write(s->fd, p + done, step);
		if (w >= 0)
			done += (size_t)w;
		else if (errno == EAGAIN)
			break;
		else if (errno == EPIPE || errno == ECONNRESET)
			s->is_broken = true;
		else if (errno != EINTR) {
			int r = cell_fail_errno(err, errno, "write the command's output");
			return cell_error_hint(err, r, "send it to a place that can take it");
		}
	}
	return (ssize_t)(s->is_broken ? n : done);
}

int cli_sink_flush(struct cli_sink *s, struct cell_error *err)
{
	ssize_t w;

	if (!cli_sink_is_full(s))
		return 0;
	w = write_some(s, s->waiting.data, s->waiting.len, err);
	if (w < 0)
		return (int)w;
	buf_consume(&s->waiting, (size_t)w);
	return 0;
}

static int keep(struct cli_sink *s, const void *p, size_t n, struct cell_error *err)
{
	int r = buf_add(&s->waiting, p, n);

	return r < 0 ? cell_fail(err, CELL_ENOSPACE, -r, "keep %zu bytes of output", n) : 0;
}

int cli_sink_put(struct cli_sink *s, const void *p, size_t n, struct cell_error *err)
{
	ssize_t w;

	s->total += n;
	if (s->is_dropped || s->is_broken)
		return 0;
	if (s->limit && s->total > s->limit) {
		uint64_t over = s->total - s->limit;
		s->is_truncated = true;
		n = over >= n ? 0 : n - (size_t)over;
	}
	if (!n)
		return 0;
	if (s->fd < 0)
		return keep(s, p, n, err);
	if (s->is_neutral) {
		int r = cli_neutral_feed(&s->neutral, p, n, &s->waiting);
		if (r < 0)
			return cell_fail(err, CELL_ENOSPACE, -r, "show %zu bytes of output", n);
		return cli_sink_flush(s, err);
	}
	if (s->waiting.len) /* behind what waits */
		return keep(s, p, n, err);
	w = write_some(s, p, n, err);
	if (w < 0)
		return (int)w;
	return (size_t)w < n ? keep(s, (const uint8_t *)p + w, n - (size_t)w, err) : 0;
}

int cli_sink_finish(struct cli_sink *s, struct cell_error *err)
{
	if (!s->is_neutral || s->is_broken || s->fd < 0)
		return 0;
	if (cli_neutral_end(&s->neutral, &s->waiting) < 0)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "show the end of the output");
	return cli_sink_flush(s, err);
}

struct pollfd cli_sink_pollfd(const struct cli_sink *s)
{
	return (struct pollfd){.fd = cli_sink_is_full(s) ? s->fd : -1, .events = POLLOUT};
}

static int take_signals(void)
{
	int stop = 0;

	for (int one; (one = cli_signals_next()) != 0;) {
		if (one == SIGTSTP)
			cli_signals_suspend();
		else if (one == SIGINT || one == SIGTERM || one == SIGHUP || one == SIGQUIT)
			stop = one;
	}
	return stop;
}

int cli_sinks_drain(struct cli_sink *out, struct cli_sink *errors, int *signal,
	struct cell_error *err)
{
	int r = cli_sink_finish(out, err);

	if (r == 0)
		r = cli_sink_finish(errors, err);
	while (r == 0 && !*signal && (cli_sink_is_full(out) || cli_sink_is_full(errors))) {
		struct pollfd fds[] = {{.fd = cli_signals_fd(), .events = POLLIN},
			cli_sink_pollfd(out), cli_sink_pollfd(errors)};
		(void)poll(fds, 3, -1);
		*signal = take_signals();
		r = cli_sink_flush(out, err);
		if (r == 0)
			r = cli_sink_flush(errors, err);
	}
	return r;
}
