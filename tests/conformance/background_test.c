/* SPDX-License-Identifier: Apache-2.0 */
/* background_test.c: commands that go on alone, and coming back to them from any offset. */
#include <signal.h>

#include "suite.h"

static void start_detached(struct cell *c, const char *const *argv, const char *id, uint64_t keep)
{
	struct cell_exec_opts o = {
		.argv = argv, .id = id, .flags = CELL_EXEC_DETACH, .keep_bytes = keep};
	auto_exec struct cell_exec *x = NULL;

	OK(cell_exec_start(c, &o, &x, &E));
	ASSERT_STR(cell_exec_id(x), id);
}

static bool has_ended(struct cell *c, const char *id)
{
	struct cell_exec_info info;

	return find_exec(c, id, &info) && info.state == CELL_EXEC_EXITED;
}

TEST_NEEDS(output_of_a_finished_command_is_read_afterwards, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	start_detached(c, ARGV("./probe", "both", "100000"), "done", 0);
	WAIT_FOR(has_ended(c, "done"));
	talk_attach(&t, c, "done", NULL);
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT(t.has_exit);
	ASSERT_INT(t.out_len, 100000);
	ASSERT_INT(t.err_len, 100000);
	ASSERT(hash_add(HASH_START, t.out, t.out_len) == gen_hash(100000));
}

TEST_NEEDS(output_is_read_from_the_middle, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	start_detached(c, ARGV("./probe", "both", "100000"), "middle", 0);
	WAIT_FOR(has_ended(c, "middle"));
	talk_attach(&t, c, "middle",
		&(struct cell_attach_opts){.out_offset = 70000, .err_offset = 99999});
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_INT(t.out_len, 30000);
	ASSERT_INT(t.err_len, 1);
	for (size_t i = 0; i < t.out_len; i++)
		ASSERT_INT((uint8_t)t.out[i], gen_byte(70000 + i));
	ASSERT_INT((uint8_t)t.err[0], gen_byte(99999));
}

TEST_NEEDS(what_is_no_longer_kept_is_a_gap_that_is_told, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_info info = {0};

	start_detached(c, ARGV("./probe", "gen", "3000000"), "gap", 65536);
	WAIT_FOR(has_ended(c, "gap"));
	ASSERT(find_exec(c, "gap", &info));
	ASSERT_INT(info.out_bytes, 3000000);
	ASSERT(info.out_oldest > 0 && info.out_oldest < 3000000);
	talk_attach(&t, c, "gap", NULL);
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_INT(t.out_gap, info.out_oldest);
	ASSERT_INT(t.next_out, 3000000);
	ASSERT_INT(t.out_len, 3000000 - info.out_oldest);
	for (size_t i = 0; i < t.out_len; i++)
		ASSERT_INT((uint8_t)t.out[i], gen_byte(info.out_oldest + i));
}

