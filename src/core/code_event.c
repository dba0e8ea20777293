/* SPDX-License-Identifier: Apache-2.0 */
#include "core/code_event.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "wire/wire.h"

void code_reader_init(struct code_reader *r, uint64_t offset)
{
	*r = (struct code_reader){
		.at = offset,
		.next = offset,
		.held = BUF_INIT(WIRE_RUN_HEADER + WIRE_RUN_MAX),
		.whole = BUF_INIT(WIRE_RUN_MAX_WHOLE),
	};
}

void code_reader_done(struct code_reader *r)
{
	buf_done(&r->held);
	buf_done(&r->whole);
}

void code_reader_feed(struct code_reader *r, const void *p, size_t n, uint64_t offset)
{
	if (offset != r->at) { /* what had begun will not go on */
		buf_reset(&r->held);
		r->is_held_used = r->is_whole_open = false;
		r->next = offset;
	}
	r->p = p;
	r->n = n;
	r->at = offset;
}

static void skip(struct code_reader *r, size_t n)
{
	r->p += n;
	r->n -= n;
	r->at += n;
}

static int hold(struct code_reader *r, size_t upto)
{
	size_t n = upto - r->held.len < r->n ? upto - r->held.len : r->n;
	int e = buf_add(&r->held, r->p, n);

	if (e == 0)
		skip(r, n);
	return e;
}

static size_t record_size(const uint8_t *head)
{
	return WIRE_RUN_HEADER + (size_t)wire_u32_get(head + 4);
}

static bool is_record(const uint8_t *head)
{
	return head[0] >= CELL_CODE_STDOUT && head[0] <= CELL_CODE_DONE &&
	       wire_u32_get(head + 4) <= WIRE_RUN_MAX;
}

/* The next whole record: 1 and where it is. */
static int next_record(struct code_reader *r, const uint8_t **ret)
{
	if (r->is_held_used) {
		buf_reset(&r->held);
		r->is_held_used = false;
	}
	if (r->held.len == 0 && r->n >= WIRE_RUN_HEADER) { /* in one piece, as most are */
		if (!is_record(r->p))
			return -EPROTO;
		size_t size = record_size(r->p);
		if (r->n >= size) {
			*ret = r->p;
			skip(r, size);
			return 1;
		}
	}
	int e = r->held.len < WIRE_RUN_HEADER ? hold(r, WIRE_RUN_HEADER) : 0;
	if (e < 0 || r->held.len < WIRE_RUN_HEADER)
		return e;
	if (!is_record(r->held.data))
		return -EPROTO;
	size_t size = record_size(r->held.data);
	e = hold(r, size);
	if (e < 0 || r->held.len < size)
		return e;
	r->is_held_used = true;
	*ret = r->held.data;
	return 1;
}

static bool is_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

static int64_t integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void take_done(struct cell_code_event *ev)
{
	json_t *o = json_loadb(ev->data, ev->len, 0, NULL);
	const char *state = json_string_value(json_object_get(o, "state"));

	ev->done = (struct cell_code_done){
		.is_ok = is_true(o, "ok"),
		.state = !state			       ? CELL_CODE_LOST
			 : strcmp(state, "kept") == 0  ? CELL_CODE_KEPT
			 : strcmp(state, "ended") == 0 ? CELL_CODE_ENDED
						       : CELL_CODE_LOST,
		.execution_count = (uint64_t)integer(o, "execution_count"),
		.execution_time_ms = json_number_value(json_object_get(o, "execution_time_ms")),
		.timed_out = is_true(o, "timed_out"),
		.interrupted = is_true(o, "interrupted"),
		.restarted = is_true(o, "restarted"),
		.oom = is_true(o, "oom"),
		.signal = (int)integer(o, "signal"),
		.exit_code = (int)integer(o, "exit_code"),
		.dropped_bytes = (uint64_t)integer(o, "dropped_bytes"),
	};
	json_decref(o);
}

/* Put a piece to the event it belongs to. 1 when that is whole. */
static int assemble(struct code_reader *r, const uint8_t *record, size_t n)
{
	unsigned type = record[0], flags = record[1];

	if (!(flags & WIRE_RUN_CONTINUED)) {
		buf_reset(&r->whole);
		r->whole_type = type;
		r->is_whole_open = true;
	} else if (!r->is_whole_open || r->whole_type != type) {
		return 0; /* its beginning is not kept any more */
	}
	int e = buf_add(&r->whole, record + WIRE_RUN_HEADER, n);
	if (e == -ENOBUFS) { /* no guest of ours sends one that large */
		r->is_whole_open = false;
		return -EPROTO;
	}
	if (e < 0 || flags & WIRE_RUN_MORE)
		return e;
	r->is_whole_open = false;
	return 1;
}

int code_reader_next(struct code_reader *r, struct cell_code_event *ret)
{
	const uint8_t *p = NULL;
	int e;

	*ret = (struct cell_code_event){.type = CELL_CODE_NONE};
	while ((e = next_record(r, &p)) > 0) {
		size_t n = record_size(p) - WIRE_RUN_HEADER;

		*ret = (struct cell_code_event){
			.type = p[0],
			.is_late = p[1] & WIRE_RUN_LATE,
			.data = (const char *)p + WIRE_RUN_HEADER,
			.len = n,
		};
		if (p[0] != CELL_CODE_STDOUT && p[0] != CELL_CODE_STDERR) {
			e = assemble(r, p, n);
			if (e < 0)
				return e;
			if (e == 0)
				continue;
			ret->data = buf_str(&r->whole);
			ret->len = r->whole.len;
		}
		r->next = r->at;
		if (ret->type == CELL_CODE_DONE)
			take_done(ret);
		return 1;
	}
	ret->type = CELL_CODE_NONE;
	return e;
}
