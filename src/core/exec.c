/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c: commands, as include/cell/exec.h promises them, over a link to the guest. */
#include "cell/exec.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/contract.h"
#include "core/exec.h"
#include "core/exec_fields.h"
#include "core/handle.h"
#include "core/link.h"
#include "core/process.h"

#define DEFAULT_MAX_OUTPUT (1024u * 1024)
/* The guest gives up on what does not die 10 s after its deadline and grace. */
#define OVERDUE_MS 13000u
/* What a guest may take to tell of the end of a sole command before the cell is ended from outside: less
 * than its neighbours would notice, more than a busy machine needs. */
#define SOLE_OVERDUE_MS 150u

struct cell_exec {
	struct cell *cell;
	struct link_stream *stream;
	char id[CELL_EXEC_ID_MAX];
	uint64_t next_offset[3];   /* per channel: what comes next if nothing is missing */
	struct cell_event pending; /* kept back while a GAP is told first */
	bool has_pending;
	bool has_ended;
	bool has_stdin;
	bool is_tty;
	bool is_sole; /* its deadline is the cell's */
	bool has_begun;
	uint64_t started_ms;
	uint64_t overdue_at_ms; /* when the guest should have told its end; 0: no deadline */
};

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static void take_id(struct cell_exec *x, const struct link_event *ev)
{
	auto_free char *id = wire_find_str(ev->p, ev->len, WIRE_T_ID, sizeof x->id - 1);

	if (id)
		memcpy(x->id, id, strlen(id) + 1);
}

/* The guest's word that it runs. */
static void take_start(struct cell_exec *x, const struct link_event *ev)
{
	take_id(x, ev);
	x->has_begun = true;
	x->is_tty = wire_find_u64(ev->p, ev->len, WIRE_T_FLAGS, 0) & CELL_EXEC_TTY;
	link_set_send_offset(x->stream, wire_find_u64(ev->p, ev->len, WIRE_T_IN_OFFSET, 0));
}

/* Wait for the guest's word that it runs, or why not. */
static int await_started(struct cell_exec *x, struct cell_error *err)
{
	struct link_event ev;

	for (;;) {
		int r = link_next(x->stream, -1, &ev, err);

		if (r < 0)
			return r;
		if (ev.type == LINK_END) {
			r = link_end_error(&ev, err);
			return r < 0 ? r
				     : cell_fail(err, CELL_EPROTOCOL, EPROTO,
					       "start a command: the guest ended it unasked");
		}
		if (ev.type == LINK_REPLY)
			break;
	}
	take_start(x, &ev);
	return 0;
}

int cell_exec_begin(struct cell *c, uint16_t op, const struct buf *fields, bool is_waiting,
	struct cell_exec **ret, struct cell_error *err)
{
	struct cell_exec *x = calloc(1, sizeof *x);

	if (!x)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "start a command");
	x->cell = c;
	int r = link_request(c->link, op, fields, &x->stream, err);
	if (r == 0 && is_waiting)
		r = await_started(x, err);
	if (r < 0) {
		cell_exec_free(x);
		return r;
	}
	*ret = x;
	return 0;
}

static cell_caps needs_of(const struct cell_exec_opts *opts)
{
	return CELL_CAP_BIT(CELL_CAP_EXEC) |
	       (opts->flags & CELL_EXEC_TTY ? CELL_CAP_BIT(CELL_CAP_PTY) : 0) |
	       (opts->flags & CELL_EXEC_DETACH ? CELL_CAP_BIT(CELL_CAP_BACKGROUND) : 0);
}

/* Quiet: do not wait for the word that it runs. Its id and any error come with its end: one switch
 * of processes less for whoever waits for that anyway. */
static int start(struct cell *c, const struct cell_exec_opts *opts, bool is_quiet,
	struct cell_exec **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE);
	uint64_t timeout_ms = opts->timeout_ms ? opts->timeout_ms : c->timeout_ms;
	int r = cell_contract_require(c, needs_of(opts), "run a command", err);

	if (r == 0)
		r = exec_fields(c, opts, is_quiet, &b, err);
	if (r == 0)
		r = cell_exec_begin(c, WIRE_OP_EXEC, &b, !is_quiet, ret, err);
	if (r == 0) {
		if (is_quiet && opts->id)
			(void)snprintf((*ret)->id, sizeof(*ret)->id, "%s", opts->id);
		(*ret)->is_tty = opts->flags & CELL_EXEC_TTY;
		(*ret)->has_stdin = opts->flags & (CELL_EXEC_STDIN | CELL_EXEC_TTY);
		(*ret)->is_sole = opts->flags & CELL_EXEC_SOLE && c->is_ephemeral;
		(*ret)->started_ms = now_ms();
		if (timeout_ms && timeout_ms < INT64_MAX / 2)
			(*ret)->overdue_at_ms = (*ret)->started_ms + timeout_ms +
						exec_grace_ms(opts) +
						((*ret)->is_sole ? SOLE_OVERDUE_MS : OVERDUE_MS);
	}
	return r;
}

