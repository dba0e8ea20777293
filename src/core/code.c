/* SPDX-License-Identifier: Apache-2.0 */
/* code.c: runs of code, as include/cell/code.h promises them. To the guest a run is a command whose stdout is a stream of
 * events, so everything that holds for commands holds for it. */
#include "core/code.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/code_defaults.h"
#include "core/code_event.h"
#include "core/contract.h"
#include "core/exec.h"
#include "core/exec_fields.h"
#include "wire/wire.h"

struct cell_code_run {
	struct cell_exec *exec;
	struct code_reader reader;
	bool has_ended;
	bool is_look, has_done;
};

static int put_code(const struct cell_code_opts *o, const char *kind, struct buf *b,
	struct cell_error *err)
{
	size_t len = o->code_len || !o->code ? o->code_len : strlen(o->code);
	int r = wire_put(b, WIRE_T_TEXT, o->code, len);

	if (r == 0)
		r = wire_put_str(b, WIRE_T_KIND | WIRE_CRITICAL, kind);
	if (r == 0)
		r = wire_put_str(b, WIRE_T_CONTEXT, o->context);
	if (r == 0)
		r = wire_put_str(b, WIRE_T_LANGUAGE, o->language);
	if (r == -ENOBUFS) {
		r = cell_fail(err, CELL_EINVAL, E2BIG, "run code: it is too large");
		return cell_error_hint(err, r, "it may have 4 MiB; put large data into a file");
	}
	return r < 0 ? cell_fail(err, CELL_ENOSPACE, ENOMEM, "run code") : 0;
}

int cell_code_exec(struct cell *c, const struct cell_code_opts *opts, const char *kind,
	bool is_waiting, struct cell_exec **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE);
	const struct cell_exec_opts o = {
		.id = opts->id,
		.label = opts->label,
		.timeout_ms = code_deadline_ms(c, opts),
		.grace_ms = opts->grace_ms,
		.keep_bytes = opts->keep_bytes,
		.flags = (opts->with_input ? CELL_EXEC_STDIN : 0u) |
			 (opts->is_detached ? CELL_EXEC_DETACH : 0u) |
			 (opts->is_durable ? CELL_EXEC_DURABLE : 0u) |
			 (opts->timeout_ms ? 0u : WIRE_RUN_DEFAULT_TIMEOUT),
	};
	int r = cell_contract_require(c, CELL_CAP_BIT(CELL_CAP_EXEC), "run code", err);

	if (r < 0)
		return r;
	r = exec_id_check(o.id, "run code", err);
	if (r < 0)
		return r;
	if (opts->context && strlen(opts->context) >= CELL_CONTEXT_MAX)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"run code: the context's name '%.64s...' is too long", opts->context);
	if (!opts->code && !kind)
		return cell_fail(err, CELL_EINVAL, EINVAL, "run code: no code given");
	r = code_check_language(c, opts->language, opts->context, err);
	if (r < 0)
		return r;
	r = put_code(opts, kind, &b, err);
	if (r == 0)
		r = exec_surroundings(c, &o, !is_waiting, &b, err);
	if (r == 0)
		r = cell_exec_begin(c, WIRE_OP_RUN, &b, is_waiting, ret, err);
	if (r == 0 && opts->with_input)
		cell_exec_take_stdin(*ret);
	return r;
}

static int wrap(struct cell_exec *exec, uint64_t offset, struct cell_code_run **ret,
	struct cell_error *err)
{
	struct cell_code_run *x = calloc(1, sizeof *x);

	if (!x) {
		cell_exec_free(exec);
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "run code");
	}
	x->exec = exec;
	code_reader_init(&x->reader, offset);
	*ret = x;
	return 0;
}

int cell_code_start(struct cell *c, const struct cell_code_opts *opts, struct cell_code_run **ret,
	struct cell_error *err)
{
	struct cell_exec *exec;
	int r = cell_code_exec(c, opts, NULL, true, &exec, err);

