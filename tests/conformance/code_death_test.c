/* SPDX-License-Identifier: Apache-2.0 */
/* code_death_test.c: interpreters that die, in every way. */
#include <errno.h>
#include <signal.h>

#include "code_flow.h"

static void dies(struct cell *c, const char *text, int sig, int exit_code, const char *why)
{
	expect_value(c, "x = 5; x", "5");
	auto_code struct cell_code_result r = code(c, text);

	if (r.done.state != CELL_CODE_LOST || r.done.signal != sig || r.done.exit_code != exit_code)
		DIE("'%s': state %d, signal %d, exit code %d", text, r.done.state, r.done.signal,
			r.done.exit_code);
	ASSERT(!r.done.is_ok);
	ASSERT_STR(r.error_name, "InterpreterDied");
	ASSERT_HAS(r.error_message, why);
	ASSERT_HAS(r.out, "before");
	auto_code struct cell_code_result next = code(c, "x");
	ASSERT_STR(next.error_name, "NameError");
	ASSERT(next.done.restarted);
}

TEST(an_interpreter_may_die_in_every_way)
{
	auto_cell struct cell *c = open_python(s);

	auto_code struct cell_code_result other = code_in(c, "other", "z = 1");
	ASSERT(other.done.is_ok);
	dies(c, "print('before', flush=True)\nimport ctypes; ctypes.string_at(0)", SIGSEGV, 0,
		"Segmentation fault");
	dies(c, "print('before', flush=True)\nimport os; os._exit(7)", 0, 7, "code 7");
	dies(c, "print('before', flush=True)\nimport os; os.kill(os.getpid(), 9)", SIGKILL, 0,
		"signal 9");
	dies(c, "print('before', flush=True)\nimport os; os.abort()", SIGABRT, 0, "Abort");
	dies(c,
		"print('before', flush=True)\nimport os, time; os.close(3)\n"
		"while True: time.sleep(10)",
		SIGKILL, 0, "signal 9");
	dies(c, "print('before', flush=True)\nimport os; os.execvp('sleep', ['sleep', '600'])",
		SIGKILL, 0, "signal 9");
	auto_code struct cell_code_result still = code_in(c, "other", "z");
	ASSERT_STR(still.value, "1");
	ASSERT_INT(still.done.execution_count, 2);
}

TEST(a_channel_that_is_written_to_by_others_costs_one_interpreter)
{
	static const char *const wrong[] = {
		"b'\\n'",
		"b'hello\\n'",
		"b'x' * 1000",
		"b'result\\n'",
		"b'result -1\\n'",
		"b'result 99999999999999999999\\n'",
		"b'result 999999999\\n'",
		"b'done maybe 0\\n'",
		"b'ready 2\\n{}'",
		"b'done ok 0\\ndone ok 0\\n'",
		"b'mark 1\\nx'",
		"bytes(range(256)) * 4",
	};
	auto_cell struct cell *c = open_python(s);

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char text[300];

		snprintf(text, sizeof text,
			"print('before', flush=True)\nimport os, time\n_ = os.write(3, %s)\n"
			"while True: time.sleep(10)",
			wrong[i]);
		auto_code struct cell_code_result r = code(c, text);
		/* "done" may have been believed; then the next one meets what came behind it */
		if (r.done.state == CELL_CODE_KEPT && !strstr(wrong[i], "done ok"))
			DIE("%s went unnoticed", wrong[i]);
		if (r.done.state == CELL_CODE_LOST)
			ASSERT_HAS(r.error_message, "control channel");
		OK(cell_context_reset(c, "python", &E));
		expect_value(c, "1 + 1", "2");
	}
}

TEST(an_interpreter_that_dies_between_runs_is_begun_anew)
{
	auto_cell struct cell *c = open_python(s);

	expect_value(c, "x = 5; x", "5");
	auto_code struct cell_code_result r =
		code(c, "import threading, os, time\n"
			"def end():\n"
			"    while not os.path.exists('go'): time.sleep(0.01)\n"
			"    os._exit(3)\n"
			"threading.Thread(target=end).start()");
	ASSERT(r.done.is_ok);
	ASSERT(context(c, "python").info.pid > 0);
	store(c, "go", "");
	WAIT_FOR(context(c, "python").info.pid == 0);
	auto_code struct cell_code_result next = code(c, "x");
	ASSERT_STR(next.error_name, "NameError");
	ASSERT(next.done.restarted);
	ASSERT_INT(next.done.execution_count, 1);
}

TEST(what_an_interpreter_started_dies_with_it)
{
	auto_cell struct cell *c = open_python(s);
	const char *marker = mark(s, "child");
	char text[600];

	for (int how = 0; how < 3; how++) {
		snprintf(text, sizeof text,
			"import subprocess\n"
			"_ = subprocess.Popen(['./probe', 'stay', '600', '%s'], "
			"start_new_session=True)\n",
			marker);
		auto_code struct cell_code_result r = code(c, text);
		ASSERT(r.done.is_ok);
		WAIT_FOR(count_marked(c, marker) >= 1);
		if (how == 0) {
			auto_code struct cell_code_result end = code(c, "import os; os._exit(0)");
			ASSERT_INT(end.done.state, CELL_CODE_LOST);
		} else if (how == 1) {
			OK(cell_context_reset(c, "python", &E));
		} else {
			OK(cell_context_delete(c, "python", &E));
		}
		WAIT_FOR(count_marked(c, marker) == 0);
	}
}

TEST(an_interpreter_that_does_not_start_says_why)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r = {0};
	char name[CELL_CONTEXT_MAX];

	static const char broken[] = "#!/bin/sh\necho no luck today >&2\nexit 4\n";
	OK(cell_file_store(c, "broken", 0755, 0, broken, sizeof broken - 1, &E));
	OK(cell_context_create(c,
		&(struct cell_context_opts){.name = "b", .interpreter = "./broken"}, name, &E));
	r = code_in(c, "b", "1");
	ASSERT_STR(r.error_name, "InterpreterDied");
	ASSERT_INT(r.done.state, CELL_CODE_LOST);
	ASSERT_HAS(r.error_message, "code 4");
	ASSERT_HAS(r.err, "no luck today");

	OK(cell_context_create(c,
		&(struct cell_context_opts){.name = "n", .interpreter = "/nowhere/python"}, name,
		&E));
	auto_code struct cell_code_result n = code_in(c, "n", "1");
	ASSERT_STR(n.error_name, "InterpreterDied");
	ASSERT_HAS(n.err, "/nowhere/python");
}
