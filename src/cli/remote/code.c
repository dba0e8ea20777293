/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c: runs of code of a server's, shown here. A run is started by a request that carries an Idempotency-Key, and its events come over a
 * WebSocket from an offset, so a connection that breaks is made again from where we are. Answers and interrupts are requests of their own:
 * they are done once, whatever becomes of the connection.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "core/exec_fields.h"
#include "core/run_record.h"
#include "server/clock.h"

struct remote_run {
	struct remote_cell *cell;
	char id[CELL_EXEC_ID_MAX];
	struct remote_line line;
	uint64_t next; /* where the next event begins */
	bool is_look, is_following;
	char *data; /* of the event given last */
};

static struct remote_run *run_of(const struct cell_code_run *x)
{
	return (struct remote_run *)(uintptr_t)x;
}

int remote_code_fd(const struct remote_run *x)
{
	return remote_line_fd(&x->line);
}

const char *remote_code_id(const struct cell_code_run *x)
{
	return run_of(x)->id;
}

int remote_code_patience_ms(const struct cell_code_run *cx)
{
	return remote_line_patience_ms(&run_of(cx)->line);
}

/* ---- the connection ---- */

static int join(void *user, struct cell_error *err)
{
	struct remote_run *x = user;
	auto_free char *path = cli_format("/runs/%s/events", x->id);
	auto_free char *offset = cli_format("%" PRIu64, x->next);
	auto_free char *target = remote_target(x->cell->id, path, "offset", offset, "hold",
		x->is_look ? "false" : "true", "follow", x->is_following ? "true" : "false", NULL);

	return remote_socket(target, &x->line.ws, err);
}

/* ---- events ---- */

static int take_done(struct remote_run *x, const json_t *o, struct cell_code_event *ret,
	struct cell_error *err)
{
	const json_t *error = json_object_get(o, "error");

	x->line.is_over = true;
	if (json_is_object(error))
		return remote_error(error, err);
	ret->type = CELL_CODE_DONE;
	ret->data = "";
	run_done_read(o, &ret->done);
	return 1;
}

static int take_output(struct remote_run *x, const json_t *o, struct cell_code_event *ret)
{
	const char *p = remote_bytes(o, "data", &x->data, &ret->len);

	if (!x->data) { /* it is the object's, which goes */
		x->data = cli_calloc(ret->len + 1, 1);
		memcpy(x->data, p, ret->len);
	}
	ret->data = x->data;
	return 1;
}

/* 1: there is an event; 0: it was only for us. */
static int take_text(struct remote_run *x, const void *p, size_t n, struct cell_code_event *ret,
	struct cell_error *err)
{
	json_t *o = json_loadb(p, n, 0, NULL);
	const char *word = remote_text(o, "type");
	enum cell_code_event_type type = run_event_type(word);
	int r = 0;

	free(x->data);
	x->data = NULL;
	if (json_is_integer(json_object_get(o, "next")) && strcmp(word, "started") != 0)
		x->next = (uint64_t)remote_int(o, "next");
	*ret = (struct cell_code_event){
		.type = type, .is_late = json_is_true(json_object_get(o, "late"))};
	if (x->is_look && !strcmp(word, "end")) {
		x->line.is_over = true;
		ret->type = CELL_CODE_END;
		r = 1;
	} else if (type == CELL_CODE_DONE) {
		r = take_done(x, o, ret, err);
	} else if (type == CELL_CODE_STDOUT || type == CELL_CODE_STDERR) {
		r = take_output(x, o, ret);
	} else if (type != CELL_CODE_NONE) {
		(void)json_object_del(o, "type");
		(void)json_object_del(o, "next");
		(void)json_object_del(o, "late");
		x->data = json_dumps(o, JSON_COMPACT);
		ret->data = x->data ? x->data : "{}";
		ret->len = strlen(ret->data);
		r = 1;
	}
	json_decref(o);
	return r;
}

static int take_message(struct remote_run *x, struct cell_code_event *ret, struct cell_error *err)
{
	enum ws_type type;
	const void *p;
	size_t n;

	for (;;) {
		struct cell_error why = {0};
		int r = ws_client_recv(x->line.ws, 0, &type, &p, &n, &why);
		if (r == 0)
			return 0;
		if (r < 0) { /* also when it says goodbye without an end: a server that leaves comes back */
			remote_line_lose(&x->line);
			return 0;
		}
		r = type == WS_TEXT ? take_text(x, p, n, ret, err) : 0;
		if (r != 0)
			return r;
	}
}

int remote_code_next(struct cell_code_run *cx, int timeout_ms, struct cell_code_event *ret,
	struct cell_error *err)
{
	struct remote_run *x = run_of(cx);
	int r = 0;

