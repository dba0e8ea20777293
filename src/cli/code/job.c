/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: see job.h. One loop, one poll(). */
#include "cli/code/job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/output.h"
#include "cli/signals.h"

#define LOOK_MS	   1000
#define BURST_MAX  32
#define GRACE_MS   2000
#define OVERDUE_MS 5000 /* beyond deadline and grace: the guest should have ended it long ago */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- stdin ---- */

/* What is typed for getpass() is not shown. */
static void set_echo(bool is_on)
{
	static struct termios before;
	static bool is_changed;
	struct termios t;

	if (is_on && is_changed) {
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
		is_changed = false;
	}
	if (is_on || is_changed || tcgetattr(STDIN_FILENO, &before) < 0)
		return;
	t = before;
	t.c_lflag &= ~(tcflag_t)ECHO;
	t.c_lflag |= ECHONL;
	is_changed = tcsetattr(STDIN_FILENO, TCSADRAIN, &t) == 0;
}

static void ask(struct code_job *j, const struct cell_code_event *e)
{
	json_t *o = json_loadb(e->data, e->len, 0, NULL);

	j->is_asked = true;
	j->is_hidden = json_is_true(json_object_get(o, "password"));
	if (j->is_hidden && isatty(STDIN_FILENO))
		set_echo(false);
	json_decref(o);
}

/* A line that is there goes to the code; true: it was answered. */
static bool answer(struct code_job *j)
{
	struct buf *b = &j->input->ahead;
	uint8_t *end = b->len ? memchr(b->data, '\n', b->len) : NULL;
	struct cell_error ignored; /* the run may have ended meanwhile: its end is on the way */

	if (!end && !(j->input->is_over && b->len)) {
		if (!j->input->is_over)
			return false;
		(void)cells->code_answer(j->run, NULL, &ignored);
	} else {
		size_t n = end ? (size_t)(end - b->data) : b->len;
		auto_free char *line = strndup((const char *)b->data, n);
		buf_consume(b, end ? n + 1 : n);
		(void)cells->code_answer(j->run, line, &ignored);
	}
	j->is_asked = false;
	if (j->is_hidden)
		set_echo(true);
	return true;
}

static void read_stdin(struct code_job *j)
{
	char piece[4096];
	ssize_t n = read(STDIN_FILENO, piece, sizeof piece);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0 || buf_add(&j->input->ahead, piece, (size_t)n) < 0)
		j->input->is_over = true;
}

/* ---- signals ---- */

static void stop(struct code_job *j, int signal)
{
	struct cell_error ignored;

	if (j->look_id)
		j->n_stops = 2; /* it is not ours to stop */
	switch (++j->n_stops) {
	case 1:
		(void)cells->code_interrupt(j->run, &ignored);
		return;
	case 2:
		if (!j->is_sole && j->context) {
			(void)cells->context_reset(j->cell, j->context, &ignored);
			j->give_up_at_ms = now_ms() + GRACE_MS;
			return;
		}
		break;
	default:
		break;
	}
	j->stop_signal = signal;
	j->is_over = true;
}

static void take_signals(struct code_job *j)
{
	int signal;

	while (!j->is_over && (signal = cli_signals_next()) != 0) {
		if (signal == SIGTSTP)
			cli_signals_suspend();
		else if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP ||
			 signal == SIGQUIT)
			stop(j, signal);
	}
}

/* ---- events ---- */

static int take_event(struct code_job *j, const struct cell_code_event *e, struct cell_error *err)
{
	int r = j->take ? j->take(e, j->user) : 0;

	if (r < 0)
		return err && err->code ? r : cell_fail_errno(err, -r, "keep what the code gives");
	if (e->type == CELL_CODE_INPUT && !j->look_id)
		ask(j, e);
	if (e->type == CELL_CODE_DONE) {
		j->done = e->done;
		j->has_done = true;
		j->is_over = true;
	}
	if (e->type == CELL_CODE_END) {
		j->is_over = true;
		return 0;
	}
	return j->screen ? code_screen_event(j->screen, e, err) : 0;
}

static bool is_full(const struct code_job *j)
{
	return j->screen && code_screen_is_full(j->screen);
}

/* 1: there may be more at once. */
static int take_events(struct code_job *j, struct cell_error *err)
{
	for (int i = 0; i < BURST_MAX; i++) {
		struct cell_code_event e = {0};
		int r;
		if (j->is_over || is_full(j))
			return 0;
		r = cells->code_next(j->run, 0, &e, err);
		if (r < 0)
			return r;
		if (e.type == CELL_CODE_NONE)
			return 0;
		r = take_event(j, &e, err);
		if (r < 0)
			return r;
	}
	return 1;
}

/* Our reader is gone: as a program in a pipeline would, the code ends. */
static void check_reader(struct code_job *j)
{
	struct cell_error ignored;

	if (j->is_broken || !j->screen || !(j->screen->out.is_broken || j->screen->err.is_broken))
		return;
	j->is_broken = true;
	if (j->look_id) {
		j->is_over = true;
		return;
	}
	(void)cells->code_interrupt(j->run, &ignored);
	j->give_up_at_ms = now_ms() + GRACE_MS;
}

