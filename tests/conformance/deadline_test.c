/* SPDX-License-Identifier: Apache-2.0 */
/* deadline_test.c: a deadline ends a command and everything it started, and keeps its output. */
#include <signal.h>

#include "suite.h"

static struct cell_result run_for(struct cell *c, const char *const *argv, uint64_t timeout_ms)
{
	return run_opts(c, &(struct cell_exec_opts){.argv = argv, .timeout_ms = timeout_ms}, NULL,
		0);
}

TEST(a_deadline_ends_a_command_and_keeps_its_output)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r =
		run_for(c, ARGV("./probe", "nap", "300", mark(s, "deadline")), 300);

	ASSERT_INT(r.exit.exit_code, 124);
	ASSERT(r.exit.timed_out);
	ASSERT_STR(r.out, "ready\n");
	ASSERT_INT(count_marked(c, mark(s, "deadline")), 0);
}

TEST(a_command_within_its_deadline_is_left_alone)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = run_for(c, ARGV("./probe", "exit", "5"), 60000);

	ASSERT_INT(r.exit.exit_code, 5);
	ASSERT(!r.exit.timed_out);
}

TEST(a_command_may_clean_up_when_its_deadline_comes)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r =
		run_for(c, ARGV("./probe", "term"), (uint64_t)patience(300));

	ASSERT_STR(r.out, "ready\ncleaned up\n");
	ASSERT_INT(r.exit.exit_code, 124);
	ASSERT(r.exit.timed_out);
}

TEST(a_command_deaf_to_term_is_killed)
{
	auto_cell struct cell *c = open_cell(s);
	long long before = now_ms();
	auto_result struct cell_result r = run_for(c,
		ARGV("./probe", "stay", "300", mark(s, "deaf")), (uint64_t)patience(300));

	ASSERT_INT(r.exit.exit_code, 124);
	ASSERT(r.exit.timed_out);
	ASSERT_INT(r.exit.signal, SIGKILL);
	ASSERT(now_ms() - before >= 2000); /* it had its two seconds */
	ASSERT_INT(count_marked(c, mark(s, "deaf")), 0);
}

TEST_NEEDS(a_deadline_ends_every_descendant, NEEDS(KILL_TREE))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "tree", mark(s, "deadline-tree")),
		.timeout_ms = (uint64_t)patience(1500)};

	talk_start(&t, c, &o);
	talk_expect(&t, "ready\n");
	ASSERT(count_marked(c, mark(s, "deadline-tree")) >= 5);
	ASSERT_INT(talk_end(&t).exit_code, 124);
	ASSERT(t.exit.timed_out);
	WAIT_FOR(count_marked(c, mark(s, "deadline-tree")) == 0);
}

TEST_NEEDS(a_deadline_ends_what_went_its_own_way, NEEDS(KILL_TREE))
{
	auto_cell struct cell *c = open_cell(s);
	char line[200];
	struct cell_exec_opts o = {.shell = line, .timeout_ms = (uint64_t)patience(1000)};

	snprintf(line, sizeof(line),
		"(./probe stay 300 %s >/dev/null 2>&1 &); trap '' TERM; echo partial; sleep 300",
		mark(s, "orphan"));
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);

	ASSERT_STR(r.out, "partial\n");
	ASSERT_INT(r.exit.exit_code, 124);
	WAIT_FOR(count_marked(c, mark(s, "orphan")) == 0);
}

TEST(the_spec_gives_the_deadline_of_every_command)
{
	struct cell_spec spec = suite_spec(s);

	spec.timeout_ms = 300;
	auto_cell struct cell *c = open_spec(&spec);
	put_probe(s, c);
	auto_result struct cell_result r = RUN(c, "./probe", "nap", "300");
	auto_result struct cell_result longer =
		run_for(c, ARGV("sh", "-c", "sleep 0.6; exit 6"), 60000);

	ASSERT_INT(r.exit.exit_code, 124);
	ASSERT_INT(longer.exit.exit_code, 6);
}

TEST(a_deadline_holds_for_a_command_nobody_reads)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "endless", "counter"), .timeout_ms = 500, .id = "unread"};
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_info info;

	OK(cell_exec_start(c, &o, &x, &E));
	WAIT_FOR(!find_exec(c, "unread", &info) || info.state != CELL_EXEC_RUNNING);
}

TEST(a_deadline_holds_for_a_stopped_command)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "nap", "300", mark(s, "stopped")), .timeout_ms = 500};

	talk_start(&t, c, &o);
	talk_expect(&t, "ready\n");
	OK(cell_exec_signal(t.x, SIGSTOP, &E));
	ASSERT_INT(talk_end(&t).exit_code, 124);
	WAIT_FOR(count_marked(c, mark(s, "stopped")) == 0);
}

TEST_NEEDS(a_deadline_holds_in_a_terminal, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "nap", "300", mark(s, "tty")),
		.flags = CELL_EXEC_TTY,
		.timeout_ms = 300};

	talk_start(&t, c, &o);
	ASSERT_INT(talk_end(&t).exit_code, 124);
	ASSERT(t.exit.timed_out);
	ASSERT_STR(t.out, "ready\r\n");
	WAIT_FOR(count_marked(c, mark(s, "tty")) == 0);
}

TEST_NEEDS(a_deadline_holds_in_the_background, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_info info;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "nap", "300", mark(s, "background")),
		.flags = CELL_EXEC_DETACH,
		.id = "late",
		.timeout_ms = 300};

	OK(cell_exec_start(c, &o, &x, &E));
	WAIT_FOR(find_exec(c, "late", &info) && info.state == CELL_EXEC_EXITED);
	ASSERT_INT(info.exit.exit_code, 124);
	ASSERT(info.exit.timed_out);
}
