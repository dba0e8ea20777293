/* SPDX-License-Identifier: Apache-2.0 */
/* pty_test.c: commands in a terminal. */
#include <signal.h>

#include "suite.h"

static struct cell_exec_opts in_terminal(const char *const *argv)
{
	return (struct cell_exec_opts){
		.argv = argv, .flags = CELL_EXEC_TTY, .rows = 31, .cols = 97};
}

TEST_NEEDS(a_terminal_is_one, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "tty"));

	talk_start(&t, c, &o);
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_HAS(t.out, "isatty 111\r\n");
	ASSERT_HAS(t.out, "size 31 97\r\n");
	ASSERT_HAS(t.out, "leader 1\r\n");
	ASSERT_HAS(t.out, "foreground 1\r\n");
	ASSERT_HAS(t.out, "controlling 1\r\n");
	ASSERT_INT(t.err_len, 0);
}

TEST(without_a_terminal_there_is_none)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "tty");

	ASSERT_HAS(r.out, "isatty 000\n");
	ASSERT_HAS(r.out, "controlling 0\n");
}

TEST_NEEDS(stderr_of_a_terminal_comes_as_stdout, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("sh", "-c", "echo one; echo two >&2"));

	talk_start(&t, c, &o);
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_STR(t.out, "one\r\ntwo\r\n");
	ASSERT_STR(t.err, "");
}

TEST_NEEDS(a_resize_is_seen_and_signalled, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "winch", "2"));

	talk_start(&t, c, &o);
	talk_expect(&t, "size 31 97\r\n");
	OK(cell_exec_resize(t.x, 40, 120, &E));
	talk_expect(&t, "size 40 120\r\n");
	OK(cell_exec_resize(t.x, 1, 1, &E));
	talk_expect(&t, "size 1 1\r\n");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST(a_resize_without_a_terminal_is_refused)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "nap", "300")});
	talk_expect(&t, "ready\n");
	FAILS(INVALID | BUSY | NOT_SUPPORTED, cell_exec_resize(t.x, 10, 10, &E));
	OK(cell_exec_signal(t.x, SIGKILL, &E));
	(void)talk_end(&t);
}

TEST_NEEDS(ctrl_c_is_an_interrupt, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "signals", "1"));

	talk_start(&t, c, &o);
	talk_expect(&t, "ready\r\n");
	talk_send(&t, "\x03");
	talk_expect(&t, "got 2\r\n");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST_NEEDS(ctrl_backslash_is_quit, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "signals", "1"));

	talk_start(&t, c, &o);
	talk_expect(&t, "ready\r\n");
	talk_send(&t, "\x1c");
	talk_expect(&t, "got 3\r\n");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST_NEEDS(ctrl_d_is_the_end_of_input, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "sum"));

	talk_start(&t, c, &o);
	talk_send(&t, "abc\n");
	talk_send(&t, "\x04");
	talk_expect(&t, "4 ");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST_NEEDS(closing_stdin_of_a_terminal_is_the_end_of_input, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "sum"));

	talk_start(&t, c, &o);
	talk_send(&t, "abcd\n");
	OK(cell_exec_close_stdin(t.x, &E));
	talk_expect(&t, "5 ");
	ASSERT_INT(talk_end(&t).exit_code, 0);
}

TEST_NEEDS(a_shell_in_a_terminal_can_be_talked_to, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("sh", "-i"));

	talk_start(&t, c, &o);
	talk_send(&t, "echo $((6 * 7)) there\n");
	talk_expect(&t, "42 there");
	talk_send(&t, "sh -c 'echo $((6 + 7)) sleeps; exec sleep 300'\n");
	talk_expect(&t, "13 sleeps");
	talk_send(&t, "\x03");
	talk_send(&t, "echo $((6 * 8)) back\n");
	talk_expect(&t, "48 back");
	talk_send(&t, "exit 9\n");
	ASSERT_INT(talk_end(&t).exit_code, 9);
}

TEST_NEEDS(large_output_of_a_terminal_arrives_whole, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t;
	struct cell_exec_opts o = in_terminal(ARGV("sh", "-c",
		"i=0; while [ $i -lt 20000 ]; do echo line $i; "
		"i=$((i + 1)); done"));

	talk_start(&t, c, &o);
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_HAS(t.out, "line 0\r\n");
	ASSERT_HAS(t.out, "line 10000\r\n");
	ASSERT(t.out_len > 11);
	ASSERT_STR(t.out + t.out_len - 12, "line 19999\r\n");
}

TEST_NEEDS(two_terminals_are_two, NEEDS(PTY))
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk a, b;
	struct cell_exec_opts o = in_terminal(ARGV("./probe", "signals", "1"));

	talk_start(&a, c, &o);
	talk_start(&b, c, &o);
	talk_expect(&a, "ready\r\n");
	talk_expect(&b, "ready\r\n");
	talk_send(&a, "\x03");
	talk_expect(&a, "got 2\r\n");
	(void)talk_end(&a);
	struct cell_event e = {0};
	OK(cell_exec_next(b.x, 100, &e, &E));
	ASSERT_INT(e.type, CELL_EVENT_NONE);
	OK(cell_exec_signal(b.x, SIGTERM, &E));
	talk_expect(&b, "got 15\r\n");
	(void)talk_end(&b);
}
