/* SPDX-License-Identifier: Apache-2.0 */
/* code_test.c: interpreters that remember: what a run gives, and how it ends in time. */
#include <errno.h>
#include <signal.h>

#include "code_flow.h"

#define PATIENCE_MS 120000 /* longer than any machine needs */

/* ---- what a run gives ---- */

TEST(code_remembers)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result first = code(c, "x = 40");
	auto_code struct cell_code_result second = code(c, "x + 2");

	ASSERT(first.done.is_ok && second.done.is_ok);
	ASSERT(!first.value);
	ASSERT_STR(first.results, "[]");
	ASSERT_INT(first.done.execution_count, 1);
	ASSERT_INT(first.done.state, CELL_CODE_KEPT);
	ASSERT_STR(second.value, "42");
	ASSERT_HAS(second.results, "\"text/plain\":\"42\"");
	ASSERT_INT(second.done.execution_count, 2);
	ASSERT(second.done.execution_time_ms > 0);
	ASSERT(!second.error_name && !second.truncated && second.id[0]);
	ASSERT(strcmp(first.id, second.id) != 0);
}

TEST(code_that_is_wrong_is_a_result)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r = code(c, "y = 1\nprint('so far')\n1/0");

	ASSERT(!r.done.is_ok);
	ASSERT_INT(r.done.state, CELL_CODE_KEPT);
	ASSERT_STR(r.error_name, "ZeroDivisionError");
	ASSERT_STR(r.error_message, "division by zero");
	ASSERT_HAS(r.error_traceback, "1/0");
	ASSERT_STR(r.out, "so far\n");
	expect_value(c, "y", "1");

	auto_code struct cell_code_result syntax = code(c, "def (");
	ASSERT_STR(syntax.error_name, "SyntaxError");
	auto_code struct cell_code_result empty = code(c, "");
	ASSERT(empty.done.is_ok && !empty.value);
}

TEST(streams_come_in_the_order_they_were_written)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;

	flow_start(&f, c,
		&(struct cell_code_opts){.code = "import sys\n"
						 "for i in range(50):\n"
						 "    print('a')\n"
						 "    print('b', file=sys.stderr)\n"
						 "display(1)\n"
						 "print('c')\n"
						 "2"});
	flow_end(&f);
	static const char pair[] = "o:a\n|e:b\n|";
	char want[4096] = "";
	for (int i = 0; i < 50; i++)
		memcpy(want + (size_t)i * (sizeof pair - 1), pair, sizeof pair - 1);
	snprintf(want + strlen(want), 100, "d|o:c\n|R|D");
	ASSERT_STR(f.log, want);
}

TEST(output_comes_while_the_code_runs)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;

	/* it goes on only when the test has seen its first line */
	flow_start(&f, c,
		&(struct cell_code_opts){
			.code = "import os, time\nprint('begun', flush=True)\n"
				"while not os.path.exists('go'): time.sleep(0.01)\nprint('over')"});
	while (f.bytes[0] < strlen("begun\n"))
		flow_until(&f, CELL_CODE_STDOUT);
	store(c, "go", "");
	flow_end(&f);
	ASSERT_STR(f.log, "o:begun\nover\n|D");
}

TEST(output_of_children_is_the_runs)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r =
		code(c, "import subprocess, os\n"
			"_ = subprocess.run(['./probe', 'gen', '100000'])\n"
			"_ = os.system('echo shell; echo wrong >&2')");

	ASSERT_INT(r.out_bytes, 100000 + 6);
	ASSERT(memcmp(r.out + 100000, "shell\n", 6) == 0);
	ASSERT_STR(r.err, "wrong\n");
}

