/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c: see exec.h. */
#include "server/exec.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "core/code.h"
#include "core/exec.h"
#include "core/run_record.h"
#include "server/clock.h"
#include "server/run.h"
#include "server/seat.h"
#include "server/server.h"
#include "server/session.h"

#define EXPECT_NS  (30 * NS_PER_S)
#define KEEP_BYTES (1u << 20) /* in the guest, while no server reads */

int exec_directory(struct server *srv, const char *session_id, bool is_made, struct cell_error *err)
{
	if (is_made && mkdirat(srv->spool_fd, session_id, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make the spool of session '%s'", session_id);
	int fd = openat(srv->spool_fd, session_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? cell_fail_errno(err, errno, "the spool of session '%s'", session_id) : fd;
}

static struct exec *exec_new(struct session *s, const char *id)
{
	struct exec *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	(void)snprintf(e->id, sizeof e->id, "%s", id);
	e->srv = s->srv;
	e->session = s;
	session_ref(s);
	e->refs = 1;
	return e;
}

void exec_ref(struct exec *e)
{
	e->refs++;
}

void exec_unref(struct exec *e)
{
	if (!e || --e->refs)
		return;
	session_unref(e->session);
	spool_free(e->spool);
	json_decref(e->meta);
	json_decref(e->end);
	free(e->in);
	free(e->held);
	free(e->split);
	free(e);
}

void exec_reader_add(struct exec *e, struct exec_reader *r)
{
	if (r->is_holding)
		e->expect_until_ns = 0;
	r->exec = e;
	exec_ref(e);
	DL_APPEND(e->readers, r);
}

void exec_reader_remove(struct exec_reader *r)
{
	struct exec *e = r->exec;

	if (!e)
		return;
	DL_DELETE(e->readers, r);
	r->exec = NULL;
	if (r->is_holding && e->x) { /* cut off: it goes on from there when it is back */
		e->expected = r->at;
		exec_expect_reader(e);
	}
	exec_unref(e);
}

void exec_expect_reader(struct exec *e)
{
	e->expect_until_ns = clock_monotonic_ns() + EXPECT_NS;
}

bool exec_is_held(const struct exec *e)
{
	const struct exec_reader *r;
	uint64_t most = e->srv->set.spool_bytes / 2;

	/* before it came for the first time, everything is new to it */
	if (e->expect_until_ns && spool_behind(e->spool, &e->expected) > most &&
		clock_monotonic_ns() < e->expect_until_ns)
		return true;
	DL_FOREACH (e->readers, r)
		if (r->is_holding && spool_behind(e->spool, &r->at) > most)
			return true;
	return false;
}

static void wake_readers(struct exec *e)
{
	struct exec_reader *r, *next;

	exec_ref(e);
	DL_FOREACH_SAFE(e->readers, r, next)
	r->wake(r);
	exec_unref(e);
}

/* ---- its end ---- */

static json_t *exit_json(const struct cell_exit *x)
{
	return json_pack("{s:i, s:o, s:b, s:b, s:I, s:I, s:I}", "exit_code", x->exit_code, "signal",
		x->signal ? json_integer(x->signal) : json_null(), "timed_out", x->timed_out, "oom",
		x->oom, "duration_ms", (json_int_t)(x->usage.wall_ns / 1000000), "cpu_us",
		(json_int_t)(x->usage.cpu_ns / 1000), "max_rss_bytes",
		(json_int_t)x->usage.max_rss_bytes);
}

static const char *meta_text(const struct exec *e, const char *name)
{
	return json_string_value(json_object_get(e->meta, name));
}

/* From its start to its end within the request's trace, also when another server started it. */
static void trace_exec(struct exec *e, uint64_t wall_us, bool is_error)
{
	const char *header = meta_text(e, "traceparent");
	struct trace_context parent;
	struct trace_span span;

	if (!e->srv->tracer || !header || trace_parse(header, strlen(header), &parent) < 0)
		return;
	trace_begin(e->srv->tracer, &parent, TRACE_INTERNAL, exec_is_run(e) ? "run" : "exec",
		&span);
	span.start_ns = clock_unix_ns() - (int64_t)wall_us * 1000;
	trace_set(&span, "cell.session", e->session->id);
	trace_set(&span, "cell.exec", e->id);
	trace_set(&span, "cell.backend", e->session->backend);
	trace_set(&span, "cell.request_id", meta_text(e, "request_id"));
	trace_set(&span, "cell.language", meta_text(e, "language"));
	trace_set_number(&span, "process.exit.code",
		json_integer_value(json_object_get(e->end, "exit_code")));
	trace_end(e->srv->tracer, &span, is_error);
}

static void put_on_record(struct exec *e)
{
	struct session *s = e->session;
	json_t *error = json_object_get(e->end, "error");
	int64_t wall_us = json_integer_value(json_object_get(e->end, "duration_ms")) * 1000;
	struct usage_sample usage = {.is_error = error != NULL,
		.wall_us = (uint64_t)wall_us,
		.cpu_us = (uint64_t)json_integer_value(json_object_get(e->end, "cpu_us")),
		.mib_ms = (uint64_t)json_integer_value(json_object_get(e->end, "max_rss_bytes")) /
			  1048576 * (uint64_t)(wall_us / 1000),
		.bytes_out = spool_next(e->spool, 1) + spool_next(e->spool, 2)};
	struct audit_event a = {.kind = AUDIT_RESULT,
		.action = exec_is_run(e) ? "code.run" : "exec.start",
		.tenant = s->tenant,
		.actor = meta_text(e, "actor"),
		.session = s->id,
		.backend = s->backend,
		.exec = e->id,
		.request_id = meta_text(e, "request_id"),
		.trace = meta_text(e, "trace"),
		.outcome = e->end,
		.usage = &usage};
	struct cell_error why = {0};

	trace_exec(e, usage.wall_us, usage.is_error);
	if (ledger_result(&e->srv->ledger, &a, &why) < 0)
		log_failure("audit.failed", &why, e->id);
	else
		spool_seal(e->spool); /* nothing is left to be done for it */
}

/* Last of all: out of every list. */
static void leave(struct exec *e)
{
	struct seat *seat = e->seat;

	if (seat)
		seat_remove(seat, e);
	DL_DELETE(e->session->execs, e);
	e->session->n_execs--;
	e->session->spooled_bytes += spool_bytes(e->spool);
	session_touch(e->session);
	e->srv->n_execs--;
	if (seat && e->owns_seat)
		session_drop_seat(e->srv, seat);
	wake_readers(e);
	if (e->room)
		e->room(e, e->room_arg);
	exec_unref(e);
}

/* What the last record of a run says: it is in the spool, but this is where one looks for it. */
static void add_ending(struct exec *e, json_t *end)
{
	json_t *done = e->split && e->split->n_ending
			       ? json_loadb(e->split->ending, e->split->n_ending, 0, NULL)
			       : NULL;

	if (json_is_object(done)) {
		struct cell_code_done d;
		run_done_read(done, &d);
		json_decref(done);
		done = run_done_json(&d);
		(void)json_object_update(end, done);
	}
	json_decref(done);
}

/* json is stolen. False: the disk is full; the end is held and tried again. */
static bool finish(struct exec *e, json_t *end)
{
	struct cell_error err = {0};

	add_ending(e, end);
	auto_free char *text = json_dumps(end, JSON_COMPACT);

	if (e->end != end)
		json_decref(e->end);
	e->end = end;
	if (!text || spool_finish(e->spool, text, strlen(text), &err) < 0) {
		if (e->seat && !e->seat->is_broken) {
			seat_stall(e->seat);
			return false;
		}
		log_failure("spool.failed", &err, e->id);
	}
	put_on_record(e);
	leave(e);
	return true;
}

void exec_lose(struct exec *e, const struct cell_error *why)
{
	json_t *error = json_object();

	(void)json_object_set_new(error, "code", json_string(cell_code_name(why->code)));
	(void)json_object_set_new(error, "message", json_string(why->msg));
	(void)json_object_set_new(error, "hint", json_string(why->hint));
	(void)finish(e, json_pack("{s:n, s:o}", "exit_code", "error", error));
}

/* ---- output ---- */

static bool hold(struct exec *e, int stream, uint64_t offset, const void *p, size_t n)
{
	e->held = malloc(n);
	if (e->held) {
		memcpy(e->held, p, n);
		e->held_len = n;
		e->held_stream = stream;
		e->held_offset = offset;
	}
	seat_stall(e->seat);
	return false;
}

/* A run's records go to the spool so that a reader can begin with any that is still kept: what begins a record is marked, and nothing
 * that is marked begins with the rest of one. *p and what follows are what is left to be stored when it fails. */
static int store_records(struct exec *e, uint64_t *offset, const uint8_t **p, size_t *n,
	struct cell_error *err)
{
	while (*n) {
		size_t piece = run_splitter_rest(e->split, *p, *n);
		bool is_begin = piece == 0;
		int r;
		if (is_begin)
			piece = *n;
		r = (is_begin ? spool_append_begin : spool_append)(e->spool, 1, *offset, *p, piece,
			err);
		if (r < 0)
			return r;
		(void)run_splitter_feed(e->split, *p, piece);
		*offset += piece;
		*p += piece;
		*n -= piece;
	}
	return 0;
}

/* False: the disk is full, and the rest is held. */
static bool store(struct exec *e, int stream, uint64_t offset, const uint8_t *p, size_t n,
	struct cell_error *err)
{
	int r = e->split && stream == 1 ? store_records(e, &offset, &p, &n, err)
					: spool_append(e->spool, stream, offset, p, n, err);

	return r == 0 || hold(e, stream, offset, p, n);
}

bool exec_retry(struct exec *e)
{
	struct cell_error err = {0};

	if (e->held) {
		uint8_t *held = steal_ptr(e->held);
		bool is_stored = store(e, e->held_stream, e->held_offset, held, e->held_len, &err);
		free(held);
		if (!is_stored)
			return false;
		wake_readers(e);
	}
	return !e->end || finish(e, e->end);
}

static bool has_no_output(const struct exec *e)
{
	return !spool_next(e->spool, 1) && !spool_next(e->spool, 2);
}

/* The spool was made, the request never arrived: the guest keeps what it was given until its end is in the spool. */
static void lose_unbegun(struct exec *e)
{
	(void)finish(e,
		json_pack("{s:n, s:b, s:{s:s, s:s, s:s}}", "exit_code", "never_began", 1, "error",
			"code", cell_code_name(CELL_EGONE), "message",
			"the server died before it handed the command to the cell: it did not run",
			"hint", "send it again; the same Idempotency-Key will do"));
}

bool exec_pump(struct exec *e)
{
	struct cell_error err = {0};
	struct cell_event ev;

	if (!e->x || e->end || exec_is_held(e))
		return false;
	int r = cell_exec_next(e->x, 0, &ev, &err);
	if (r < 0) {
		if (err.code == CELL_EGONE || err.code == CELL_EPROTOCOL)
			seat_break(e->seat, &err);
		else if (err.code == CELL_ENOTFOUND && e->is_adopted && has_no_output(e))
			lose_unbegun(e);
		else
			exec_lose(e, &err);
		return false;
	}
	switch (ev.type) {
	case CELL_EVENT_NONE:
		exec_feed(e);
		return false;
	case CELL_EVENT_STDOUT:
	case CELL_EVENT_STDERR:
		if (!store(e, ev.stream, ev.offset, ev.data, ev.len, &err)) {
			log_failure("spool.failed", &err, e->id);
			return false;
		}
		wake_readers(e);
		return true;
	case CELL_EVENT_GAP: /* the offset of what comes next says it */
		return true;
	case CELL_EVENT_EXIT:
		(void)finish(e, exit_json(&ev.exit));
		return false;
	case CELL_EVENT_END:
		break;
	}
	struct cell_error why = {.code = CELL_EPROTOCOL};
	(void)snprintf(why.msg, sizeof why.msg, "the guest ended the stream of '%s' unasked",
		e->id);
	exec_lose(e, &why);
	return false;
}

/* ---- stdin ---- */

void exec_feed(struct exec *e)
{
	struct cell_error err = {0};

	while (e->x && e->in_at < e->in_len) {
		ssize_t n = cell_exec_write(e->x, e->in + e->in_at, e->in_len - e->in_at, 0, &err);
		if (n <= 0)
			break;
		e->in_at += (size_t)n;
	}
	if (!e->in || (e->x && e->in_at < e->in_len))
		return;
	free(e->in);
	e->in = NULL;
	e->in_len = e->in_at = 0;
	if (e->in_eof && e->x)
		(void)cell_exec_close_stdin(e->x, &err);
	if (e->room)
		e->room(e, e->room_arg);
}

bool exec_write(struct exec *e, const void *p, size_t n, struct cell_error *err)
{
	if (!e->x) {
		(void)cell_fail(err, CELL_EBUSY, 0, "write to '%s': it has ended", e->id);
		return true;
	}
	ssize_t taken = e->in ? 0 : cell_exec_write(e->x, p, n, 0, err);
	if (taken < 0)
		return true;
	e->in_total += n;
	seat_kick(e->seat);
	if ((size_t)taken == n)
		return true;
	uint8_t *more = realloc(e->in, e->in_len + n - (size_t)taken);
	if (!more) {
		(void)cell_fail_errno(err, ENOMEM, "write to '%s'", e->id);
		return true;
	}
	memcpy(more + e->in_len, (const uint8_t *)p + taken, n - (size_t)taken);
	e->in = more;
	e->in_len += n - (size_t)taken;
	return false;
}

int exec_close_stdin(struct exec *e, struct cell_error *err)
{
	e->in_eof = true;
	if (e->in || !e->x)
		return 0;
	int r = cell_exec_close_stdin(e->x, err);
	seat_kick(e->seat);
	return r;
}

/* ---- beginning ---- */

static void enter(struct exec *e, struct seat *seat)
{
	exec_ref(e); /* the running command's own */
	DL_APPEND(e->session->execs, e);
	e->session->n_execs++;
	e->srv->n_execs++;
	seat_add(seat, e);
}

bool exec_is_run(const struct exec *e)
{
	const char *kind = meta_text(e, "kind");

	return kind && !strcmp(kind, "run");
}

static int note_run(struct exec *e, struct cell_error *err)
{
	e->split = calloc(1, sizeof *e->split);
	return e->split ? 0 : cell_fail_errno(err, ENOMEM, "run code");
}

/* Of a spool that was begun by another server: where in a record does it end? */
static void find_splits(struct exec *e)
{
	struct spool_cursor at = {.want = {0, spool_oldest(e->spool, 1), UINT64_MAX}};
	struct spool_event ev;

	while (spool_read(e->spool, &at, &ev, NULL) == 0 && ev.kind != SPOOL_NONE &&
		ev.kind != SPOOL_END) {
		if (ev.kind != SPOOL_OUT)
			continue;
		if (ev.is_begin)
			*e->split = (struct run_splitter){0};
		(void)run_splitter_feed(e->split, ev.data, ev.len);
	}
}

int exec_start(struct session *s, struct seat *seat, const struct exec_order *order,
	struct exec **ret, struct cell_error *err)
{
	struct cell_exec_opts opts = order->opts;
	auto_free char *meta = json_dumps(order->meta, JSON_COMPACT);
	struct exec *e = exec_new(s, order->id);
	auto_fd int dir = exec_directory(s->srv, s->id, true, err);
	int r = dir;

	if (r >= 0 && (!e || !meta))
		r = cell_fail_errno(err, ENOMEM, "start a command");
	if (r >= 0)
		r = spool_create(s->srv->spares, dir, order->id, meta, strlen(meta),
			s->srv->set.spool_bytes, &e->spool, err);
	if (r < 0) {
		exec_unref(e);
		return r;
	}
	e->meta = json_incref(order->meta);
	opts.id = e->id;
	opts.label = meta_text(e, "request_id"); /* found again in the guest's own record */
	opts.flags |= CELL_EXEC_DURABLE;
	opts.keep_bytes = KEEP_BYTES;
	opts.no_wait = true;
	if (order->code) {
		struct cell_code_opts code = *order->code;
		code.id = e->id;
		code.label = opts.label;
		code.is_durable = true;
		code.keep_bytes = KEEP_BYTES;
		r = note_run(e, err);
		if (r == 0)
			r = cell_code_exec(seat->cell, &code, NULL, false, &e->x, err);
	} else {
		r = cell_exec_start(seat->cell, &opts, &e->x, err);
	}
	if (r < 0) {
		(void)unlinkat(dir, order->id, 0);
		exec_unref(e);
		return r;
	}
	if (json_is_true(json_object_get(e->meta, "hold")))
		exec_expect_reader(e);
	enter(e, seat);
	session_touch(s);
	*ret = e;
	return 0;
}

static int load(struct session *s, const char *id, struct exec **ret, struct cell_error *err)
{
	const uint8_t *p;
	size_t n;
	auto_fd int dir = exec_directory(s->srv, s->id, false, NULL);
	struct exec *e = exec_new(s, id);
	int r = 0;

	if (!e)
		r = cell_fail_errno(err, ENOMEM, "find a command");
	else if (dir < 0 || !*id || strchr(id, '/') || *id == '.')
		r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no command '%.64s' in session '%s'",
			id, s->id);
	if (r == 0)
		r = spool_open(dir, id, s->srv->set.spool_bytes, &e->spool, err);
	if (r == 0)
		r = spool_meta(e->spool, &p, &n, err);
	if (r == 0)
		e->meta = json_loadb((const char *)p, n, 0, NULL);
	if (r == -ENOENT && err) {
		(void)cell_fail(err, CELL_ENOTFOUND, 0,
			"there is no command '%.64s' in session '%s'", id, s->id);
		(void)cell_error_hint(err, 0, "finished ones are kept for a while only");
	}
	if (r < 0) {
		exec_unref(e);
		return r;
	}
	*ret = e;
	return 0;
}

/* The last record tells how it ended. */
static void read_end(struct exec *e)
{
	struct spool_cursor c = {.want = {0, UINT64_MAX, UINT64_MAX}};
	struct spool_event ev = {0};

	c.want[1] = spool_next(e->spool, 1);
	c.want[2] = spool_next(e->spool, 2);
	if (spool_has_ended(e->spool) && spool_read(e->spool, &c, &ev, NULL) == 0 &&
		ev.kind == SPOOL_END)
		e->end = json_loadb((const char *)ev.data, ev.len, 0, NULL);
	if (!e->end && spool_has_ended(e->spool))
		e->end = json_object();
}

int exec_find(struct session *s, const char *id, struct exec **ret, struct cell_error *err)
{
	struct exec *e;

	DL_FOREACH (s->execs, e) {
		if (strcmp(e->id, id) != 0)
			continue;
		exec_ref(e);
		*ret = e;
		return 0;
	}
	if (s->is_adopting) {
		int r = cell_fail(err, CELL_EBUSY, 0, "session '%s' is being taken over", s->id);
		return cell_error_hint(err, r, "ask again in a second");
	}
	int r = load(s, id, &e, err);
	if (r < 0)
		return r;
	read_end(e);
	if (!e->end) { /* neither running nor ended: its start was cut short */
		struct cell_error why = {.code = CELL_EGONE};
		(void)snprintf(why.msg, sizeof why.msg, "the command was lost with its cell");
		e->end = json_pack("{s:n, s:o}", "exit_code", "error",
			json_pack("{s:s, s:s}", "code", cell_code_name(why.code), "message",
				why.msg));
	}
	*ret = e;
	return 0;
}

int exec_cell(struct session *s, const char *id, char ret[CELL_NAME_MAX])
{
	struct exec *e = NULL;
	int r = load(s, id, &e, NULL);

	if (r < 0)
		return r;
	const char *name = spool_has_ended(e->spool) ? NULL : meta_text(e, "cell");
	(void)snprintf(ret, CELL_NAME_MAX, "%s", name ? name : "");
	exec_unref(e);
	return name ? 0 : -ENOENT;
}

bool exec_is_unsure(const struct exec *e)
{
	return e->is_adopted && e->x && !e->end && !cell_exec_has_begun(e->x);
}

bool exec_never_began(const struct exec *e)
{
	return json_is_true(json_object_get(e->end, "never_began"));
}

void exec_forget(struct exec *e)
{
	auto_fd int dir = exec_directory(e->srv, e->session->id, false, NULL);

	if (dir >= 0)
		(void)unlinkat(dir, e->id, 0);
}

void exec_check_deadlines(struct session *s)
{
	struct exec *e, *next;

	/* one that is given up leaves the list; a seat that breaks takes all of its commands out of it */
	for (e = s->execs; e; e = next) {
		next = e->next;
		if (!e->x || e->end || e->seat->is_stalled || cell_exec_patience_ms(e->x) != 0)
			continue;
		if (!exec_pump(e))
			return;
	}
}

int exec_adopt(struct session *s, struct seat *seat, const char *id, struct cell_error *err)
{
	struct exec *e = NULL;
	int r = load(s, id, &e, err);

	if (r < 0)
		return r;
	if (spool_has_ended(e->spool)) {
		read_end(e);
		put_on_record(e); /* the last server died in between */
		exec_unref(e);
		return 0;
	}
	if (exec_is_run(e) && note_run(e, err) == 0)
		find_splits(e);
	struct cell_attach_opts o = {.hold = true,
		.no_wait = true,
		.with_stdin = json_is_true(json_object_get(e->meta, "stdin")),
		.out_offset = spool_next(e->spool, 1),
		.err_offset = spool_next(e->spool, 2)};
	r = seat ? cell_exec_attach(seat->cell, id, &o, &e->x, err)
		 : cell_fail(err, CELL_EGONE, 0, "its cell is gone");
	e->is_adopted = true;
	if (json_is_true(json_object_get(e->meta, "hold"))) {
		e->expected = spool_at_end(e->spool);
		exec_expect_reader(e);
	}
	if (r == 0) {
		enter(e, seat);
	} else {
		exec_ref(e);
		DL_APPEND(s->execs, e);
		s->n_execs++;
		s->srv->n_execs++;
		exec_lose(e, err);
	}
	exec_unref(e);
	return r == 0 ? 1 : 0;
}

/* ---- showing it ---- */

json_t *exec_json(struct exec *e)
{
	if (exec_is_run(e))
		return run_json(e);
	json_t *o = json_object(), *v;
	const char *key;

	(void)json_object_set_new(o, "id", json_string(e->id));
	(void)json_object_set_new(o, "session", json_string(e->session->id));
	(void)json_object_set_new(o, "state", json_string(e->end ? "exited" : "running"));
	for (size_t i = 0; (key = (const char *[]){"command", "argv", "cwd", "started_at", "tty",
				    "labels", "request_id", NULL}[i]);
		i++)
		if ((v = json_object_get(e->meta, key)))
			(void)json_object_set(o, key, v);
	(void)json_object_set_new(o, "stdout_bytes",
		json_integer((json_int_t)spool_next(e->spool, 1)));
	(void)json_object_set_new(o, "stderr_bytes",
		json_integer((json_int_t)spool_next(e->spool, 2)));
	(void)json_object_set_new(o, "stdout_oldest",
		json_integer((json_int_t)spool_oldest(e->spool, 1)));
	(void)json_object_set_new(o, "stderr_oldest",
		json_integer((json_int_t)spool_oldest(e->spool, 2)));
	(void)json_object_set_new(o, "stdin_bytes",
		e->is_adopted || !e->x ? json_null() : json_integer((json_int_t)e->in_total));
	if (e->end)
		(void)json_object_update(o, e->end);
	return o;
}
