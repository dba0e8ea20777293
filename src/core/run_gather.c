/* SPDX-License-Identifier: Apache-2.0 */
/* run_gather.c: see run_gather.h. */
#include "core/run_gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int run_gather_init(struct run_gather *g, size_t max_output)
{
	*g = (struct run_gather){
		.out = BUF_INIT(max_output), .err = BUF_INIT(max_output), .results = json_array()};
	return g->results ? 0 : -ENOMEM;
}

void run_gather_done(struct run_gather *g)
{
	buf_done(&g->out);
	buf_done(&g->err);
	json_decref(g->results);
	json_decref(g->error);
	json_decref(g->answer);
	g->results = g->error = g->answer = NULL;
}

static int add_text(struct run_gather *g, struct buf *b, uint64_t *total,
	const struct cell_code_event *e)
{
	size_t room = b->max - b->len, n = e->len < room ? e->len : room;

	*total += e->len;
	g->is_truncated |= n < e->len;
	return buf_add(b, e->data, n);
}

static void clear(struct run_gather *g)
{
	g->is_clearing = false;
	g->shown_bytes = 0;
	buf_reset(&g->out);
	buf_reset(&g->err);
	(void)json_array_clear(g->results);
}

/* A display that updates one shown before takes its place. */
static bool update(struct run_gather *g, json_t *item)
{
	const char *id = json_string_value(json_object_get(item, "id"));
	bool is_there = false;
	json_t *old;
	size_t i;

	if (!id || !json_is_true(json_object_get(item, "update")))
		return false;
	json_array_foreach (g->results, i, old) {
		const char *was = json_string_value(json_object_get(old, "id"));
		if (!was || strcmp(was, id) != 0)
			continue;
		(void)json_object_set(old, "data", json_object_get(item, "data"));
		(void)json_object_set(old, "metadata", json_object_get(item, "metadata"));
		is_there = true;
	}
	return is_there;
}

static int add_shown(struct run_gather *g, const struct cell_code_event *e)
{
	json_t *item;

	g->shown_bytes += e->len;
	if (g->shown_bytes > RUN_RESULTS_MAX) {
		g->is_truncated = true;
		return 0;
	}
	item = json_loadb(e->data, e->len, 0, NULL);
	if (!json_is_object(item)) {
		json_decref(item);
		return 0;
	}
	(void)json_object_set_new(item, "type", json_string(run_event_name(e->type)));
	bool is_update = update(g, item);
	(void)json_object_del(item, "update");
	int r = is_update ? 0 : json_array_append(g->results, item);
	json_decref(item);
	return r < 0 ? -ENOMEM : 0;
}

static void keep(json_t **into, const struct cell_code_event *e)
{
	json_decref(*into);
	*into = json_loadb(e->data, e->len, JSON_DECODE_ANY, NULL);
}

int run_gather_add(struct run_gather *g, const struct cell_code_event *e)
{
	bool is_output = e->type >= CELL_CODE_STDOUT && e->type <= CELL_CODE_ERROR;

	if (is_output && g->is_clearing)
		clear(g);
	switch (e->type) {
	case CELL_CODE_STDOUT:
		return add_text(g, &g->out, &g->out_bytes, e);
	case CELL_CODE_STDERR:
		return add_text(g, &g->err, &g->err_bytes, e);
	case CELL_CODE_DISPLAY:
	case CELL_CODE_RESULT:
		return add_shown(g, e);
	case CELL_CODE_ERROR:
		keep(&g->error, e);
		return 0;
	case CELL_CODE_CLEAR: {
		json_t *o = json_loadb(e->data, e->len, 0, NULL);
		g->is_clearing = true;
		if (!json_is_true(json_object_get(o, "wait")))
			clear(g);
		json_decref(o);
		return 0;
	}
	case CELL_CODE_ANSWER:
		keep(&g->answer, e);
		return 0;
	case CELL_CODE_DONE:
		g->done = e->done;
		g->has_done = true;
		return 0;
	case CELL_CODE_INPUT:
	case CELL_CODE_NONE:
	case CELL_CODE_END:
		return 0;
	}
	return 0;
}

static const json_t *last_value(const struct run_gather *g)
{
	for (size_t i = json_array_size(g->results); i-- > 0;) {
		const json_t *item = json_array_get(g->results, i);
		const char *type = json_string_value(json_object_get(item, "type"));
		if (type && !strcmp(type, "result"))
			return json_object_get(json_object_get(item, "data"), "text/plain");
	}
	return NULL;
}

const char *run_gather_value(const struct run_gather *g)
{
	return json_string_value(last_value(g));
}

json_t *run_gather_json(const struct run_gather *g)
{
	const json_t *value = last_value(g);
	json_t *o = json_object(), *done = g->has_done ? run_done_json(&g->done) : NULL;

	(void)json_object_set_new(o, "value",
		json_is_string(value) ? json_deep_copy(value) : json_null());
	(void)json_object_set_new(o, "error", g->error ? json_incref(g->error) : json_null());
	(void)json_object_set(o, "results", g->results);
	(void)json_object_set_new(o, "truncated", json_boolean(g->is_truncated));
	(void)json_object_set_new(o, "stdout_bytes", json_integer((json_int_t)g->out_bytes));
	(void)json_object_set_new(o, "stderr_bytes", json_integer((json_int_t)g->err_bytes));
	if (done)
		(void)json_object_update(o, done);
	json_decref(done);
	return o;
}

const char *run_bundle_text(const json_t *data, const char *mime, char **ret_own)
{
	const json_t *v = json_object_get(data, mime);
	struct buf b = BUF_INIT(WIRE_RUN_MAX_WHOLE);

	*ret_own = NULL;
	if (json_is_string(v))
		return json_string_value(v);
	if (!json_is_array(v))
		return NULL;
	for (size_t i = 0; i < json_array_size(v); i++) {
		const char *line = json_string_value(json_array_get(v, i));
		if (line && buf_addz(&b, line) < 0)
			break;
	}
	*ret_own = buf_steal(&b);
	return *ret_own;
}