TEST(much_output_is_all_there)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;
	const uint64_t n = 100u << 20;

	flow_start(&f, c,
		&(struct cell_code_opts){
			.code = "import sys\nb = bytes(i * 7 & 255 for i in range(1 << 20))\n"
				"for i in range(100): _ = "
				"sys.stdout.buffer.write(b)\nprint('end')"});
	flow_end(&f);
	ASSERT(f.done.is_ok);
	ASSERT_INT(f.bytes[0], n + 4);
	ASSERT_INT(f.done.dropped_bytes, 0);
	uint64_t h = HASH_START;
	static uint8_t block[1 << 20];
	for (size_t i = 0; i < sizeof block; i++)
		block[i] = (uint8_t)(i * 7);
	for (int i = 0; i < 100; i++)
		h = hash_add(h, block, sizeof block);
	ASSERT(f.hash == hash_add(h, "end\n", 4));
	ASSERT(ask_guest(c).rss_bytes < 8u << 20);

	auto_code struct cell_code_result cut = {0};
	OK(cell_code(c, &(struct cell_code_opts){.code = "print('x' * 1000)", .max_output = 10},
		&cut, &E));
	ASSERT(cut.truncated);
	ASSERT_INT(cut.out_len, 10);
	ASSERT_INT(cut.out_bytes, 1001);
}

TEST(a_large_result_is_whole)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;

	flow_start(&f, c,
		&(struct cell_code_opts){
			.code = "class H:\n    def _repr_html_(self): return 'h' * 3000000\nH()"});
	flow_end(&f);
	ASSERT_STR(f.log, "R|D");
	ASSERT(f.largest > 3000000);
	auto_code struct cell_code_result r = code(c, "H()");
	ASSERT(strlen(r.results) > 3000000);
	ASSERT_HAS(r.results, "hhhh");
}

TEST(a_reader_that_does_not_read_makes_the_code_wait)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;

	flow_start(&f, c,
		&(struct cell_code_opts){
			.code = "import os\n"
				"for i in range(64):\n"
				"    _ = os.write(1, b'x' * 65536)\n"
				"    with open('written', 'w') as w: _ = w.write(str(i))\n"});
	/* it fills what lies between and stops there */
	WAIT_FOR(exists(c, "written"));
	long long at = -1;
	for (int same = 0; same < 20;) {
		auto_free char *text = load(c, "written");
		long long now = *text ? strtoll(text, NULL, 10) : at;

		same = now == at ? same + 1 : 0;
		at = now;
		usleep(10000);
	}
	ASSERT(at < 63);
	flow_end(&f);
	ASSERT_INT(f.bytes[0], 64 * 65536);
	ASSERT(f.done.is_ok);
}

TEST(input_is_asked_for_and_answered)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;

	flow_start(&f, c,
		&(struct cell_code_opts){
			.code = "a = input('name? ')\nb = input()\nprint(a + '+' + b)\ninput()",
			.with_input = true});
	flow_until(&f, CELL_CODE_INPUT);
	OK(cell_code_answer(f.x, "Ada", &E));
	flow_until(&f, CELL_CODE_INPUT);
	OK(cell_code_answer(f.x, "", &E));
	flow_until(&f, CELL_CODE_INPUT);
	OK(cell_code_answer(f.x, NULL, &E));
	flow_end(&f);
	ASSERT_STR(f.log, "I|I|o:Ada+\n|I|E|D");
	ASSERT(!f.done.is_ok);

	/* without anybody to ask it does not wait */
	auto_code struct cell_code_result r = code(c, "input('?')");
	ASSERT_STR(r.error_name, "EOFError");
	expect_value(c, "a", "'Ada'");
}

TEST(output_between_runs_is_late)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow f;

	auto_code struct cell_code_result r = code(c, "import subprocess\n"
						      "p = subprocess.Popen('while [ ! -e go ]; do "
						      "sleep 0.01; done; echo later; : > gone', "
						      "shell=True)");
	ASSERT(r.done.is_ok);
	ASSERT_INT(r.out_bytes, 0);
	store(c, "go", "");
	WAIT_FOR(exists(c, "gone"));
	flow_start(&f, c, &(struct cell_code_opts){.code = "print('now')"});
	flow_end(&f);
	ASSERT_INT(f.late_bytes, 6);
	ASSERT_STR(f.log, "o:later\nnow\n|D");
}

/* ---- time ---- */

