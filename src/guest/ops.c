/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: the table of operations, and the small ones that need no process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/fs.h"
#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/kernel.h"
#include "guest/platform.h"
#include "guest/pty.h"

void ops_end_ok(struct stream *s)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_u64(&b, WIRE_T_CODE, CELL_OK);
	stream_end(s, &b);
}

static int op_signal(struct stream *s, const struct request *rq, struct cell_error *err)
{
	auto_free char *id = wire_find_str(rq->fields, rq->len, WIRE_T_ID, CELL_EXEC_ID_MAX - 1);
	struct job *j = id ? job_find(id) : NULL;

	if (!j) {
		int r = cell_fail(err, CELL_ENOTFOUND, ESRCH,
			"signal: no command '%.64s' in this cell", id ? id : "");
		return cell_error_hint(err, r, "'cell ps' lists them");
	}
	int r = exec_signal(j, (int)wire_find_u64(rq->fields, rq->len, WIRE_T_SIGNAL, 15),
		wire_find_u64(rq->fields, rq->len, WIRE_T_TREE, 0), err);
	if (r == 0)
		ops_end_ok(s);
	return r;
}

static enum cell_exec_state state_of(const struct job *j)
{
	if (!j->has_exited)
		return CELL_EXEC_RUNNING;
	return j->is_gone ? CELL_EXEC_EXITED : CELL_EXEC_LINGERING;
}

/* The pid of a running command. Its keeper may be just about to start it: that takes microseconds. */
static pid_t leader_of(const struct job *j)
{
	pid_t pid = j->run ? run_leader(j) : keeper_leader(j->minder);

	for (int i = 0; i < 50 && !pid && !j->has_exited && j->minder; i++) {
		(void)usleep(100);
		pid = keeper_leader(j->minder);
	}
	return pid;
}

static int op_ps(struct stream *s, const struct request *rq, struct cell_error *err)
{
	(void)rq, (void)err;
	for (struct job *j = job_first(); j; j = j->next) {
		auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

		if (j->is_worker || j->is_host)
			continue;
		(void)wire_put_str(&b, WIRE_T_ID, j->id);
		(void)wire_put_str(&b, WIRE_T_COMMAND, j->command);
		(void)wire_put_str(&b, WIRE_T_LABEL, j->label);
		(void)wire_put_u64(&b, WIRE_T_STATE, state_of(j));
		(void)wire_put_u64(&b, WIRE_T_PID, (uint64_t)leader_of(j));
		(void)wire_put_u64(&b, WIRE_T_FLAGS,
			(j->is_tty ? CELL_EXEC_TTY : 0u) | (j->is_run ? WIRE_PS_RUN : 0u));
		(void)wire_put_u64(&b, WIRE_T_STARTED, j->started_unix_ms);
		(void)wire_put_u64(&b, WIRE_T_OUT_OLDEST, job_oldest(j, 0));
		(void)wire_put_u64(&b, WIRE_T_ERR_OLDEST, job_oldest(j, 1));
		job_put_state(j, &b);
		(void)stream_reply(s, &b);
	}
	ops_end_ok(s);
	return 0;
}

static int op_info(struct stream *s, const struct request *rq, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)rq, (void)err;
	(void)wire_put_u64(&b, WIRE_T_CODE, CELL_OK);
	platform_put(&b);
	consumption_put(&b);
	(void)wire_put_str(&b, WIRE_T_WORKSPACE, guest.workspace);
	(void)wire_put_u64(&b, WIRE_T_RUNNING, job_running() - job_hosts());
	(void)wire_put_u64(&b, WIRE_T_CLIENTS, conn_count());
	stream_end(s, &b);
	return 0;
}

static int op_tools(struct stream *s, const struct request *rq, struct cell_error *err)
{
	struct wire_reader rd = {.p = rq->fields, .len = rq->len};
	auto_free char *path = wire_find_str(rq->fields, rq->len, WIRE_T_PATH, 32768);
	struct wire_field f;
	unsigned n = 0;

	while (wire_next(&rd, &f) > 0) {
		auto_free char *name = NULL;
		auto_buf struct buf b = BUF_INIT(WIRE_MAX_PAYLOAD);
		char where[4096] = "";

		if (f.tag != WIRE_T_NAME)
			continue;
		if (++n > 1000)
			return cell_fail(err, CELL_EINVAL, E2BIG, "tools: more than 1000 names");
		if (wire_field_str(&f, 255, &name) < 0)
			return cell_fail(err, CELL_EINVAL, EINVAL, "tools: a malformed name");
		platform_find_tool(path, name, where, sizeof where);
		(void)wire_put_str(&b, WIRE_T_NAME, name);
		(void)wire_put_str(&b, WIRE_T_PATH, where);
		(void)stream_reply(s, &b);
	}
	ops_end_ok(s);
	return 0;
}

static int op_shutdown(struct stream *s, const struct request *rq, struct cell_error *err)
{
	(void)rq, (void)err;
	guest_shutdown(s);
	return 0;
}

static const struct {
	uint16_t op;
	int (*fn)(struct stream *s, const struct request *rq, struct cell_error *err);
} table[] = {
	{WIRE_OP_EXEC, exec_start},
	{WIRE_OP_ATTACH, exec_attach},
	{WIRE_OP_SIGNAL, op_signal},
	{WIRE_OP_PS, op_ps},
	{WIRE_OP_INFO, op_info},
	{WIRE_OP_TOOLS, op_tools},
	{WIRE_OP_SHUTDOWN, op_shutdown},
	{WIRE_OP_RUN, run_start},
	{WIRE_OP_CONTEXT_CREATE, context_create},
	{WIRE_OP_CONTEXT_LIST, context_list},
	{WIRE_OP_CONTEXT_RESET, context_reset},
	{WIRE_OP_CONTEXT_INTERRUPT, context_interrupt},
	{WIRE_OP_CONTEXT_DELETE, context_delete},
	{WIRE_OP_WARM, spare_warm},
};

void ops_handle(struct stream *s, const struct request *rq)
{
	struct cell_error err = {0};
	int r = -EOPNOTSUPP;

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (table[i].op == rq->op) {
			r = table[i].fn(s, rq, &err);
			if (r < 0)
				stream_fail(s, &err);
			return;
		}
	}
	if (fs_has(rq->op))
		r = worker_start(s, rq, &err);
	else
		(void)cell_fail(&err, CELL_ENOTSUP, EOPNOTSUPP,
			"operation %u is not known to this guest", rq->op);
	if (r < 0)
		stream_fail(s, &err);
}

void ops_control(struct stream *s, uint16_t op, const uint8_t *fields, size_t len)
{
	struct job *j = s->job;

	if (!j || j->is_worker)
		return;
	if (op == WIRE_CTL_SIGNAL)
		(void)exec_signal(j, (int)wire_find_u64(fields, len, WIRE_T_SIGNAL, 15),
			wire_find_u64(fields, len, WIRE_T_TREE, 0), NULL);
	else if (op == WIRE_CTL_RESIZE && j->is_tty && j->out[0].src.fd >= 0)
		(void)pty_resize(j->out[0].src.fd,
			(uint16_t)wire_find_u64(fields, len, WIRE_T_ROWS, 24),
			(uint16_t)wire_find_u64(fields, len, WIRE_T_COLS, 80));
}
