/* SPDX-License-Identifier: Apache-2.0 */
/* Where the records of a run begin, and what its events make in all. */
#include "core/run_gather.h"
#include "test.h"

static size_t put(uint8_t *p, unsigned type, unsigned flags, const char *text)
{
	size_t n = strlen(text);

	memset(p, 0, WIRE_RUN_HEADER);
	p[0] = (uint8_t)type;
	p[1] = (uint8_t)flags;
	p[4] = (uint8_t)n;
	p[5] = (uint8_t)(n >> 8);
	memcpy(p + WIRE_RUN_HEADER, text, n);
	return WIRE_RUN_HEADER + n;
}

/* The bytes are cut in all places; what is marked as a beginning must be one. */
TEST(beginnings_are_found_however_the_bytes_are_cut)
{
	static const char *const texts[] = {"", "a", "hello", "0123456789", "{\"ok\":true}"};
	uint8_t all[512];
	size_t n = 0, starts[5];

	for (size_t i = 0; i < 5; i++) {
		starts[i] = n;
		n += put(all + n, i == 4 ? CELL_CODE_DONE : CELL_CODE_STDOUT, 0, texts[i]);
	}
	for (size_t step = 1; step <= n; step++) {
		struct run_splitter s = {0};
		for (size_t at = 0; at < n;) {
			size_t have = n - at < step ? n - at : step;
			size_t rest = run_splitter_rest(&s, all + at, have);
			size_t piece = rest ? rest : have;
			bool is_start = false;
			for (size_t i = 0; i < 5; i++)
				is_start |= starts[i] == at;
			ASSERT_EQ(is_start, rest == 0);
			ASSERT_OK(run_splitter_feed(&s, all + at, piece));
			at += piece;
		}
		ASSERT(!run_splitter_is_inside(&s));
		ASSERT_MEM(s.ending, s.n_ending, texts[4], strlen(texts[4]));
	}
}

TEST(what_are_no_records_is_said)
{
	struct run_splitter s = {0};
	uint8_t p[64];

	ASSERT_ERR(run_splitter_feed(&s, "nonsense", 8), -EBADMSG);
	s = (struct run_splitter){0};
	(void)put(p, CELL_CODE_STDOUT, 0, "");
	p[7] = 0xff; /* four gigabytes */
	ASSERT_ERR(run_splitter_feed(&s, p, WIRE_RUN_HEADER), -EBADMSG);
}

static void add(struct run_gather *g, enum cell_code_event_type type, const char *data)
{
	ASSERT_OK(run_gather_add(g,
		&(struct cell_code_event){.type = type, .data = data, .len = strlen(data)}));
}

TEST(events_make_a_result)
{
	struct run_gather g;

	ASSERT_OK(run_gather_init(&g, 4));
	add(&g, CELL_CODE_STDOUT, "gone");
	add(&g, CELL_CODE_CLEAR, "{\"wait\":false}");
	add(&g, CELL_CODE_STDOUT, "abc");
	add(&g, CELL_CODE_STDOUT, "def");
	add(&g, CELL_CODE_DISPLAY, "{\"data\":{\"a/b\":\"1\"},\"id\":\"i\"}");
	add(&g, CELL_CODE_DISPLAY, "{\"data\":{\"a/b\":\"2\"},\"id\":\"i\",\"update\":true}");
	add(&g, CELL_CODE_DISPLAY, "no json");
	add(&g, CELL_CODE_RESULT, "{\"data\":{\"text/plain\":\"42\"}}");
	add(&g, CELL_CODE_ERROR, "{\"name\":\"E\"}");
	ASSERT_STR(buf_str(&g.out), "abcd");
	ASSERT(g.is_truncated);
	ASSERT_STR(run_gather_value(&g), "42");
	json_t *o = run_gather_json(&g);
	char *text = json_dumps(json_object_get(o, "results"), JSON_COMPACT);
	ASSERT_HAS(text, "{\"a/b\":\"2\"}");
	ASSERT_EQ(json_array_size(json_object_get(o, "results")), 2);
	free(text);
	json_decref(o);
	run_gather_done(&g);
}

TEST(an_end_is_read_and_written_alike)
{
	json_t *o = json_loads(
		"{\"ok\":true,\"state\":\"ended\",\"execution_count\":3,\"exit_code\":7}", 0, NULL);
	struct cell_code_done d;

	run_done_read(o, &d);
	json_decref(o);
	ASSERT(d.is_ok && d.state == CELL_CODE_ENDED && d.execution_count == 3 && d.exit_code == 7);
	o = run_done_json(&d);
	ASSERT_STR(json_string_value(json_object_get(o, "state")), "ended");
	ASSERT(json_is_null(json_object_get(o, "signal")));
	json_decref(o);
	run_done_read(NULL, &d);
	ASSERT(!d.is_ok && d.state == CELL_CODE_LOST);
	ASSERT_EQ(run_event_type("display"), CELL_CODE_DISPLAY);
	ASSERT_EQ(run_event_type("nothing"), CELL_CODE_NONE);
}