TEST(a_deadline_interrupts_and_keeps_the_variables)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r = {0};

	expect_value(c, "x = 5; x", "5");
	OK(cell_code(c,
		&(struct cell_code_opts){.code = "print('begun')\nwhile True: pass",
			.timeout_ms = 500,
			.grace_ms = 60000},
		&r, &E));
	ASSERT_STR(r.error_name, "KeyboardInterrupt");
	ASSERT(!r.done.is_ok && r.done.timed_out);
	ASSERT_INT(r.done.state, CELL_CODE_KEPT);
	ASSERT_STR(r.out, "begun\n");
	expect_value(c, "x", "5");
}

TEST(what_swallows_its_interrupt_is_killed)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r = {0};

	expect_value(c, "x = 5; x", "5");
	OK(cell_code(c,
		&(struct cell_code_opts){
			.code = "import signal, time\nsignal.signal(signal.SIGINT, "
				"signal.SIG_IGN)\n"
				"print('deaf', flush=True)\nwhile True: time.sleep(10)",
			.timeout_ms = 500,
			.grace_ms = 100},
		&r, &E));
	ASSERT(!r.done.is_ok && r.done.timed_out);
	ASSERT_INT(r.done.state, CELL_CODE_LOST);
	ASSERT_INT(r.done.signal, SIGKILL);
	ASSERT_STR(r.error_name, "InterpreterDied");
	ASSERT_HAS(r.error_message, "deadline");
	ASSERT_STR(r.out, "deaf\n");

	auto_code struct cell_code_result next = code(c, "x");
	ASSERT_STR(next.error_name, "NameError");
	ASSERT(next.done.restarted);
	ASSERT_INT(next.done.execution_count, 1);
	auto_code struct cell_code_result after = code(c, "1");
	ASSERT(!after.done.restarted);
}

TEST(a_context_has_a_timeout_of_its_own)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r = {0}, first = {0};
	char name[CELL_CONTEXT_MAX];

	OK(cell_context_create(c, &(struct cell_context_opts){.timeout_ms = 2000}, name, &E));
	ASSERT_HAS(name, "python");
	/* The time an interpreter takes to start, or to hear of its interrupt, is not what this is about: on a slow machine it would be
	 * killed instead. */
	OK(cell_code(c,
		&(struct cell_code_opts){
			.code = "import time", .context = name, .timeout_ms = PATIENCE_MS},
		&first, &E));
	ASSERT(first.done.is_ok);
	OK(cell_code(c,
		&(struct cell_code_opts){
			.code = "time.sleep(600)", .context = name, .grace_ms = PATIENCE_MS},
		&r, &E));
	ASSERT(r.done.timed_out);
	ASSERT_STR(r.error_name, "KeyboardInterrupt");
	ASSERT_INT(r.done.state, CELL_CODE_KEPT);
}

TEST(an_interrupt_ends_what_runs_and_nothing_else)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow a, b;

	expect_value(c, "x = 5; x", "5");
	flow_start(&a, c,
		&(struct cell_code_opts){
			.code = "print('begun', flush=True)\nimport time\ntime.sleep(600)"});
	flow_start(&b, c, &(struct cell_code_opts){.code = "x + 1"});
	while (!a.bytes[0])
		flow_until(&a, CELL_CODE_STDOUT);
	OK(cell_context_interrupt(c, "python", &E));
	flow_end(&a);
	flow_end(&b);
	ASSERT(a.done.interrupted && !a.done.timed_out && !a.done.is_ok);
	ASSERT_INT(a.done.state, CELL_CODE_KEPT);
	ASSERT_STR(b.log, "R|D");

	/* at once after the start: it must not get lost either */
	for (int i = 0; i < 20; i++) {
		auto_flow struct flow f;

		flow_start(&f, c, &(struct cell_code_opts){.code = "while True: pass"});
		OK(cell_code_interrupt(f.x, &E));
		flow_end(&f);
		ASSERT(f.done.interrupted);
		ASSERT_INT(f.done.state, CELL_CODE_KEPT);
	}
	expect_value(c, "x", "5");
	OK(cell_context_interrupt(c, "python", &E)); /* of nothing */
	expect_value(c, "x", "5");
}
