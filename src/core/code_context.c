/* SPDX-License-Identifier: Apache-2.0 */
/* code_context.c: contexts: made, listed, asked, ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/code.h"
#include "core/code_defaults.h"
#include "core/contract.h"
#include "core/exec_fields.h"
#include "core/link.h"

static int check_name(const char *name, struct cell_error *err)
{
	if (strlen(name) >= CELL_CONTEXT_MAX)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"context '%.64s...': the name is too long", name);
	return 0;
}

static int put_options(const struct cell_context_opts *o, struct buf *b)
{
	int r = wire_put_str(b, WIRE_T_CONTEXT, o->name);

	if (r == 0)
		r = wire_put_str(b, WIRE_T_LANGUAGE, o->language);
	if (r == 0)
		r = wire_put_str(b, WIRE_T_INTERPRETER | WIRE_CRITICAL, o->interpreter);
	if (r == 0)
		r = wire_put_str(b, WIRE_T_DATABASE | WIRE_CRITICAL, o->database);
	for (const char *const *p = o->preload; r == 0 && p && *p; p++)
		r = wire_put_str(b, WIRE_T_PRELOAD, *p);
	return r;
}

int cell_context_create(struct cell *c, const struct cell_context_opts *opts,
	char ret_name[CELL_CONTEXT_MAX], struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE), end = BUF_INIT(WIRE_MAX_REPLY);
	const struct cell_exec_opts o = {
		.cwd = opts->cwd, .env = opts->env, .timeout_ms = opts->timeout_ms};
	int r = cell_contract_require(c, CELL_CAP_BIT(CELL_CAP_EXEC), "make a context", err);

	if (r == 0 && opts->name)
		r = check_name(opts->name, err);
	if (r == 0)
		r = code_check_language(c, opts->language, NULL, err);
	if (r == 0)
		r = code_check_database(c, opts->database, err);
	if (r == 0 && put_options(opts, &b) < 0)
		r = cell_fail(err, CELL_EINVAL, E2BIG, "make a context: its options are too large");
	if (r == 0)
		r = exec_surroundings(c, &o, false, &b, err);
	if (r == 0)
		r = link_call(c->link, WIRE_OP_CONTEXT_CREATE, &b, &end, err);
	if (r < 0)
		return r;
	auto_free char *name =
		wire_find_str(end.data, end.len, WIRE_T_CONTEXT, CELL_CONTEXT_MAX - 1);
	(void)snprintf(ret_name, CELL_CONTEXT_MAX, "%s", name ? name : "");
	return 0;
}

static int give_context(const struct link_event *ev, cell_context_fn fn, void *user)
{
	const uint8_t *p = ev->p;
	size_t n = ev->len;
	auto_free char *name = wire_find_str(p, n, WIRE_T_CONTEXT, CELL_CONTEXT_MAX);
	auto_free char *language = wire_find_str(p, n, WIRE_T_LANGUAGE, 64);
	auto_free char *version = wire_find_str(p, n, WIRE_T_RELEASE, 64);
	const struct cell_context_info info = {
		.name = name ? name : "",
		.language = language ? language : "",
		.version = version ? version : "",
		.pid = (int64_t)wire_find_u64(p, n, WIRE_T_PID, 0),
		.is_busy = wire_find_u64(p, n, WIRE_T_BUSY, 0),
		.waiting = (uint32_t)wire_find_u64(p, n, WIRE_T_WAITING, 0),
		.execution_count = wire_find_u64(p, n, WIRE_T_COUNT, 0),
		.started_unix_ms = wire_find_u64(p, n, WIRE_T_STARTED, 0),
		.rss_bytes = wire_find_u64(p, n, WIRE_T_RSS, 0),
	};

	return fn(&info, user);
}

int cell_context_list(struct cell *c, cell_context_fn fn, void *user, struct cell_error *err)
{
	auto_buf struct buf none = BUF_INIT(64);
	struct link_stream *s;
	struct link_event ev;
	int r = link_request(c->link, WIRE_OP_CONTEXT_LIST, &none, &s, err);

	if (r < 0)
		return r;
	for (;;) {
		r = link_next(s, -1, &ev, err);
		if (r == 0 && ev.type == LINK_REPLY)
			r = give_context(&ev, fn, user);
		else if (r == 0 && ev.type == LINK_END) {
			r = link_end_error(&ev, err);
			break;
		}
		if (r != 0)
			break;
	}
	link_stream_free(s);
	return r;
}

static int call(struct cell *c, uint16_t op, const char *name, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);
	int r = check_name(name, err);

	if (r < 0)
		return r;
	(void)wire_put_str(&b, WIRE_T_CONTEXT, name);
	return link_call(c->link, op, &b, NULL, err);
}

int cell_context_reset(struct cell *c, const char *name, struct cell_error *err)
{
	return call(c, WIRE_OP_CONTEXT_RESET, name, err);
}

int cell_context_interrupt(struct cell *c, const char *name, struct cell_error *err)
{
	return call(c, WIRE_OP_CONTEXT_INTERRUPT, name, err);
}

int cell_context_delete(struct cell *c, const char *name, struct cell_error *err)
{
	return call(c, WIRE_OP_CONTEXT_DELETE, name, err);
}

int cell_context_vars(struct cell *c, const char *name, char **ret_json, struct cell_error *err)
{
	return cell_code_ask(c, name, "vars", "", 0, ret_json, err);
}

int cell_context_get(struct cell *c, const char *name, const char *variable, char **ret_json,
	struct cell_error *err)
{
	return cell_code_ask(c, name, "get", variable, 0, ret_json, err);
}

int cell_context_set(struct cell *c, const char *name, const char *variable, const char *json,
	struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE);
	auto_free char *answer = NULL;

	if (buf_addf(&b, "%s\n%s", variable, json) < 0)
		return cell_fail(err, CELL_EINVAL, E2BIG, "set '%.64s': the value is too large",
			variable);
	return cell_code_ask(c, name, "set", buf_str(&b), b.len, &answer, err);
}

int cell_context_complete(struct cell *c, const char *name, const char *code, size_t cursor,
	char **ret_json, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE);

	if (buf_addf(&b, "%zu\n%s", cursor, code) < 0)
		return cell_fail(err, CELL_EINVAL, E2BIG, "complete: the code is too large");
	return cell_code_ask(c, name, "complete", buf_str(&b), b.len, ret_json, err);
}
