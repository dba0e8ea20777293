/* SPDX-License-Identifier: Apache-2.0 */
/* run_record.c: see run_record.h. */
#include "core/run_record.h"

#include <errno.h>
#include <string.h>

static const char *const names[] = {
	"", "stdout", "stderr", "display", "result", "error", "input", "clear", "answer", "done"};
static const char *const states[] = {"", "kept", "lost", "ended"};

static uint32_t length_of(const uint8_t head[WIRE_RUN_HEADER])
{
	return wire_u32_get(head + 4);
}

static bool is_head(const uint8_t head[WIRE_RUN_HEADER])
{
	return head[0] >= CELL_CODE_STDOUT && head[0] <= CELL_CODE_DONE &&
	       length_of(head) <= WIRE_RUN_MAX;
}

static size_t take_head(uint8_t head[WIRE_RUN_HEADER], size_t *n_head, const uint8_t *p, size_t n)
{
	size_t want = WIRE_RUN_HEADER - *n_head;

	want = want < n ? want : n;
	memcpy(head + *n_head, p, want);
	*n_head += want;
	return want;
}

bool run_splitter_is_inside(const struct run_splitter *s)
{
	return s->left || (s->n_head && s->n_head < WIRE_RUN_HEADER);
}

size_t run_splitter_rest(const struct run_splitter *s, const void *p, size_t n)
{
	uint8_t head[WIRE_RUN_HEADER];
	size_t n_head = s->n_head, used = 0;
	uint64_t left = s->left;

	if (!run_splitter_is_inside(s))
		return 0;
	if (n_head < WIRE_RUN_HEADER) {
		memcpy(head, s->head, n_head);
		used = take_head(head, &n_head, p, n);
		left = n_head == WIRE_RUN_HEADER ? length_of(head) : 0;
	}
	return left < n - used ? used + (size_t)left : n;
}

int run_splitter_feed(struct run_splitter *s, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n) {
		size_t used;
		if (!s->left && s->n_head == WIRE_RUN_HEADER)
			s->n_head = 0;
		if (s->n_head < WIRE_RUN_HEADER) {
			used = take_head(s->head, &s->n_head, at, n);
			at += used;
			n -= used;
			if (s->n_head < WIRE_RUN_HEADER)
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
		.restarted = is_true(o, "restarted"),
		.dropped_bytes = (uint64_t)json_integer_value(json_object_get(o, "dropped_bytes")),
		.oom = is_true(o, "oom"),
		.signal = (int)json_integer_value(json_object_get(o, "signal")),
		.exit_code = (int)json_integer_value(json_object_get(o, "exit_code"))};
	for (int i = CELL_CODE_KEPT; state && i <= CELL_CODE_ENDED; i++)
		if (!strcmp(states[i], state))
			ret->state = (enum cell_code_state)i;
}

json_t *run_done_json(const struct cell_code_done *d)
{
	return json_pack("{s:b, s:s, s:I, s:f, s:b, s:b, s:b, s:b, s:I, s:o, s:i}", "ok", d->is_ok,
		"state", run_state_name(d->state), "execution_count",
		(json_int_t)d->execution_count, "execution_time_ms", d->execution_time_ms,
		"timed_out", d->timed_out, "interrupted", d->interrupted, "restarted", d->restarted,
		"oom", d->oom, "dropped_bytes", (json_int_t)d->dropped_bytes, "signal",
		d->signal ? json_integer(d->signal) : json_null(), "exit_code", d->exit_code);
}