int cell_exec_start(struct cell *c, const struct cell_exec_opts *opts, struct cell_exec **ret,
	struct cell_error *err)
{
	return start(c, opts, opts->no_wait, ret, err);
}

int cell_exec_attach(struct cell *c, const char *id, const struct cell_attach_opts *opts,
	struct cell_exec **ret, struct cell_error *err)
{
	static const struct cell_attach_opts none;
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	if (!opts)
		opts = &none;
	if (strlen(id) >= CELL_EXEC_ID_MAX)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"attach to '%.64s...': the id is too long", id);
	(void)wire_put_str(&b, WIRE_T_ID, id);
	(void)wire_put_u64(&b, WIRE_T_OUT_OFFSET, opts->out_offset);
	(void)wire_put_u64(&b, WIRE_T_ERR_OFFSET, opts->err_offset);
	(void)wire_put_u64(&b, WIRE_T_WINDOW, WIRE_DEFAULT_WINDOW);
	(void)wire_put_u64(&b, WIRE_T_FLAGS,
		(opts->hold ? 1u : 0) | (opts->no_follow ? 2u : 0) | (opts->with_stdin ? 4u : 0));
	int r = cell_exec_begin(c, WIRE_OP_ATTACH, &b, !opts->no_wait, ret, err);
	if (r == 0) {
		if (opts->no_wait)
			(void)snprintf((*ret)->id, sizeof(*ret)->id, "%s", id);
		(*ret)->next_offset[WIRE_CHAN_OUT] = opts->out_offset;
		(*ret)->next_offset[WIRE_CHAN_ERR] = opts->err_offset;
		(*ret)->has_stdin = opts->with_stdin;
	}
	return r;
}

void cell_exec_free(struct cell_exec *x)
{
	if (!x)
		return;
	link_stream_free(x->stream);
	free(x);
}

bool cell_exec_has_news(const struct cell_exec *x)
{
	return !x->has_ended && (x->has_pending || link_has_news(x->stream));
}

void cell_exec_take_stdin(struct cell_exec *x)
{
	x->has_stdin = true;
}

bool cell_exec_has_begun(const struct cell_exec *x)
{
	return x->has_begun;
}

const char *cell_exec_id(const struct cell_exec *x)
{
	return x->id;
}

/* ---- events ---- */

static void fill_exit(struct cell_exit *e, const uint8_t *p, size_t n)
{
	*e = (struct cell_exit){
		.exit_code = (int)wire_find_u64(p, n, WIRE_T_EXIT_CODE, 0),
		.signal = (int)wire_find_u64(p, n, WIRE_T_SIGNAL, 0),
		.timed_out = wire_find_u64(p, n, WIRE_T_TIMED_OUT, 0),
		.oom = wire_find_u64(p, n, WIRE_T_OOM, 0),
		.usage =
			{
				.cpu_ns = wire_find_u64(p, n, WIRE_T_CPU_NS, 0),
				.max_rss_bytes = wire_find_u64(p, n, WIRE_T_MAX_RSS, 0),
				.wall_ns = wire_find_u64(p, n, WIRE_T_WALL_NS, 0),
			},
	};
}

static int on_end(struct cell_exec *x, const struct link_event *ev, struct cell_event *ret,
	struct cell_error *err)
{
	struct wire_field f;
	int r = link_end_error(ev, err);

	x->has_ended = true;
	if (r < 0)
		return r;
	take_id(x, ev);
	ret->type =
		wire_find(ev->p, ev->len, WIRE_T_EXIT_CODE, &f) ? CELL_EVENT_EXIT : CELL_EVENT_END;
	fill_exit(&ret->exit, ev->p, ev->len);
	return 0;
}

static void on_data(struct cell_exec *x, const struct link_event *ev, struct cell_event *ret)
{
	uint64_t expected = x->next_offset[ev->chan];

	ret->type = ev->chan == WIRE_CHAN_ERR ? CELL_EVENT_STDERR : CELL_EVENT_STDOUT;
	ret->stream = ev->chan;
	ret->data = ev->p;
	ret->len = ev->len;
	ret->offset = ev->offset;
	x->has_begun = true;
	x->next_offset[ev->chan] = ev->offset + ev->len;
	if (ev->offset > expected) {
		x->pending = *ret;
		x->has_pending = true;
		*ret = (struct cell_event){
			.type = CELL_EVENT_GAP, .stream = ev->chan, .offset = ev->offset};
	}
}

