/* SPDX-License-Identifier: Apache-2.0 */
/* code_result.c: a run from its beginning to its end, collected. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/code.h"

#define DEFAULT_MAX_OUTPUT (1024u * 1024)
#define MAX_RESULTS	   (64u * 1024 * 1024) /* bytes of what is displayed, in all */

struct collector {
	struct buf out, err;
	uint64_t out_bytes, err_bytes;
	json_t *results;
	size_t results_size;
	bool is_cut;
	bool is_clearing; /* before the next output */
};

static void forget(struct collector *c)
{
	buf_reset(&c->out);
	buf_reset(&c->err);
	(void)json_array_clear(c->results);
	c->results_size = 0;
	c->is_clearing = false;
}

static int add_text(struct collector *c, struct buf *b, uint64_t *total,
	const struct cell_code_event *ev)
{
	size_t room = b->max - b->len, n = ev->len < room ? ev->len : room;

	*total += ev->len;
	c->is_cut |= n < ev->len;
	return buf_add(b, ev->data, n);
}

/* What the same id showed before, or NULL. */
static json_t *find_shown(const json_t *results, const json_t *id)
{
	size_t i;
	json_t *one;

	json_array_foreach (results, i, one) {
		if (id && json_equal(json_object_get(one, "id"), id))
			return one;
	}
	return NULL;
}

static int add_result(struct collector *c, const char *type, const struct cell_code_event *ev)
{
	if (c->results_size + ev->len > MAX_RESULTS) {
		c->is_cut = true;
		return 0;
	}
	json_t *o = json_loadb(ev->data, ev->len, 0, NULL);
	if (!json_is_object(o)) { /* the code itself wrote to the driver's channel */
		json_decref(o);
		return 0;
	}
	c->results_size += ev->len;
	bool is_update = json_is_true(json_object_get(o, "update"));
	json_t *shown = is_update ? find_shown(c->results, json_object_get(o, "id")) : NULL;
	int r = json_object_del(o, "update");

	r = json_object_set_new(o, "type", json_string(type));
	if (shown) {
		r = json_object_update(shown, o);
		json_decref(o);
	} else if (is_update) {
		json_decref(o); /* of something that is not there any more */
	} else if (r == 0) {
		r = json_array_append_new(c->results, o);
	} else {
		json_decref(o);
	}
	return r < 0 ? -ENOMEM : 0;
}

static char *copy_text(const json_t *o)
{
	const char *s = json_string_value(o);

	return s ? strndup(s, json_string_length(o)) : NULL;
}

static int take_value(struct cell_code_result *ret, const struct cell_code_event *ev)
{
	json_t *o = json_loadb(ev->data, ev->len, 0, NULL);
	const json_t *text = json_object_get(json_object_get(o, "data"), "text/plain");
	bool has_text = json_is_string(text);

	free(ret->value);
	ret->value = copy_text(text);
	json_decref(o);
	return has_text && !ret->value ? -ENOMEM : 0;
}

static int take_error(struct cell_code_result *ret, const struct cell_code_event *ev)
{
	auto_buf struct buf lines = BUF_INIT(MAX_RESULTS);
	json_t *o = json_loadb(ev->data, ev->len, 0, NULL);
	size_t i;
	json_t *line;

	json_array_foreach (json_object_get(o, "traceback"), i, line) {
		if (json_is_string(line))
			(void)buf_addf(&lines, "%s%s", i ? "\n" : "", json_string_value(line));
	}
	free(ret->error_name);
	free(ret->error_message);
	free(ret->error_traceback);
	ret->error_name = copy_text(json_object_get(o, "name"));
	if (!ret->error_name)
		ret->error_name = strdup("Error");
	ret->error_message = copy_text(json_object_get(o, "message"));
	if (!ret->error_message)
		ret->error_message = strdup("");
	ret->error_traceback = buf_steal(&lines);
	json_decref(o);
	return ret->error_name && ret->error_message && ret->error_traceback ? 0 : -ENOMEM;
}

static int take(struct collector *c, const struct cell_code_event *ev, struct cell_code_result *ret)
{
	if (c->is_clearing && (ev->type == CELL_CODE_STDOUT || ev->type == CELL_CODE_STDERR ||
				      ev->type == CELL_CODE_DISPLAY))
		forget(c);
	switch (ev->type) {
	case CELL_CODE_STDOUT:
		return add_text(c, &c->out, &c->out_bytes, ev);
	case CELL_CODE_STDERR:
		return add_text(c, &c->err, &c->err_bytes, ev);
	case CELL_CODE_DISPLAY:
		return add_result(c, "display", ev);
	case CELL_CODE_RESULT: {
		int r = take_value(ret, ev);

		return r < 0 ? r : add_result(c, "result", ev);
	}
	case CELL_CODE_ERROR:
		return take_error(ret, ev);
	case CELL_CODE_CLEAR:
		if (strstr(ev->data, "true")) /* {"wait": true} */
			c->is_clearing = true;
		else
			forget(c);
		return 0;
	case CELL_CODE_DONE:
		ret->done = ev->done;
		return 0;
	default:
		return 0;
	}
}