enum {
	WAIT_SIGNALS,
	WAIT_CELL,
	WAIT_STDIN,
	WAIT_OUT,
	WAIT_ERR,
	WAIT_COUNT
};

static int patience_ms(const struct code_job *j)
{
	int ms = cells->code_patience_ms ? cells->code_patience_ms(j->run) : -1;
	uint64_t now = now_ms();

	if (ms < 0 || ms > LOOK_MS)
		ms = LOOK_MS;
	if (j->give_up_at_ms && j->give_up_at_ms < now + (uint64_t)ms)
		ms = j->give_up_at_ms > now ? (int)(j->give_up_at_ms - now) : 0;
	return ms;
}

static void wait_for_any(struct code_job *j, bool is_busy)
{
	const struct code_screen *s = j->screen;
	const struct pollfd nothing = {.fd = -1};
	bool wants_line = j->is_asked && j->input && !j->input->is_over && !is_full(j);
	struct pollfd fds[WAIT_COUNT] = {
		[WAIT_SIGNALS] = {.fd = cli_signals_fd(), .events = POLLIN},
		[WAIT_CELL] = {.fd = is_full(j) ? -1 : cells->poll_fd(j->cell),
			.events = (short)(POLLIN | cells->poll_events(j->cell))},
		[WAIT_STDIN] = {.fd = wants_line ? STDIN_FILENO : -1, .events = POLLIN},
		[WAIT_OUT] = s ? cli_sink_pollfd(&s->out) : nothing,
		[WAIT_ERR] = s ? cli_sink_pollfd(&s->err) : nothing,
	};

	if (poll(fds, WAIT_COUNT, is_busy ? 0 : patience_ms(j)) > 0 && fds[WAIT_STDIN].revents)
		read_stdin(j);
}

int code_job_run(struct code_job *j, struct cell_error *err)
{
	int r;

	j->opts.with_input = j->input != NULL;
	r = j->look_id ? cells->code_look(j->cell, j->look_id, j->look_from, j->is_following,
				 &j->run, err)
		       : cells->code_start(j->cell, &j->opts, &j->run, err);
	if (r == 0 && j->is_sole && j->opts.timeout_ms)
		j->give_up_at_ms = now_ms() + j->opts.timeout_ms +
				   (j->opts.grace_ms ? j->opts.grace_ms : GRACE_MS) + OVERDUE_MS;
	while (r >= 0 && !j->is_over) {
		take_signals(j);
		if (j->give_up_at_ms && now_ms() >= j->give_up_at_ms)
			break;
		if (cells->tick)
			cells->tick(j->cell);
		r = j->screen ? code_screen_flush(j->screen, err) : 0;
		if (r < 0 || j->is_over)
			break;
		check_reader(j);
		do {
			r = take_events(j, err);
		} while (r == 0 && !j->is_over && j->is_asked && j->input && answer(j));
		if (r >= 0 && !j->is_over)
			wait_for_any(j, r > 0);
	}
	if (j->is_hidden)
		set_echo(true);
	if (r >= 0 && j->screen &&
		cli_sinks_drain(&j->screen->out, &j->screen->err, &j->stop_signal, err) == 0)
		check_reader(j);
	return r < 0 ? r : 0;
}

void code_job_done(struct code_job *j)
{
	if (j->run)
		cells->code_free(j->run);
	j->run = NULL;
}

int code_job_exit(const struct code_job *j, bool has_failed)
{
	const struct cell_code_done *d = &j->done;

	if (j->is_broken)
		return CLI_EXIT_SIGNAL + SIGPIPE;
	if (j->stop_signal)
		return CLI_EXIT_SIGNAL + j->stop_signal;
	if (!j->has_done) {
		cli_note(j->cli, "the code did not end in time");
		return j->n_stops ? CLI_EXIT_SIGNAL + SIGINT : CLI_EXIT_TIMEOUT;
	}
	if (d->timed_out)
		cli_note(j->cli, "the deadline passed: %s after %.0f ms",
			d->state == CELL_CODE_KEPT ? "interrupted" : "killed",
			d->execution_time_ms);
	else if (d->oom)
		cli_note(j->cli, "the interpreter ran out of memory and was killed");
	if (!j->is_sole && d->state == CELL_CODE_LOST)
		cli_note(j->cli, "its variables are lost; the next run starts afresh");
	if (d->timed_out)
		return CLI_EXIT_TIMEOUT;
	if (d->interrupted || j->n_stops)
		return CLI_EXIT_SIGNAL + SIGINT;
	if (d->signal)
		return CLI_EXIT_SIGNAL + d->signal;
	if (d->state == CELL_CODE_ENDED || (d->state == CELL_CODE_LOST && d->exit_code))
		return d->exit_code & 0xff;
	return has_failed || !d->is_ok ? CLI_EXIT_NO : CLI_EXIT_OK;
}
