/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: see run.h. */
#include "server/run.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/run_gather.h"
#include "server/exec.h"
#include "server/flow_text.h"
#include "server/session.h"

int run_reader_init(struct run_reader *r, uint64_t from, struct spool_cursor *c)
{
	*r = (struct run_reader){.from = from, .piece = malloc(SPOOL_MAX_DATA)};
	*c = (struct spool_cursor){.want = {0, from, 0}, .is_whole = true};
	code_reader_init(&r->records, from);
	return r->piece ? 0 : -ENOMEM;
}

void run_reader_done(struct run_reader *r)
{
	code_reader_done(&r->records);
	free(r->piece);
	r->piece = NULL;
}

/* What comes next has no beginning with what was before it. */
static void begin_anew(struct run_reader *r, uint64_t offset)
{
	code_reader_done(&r->records);
	code_reader_init(&r->records, offset);
}

static void feed(struct run_reader *r, const struct spool_event *ev)
{
	if (!r->is_aligned && !ev->is_begin)
		return; /* the rest of a record whose beginning is not kept */
	if (!r->is_aligned)
		begin_anew(r, ev->offset);
	r->is_aligned = true;
	memcpy(r->piece, ev->data, ev->len);
	code_reader_feed(&r->records, r->piece, ev->len, ev->offset);
}

int run_reader_next(struct run_reader *r, struct spool *s, struct spool_cursor *c,
	struct run_item *ret)
{
	struct spool_event ev;
	int e;

	*ret = (struct run_item){.news = RUN_NOTHING, .next = r->records.next};
	for (;;) {
		while ((e = code_reader_next(&r->records, &ret->event)) > 0) {
			ret->next = r->records.next;
			if (ret->event.type == CELL_CODE_DONE || ret->next <= r->from)
				continue;
			ret->news = RUN_EVENT;
			return 0;
		}
		if (e < 0)
			return e;
		if (spool_read(s, c, &ev, NULL) < 0)
			return -EIO;
		switch (ev.kind) {
		case SPOOL_NONE:
			return 0;
		case SPOOL_END:
			ret->news = RUN_END;
			return 0;
		case SPOOL_GAP:
			r->is_aligned = false;
			if (ev.stream != 1)
				continue;
			ret->news = RUN_GAP;
			ret->next = ev.offset;
			return 0;
		case SPOOL_OUT:
			feed(r, &ev);
			continue;
		case SPOOL_ERR:
			continue;
		}
	}
}

int run_answer(struct exec *e, const char *line, struct cell_error *err)
{
	if (strchr(line, '\n'))
		return cell_error_hint(err, cell_fail(err, CELL_EINVAL, 0, "an answer is one line"),
			"give each line when it is asked for");
	auto_free char *text = NULL;
	struct cell_error why = {0};
	if (asprintf(&text, "%s\n", line) < 0) {
		text = NULL;
		return cell_fail_errno(err, ENOMEM, "answer '%s'", e->id);
	}
	(void)exec_write(e, text, strlen(text), &why);
	if (!why.code)
		return 0;
	*err = why;
	return -EPIPE;
}

/* ---- for clients ---- */

static json_t *event_json(const struct cell_code_event *e)
{
	json_t *o;

	if (e->type == CELL_CODE_STDOUT || e->type == CELL_CODE_STDERR) {
		o = json_object();
		flow_put_text(o, "data", (const uint8_t *)e->data, e->len);
	} else {
		o = json_loadb(e->data, e->len, 0, NULL);
		if (!json_is_object(o)) {
			json_decref(o);
			o = json_object();
		}
	}
	if (e->is_late)
		(void)json_object_set_new(o, "late", json_true());
	return o;
}

json_t *run_item_json(struct exec *e, const struct run_item *item, const char **ret_type)
{
	json_t *o;

	switch (item->news) {
	case RUN_EVENT:
		o = event_json(&item->event);
		*ret_type = run_event_name(item->event.type);
		break;
	case RUN_GAP:
		o = json_object();
		*ret_type = "gap";
		break;
	case RUN_END:
	case RUN_NOTHING:
	default:
		o = json_object();
		if (e->end)
			(void)json_object_update(o, e->end);
		*ret_type = "done";
		break;
	}
	(void)json_object_set_new(o, "type", json_string(*ret_type));
	(void)json_object_set_new(o, "next", json_integer((json_int_t)item->next));
	return o;
}

json_t *run_json(struct exec *e)
{
	static const char *const asked[] = {"language", "context", "code", "code_bytes",
		"code_sha256", "started_at", "labels", "request_id", "stdin", NULL};
	json_t *o = json_object(), *v;

	(void)json_object_set_new(o, "id", json_string(e->id));
	(void)json_object_set_new(o, "session", json_string(e->session->id));
	(void)json_object_set_new(o, "status", json_string(e->end ? "done" : "running"));
	for (size_t i = 0; asked[i]; i++)
		if ((v = json_object_get(e->meta, asked[i])))
			(void)json_object_set(o, strcmp(asked[i], "stdin") ? asked[i] : "input", v);
	(void)json_object_set_new(o, "next", json_integer((json_int_t)spool_next(e->spool, 1)));
	(void)json_object_set_new(o, "oldest", json_integer((json_int_t)spool_oldest(e->spool, 1)));
	if (e->end)
		(void)json_object_update(o, e->end);
	return o;
}

json_t *run_result_json(struct exec *e, uint64_t max_output)
{
	struct run_gather g;
	struct run_reader r;
	struct spool_cursor at;
	struct run_item item;
	json_t *o = run_json(e), *result = NULL;
	bool is_cut = false;

	if (run_reader_init(&r, 0, &at) == 0 && run_gather_init(&g, (size_t)max_output) == 0) {
		while (run_reader_next(&r, e->spool, &at, &item) == 0 && item.news != RUN_NOTHING &&
			item.news != RUN_END) {
			is_cut |= item.news == RUN_GAP;
			if (item.news == RUN_EVENT && run_gather_add(&g, &item.event) < 0)
				is_cut = true;
		}
		g.is_truncated |= is_cut;
		result = run_gather_json(&g);
		flow_put_text(result, "stdout", g.out.data, g.out.len);
		flow_put_text(result, "stderr", g.err.data, g.err.len);
		(void)json_object_update(o, result);
		json_decref(result);
		run_gather_done(&g);
	}
	run_reader_done(&r);
	return o;
}
