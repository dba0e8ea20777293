/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: a command in a cell joined to our own stdin, stdout and stderr. One loop, one poll();
 * the only blocking place. */
#include "cli/stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cells.h"
#include "cli/output.h"
#include "cli/signals.h"

#define GRACE_MS  2000
#define BURST_MAX 32 /* events taken before stdin and signals get their turn */

enum {
	WAIT_SIGNALS,
	WAIT_CELL,
	WAIT_STDIN,
	WAIT_OUT,
	WAIT_ERR,
	WAIT_COUNT
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void send_size(struct cli_stream *s)
{
	struct cell_error ignored;
	uint16_t rows, cols;

	cli_terminal_size(&rows, &cols);
	(void)cells->exec_resize(s->exec, rows, cols, &ignored);
}

/* A command that is being told something may have ended meanwhile: its EXIT is on the way, so a
 * failure to tell it is no failure. */
static void tell(struct cli_stream *s, int signal)
{
	struct cell_error ignored;

	(void)cells->exec_signal(s->exec, signal, &ignored);
}

static void kill_tree(struct cli_stream *s)
{
	struct cell_error ignored;

	(void)cells->exec_kill(s->exec, &ignored); /* a guest that hangs must not keep us */
}

/* First time: the command's own business. Second: the user means it. Third: we wait no longer. */
static void on_stop(struct cli_stream *s, int signal)
{
	if (s->is_only_looking) {
		s->stop_signal = signal;
		s->is_over = true;
		return;
	}
	switch (++s->n_stops) {
	case 1:
		tell(s, signal);
		break;
	case 2:
		kill_tree(s);
		break;
	default:
		s->stop_signal = signal;
		s->is_over = true;
	}
}

static void on_suspend(struct cli_stream *s)
{
	bool is_held = !s->is_tty && !s->is_only_looking;

	if (is_held)
		tell(s, SIGSTOP);
	cli_signals_suspend();
	if (is_held)
		tell(s, SIGCONT);
}

static void take_signals(struct cli_stream *s)
{
	int signal;

	while (!s->is_over && (signal = cli_signals_next()) != 0) {
		switch (signal) {
		case SIGWINCH:
			if (s->is_tty)
				send_size(s);
			break;
		case SIGCONT:
			if (s->is_tty && cli_terminal_is_raw()) {
				(void)cli_terminal_raw();
				send_size(s);
			}
			break;
		case SIGTSTP:
			on_suspend(s);
			break;
		case SIGUSR1:
		case SIGUSR2:
			if (!s->is_only_looking)
				tell(s, signal);
			break;
		default:
			on_stop(s, signal);
		}
	}
}

/* Is our reader gone? A tool in a pipeline would die of SIGPIPE now; so does the command. */
static void check_reader(struct cli_stream *s)
{
	if (s->is_broken || !(s->out.is_broken || s->err.is_broken))
		return;
	s->is_broken = true;
	if (s->is_only_looking) {
		s->is_over = true;
		return;
	}
	tell(s, SIGPIPE);
	s->kill_at_ms = now_ms() + GRACE_MS;
}

static void check_deadlines(struct cli_stream *s)
{
	if (s->kill_at_ms && now_ms() >= s->kill_at_ms) {
		s->kill_at_ms = 0;
		s->give_up_at_ms = now_ms() + GRACE_MS;
		kill_tree(s);
	}
	if (s->give_up_at_ms && now_ms() >= s->give_up_at_ms)
		s->is_over = true;
}

static int flush_sinks(struct cli_stream *s, struct cell_error *err)
{
	int r = cli_sink_flush(&s->out, err);

	if (r == 0)
		r = cli_sink_flush(&s->err, err);
	if (r == 0)
		check_reader(s);
	return r;
}

static bool is_full(const struct cli_stream *s)
{
	return cli_sink_is_full(&s->out) || cli_sink_is_full(&s->err);
}

static int take_event(struct cli_stream *s, const struct cell_event *e, struct cell_error *err)
{
	switch (e->type) {
	case CELL_EVENT_STDOUT:
		s->out_next = e->offset + e->len;
		return cli_sink_put(&s->out, e->data, e->len, err);
	case CELL_EVENT_STDERR:
		s->err_next = e->offset + e->len;
		return cli_sink_put(&s->err, e->data, e->len, err);
	case CELL_EVENT_GAP: {
		uint64_t *next = e->stream == 2 ? &s->err_next : &s->out_next;
		s->gap_bytes += e->offset > *next ? e->offset - *next : 0;
		*next = e->offset;
		return 0;
	}
	case CELL_EVENT_EXIT:
		s->exit = e->exit;
		s->has_exited = true;
		s->is_over = true;
		return 0;
	case CELL_EVENT_END:
		s->has_all = true;
		s->is_over = true;
		return 0;
	case CELL_EVENT_NONE:
		return 0;
	}
	return 0;
}

/* Take what has arrived. 1 when there may be more, 0 when there is nothing or the sinks are full.
 */
static int take_events(struct cli_stream *s, struct cell_error *err)
{
	for (int i = 0; i < BURST_MAX; i++) {
		struct cell_event e = {0};
		int r;
		if (s->is_over || is_full(s))
			return 0;
		r = cells->exec_next(s->exec, 0, &e, err);
		if (r < 0)
			return r;
		if (e.type == CELL_EVENT_NONE)
			return 0;
		r = take_event(s, &e, err);
		if (r < 0)
			return r;
	}
	return 1;
}

static void read_stdin(struct cli_stream *s)
{
	ssize_t n = read(STDIN_FILENO, s->input, sizeof(s->input));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		if (n < 0)
			cli_note(s->cli, "read stdin: %s", strerror(errno));
		s->is_input_over = true;
		return;
	}
	s->input_at = 0;
	s->input_len = (size_t)n;
	if (s->is_tty && cli_escape_feed(&s->escape, s->input, (size_t)n, now_ms())) {
		s->is_left = true;
		s->is_over = true;
	}
}