TEST_NEEDS(a_running_command_is_followed, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	start_detached(c, ARGV("./probe", "drip", "stop"), "drip", 0);
	talk_attach(&t, c, "drip", NULL);
	talk_expect(&t, "line 0\n");
	talk_expect(&t, "line 5\n");
	store(c, "stop", "");
	talk_expect(&t, "end\n");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST_NEEDS(without_follow_an_attach_ends_with_what_is_there, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_info info;

	start_detached(c, ARGV("./probe", "nap", "300"), "there", 0);
	WAIT_FOR(find_exec(c, "there", &info) && info.out_bytes == 6);
	talk_attach(&t, c, "there", &(struct cell_attach_opts){.no_follow = true});
	(void)talk_end(&t);
	ASSERT(!t.has_exit);
	ASSERT_STR(t.out, "ready\n");
	OK(cell_signal(c, "there", SIGKILL, true, &E));
}

TEST_NEEDS(several_readers_each_get_everything, NEEDS(BACKGROUND))
{
	enum {
		N = 5
	};
	auto_cell struct cell *c = open_cell(s);
	struct talk t[N];

	start_detached(c, ARGV("./probe", "drip", "stop"), "shared", 0);
	for (int i = 0; i < N; i++)
		talk_attach(&t[i], c, "shared", NULL);
	for (int i = 0; i < N; i++)
		talk_expect(&t[i], "line 3\n");
	store(c, "stop", "");
	for (int i = 0; i < N; i++) {
		ASSERT_INT(talk_end(&t[i]).exit_code, 0);
		ASSERT_STR(t[i].out, t[0].out);
	}
	for (int i = 0; i < N; i++)
		talk_done(&t[i]);
}

TEST_NEEDS(a_reader_that_lets_go_harms_no_other, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk stays;
	struct talk leaves;

	start_detached(c, ARGV("./probe", "drip", "stop"), "leave", 0);
	talk_attach(&stays, c, "leave", NULL);
	talk_attach(&leaves, c, "leave", NULL);
	talk_expect(&leaves, "line 1\n");
	talk_done(&leaves);
	talk_expect(&stays, "line 10\n");
	store(c, "stop", "");
	ASSERT_INT(talk_end(&stays).exit_code, 0);
}

TEST_NEEDS(letting_go_of_the_first_handle_does_not_end_the_command, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	start_detached(c, ARGV("./probe", "drip", "stop"), "alone", 0);
	store(c, "stop", "");
	WAIT_FOR(has_ended(c, "alone"));
	talk_attach(&t, c, "alone", NULL);
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_HAS(t.out, "end\n");
}

TEST_NEEDS(stdin_can_be_taken_over, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk first, second;
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "cat"), .id = "stdin", .flags = CELL_EXEC_STDIN};

	talk_start(&first, c, &o);
	talk_send(&first, "one\n");
	talk_expect(&first, "one\n");
	talk_attach(&second, c, "stdin", &(struct cell_attach_opts){.with_stdin = true});
	talk_expect(&second, "one\n");
	talk_send(&second, "two\n");
	talk_expect(&second, "two\n");
	talk_expect(&first, "two\n");
	OK(cell_exec_close_stdin(second.x, &E));
	ASSERT_INT(talk_end(&second).exit_code, 0);
	ASSERT_INT(talk_end(&first).exit_code, 0);
}

TEST(ps_tells_the_state_of_each_command)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_info info = {0};
	struct cell_exec_opts o = {.argv = ARGV("./probe", "nap", "300"), .id = "state"};

	ASSERT(!find_exec(c, "state", &info));
	talk_start(&t, c, &o);
	talk_expect(&t, "ready\n");
	ASSERT(find_exec(c, "state", &info));
	ASSERT_INT(info.state, CELL_EXEC_RUNNING);
	ASSERT(info.pid > 0);
	ASSERT(!info.is_tty);
	ASSERT(info.started_unix_ms > UINT64_C(1600000000000));
	ASSERT_INT(info.out_bytes, 6);
	ASSERT_INT(info.err_bytes, 0);
	ASSERT_INT(ask_guest(c).running, 1);
	OK(cell_exec_signal(t.x, SIGTERM, &E));
	ASSERT_INT(talk_end(&t).exit_code, 128 + SIGTERM);
	if (find_exec(c, "state", &info)) {
		ASSERT_INT(info.state, CELL_EXEC_EXITED);
		ASSERT_INT(info.exit.signal, SIGTERM);
	}
	ASSERT_INT(ask_guest(c).running, 0);
}

TEST_NEEDS(ps_tells_that_descendants_linger, NEEDS(BACKGROUND) | NEEDS(KILL_TREE))
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_info info = {0};

	start_detached(c, ARGV("sh", "-c", "./probe nap 300 >/dev/null 2>&1 & exit 3"), "linger",
		0);
	WAIT_FOR(find_exec(c, "linger", &info) && info.state == CELL_EXEC_LINGERING);
	ASSERT_INT(info.exit.exit_code, 3);
	OK(cell_signal(c, "linger", SIGKILL, true, &E));
	WAIT_FOR(find_exec(c, "linger", &info) && info.state == CELL_EXEC_EXITED);
	ASSERT_INT(info.exit.exit_code, 3);
}