/* How long to wait for the guest before it is overdue, and at most timeout_ms. */
static int patience(const struct cell_exec *x, int timeout_ms)
{
	if (!x->overdue_at_ms || timeout_ms == 0)
		return timeout_ms;
	uint64_t now = now_ms();
	uint64_t left = x->overdue_at_ms > now ? x->overdue_at_ms - now : 0;

	if (left > INT_MAX)
		left = INT_MAX;
	return timeout_ms < 0 || (uint64_t)timeout_ms > left ? (int)left : timeout_ms;
}

/* The guest should have ended it by now and did not: starved, or worse. Nothing inside is needed for
 * this, so nothing inside can delay it. */
static int end_from_outside(struct cell_exec *x, struct cell_event *ret, struct cell_error *err)
{
	x->has_ended = true;
	if (x->cell->guest.pidfd >= 0)
		(void)cell_process_kill(x->cell->guest.pidfd);
	int r = cell_place_destroy(x->cell, err);
	if (r < 0)
		return r;
	ret->type = CELL_EVENT_EXIT;
	ret->exit = (struct cell_exit){.exit_code = 124,
		.signal = SIGKILL,
		.timed_out = true,
		.usage.wall_ns = (now_ms() - x->started_ms) * UINT64_C(1000000)};
	return 0;
}

static int check_overdue(struct cell_exec *x, struct cell_event *ret, struct cell_error *err)
{
	if (!x->overdue_at_ms || now_ms() < x->overdue_at_ms)
		return 0;
	if (x->is_sole)
		return end_from_outside(x, ret, err);
	int r = cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
		"wait for '%s': its deadline passed long ago, and the guest does not answer",
		x->id);
	return cell_error_hint(err, r, "the guest hangs or was stopped; remove the cell");
}

/* Like cell_exec_next; with stop_at_room it also returns (NONE) when stdin may take more. */
static int next_event(struct cell_exec *x, int timeout_ms, bool stop_at_room,
	struct cell_event *ret, struct cell_error *err)
{
	struct link_event ev;

	*ret = (struct cell_event){.type = CELL_EVENT_NONE};
	if (x->has_pending) {
		*ret = x->pending;
		x->has_pending = false;
		return 0;
	}
	if (x->has_ended)
		return 0;
	for (;;) {
		int r = link_next(x->stream, patience(x, timeout_ms), &ev, err);

		if (r < 0)
			return r;
		switch (ev.type) {
		case LINK_NONE:
			return check_overdue(x, ret, err);
		case LINK_ROOM:
			if (stop_at_room)
				return 0;
			continue;
		case LINK_REPLY: /* nobody waited for it */
			take_start(x, &ev);
			continue;
		case LINK_DATA:
			on_data(x, &ev, ret);
			return 0;
		case LINK_END:
			return on_end(x, &ev, ret, err);
		}
	}
}

int cell_exec_next(struct cell_exec *x, int timeout_ms, struct cell_event *ret,
	struct cell_error *err)
{
	return next_event(x, timeout_ms, false, ret, err);
}

int cell_exec_patience_ms(const struct cell_exec *x)
{
	return x->has_ended || x->has_pending ? -1 : patience(x, -1);
}

/* ---- to the command ---- */

static int no_stdin(const struct cell_exec *x, struct cell_error *err)
{
	int r = cell_fail(err, CELL_EINVAL, EINVAL, "write to the stdin of '%s': it has none",
		x->id);

	return cell_error_hint(err, r, "start it with CELL_EXEC_STDIN, or attach with with_stdin");
}

ssize_t cell_exec_write(struct cell_exec *x, const void *p, size_t n, int timeout_ms,
	struct cell_error *err)
{
	size_t done = 0;

	if (!x->has_stdin)
		return no_stdin(x, err);
	do {
		ssize_t r = link_send(x->stream, (const char *)p + done, n - done, timeout_ms, err);

		if (r < 0)
			return r;
		if (r == 0)
			break;
		done += (size_t)r;
	} while (done < n && timeout_ms != 0);
	return (ssize_t)done;
}

int cell_exec_close_stdin(struct cell_exec *x, struct cell_error *err)
{
	if (!x->has_stdin)
		return no_stdin(x, err);
	return link_send_eof(x->stream, err);
}

