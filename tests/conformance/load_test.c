/* SPDX-License-Identifier: Apache-2.0 */
/* load_test.c: many commands, at once and one after another; nothing piles up; usage is counted. */
#include <signal.h>

#include "suite.h"

TEST(sixty_four_commands_run_at_once)
{
	enum {
		N = 64
	};
	auto_cell struct cell *c = open_cell(s);
	struct talk t[N];

	for (int i = 0; i < N; i++) {
		char text[32];
		snprintf(text, sizeof(text), "%d", i);
		talk_start(&t[i], c,
			&(struct cell_exec_opts){
				.argv = ARGV("sh", "-c", "read x; echo got $x $0; exit $0", text),
				.flags = CELL_EXEC_STDIN});
	}
	ASSERT_INT(ask_guest(c).running, N);
	for (int i = N - 1; i >= 0; i--) {
		char text[32];
		snprintf(text, sizeof(text), "line%d\n", i);
		talk_send(&t[i], text);
	}
	for (int i = 0; i < N; i++) {
		char want[64];
		snprintf(want, sizeof(want), "got line%d %d\n", i, i);
		ASSERT_INT(talk_end(&t[i]).exit_code, i);
		ASSERT_STR(t[i].out, want);
		talk_done(&t[i]);
	}
	ASSERT_INT(ask_guest(c).running, 0);
}

TEST(a_thousand_commands_leave_nothing_in_the_guest)
{
	auto_cell struct cell *c = open_cell(s);
	struct guest_facts before, after;
	unsigned fds = 0, processes = 0;

	for (int i = 0; i < 1000; i++) {
		if (i == 50) /* warmed up */
			before = ask_guest(c);
		if (i >= 50 && i < 70) { /* the next keeper is made at any moment: with it, too */
			unsigned now = count_fds(before.pid), there = take_census(NULL).processes;
			fds = now > fds ? now : fds;
			processes = there > processes ? there : processes;
		}
		auto_result struct cell_result r = RUN(c, "./probe", "exit", "7");
		ASSERT_INT(r.exit.exit_code, 7);
	}
	after = ask_guest(c);
	ASSERT_INT(after.running, 0);
	WAIT_FOR(count_fds(after.pid) <= fds);
	WAIT_FOR(take_census(NULL).processes <= processes);
	ASSERT_INT(take_census(NULL).zombies, 0);
	/* records of finished commands may be kept, without bound they may not */
	ASSERT(after.rss_bytes < before.rss_bytes + (8u << 20));
}

TEST(orphans_are_reaped)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "orphans", "100");

	ASSERT_INT(r.exit.exit_code, 0);
	WAIT_FOR(take_census(NULL).zombies == 0);
}

TEST(cpu_time_is_counted)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result busy = RUN(c, "./probe", "cpu", "300");
	auto_result struct cell_result idle = sh(c, "sleep 1");
	auto_result struct cell_result child = sh(c, "./probe cpu 300; true");

	ASSERT(busy.exit.usage.cpu_ns >= 250000000u);
	ASSERT(busy.exit.usage.wall_ns >= busy.exit.usage.cpu_ns / 2);
	ASSERT(idle.exit.usage.wall_ns >= 1000000000u);
	/* it slept, however slow the rest was */
	ASSERT(idle.exit.usage.wall_ns - idle.exit.usage.cpu_ns >= 900000000u);
	ASSERT(child.exit.usage.cpu_ns >= 250000000u);
}

TEST(peak_memory_is_counted)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result big = RUN(c, "./probe", "mem", "67108864");
	auto_result struct cell_result small = RUN(c, "./probe", "exit", "0");

	ASSERT_STR(big.out, "touched\n");
	/* 64 MiB were touched; the kernel counts on each CPU for itself and adds up in batches */
	ASSERT(big.exit.usage.max_rss_bytes >= 60u << 20);
	ASSERT(small.exit.usage.max_rss_bytes > 0);
	ASSERT(small.exit.usage.max_rss_bytes < 32u << 20);
}

TEST(many_commands_left_unread_are_ended_with_the_cell)
{
	struct cell *c = open_cell(s);

	for (int i = 0; i < 20; i++) {
		struct cell_exec_opts o = {
			.argv = ARGV("./probe", "stay", "300", mark(s, "unread"))};
		struct cell_exec *x = NULL;
		OK(cell_exec_start(c, &o, &x, &E));
		cell_exec_free(x);
	}
	WAIT_FOR(count_marked(c, mark(s, "unread")) >= 20);
	OK(cell_close(c, &E));
	WAIT_FOR(take_census(mark(s, "unread")).execs_with_marker == 0);
}

TEST_NEEDS(closing_the_cell_ends_every_descendant, NEEDS(KILL_TREE))
{
	struct cell *c = open_cell(s);
	struct talk t;

	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "tree", mark(s, "close-tree"))});
	talk_expect(&t, "ready\n");
	ASSERT(count_marked(c, mark(s, "close-tree")) >= 5);
	talk_done(&t);
	OK(cell_close(c, &E));
	ASSERT_INT(take_census(mark(s, "close-tree")).execs_with_marker, 0);
}