static int give(struct collector *c, struct cell_code_result *ret)
{
	ret->truncated = c->is_cut;
	ret->out_len = c->out.len;
	ret->err_len = c->err.len;
	ret->out_bytes = c->out_bytes;
	ret->err_bytes = c->err_bytes;
	ret->out = buf_steal(&c->out);
	ret->err = buf_steal(&c->err);
	ret->results = json_dumps(c->results, JSON_COMPACT);
	return ret->out && ret->err && ret->results ? 0 : -ENOMEM;
}

/* Take events until the last. */
static int follow(struct cell_code_run *x, struct collector *c, struct cell_code_result *ret,
	struct cell_error *err)
{
	struct cell_code_event ev = {0};

	while (ev.type != CELL_CODE_DONE) {
		int r = cell_code_next(x, -1, &ev, err);

		if (r < 0)
			return r;
		if (ev.type == CELL_CODE_NONE)
			return cell_fail(err, CELL_EPROTOCOL, EPROTO,
				"run code: it ended without a word");
		if (ev.type == CELL_CODE_INPUT) {
			r = cell_code_answer(x, NULL, err);
			if (r < 0)
				return r;
		}
		if (take(c, &ev, ret) < 0)
			return cell_fail(err, CELL_ENOSPACE, ENOMEM, "collect results");
	}
	return cell_code_next(x, -1, &ev, err); /* its id comes with its end */
}

int cell_code(struct cell *c, const struct cell_code_opts *opts, struct cell_code_result *ret,
	struct cell_error *err)
{
	struct cell_code_opts o = *opts;
	size_t max = o.max_output ? o.max_output : DEFAULT_MAX_OUTPUT;
	struct collector all = {
		.out = BUF_INIT(max), .err = BUF_INIT(max), .results = json_array()};
	struct cell_code_run *x = NULL;

	*ret = (struct cell_code_result){0};
	o.is_detached = o.with_input = false;
	int r = all.results ? cell_code_begin(c, &o, NULL, &x, err)
			    : cell_fail(err, CELL_ENOSPACE, ENOMEM, "run code");
	if (r == 0)
		r = follow(x, &all, ret, err);
	if (x)
		(void)snprintf(ret->id, sizeof ret->id, "%s", cell_code_id(x));
	if (give(&all, ret) < 0 && r == 0)
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "collect results");
	json_decref(all.results);
	cell_code_free(x);
	return r;
}

void cell_code_result_done(struct cell_code_result *r)
{
	if (!r)
		return;
	free(r->value);
	free(r->out);
	free(r->err);
	free(r->results);
	free(r->error_name);
	free(r->error_message);
	free(r->error_traceback);
	*r = (struct cell_code_result){0};
}

/* ---- questions ---- */

int cell_code_ask(struct cell *c, const char *context, const char *kind, const char *text,
	size_t len, char **ret, struct cell_error *err)
{
	const struct cell_code_opts o = {.context = context, .code = text, .code_len = len};
	struct cell_code_result res = {0};
	struct cell_code_event ev = {0};
	struct cell_code_run *x = NULL;
	int r = cell_code_begin(c, &o, kind, &x, err);

	*ret = NULL;
	while (r == 0 && ev.type != CELL_CODE_DONE) {
		r = cell_code_next(x, -1, &ev, err);
		if (r == 0 && ev.type == CELL_CODE_NONE)
			r = cell_fail(err, CELL_EPROTOCOL, EPROTO, "ask context '%s'", context);
		else if (r == 0 && ev.type == CELL_CODE_ERROR)
			r = take_error(&res, &ev);
		else if (r == 0 && ev.type == CELL_CODE_ANSWER) {
			free(*ret);
			*ret = strndup(ev.data, ev.len);
		}
	}
	if (r == 0 && res.error_name) {
		bool is_unknown = strcmp(res.error_name, "NameError") == 0 ||
				  strcmp(res.error_name, "KeyError") == 0;

		r = cell_fail(err, is_unknown ? CELL_ENOTFOUND : CELL_EINVAL, 0,
			"context '%s': %.300s", context,
			*res.error_message ? res.error_message : res.error_name);
	} else if (r == 0 && !*ret) {
		r = cell_fail(err, CELL_EBACKEND, 0, "context '%s' gave no answer", context);
	}
	if (r < 0) {
		free(*ret);
		*ret = NULL;
	}
	cell_code_result_done(&res);
	cell_code_free(x);
	return r;
}
