/* SPDX-License-Identifier: Apache-2.0 */
/* stdio_test.c: stdin, stdout and stderr: apart, together, large, closed early, never read. */
#include <poll.h>
#include <signal.h>

#include "suite.h"

TEST(stdin_is_empty_unless_given)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result none = RUN(c, "./probe", "sum");
	auto_result struct cell_result some =
		run_opts(c, &(struct cell_exec_opts){.argv = ARGV("./probe", "cat")}, "given", 5);
	auto_result struct cell_result nothing =
		run_opts(c, &(struct cell_exec_opts){.argv = ARGV("./probe", "sum")}, "", 0);

	ASSERT_HAS(none.out, "0 ");
	ASSERT_INT(none.out[0], '0');
	ASSERT_STR(some.out, "given");
	ASSERT_INT(nothing.out[0], '0');
}

TEST(large_stdin_arrives_whole)
{
	enum {
		N = 24 * 1024 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free uint8_t *input = malloc(N);
	char want[64];

	ASSERT(input);
	for (size_t i = 0; i < N; i++)
		input[i] = gen_byte(i);
	snprintf(want, sizeof(want), "%d %016llx\n", N, (unsigned long long)gen_hash(N));
	auto_result struct cell_result r =
		run_opts(c, &(struct cell_exec_opts){.argv = ARGV("./probe", "sum")}, input, N);
	ASSERT_STR(r.out, want);
}

TEST(stdin_that_is_never_read_holds_nobody_up)
{
	enum {
		N = 16 * 1024 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *input = calloc(1, N);

	ASSERT(input);
	auto_result struct cell_result r = run_opts(c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "exit", "4")}, input, N);
	ASSERT_INT(r.exit.exit_code, 4);
}

TEST(a_command_that_closes_stdin_early_goes_on)
{
	enum {
		N = 16 * 1024 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *input = malloc(N);

	ASSERT(input);
	memset(input, 'q', N);
	auto_result struct cell_result r =
		run_opts(c, &(struct cell_exec_opts){.argv = ARGV("./probe", "one")}, input, N);
	ASSERT_STR(r.out, "got q\n");
	ASSERT_INT(r.exit.exit_code, 0);
}

TEST(stdin_may_be_written_piece_by_piece)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "cat"), .flags = CELL_EXEC_STDIN});
	talk_send(&t, "one\n");
	talk_expect(&t, "one\n");
	talk_send(&t, "two\n");
	talk_expect(&t, "two\n");
	OK(cell_exec_close_stdin(t.x, &E));
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_STR(t.out, "one\ntwo\n");
}

TEST(writing_without_waiting_takes_what_fits)
{
	enum {
		N = 64 * 1024 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *bytes = calloc(1, N);
	auto_talk struct talk t;
	size_t sent = 0;

	ASSERT(bytes);
	talk_start(&t, c,
		&(struct cell_exec_opts){
			.argv = ARGV("./probe", "nap", "300"), .flags = CELL_EXEC_STDIN});
	talk_expect(&t, "ready\n");
	for (int quiet = 0; quiet < 20 && sent < N;) {
		long long n = OK(cell_exec_write(t.x, bytes + sent, N - sent, 0, &E));
		ASSERT(n >= 0 && (size_t)n <= N - sent);
		sent += (size_t)n;
		quiet = n ? 0 : quiet + 1;
		usleep(5000);
	}
	ASSERT(sent > 0);
	ASSERT(sent < N / 2);
	OK(cell_exec_signal(t.x, SIGKILL, &E));
	ASSERT_INT(talk_end(&t).signal, SIGKILL);
}

TEST(stdin_of_a_command_without_the_flag_is_refused)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "nap", "300")});
	talk_expect(&t, "ready\n");
	FAILS(ANY_ERROR, cell_exec_write(t.x, "x", 1, 0, &E));
	OK(cell_exec_signal(t.x, SIGKILL, &E));
	ASSERT_INT(talk_end(&t).signal, SIGKILL);
}

TEST(large_output_of_both_streams_arrives_whole_and_apart)
{
	enum {
		N = 12 * 1024 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "both", "12582912"), .max_output = N + 10};
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);

	ASSERT_INT(r.exit.exit_code, 0);
	ASSERT_INT(r.out_len, N);
	ASSERT_INT(r.err_len, N);
	ASSERT(!r.truncated);
	ASSERT(hash_add(HASH_START, r.out, r.out_len) == gen_hash(N));
	ASSERT(hash_add(HASH_START, r.err, r.err_len) == gen_hash(N));
}

TEST(output_past_the_cap_is_counted_and_said_to_be_cut)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {.argv = ARGV("./probe", "gen", "5000000"), .max_output = 1000};
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);

	ASSERT_INT(r.exit.exit_code, 0);
	ASSERT_INT(r.out_len, 1000);
	ASSERT_INT(r.out_bytes, 5000000);
	ASSERT(r.truncated);
	ASSERT(hash_add(HASH_START, r.out, r.out_len) == gen_hash(1000));
	ASSERT_INT(r.out[r.out_len], '\0');
}

TEST(output_of_exactly_the_cap_is_not_cut)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {.argv = ARGV("./probe", "gen", "1000"), .max_output = 1000};
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);

	ASSERT_INT(r.out_len, 1000);
	ASSERT(!r.truncated);
}