static int note_command(const struct cell_exec_info *info, void *user)
{
	if (!strcmp(info->id, "long"))
		snprintf(user, 512, "%s", info->command);
	return 0;
}

TEST(ps_shows_the_command_cut_to_size)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	char word[1001], shown[512] = "";
	struct cell_exec_opts o = {.argv = ARGV("./probe", "nap", "300", word), .id = "long"};

	memset(word, 'w', 1000);
	word[1000] = '\0';
	talk_start(&t, c, &o);
	talk_expect(&t, "ready\n");
	OK(cell_ps(c, note_command, shown, &E));
	ASSERT_HAS(shown, "probe nap 300 ww");
	ASSERT(strlen(shown) <= 200);
	OK(cell_exec_signal(t.x, SIGKILL, &E));
	(void)talk_end(&t);
}

static int stop_with_42(const struct cell_exec_info *info, void *user)
{
	(void)info;
	(void)user;
	return 42;
}

TEST(ps_stops_when_its_callback_says_so)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "nap", "300")});
	talk_expect(&t, "ready\n");
	ASSERT_INT(cell_ps(c, stop_with_42, NULL, &E), 42);
	OK(cell_exec_signal(t.x, SIGKILL, &E));
	ASSERT_INT(talk_end(&t).signal, SIGKILL);
}

TEST(attaching_to_what_is_not_there_is_not_found)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec *x = NULL;

	FAILS(NOT_FOUND,
		cell_exec_attach(c, "no-such-exec", &(struct cell_attach_opts){0}, &x, &E));
	ASSERT_HAS(E.msg, "no-such-exec");
}

TEST_NEEDS(an_offset_past_the_end_gives_nothing_old, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec *x = NULL;
	struct cell_event e = {0};

	start_detached(c, ARGV("./probe", "gen", "1000"), "past", 0);
	WAIT_FOR(has_ended(c, "past"));
	E = (struct cell_error){0};
	int r = cell_exec_attach(c, "past", &(struct cell_attach_opts){.out_offset = 5000}, &x, &E);
	for (int i = 0; r >= 0 && i < 100 && e.type != CELL_EVENT_EXIT; i++) {
		r = cell_exec_next(x, 1000, &e, &E);
		ASSERT(r < 0 || e.type != CELL_EVENT_STDOUT);
	}
	ASSERT(r < 0 ? E.code == CELL_EINVAL : e.type == CELL_EVENT_EXIT);
	cell_exec_free(x);
}

TEST_NEEDS(a_reader_that_holds_misses_nothing, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = {
		.shell = "while [ ! -e go ]; do sleep 0.02; done; ./probe gen 20000000",
		.id = "held",
		.flags = CELL_EXEC_DETACH,
		.keep_bytes = 65536};
	auto_exec struct cell_exec *x = NULL;

	OK(cell_exec_start(c, &o, &x, &E));
	cell_exec_free(x);
	x = NULL;
	talk_attach(&t, c, "held", &(struct cell_attach_opts){.hold = true});
	store(c, "go", "");
	usleep(200 * 1000); /* the writer runs into the wall meanwhile */
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_INT(t.out_gap, 0);
	ASSERT_INT(t.out_len, 20000000);
	ASSERT(hash_add(HASH_START, t.out, t.out_len) == gen_hash(20000000));
}

/* Without the flag the same command would run on and its oldest output be gone: the test of the gap
 * above is the control. */