/* Give the command what it has room for; true when it took some. It may have closed its stdin or ended: then the rest is
 * nobody's, as with a pipe. */
static bool push_stdin(struct cli_stream *s)
{
	struct cell_error ignored;
	ssize_t n = 0;

	if (s->input_len) {
		n = cells->exec_write(s->exec, s->input + s->input_at, s->input_len, 0, &ignored);
		if (n < 0) {
			s->is_input_closed = true;
			s->input_len = 0;
			return false;
		}
		s->input_at += (size_t)n;
		s->input_len -= (size_t)n;
	}
	if (s->is_input_over && !s->input_len && !s->is_input_closed) {
		(void)cells->exec_close_stdin(s->exec, &ignored);
		s->is_input_closed = true;
	}
	return n > 0;
}

#define LOOK_MS 1000 /* a guest that never tells a command's end is noticed by asking */

static int poll_timeout(const struct cli_stream *s, bool is_busy)
{
	uint64_t at = s->kill_at_ms ? s->kill_at_ms : s->give_up_at_ms, now;

	if (is_busy)
		return 0;
	int patience = cells->exec_patience_ms(s->exec);
	int most = patience >= 0 && patience < LOOK_MS ? patience : LOOK_MS;
	if (!at)
		return most;
	now = now_ms();
	uint64_t left = at > now ? at - now : 0;
	return left < (uint64_t)most ? (int)left : most;
}

/* Wait for whatever can move us on. While a sink is full nothing is taken from the cell. */
static void wait_for_any(struct cli_stream *s, bool is_busy)
{
	bool wants_input =
		s->has_stdin && !s->is_input_over && !s->is_input_closed && !s->input_len;
	bool full = is_full(s);
	struct pollfd fds[WAIT_COUNT] = {
		[WAIT_SIGNALS] = {.fd = cli_signals_fd(), .events = POLLIN},
		[WAIT_CELL] = {.fd = full ? -1 : cells->poll_fd(s->cell),
			.events = (short)(POLLIN | cells->poll_events(s->cell))},
		[WAIT_STDIN] = {.fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN},
		[WAIT_OUT] = cli_sink_pollfd(&s->out),
		[WAIT_ERR] = cli_sink_pollfd(&s->err),
	};

	if (poll(fds, WAIT_COUNT, poll_timeout(s, is_busy)) <= 0)
		return;
	if (fds[WAIT_STDIN].revents)
		read_stdin(s);
}

int cli_stream_run(struct cli_stream *s, struct cell_error *err)
{
	int r = 0;

	s->is_over = false;
	while (r >= 0 && !s->is_over) {
		bool is_busy;
		take_signals(s);
		check_deadlines(s);
		if (cells->tick)
			cells->tick(s->cell);
		r = flush_sinks(s, err);
		if (r < 0 || s->is_over)
			break;
		/* Asking for events may take in the word that stdin has room again, so stdin comes
		 * after it; and again events, in case writing took in some. */
		do {
			r = take_events(s, err);
		} while (r == 0 && !s->is_over && push_stdin(s));
		if (r < 0)
			break;
		is_busy = r > 0;
		if (!s->is_over)
			wait_for_any(s, is_busy);
	}
	bool has_more = is_full(s);
	if (r >= 0)
		r = cli_sinks_drain(&s->out, &s->err, &s->stop_signal, err);
	if (r >= 0 && has_more)
		check_reader(s);
	if (r < 0 && !s->is_only_looking && !s->has_exited)
		kill_tree(s);
	return r < 0 ? r : 0;
}