TEST(the_default_cap_is_a_mebibyte)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "gen", "3000000");

	ASSERT_INT(r.out_len, 1024 * 1024);
	ASSERT_INT(r.out_bytes, 3000000);
	ASSERT(r.truncated);
}

TEST(merged_streams_keep_their_order)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {.argv = ARGV("./probe", "mix", "500"), .flags = CELL_EXEC_MERGE};
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);
	const char *at = r.out;

	for (long i = 0; i < 500; i++) {
		char *end;
		ASSERT_INT(strtol(at, &end, 10), i);
		ASSERT(*end == '\n');
		at = end + 1;
	}
	ASSERT_INT(*at, '\0');
	ASSERT_INT(r.err_len, 0);
}

TEST(offsets_of_events_count_the_bytes_of_each_stream)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "both", "300000")});
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_INT(t.next_out, 300000);
	ASSERT_INT(t.next_err, 300000);
	struct cell_event e = {0};
	OK(cell_exec_next(t.x, 0, &e, &E));
	ASSERT_INT(e.type, CELL_EVENT_NONE);
}

TEST(polling_gives_nothing_while_nothing_comes)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_event e = {0};

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "nap", "300")});
	talk_expect(&t, "ready\n");
	OK(cell_exec_next(t.x, 0, &e, &E));
	ASSERT_INT(e.type, CELL_EVENT_NONE);
	OK(cell_exec_next(t.x, 50, &e, &E));
	ASSERT_INT(e.type, CELL_EVENT_NONE);
	OK(cell_exec_signal(t.x, SIGTERM, &E));
	ASSERT_INT(talk_end(&t).signal, SIGTERM);
}

TEST(an_event_loop_can_wait_on_the_descriptor)
{
	auto_cell struct cell *c = open_cell(s);
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "gen", "200000")};
	struct cell_event e = {0};
	uint64_t got = 0;

	OK(cell_exec_start(c, &o, &x, &E));
	while (e.type != CELL_EVENT_EXIT) {
		OK(cell_exec_next(x, 0, &e, &E));
		if (e.type == CELL_EVENT_STDOUT)
			got += e.len;
		if (e.type != CELL_EVENT_NONE)
			continue;
		struct pollfd p = {.fd = cell_poll_fd(c), .events = cell_poll_events(c)};
		ASSERT(p.fd >= 0);
		ASSERT(p.events & POLLIN);
		ASSERT_INT(poll(&p, 1, 20000), 1);
	}
	ASSERT_INT(got, 200000);
}

TEST(the_leader_may_leave_a_child_that_holds_stdout)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "hold", "how", "go");

	/* Returning at all is the point: the child waits for a file that is made only now. */
	ASSERT_INT(r.exit.exit_code, 0);
	ASSERT(!exists(c, "how"));
	store(c, "go", "");
	WAIT_FOR(exists(c, "how"));
	auto_free char *how = NULL;
	do {
		free(how);
		how = load(c, "how");
	} while (!*how);
	ASSERT_STR(how, "written");
}

TEST(several_commands_stream_at_once)
{
	enum {
		N = 8
	};
	auto_cell struct cell *c = open_cell(s);
	struct talk t[N];

	for (int i = 0; i < N; i++) {
		char n[16];
		snprintf(n, sizeof(n), "%d", 100000 * (i + 1));
		talk_start(&t[i], c, &(struct cell_exec_opts){.argv = ARGV("./probe", "gen", n)});
	}
	for (int i = N - 1; i >= 0; i--) {
		ASSERT_INT(talk_end(&t[i]).exit_code, 0);
		ASSERT_INT(t[i].out_len, 100000 * (i + 1));
		ASSERT(hash_add(HASH_START, t[i].out, t[i].out_len) ==
			gen_hash(100000 * (uint64_t)(i + 1)));
		talk_done(&t[i]);
	}
}

/* Much goes another way through the guest than little. Writes of 32 KiB up to short of 256 KiB, then a
 * small one across: what the pauses make likely is that each is met alone. */
TEST(a_little_behind_much_comes_whole)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {.shell = "for i in 1 2 3 4 5 6 7; do "
					    "dd if=/dev/zero bs=32768 count=1 2>&-; sleep 0.02; "
					    "done; dd if=/dev/zero bs=24576 count=1 2>&-; "
					    "sleep 0.02; dd if=/dev/zero bs=16000 count=1 2>&-; "
					    "sleep 0.02; echo end",
		.max_output = 1u << 20,
		.keep_bytes = 1};

	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);
	ASSERT_INT(r.out_len, 7 * 32768 + 24576 + 16000 + 4);
	ASSERT_STR(r.out + r.out_len - 4, "end\n");
}

TEST_NEEDS(a_file_of_any_size_is_read_whole, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	for (size_t i = 0; i < 48; i++) {
		size_t want = (262144u << i % 3) + i * 331, len = 0;
		char line[200];
		char *text = NULL;

		snprintf(line, sizeof(line), "./probe gen %zu > file", want);
		auto_result struct cell_result r = sh(c, line);
		ASSERT_INT(r.exit.exit_code, 0);
		OK(cell_file_load(c, "file", 2u << 20, &text, &len, &E));
		ASSERT_INT(len, want);
		ASSERT(hash_add(HASH_START, text, len) == gen_hash(want));
		free(text);
	}
}