int cell_exec_resize(struct cell_exec *x, uint16_t rows, uint16_t cols, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	if (!x->is_tty)
		return cell_fail(err, CELL_EINVAL, EINVAL, "resize '%s': it has no terminal",
			x->id);
	(void)wire_put_u64(&b, WIRE_T_ROWS, rows);
	(void)wire_put_u64(&b, WIRE_T_COLS, cols);
	return link_control(x->stream, WIRE_CTL_RESIZE, &b, err);
}

int cell_exec_signal(struct cell_exec *x, int signal, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_u64(&b, WIRE_T_SIGNAL, (uint64_t)signal);
	return link_control(x->stream, WIRE_CTL_SIGNAL, &b, err);
}

int cell_exec_kill(struct cell_exec *x, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_u64(&b, WIRE_T_SIGNAL, SIGKILL);
	(void)wire_put_u64(&b, WIRE_T_TREE, 1);
	return link_control(x->stream, WIRE_CTL_SIGNAL, &b, err);
}

int cell_signal(struct cell *c, const char *id, int signal, bool tree, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_str(&b, WIRE_T_ID, id);
	(void)wire_put_u64(&b, WIRE_T_SIGNAL, (uint64_t)signal);
	(void)wire_put_u64(&b, WIRE_T_TREE, tree);
	return link_call(c->link, WIRE_OP_SIGNAL, &b, NULL, err);
}

/* ---- collecting ---- */

struct collector {
	struct buf text;
	uint64_t total;
	bool is_cut;
};

static int collect(struct collector *c, const struct cell_event *ev, struct cell_error *err)
{
	size_t room = c->text.max - c->text.len;
	size_t n = ev->len < room ? ev->len : room;

	c->total = ev->offset + ev->len;
	c->is_cut |= n < ev->len;
	if (buf_add(&c->text, ev->data, n) < 0)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "collect output");
	return 0;
}

/* Feed stdin as far as it takes; close it at the end. */
static int feed(struct cell_exec *x, const char *input, size_t len, size_t *fed, bool *is_closed,
	struct cell_error *err)
{
	if (*is_closed)
		return 0;
	while (*fed < len) {
		ssize_t n = cell_exec_write(x, input + *fed, len - *fed, 0, err);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return 0;
		*fed += (size_t)n;
	}
	*is_closed = true;
	return cell_exec_close_stdin(x, err);
}

static void take_text(struct collector *c, char **ret, size_t *ret_len, uint64_t *ret_total)
{
	*ret_len = c->text.len;
	*ret_total = c->total;
	*ret = buf_steal(&c->text);
}

int cell_run(struct cell *c, const struct cell_exec_opts *opts, const void *input, size_t input_len,
	struct cell_result *ret, struct cell_error *err)
{
	struct cell_exec_opts o = *opts;
	size_t max = o.max_output ? o.max_output : DEFAULT_MAX_OUTPUT;
	struct collector out = {.text = BUF_INIT(max)}, errs = {.text = BUF_INIT(max)};
	struct cell_event ev = {0};
	struct cell_exec *x;
	size_t fed = 0;
	bool is_closed = !input;

	*ret = (struct cell_result){0};
	if (input)
		o.flags |= CELL_EXEC_STDIN;
	o.flags &= ~(uint32_t)CELL_EXEC_DETACH;
	int r = start(c, &o, true, &x, err);
	if (r != 0)
		return r;
	while (r == 0 && ev.type != CELL_EVENT_EXIT) {
		r = feed(x, input, input_len, &fed, &is_closed, err);
		if (r == 0)
			r = next_event(x, -1, !is_closed, &ev, err);
		if (r == 0 && ev.type == CELL_EVENT_STDOUT)
			r = collect(&out, &ev, err);
		else if (r == 0 && ev.type == CELL_EVENT_STDERR)
			r = collect(&errs, &ev, err);
	}
	memcpy(ret->id, x->id, sizeof ret->id);
	ret->exit = ev.exit;
	ret->truncated = out.is_cut || errs.is_cut;
	take_text(&out, &ret->out, &ret->out_len, &ret->out_bytes);
	take_text(&errs, &ret->err, &ret->err_len, &ret->err_bytes);
	if (r == 0 && (!ret->out || !ret->err))
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "collect output");
	cell_exec_free(x);
	return r;
}

void cell_result_done(struct cell_result *r)
{
	if (!r)
		return;
	free(r->out);
	free(r->err);
	r->out = r->err = NULL;
}
