/* SPDX-License-Identifier: Apache-2.0 */
/* signal_test.c: signals to a command's group, to its whole tree, and to what is not there. */
#include <signal.h>

#include "suite.h"

TEST(signals_reach_the_command)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "signals", "4")});
	talk_expect(&t, "ready\n");
	OK(cell_exec_signal(t.x, SIGHUP, &E));
	talk_expect(&t, "got 1\n");
	OK(cell_exec_signal(t.x, SIGUSR1, &E));
	talk_expect(&t, "got 10\n");
	OK(cell_exec_signal(t.x, SIGTERM, &E));
	talk_expect(&t, "got 15\n");
	OK(cell_signal(c, cell_exec_id(t.x), SIGUSR2, false, &E));
	talk_expect(&t, "got 12\n");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST(a_signal_goes_to_the_group_and_not_beyond)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	char id[CELL_EXEC_ID_MAX];

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "family")});
	snprintf(id, sizeof(id), "%s", cell_exec_id(t.x));
	talk_expect(&t, "ready\n");
	OK(cell_exec_signal(t.x, SIGUSR1, &E));
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_HAS(t.out, "parent 10\n");
	ASSERT_HAS(t.out, "child 10\n");
	ASSERT(!strstr(t.out, "stranger"));
	OK(cell_signal(c, id, SIGKILL, true, &E));
}

TEST_NEEDS(a_signal_to_the_tree_reaches_every_descendant, NEEDS(KILL_TREE))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "tree", mark(s, "signal-tree"))});
	talk_expect(&t, "ready\n");
	ASSERT(count_marked(c, mark(s, "signal-tree")) >= 5);
	OK(cell_signal(c, cell_exec_id(t.x), SIGKILL, true, &E));
	ASSERT_INT(talk_end(&t).signal, SIGKILL);
	WAIT_FOR(count_marked(c, mark(s, "signal-tree")) == 0);
}

TEST_NEEDS(what_a_command_left_running_can_be_signalled_by_its_id, NEEDS(KILL_TREE))
{
	auto_cell struct cell *c = open_cell(s);
	char line[200];

	snprintf(line, sizeof(line), "./probe nap 300 %s >/dev/null &", mark(s, "left-running"));
	auto_result struct cell_result r =
		run_opts(c, &(struct cell_exec_opts){.shell = line, .id = "left"}, NULL, 0);

	ASSERT_INT(r.exit.exit_code, 0);
	WAIT_FOR(count_marked(c, mark(s, "left-running")) > 0);
	OK(cell_signal(c, "left", SIGKILL, true, &E));
	WAIT_FOR(count_marked(c, mark(s, "left-running")) == 0);
}

/* As the cell sees it. The words behind the name in /proc/PID/stat begin with the state. */
static bool is_stopped(struct cell *c, const char *id)
{
	struct cell_exec_info info;
	char line[80];

	ASSERT(find_exec(c, id, &info));
	snprintf(line, sizeof(line), "cat /proc/%lld/stat", (long long)info.pid);
	auto_result struct cell_result r = sh(c, line);
	return strstr(r.out, ") T ") != NULL;
}

TEST(stop_and_continue_work)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_event e = {0};

	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "cat"), .flags = CELL_EXEC_STDIN});
	talk_send(&t, "a\n");
	talk_expect(&t, "a\n");
	OK(cell_exec_signal(t.x, SIGSTOP, &E));
	WAIT_FOR(is_stopped(c, cell_exec_id(t.x)));
	talk_send(&t, "b\n");
	OK(cell_exec_next(t.x, 200, &e, &E));
	ASSERT_INT(e.type, CELL_EVENT_NONE);
	OK(cell_exec_signal(t.x, SIGCONT, &E));
	talk_expect(&t, "b\n");
	OK(cell_exec_close_stdin(t.x, &E));
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST(a_signal_to_an_unknown_exec_is_not_found)
{
	auto_cell struct cell *c = open_cell(s);

	FAILS(NOT_FOUND, cell_signal(c, "no-such-exec", SIGTERM, false, &E));
	ASSERT_HAS(E.msg, "no-such-exec");
	FAILS(NOT_FOUND, cell_signal(c, "no-such-exec", SIGTERM, true, &E));
}

TEST(a_signal_that_does_not_exist_is_refused)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "nap", "300")});
	talk_expect(&t, "ready\n");
	FAILS(INVALID, cell_signal(c, cell_exec_id(t.x), 999, false, &E));
	FAILS(INVALID, cell_signal(c, cell_exec_id(t.x), -1, false, &E));
	OK(cell_signal(c, cell_exec_id(t.x), SIGKILL, false, &E));
	ASSERT_INT(talk_end(&t).signal, SIGKILL);
}

TEST(killing_one_command_leaves_the_others)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk a, b;

	talk_start(&a, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "nap", "300")});
	talk_start(&b, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "signals", "1")});
	talk_expect(&a, "ready\n");
	talk_expect(&b, "ready\n");
	OK(cell_signal(c, cell_exec_id(a.x), SIGKILL, true, &E));
	ASSERT_INT(talk_end(&a).signal, SIGKILL);
	OK(cell_exec_signal(b.x, SIGUSR1, &E));
	talk_expect(&b, "got 10\n");
	ASSERT_INT(talk_end(&b).exit_code, 0);
}

TEST(a_command_that_kills_its_group_harms_nobody_else)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = sh(c, "kill -9 0");
	auto_result struct cell_result after = sh(c, "echo still here");

	ASSERT_INT(r.exit.signal, SIGKILL);
	ASSERT_STR(after.out, "still here\n");
}
