/* SPDX-License-Identifier: Apache-2.0 */
/* run_record.c: see run_record.h. */
#include "core/run_record.h"

#include <errno.h>
#include <string.h>

static const char *const names[] = {
	"", "stdout", "stderr", "display", "result", "error", "input", "clear", "answer", "done"};
static const char *const states[] = {"", "kept", "lost", "ended"};

static uint32_t length_of(const uint8_t head[RUN_HEAD])
{
	return (uint32_t)head[4] | (uint32_t)head[5] << 8 | (uint32_t)head[6] << 16 |
	       (uint32_t)head[7] << 24;
}

static bool is_head(const uint8_t head[RUN_HEAD])
{
	return head[0] >= CELL_CODE_STDOUT && head[0] <= CELL_CODE_DONE &&
	       length_of(head) <= RUN_PAYLOAD_MAX;
}

void run_decoder_reset(struct run_decoder *d)
{
	d->n_head = 0;
	d->left = 0;
	d->is_given = d->is_inside = d->is_skipping = false;
	buf_reset(&d->payload);
}

void run_decoder_done(struct run_decoder *d)
{
	run_decoder_reset(d);
	buf_done(&d->payload);
}

static size_t take_head(uint8_t head[RUN_HEAD], size_t *n_head, const uint8_t *p, size_t n)
{
	size_t want = RUN_HEAD - *n_head;

	want = want < n ? want : n;
	memcpy(head + *n_head, p, want);
	*n_head += want;
	return want;
}

static void give(struct run_decoder *d, struct cell_code_event *ret)
{
	*ret = (struct cell_code_event){.type = (enum cell_code_event_type)d->head[0],
		.is_late = d->head[1] & RUN_FLAG_LATE,
		.data = buf_str(&d->payload),
		.len = d->payload.len};
	if (ret->type == CELL_CODE_DONE) {
		json_t *o = json_loadb(ret->data, ret->len, 0, NULL);
		run_done_read(o, &ret->done);
		json_decref(o);
	}
	d->is_given = true;
}

/* A head is complete: does it go on with what we have? */
static int begin_record(struct run_decoder *d)
{
	bool is_rest = d->head[1] & RUN_FLAG_REST;

	if (!is_head(d->head))
		return -EBADMSG;
	d->left = length_of(d->head);
	if (is_rest && !d->is_inside)
		d->is_skipping = true;
	if (!is_rest) {
		buf_reset(&d->payload);
		d->is_inside = true;
		d->is_skipping = false;
	}
	return 0;
}

ssize_t run_decoder_feed(struct run_decoder *d, const void *p, size_t n,
	struct cell_code_event *ret)
{
	const uint8_t *at = p;
	size_t used = 0;

	*ret = (struct cell_code_event){.type = CELL_CODE_NONE};
	if (d->is_given)
		run_decoder_reset(d);
	while (used < n) {
		if (d->n_head < RUN_HEAD) {
			used += take_head(d->head, &d->n_head, at + used, n - used);
			if (d->n_head == RUN_HEAD && begin_record(d) < 0)
				return -EBADMSG;
			if (d->n_head < RUN_HEAD)
				break;
		}
		size_t want = d->left < n - used ? d->left : n - used;
		if (!d->is_skipping && buf_add(&d->payload, at + used, want) < 0)
			return -EBADMSG; /* too long for an event */
		used += want;
		d->left -= (uint32_t)want;
		if (d->left)
			break;
		d->n_head = 0;
		if (d->head[1] & RUN_FLAG_MORE || d->is_skipping)
			continue;
		give(d, ret);
		break;
	}
	return (ssize_t)used;
}

bool run_splitter_is_inside(const struct run_splitter *s)
{
	return s->left || (s->n_head && s->n_head < RUN_HEAD);
}

size_t run_splitter_rest(const struct run_splitter *s, const void *p, size_t n)
{
	uint8_t head[RUN_HEAD];
	size_t n_head = s->n_head, used = 0;
	uint64_t left = s->left;

	if (!run_splitter_is_inside(s))
		return 0;
	if (n_head < RUN_HEAD) {
		memcpy(head, s->head, n_head);
		used = take_head(head, &n_head, p, n);
		left = n_head == RUN_HEAD ? length_of(head) : 0;
	}
	return left < n - used ? used + (size_t)left : n;
}

int run_splitter_feed(struct run_splitter *s, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n) {
		size_t used;
		if (!s->left && s->n_head == RUN_HEAD)
			s->n_head = 0;
		if (s->n_head < RUN_HEAD) {
			used = take_head(s->head, &s->n_head, at, n);
			at += used;
			n -= used;
			if (s->n_head < RUN_HEAD)
				return 0;
			if (!is_head(s->head))
				return -EBADMSG;
			s->left = length_of(s->head);
			if (s->head[0] == CELL_CODE_DONE)
				s->n_ending = 0;
			continue;
		}
		used = s->left < n ? (size_t)s->left : n;
		if (s->head[0] == CELL_CODE_DONE && used <= sizeof s->ending - s->n_ending) {
			memcpy(s->ending + s->n_ending, at, used);
			s->n_ending += used;
		}
		s->left -= used;
		at += used;
		n -= used;
	}
	return 0;
}

const char *run_event_name(enum cell_code_event_type type)
{
	return type >= 0 && type <= CELL_CODE_DONE ? names[type] : "";
}

enum cell_code_event_type run_event_type(const char *name)
{
	for (int i = CELL_CODE_STDOUT; name && i <= CELL_CODE_DONE; i++)
		if (!strcmp(names[i], name))
			return (enum cell_code_event_type)i;
	return CELL_CODE_NONE;
}

const char *run_state_name(enum cell_code_state state)
{
	return state >= CELL_CODE_KEPT && state <= CELL_CODE_ENDED ? states[state] : "lost";
}

static bool is_true(const json_t *o, const char *name)
{
	return json_is_true(json_object_get(o, name));
}

void run_done_read(const json_t *o, struct cell_code_done *ret)
{
	const char *state = json_string_value(json_object_get(o, "state"));

	*ret = (struct cell_code_done){.is_ok = is_true(o, "ok"),
		.state = CELL_CODE_LOST,
		.execution_count =
			(uint64_t)json_integer_value(json_object_get(o, "execution_count")),
		.execution_time_ms = json_number_value(json_object_get(o, "execution_time_ms")),
		.timed_out = is_true(o, "timed_out"),
		.interrupted = is_true(o, "interrupted"),
		.oom = is_true(o, "oom"),
		.signal = (int)json_integer_value(json_object_get(o, "signal")),
		.exit_code = (int)json_integer_value(json_object_get(o, "exit_code"))};
	for (int i = CELL_CODE_KEPT; state && i <= CELL_CODE_ENDED; i++)
		if (!strcmp(states[i], state))
			ret->state = (enum cell_code_state)i;
}

json_t *run_done_json(const struct cell_code_done *d)
{
	return json_pack("{s:b, s:s, s:I, s:f, s:b, s:b, s:b, s:o, s:i}", "ok", d->is_ok, "state",
		run_state_name(d->state), "execution_count", (json_int_t)d->execution_count,
		"execution_time_ms", d->execution_time_ms, "timed_out", d->timed_out, "interrupted",
		d->interrupted, "oom", d->oom, "signal",
		d->signal ? json_integer(d->signal) : json_null(), "exit_code", d->exit_code);
}