	return r < 0 ? r : wrap(exec, 0, ret, err);
}

int cell_code_begin(struct cell *c, const struct cell_code_opts *opts, const char *kind,
	struct cell_code_run **ret, struct cell_error *err)
{
	struct cell_exec *exec;
	int r = cell_code_exec(c, opts, kind, false, &exec, err);

	return r < 0 ? r : wrap(exec, 0, ret, err);
}

int cell_code_attach(struct cell *c, const char *id, uint64_t offset, struct cell_code_run **ret,
	struct cell_error *err)
{
	struct cell_exec *exec;
	int r = cell_exec_attach(c, id,
		&(struct cell_attach_opts){.out_offset = offset, .hold = true, .with_stdin = true},
		&exec, err);

	return r < 0 ? r : wrap(exec, offset, ret, err);
}

int cell_code_look(struct cell *c, const char *id, uint64_t offset, bool is_following,
	struct cell_code_run **ret, struct cell_error *err)
{
	struct cell_exec *exec;
	int r = cell_exec_attach(c, id,
		&(struct cell_attach_opts){.out_offset = offset, .no_follow = !is_following}, &exec,
		err);

	if (r == 0)
		r = wrap(exec, offset, ret, err);
	if (r == 0)
		(*ret)->is_look = true;
	return r;
}

void cell_code_free(struct cell_code_run *x)
{
	if (!x)
		return;
	cell_exec_free(x->exec);
	code_reader_done(&x->reader);
	free(x);
}

const char *cell_code_id(const struct cell_code_run *x)
{
	return cell_exec_id(x->exec);
}

uint64_t cell_code_offset(const struct cell_code_run *x)
{
	return x->reader.next;
}

int cell_code_answer(struct cell_code_run *x, const char *line, struct cell_error *err)
{
	if (!line)
		return cell_exec_close_stdin(x->exec, err);
	if (strchr(line, '\n'))
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"answer: more than one line; give each when it is asked for");
	ssize_t n = cell_exec_write(x->exec, line, strlen(line), -1, err);
	if (n >= 0)
		n = cell_exec_write(x->exec, "\n", 1, -1, err);
	return n < 0 ? (int)n : 0;
}

int cell_code_interrupt(struct cell_code_run *x, struct cell_error *err)
{
	return cell_exec_signal(x->exec, SIGINT, err);
}

/* Bytes for the reader, or an end. 1: go on. 0: nothing in time. */
static int more_bytes(struct cell_code_run *x, int timeout_ms, struct cell_error *err)
{
	struct cell_event ev;
	int r = cell_exec_next(x->exec, timeout_ms, &ev, err);

	if (r < 0)
		return r;
	switch (ev.type) {
	case CELL_EVENT_STDOUT:
		code_reader_feed(&x->reader, ev.data, ev.len, ev.offset);
		return 1;
	case CELL_EVENT_EXIT:
	case CELL_EVENT_END:
		x->has_ended = true;
		return 1;
	case CELL_EVENT_NONE:
		return 0;
	default:
		return 1; /* a gap: the bytes that follow say where they go on */
	}
}

int cell_code_next(struct cell_code_run *x, int timeout_ms, struct cell_code_event *ret,
	struct cell_error *err)
{
	*ret = (struct cell_code_event){.type = CELL_CODE_NONE};
	while (!x->has_ended || x->reader.n) {
		int r = code_reader_next(&x->reader, ret);

		if (r > 0) {
			x->has_done |= ret->type == CELL_CODE_DONE;
			return 0;
		}
		if (r < 0)
			return cell_fail(err, CELL_EPROTOCOL, -r, "read the events of run '%s'",
				cell_code_id(x));
		r = more_bytes(x, timeout_ms, err);
		if (r <= 0)
			return r;
	}
	if (x->is_look && !x->has_done)
		ret->type = CELL_CODE_END;
	return 0;
}