TEST_NEEDS(durable_output_waits_while_nobody_reads, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_info info = {0};
	struct cell_exec_opts o = {.argv = ARGV("./probe", "gen", "3000000"),
		.id = "durable",
		.flags = CELL_EXEC_DETACH | CELL_EXEC_DURABLE,
		.keep_bytes = 65536};
	auto_exec struct cell_exec *x = NULL;

	OK(cell_exec_start(c, &o, &x, &E));
	WAIT_FOR(find_exec(c, "durable", &info) && info.out_bytes >= 65536);
	usleep(200 * 1000); /* time to run on, if it could */
	ASSERT(find_exec(c, "durable", &info));
	ASSERT_INT(info.state, CELL_EXEC_RUNNING);
	ASSERT_INT(info.out_oldest, 0);
	talk_attach(&t, c, "durable", &(struct cell_attach_opts){.hold = true});
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_INT(t.out_gap, 0);
	ASSERT(hash_add(HASH_START, t.out, t.out_len) == gen_hash(3000000));
}

TEST_NEEDS(durable_output_outlives_its_reader, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	struct talk first;
	auto_talk struct talk second;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "gen", "3000000"),
		.id = "resumed",
		.flags = CELL_EXEC_DURABLE,
		.keep_bytes = 65536,
		.no_wait = true};

	talk_start(&first, c, &o);
	ASSERT_STR(cell_exec_id(first.x), "resumed");
	struct cell_event e = {0};
	while (e.type != CELL_EVENT_STDOUT)
		OK(cell_exec_next(first.x, -1, &e, &E));
	uint64_t seen = e.offset + e.len;
	talk_done(&first);
	usleep(200 * 1000);
	talk_attach(&second, c, "resumed",
		&(struct cell_attach_opts){.hold = true, .out_offset = seen, .no_wait = true});
	ASSERT_INT(talk_end(&second).exit_code, 0);
	ASSERT_INT(second.out_gap, 0);
	ASSERT_INT(second.out_len + seen, 3000000);
	for (size_t i = 0; i < second.out_len; i++)
		ASSERT_INT((uint8_t)second.out[i], gen_byte(seen + i));
}

TEST_NEEDS(a_start_nobody_waited_for_tells_its_failure_later, 0)
{
	auto_cell struct cell *c = open_cell(s);
	auto_exec struct cell_exec *x = NULL, *y = NULL;
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "nap", "300"), .id = "twice", .no_wait = true};
	struct cell_event e = {0};

	OK(cell_exec_start(c, &o, &x, &E));
	OK(cell_exec_start(c, &o, &y, &E));
	FAILS(EXISTS, cell_exec_next(y, 10000, &e, &E));
	OK(cell_exec_kill(x, &E));
}

static int note_label(const struct cell_exec_info *info, void *user)
{
	if (strcmp(info->id, "labelled") == 0 || strcmp(info->id, "plain") == 0)
		(void)snprintf(((char(*)[CELL_EXEC_LABEL_MAX])user)[*info->id == 'p'],
			CELL_EXEC_LABEL_MAX, "%s", info->label);
	return 0;
}

TEST_NEEDS(a_label_is_kept_with_its_command, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	char longest[CELL_EXEC_LABEL_MAX + 1] = "", found[2][CELL_EXEC_LABEL_MAX] = {"?", "?"};
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "nap", "0"),
		.id = "labelled",
		.label = "req-7 of ~someone",
		.flags = CELL_EXEC_DETACH};

	OK(cell_exec_start(c, &o, &x, &E));
	start_detached(c, ARGV("./probe", "nap", "0"), "plain", 0);
	OK(cell_ps(c, note_label, found, &E));
	ASSERT_STR(found[0], "req-7 of ~someone");
	ASSERT_STR(found[1], "");
	WAIT_FOR(has_ended(c, "labelled")); /* and after its end */
	OK(cell_ps(c, note_label, found, &E));
	ASSERT_STR(found[0], "req-7 of ~someone");

	cell_exec_free(x);
	x = NULL;
	o.id = NULL;
	o.label = "two\nlines";
	FAILS(INVALID, cell_exec_start(c, &o, &x, &E));
	memset(longest, 'l', CELL_EXEC_LABEL_MAX);
	o.label = longest;
	FAILS(INVALID, cell_exec_start(c, &o, &x, &E));
	longest[CELL_EXEC_LABEL_MAX - 1] = '\0';
	OK(cell_exec_start(c, &o, &x, &E));
}