	(void)timeout_ms; /* our callers poll */
	*ret = (struct cell_code_event){.type = CELL_CODE_NONE};
	if (x->line.is_over) {
		ret->type = x->is_look ? CELL_CODE_END : CELL_CODE_NONE;
		return 0;
	}
	if (!x->line.ws)
		r = remote_line_rejoin(&x->line, join, x, err);
	if (r == 0 && x->line.ws)
		r = take_message(x, ret, err);
	if (r <= 0)
		ret->type = CELL_CODE_NONE;
	return r < 0 ? r : 0;
}

/* ---- beginning ---- */

static struct remote_run *run_new(struct cell *c, const char *id)
{
	struct remote_run *x = cli_calloc(1, sizeof *x);

	x->cell = remote_cell_of(c);
	x->cell->running = x;
	x->is_following = true;
	(void)snprintf(x->id, sizeof x->id, "%s", id);
	return x;
}

static void set(json_t *o, const char *name, const char *text)
{
	if (text)
		(void)json_object_set_new(o, name, json_string(text));
}

static int order_json(const struct cell_code_opts *o, json_t **ret, struct cell_error *err)
{
	size_t n = o->code_len ? o->code_len : strlen(o->code);
	json_t *body;

	if (!utf8_is_valid(o->code, n) || memchr(o->code, 0, n)) {
		cell_fail(err, CELL_EINVAL, 0, "the code is no UTF-8");
		return cell_error_hint(err, -EINVAL, "a server takes text only");
	}
	int r = remote_check_text("the language", o->language, err);
	if (r == 0)
		r = remote_check_text("the context", o->context, err);
	if (r == 0)
		r = exec_id_check(o->id, "run code", err);
	if (r < 0)
		return r;
	body = json_pack("{s:s#, s:b, s:b, s:b}", "code", o->code, n, "background", 1, "hold",
		!o->is_detached, "input", o->with_input);
	set(body, "language", o->language);
	set(body, "context", o->context);
	set(body, "id", o->id);
	if (o->timeout_ms)
		(void)json_object_set_new(body, "timeout", json_real((double)o->timeout_ms / 1000));
	if (o->grace_ms)
		(void)json_object_set_new(body, "grace", json_real((double)o->grace_ms / 1000));
	*ret = body;
	return 0;
}

int remote_code_start(struct cell *c, const struct cell_code_opts *opts, struct cell_code_run **ret,
	struct cell_error *err)
{
	auto_free char *target = remote_target(remote_cell_of(c)->id, "/runs", NULL);
	json_t *body = NULL, *o = NULL;
	int r = order_json(opts, &body, err);

	if (r == 0)
		r = remote_call(&(struct remote_request){.method = "POST",
					.target = target,
					.body = body,
					.is_change = true},
			&o, err);
	if (r < 0)
		return r;
	*ret = (struct cell_code_run *)run_new(c, remote_text(o, "id"));
	json_decref(o);
	return 0;
}

int remote_code_look(struct cell *c, const char *id, uint64_t offset, bool is_following,
	struct cell_code_run **ret, struct cell_error *err)
{
	struct remote_run *x = run_new(c, id);
	int r;

	x->next = offset;
	x->is_look = true;
	x->is_following = is_following;
	r = join(x, err);
	if (r < 0)
		remote_code_free((struct cell_code_run *)x);
	else
		*ret = (struct cell_code_run *)x;
	return r;
}

void remote_code_free(struct cell_code_run *cx)
{
	struct remote_run *x = run_of(cx);

	if (!x)
		return;
	if (x->cell->running == x)
		x->cell->running = NULL;
	ws_client_free(x->line.ws);
	free(x->data);
	free(x);
}

/* ---- our side ---- */

static int order(struct remote_run *x, const char *what, json_t *body, struct cell_error *err)
{
	auto_free char *path = cli_format("/runs/%s/%s", x->id, what);
	auto_free char *target = remote_target(x->cell->id, path, NULL);

	return remote_call(&(struct remote_request){.method = "POST",
				   .target = target,
				   .body = body,
				   .is_change = true},
		NULL, err);
}

int remote_code_answer(struct cell_code_run *x, const char *line, struct cell_error *err)
{
	if (line && !utf8_is_valid(line, strlen(line)))
		return cell_fail(err, CELL_EINVAL, 0, "the answer is no UTF-8");
	return order(run_of(x), "input",
		line ? json_pack("{s:s}", "text", line) : json_pack("{s:b}", "eof", 1), err);
}

int remote_code_interrupt(struct cell_code_run *x, struct cell_error *err)
{
	return order(run_of(x), "interrupt", json_object(), err);
}
