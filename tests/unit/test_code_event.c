/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a run, out of records in any pieces, with gaps, and out of what is no record at all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "core/code_event.h"
#include "test.h"
#include "wire/wire.h"

static void put(struct buf *b, unsigned type, unsigned flags, const char *text, size_t n)
{
	uint8_t head[WIRE_RUN_HEADER] = {(uint8_t)type, (uint8_t)flags};

	wire_u32_put(head + 4, (uint32_t)n);
	ASSERT(buf_add(b, head, sizeof head) == 0);
	ASSERT(buf_add(b, text, n) == 0);
}

static void puts_(struct buf *b, unsigned type, unsigned flags, const char *text)
{
	put(b, type, flags, text, strlen(text));
}

/* All events as "type[late]:text;", bytes from `from` on, in pieces of `step`. */
static int read_all(const struct buf *b, size_t from, size_t step, char *ret, size_t size,
	uint64_t *ends, size_t *n_ends)
{
	struct code_reader r;
	struct cell_code_event ev;
	size_t len = 0;
	int e = 0;

	ret[0] = '\0';
	code_reader_init(&r, from);
	for (size_t at = from; e == 0 && at < b->len; at += step) {
		size_t n = b->len - at < step ? b->len - at : step;

		code_reader_feed(&r, b->data + at, n, at);
		while ((e = code_reader_next(&r, &ev)) > 0) {
			len += (size_t)snprintf(ret + len, size - len, "%d%s:%.*s;", ev.type,
				ev.is_late ? "late" : "", (int)(ev.len < 20 ? ev.len : 20),
				ev.data);
			if (ev.type > CELL_CODE_STDERR)
				ASSERT(ev.data[ev.len] == '\0');
			if (ends)
				ends[(*n_ends)++] = r.next;
		}
	}
	code_reader_done(&r);
	return e;
}

static void fill(struct buf *b)
{
	puts_(b, CELL_CODE_STDOUT, WIRE_RUN_LATE, "late");
	puts_(b, CELL_CODE_STDERR, 0, "wrong");
	puts_(b, CELL_CODE_DISPLAY, WIRE_RUN_MORE, "{\"a\"");
	puts_(b, CELL_CODE_DISPLAY, WIRE_RUN_MORE | WIRE_RUN_CONTINUED, ": ");
	puts_(b, CELL_CODE_DISPLAY, WIRE_RUN_CONTINUED, "1}");
	puts_(b, CELL_CODE_RESULT, 0, "");
	puts_(b, CELL_CODE_DONE, 0,
		"{\"ok\":true,\"state\":\"kept\",\"execution_count\":7,\"execution_time_ms\":1."
		"250}");
}

static const char all[] = "1late:late;2:wrong;3:{\"a\": 1};4:;9:{\"ok\":true,\"state\"";

TEST(events_are_the_same_in_any_pieces)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	char got[500];

	fill(&b);
	for (size_t step = 1; step <= b.len; step++) {
		ASSERT(read_all(&b, 0, step, got, sizeof got, NULL, NULL) == 0);
		ASSERT(strncmp(got, all, sizeof all - 1) == 0);
	}
}

TEST(reading_goes_on_behind_any_event)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	char got[500];
	uint64_t ends[20];
	size_t n = 0;

	fill(&b);
	ASSERT(read_all(&b, 0, 5, got, sizeof got, ends, &n) == 0);
	ASSERT(n == 5);
	ASSERT(ends[4] == b.len);
	ASSERT(read_all(&b, (size_t)ends[1], 3, got, sizeof got, NULL, NULL) == 0);
	ASSERT(strncmp(got, "3:{\"a\": 1};4:;9:", 16) == 0);
	ASSERT(read_all(&b, (size_t)ends[3], 3, got, sizeof got, NULL, NULL) == 0);
	ASSERT(strncmp(got, "9:", 2) == 0);
}

TEST(the_end_says_what_became_of_it)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct code_reader r;
	struct cell_code_event ev;

	puts_(&b, CELL_CODE_DONE, 0,
		"{\"ok\":false,\"state\":\"lost\",\"execution_count\":3,\"execution_time_ms\":12."
		"500,"
		"\"timed_out\":true,\"interrupted\":true,\"restarted\":true,\"oom\":true,"
		"\"signal\":9,"
		"\"exit_code\":4,\"dropped_bytes\":70}");
	puts_(&b, CELL_CODE_DONE, 0, "what is this");
	code_reader_init(&r, 0);
	code_reader_feed(&r, b.data, b.len, 0);
	ASSERT(code_reader_next(&r, &ev) == 1);
	ASSERT(!ev.done.is_ok && ev.done.state == CELL_CODE_LOST && ev.done.timed_out);
	ASSERT(ev.done.interrupted && ev.done.restarted && ev.done.oom);
	ASSERT(ev.done.execution_count == 3 && ev.done.signal == 9 && ev.done.exit_code == 4);
	ASSERT(ev.done.execution_time_ms == 12.5 && ev.done.dropped_bytes == 70);
	ASSERT(code_reader_next(&r, &ev) == 1);
	ASSERT(!ev.done.is_ok && ev.done.state == CELL_CODE_LOST);
	code_reader_done(&r);
}

TEST(a_gap_costs_what_was_begun_and_no_more)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct code_reader r;
	struct cell_code_event ev;

	/* half a display, then a gap, then the tail of another one and a whole event */
	puts_(&b, CELL_CODE_DISPLAY, WIRE_RUN_MORE, "{");
	size_t gap = b.len;
	puts_(&b, CELL_CODE_DISPLAY, WIRE_RUN_CONTINUED, "}");
	puts_(&b, CELL_CODE_STDOUT, 0, "here");
	code_reader_init(&r, 0);
	code_reader_feed(&r, b.data, gap, 0);
	ASSERT(code_reader_next(&r, &ev) == 0);
	code_reader_feed(&r, b.data + gap, b.len - gap, 100000);
	ASSERT(code_reader_next(&r, &ev) == 1);
	ASSERT(ev.type == CELL_CODE_STDOUT && ev.len == 4);
	ASSERT(r.next == 100000 + b.len - gap);
	ASSERT(code_reader_next(&r, &ev) == 0);
	code_reader_done(&r);
}

TEST(what_is_no_record_is_refused)
{
	static const uint8_t wrong[][8] = {{0, 0, 0, 0, 0, 0, 0, 0}, {10, 0, 0, 0, 0, 0, 0, 0},
		{1, 0, 0, 0, 1, 0, 1, 0}, {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		for (size_t step = 1; step <= 8; step++) {
			auto_buf struct buf b = BUF_INIT(100);
			char got[100];

			ASSERT(buf_add(&b, wrong[i], 8) == 0);
			ASSERT(read_all(&b, 0, step, got, sizeof got, NULL, NULL) == -EPROTO);
		}
	}
}
