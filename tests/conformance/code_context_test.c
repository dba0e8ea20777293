/* SPDX-License-Identifier: Apache-2.0 */
/* code_context_test.c: contexts, side by side and one after the other, and clients that come and go. */
#include <errno.h>
#include <signal.h>

#include "code_flow.h"

/* ---- contexts ---- */

TEST(contexts_are_made_listed_reset_and_deleted)
{
	auto_cell struct cell *c = open_python(s);
	char name[CELL_CONTEXT_MAX];

	ASSERT_INT(context(c, "a").all, 0);
	OK(cell_context_create(c, &(struct cell_context_opts){.name = "a"}, name, &E));
	ASSERT_STR(name, "a");
	FAILS(EXISTS, cell_context_create(c, &(struct cell_context_opts){.name = "a"}, name, &E));
	FAILS(INVALID,
		cell_context_create(c, &(struct cell_context_opts){.name = "a/b"}, name, &E));
	FAILS(INVALID,
		cell_context_create(c, &(struct cell_context_opts){.language = "cobol"}, name, &E));
	ASSERT_HAS(E.hint, "python");
	OK(cell_context_create(c, &(struct cell_context_opts){.language = "py"}, name, &E));
	ASSERT(strcmp(name, "a") != 0);

	auto_code struct cell_code_result one = code_in(c, "a", "v = 1");
	auto_code struct cell_code_result two = code_in(c, name, "v = 2");
	ASSERT(one.done.is_ok && two.done.is_ok);
	auto_code struct cell_code_result v = code_in(c, "a", "v");
	ASSERT_STR(v.value, "1");
	struct wanted w = context(c, "a");
	ASSERT_INT(w.all, 2);
	ASSERT_HAS(w.version, "3.");
	ASSERT_INT(w.info.execution_count, 2);
	ASSERT(w.info.pid > 0 && w.info.rss_bytes > 1u << 20 && w.info.started_unix_ms);
	ASSERT(!w.info.is_busy);
	ASSERT_INT(w.info.waiting, 0);
	/* idle interpreters are no commands */
	ASSERT_INT(ask_guest(c).running, 0);

	OK(cell_context_reset(c, "a", &E));
	auto_code struct cell_code_result gone = code_in(c, "a", "v");
	ASSERT_STR(gone.error_name, "NameError");
	ASSERT_INT(gone.done.execution_count, 1);
	ASSERT(!gone.done.restarted); /* it was asked for */
	OK(cell_context_delete(c, "a", &E));
	ASSERT_INT(context(c, "a").all, 1);
	FAILS(NOT_FOUND, cell_context_delete(c, "a", &E));
	FAILS(NOT_FOUND, cell_context_reset(c, "a", &E));
	FAILS(NOT_FOUND, cell_context_interrupt(c, "a", &E));
	struct cell_code_result r = {0};
	FAILS(INVALID,
		cell_code(c,
			&(struct cell_code_opts){.code = "1", .context = name, .language = "shell"},
			&r, &E));
	cell_code_result_done(&r);
}

TEST(contexts_work_side_by_side)
{
	auto_cell struct cell *c = open_python(s);
	auto_flow struct flow a, b;

	/* each waits for the other: one after the other they would never end */
	flow_start(&a, c,
		&(struct cell_code_opts){.context = "a",
			.code = "import os, time\nopen('a', 'w').close()\n"
				"while not os.path.exists('b'): time.sleep(0.01)"});
	flow_start(&b, c,
		&(struct cell_code_opts){.context = "b",
			.code = "import os, time\nopen('b', 'w').close()\n"
				"while not os.path.exists('a'): time.sleep(0.01)"});
	flow_end(&a);
	flow_end(&b);
	ASSERT(a.done.is_ok && b.done.is_ok);
}

TEST(runs_of_one_context_keep_their_order)
{
	auto_cell struct cell *c = open_python(s);
	struct flow f[30];

	flow_start(&f[0], c, &(struct cell_code_opts){.code = "l = [0]"});
	for (int i = 1; i < 30; i++) {
		char text[64];

		snprintf(text, sizeof text, "l.append(%d)", i);
		flow_start(&f[i], c, &(struct cell_code_opts){.code = text});
	}
	for (int i = 0; i < 30; i++) {
		flow_end(&f[i]);
		ASSERT(f[i].done.is_ok);
		ASSERT_INT(f[i].done.execution_count, i + 1);
		flow_free(&f[i]);
	}
	expect_value(c, "l == list(range(30))", "True");
}

TEST(a_queue_has_an_end)
{
	auto_cell struct cell *c = open_python(s);
	struct flow first, waiting[63];
	struct cell_code_run *x = NULL;

	flow_start(&first, c,
		&(struct cell_code_opts){
			.code = "import time\nprint('b', flush=True)\ntime.sleep(600)"});
	while (!first.bytes[0])
		flow_until(&first, CELL_CODE_STDOUT);
	for (int i = 0; i < 63; i++)
		flow_start(&waiting[i], c, &(struct cell_code_opts){.code = "n = 1"});
	ASSERT_INT(context(c, "python").info.waiting, 63);
	FAILS(BUSY, cell_code_start(c, &(struct cell_code_opts){.code = "n = 1"}, &x, &E));
	/* one that waits can be taken back, the others go on */
	OK(cell_code_interrupt(waiting[5].x, &E));
	flow_end(&waiting[5]);
	ASSERT(waiting[5].done.interrupted && !waiting[5].done.is_ok);
	ASSERT_INT(context(c, "python").info.waiting, 62);
	OK(cell_code_interrupt(first.x, &E));
	flow_end(&first);
	for (int i = 0; i < 63; i++) {
		flow_end(&waiting[i]);
		ASSERT(waiting[i].done.is_ok || i == 5);
		flow_free(&waiting[i]);
	}
	flow_free(&first);
}

TEST(runs_that_wait_are_lost_with_a_reset_and_go_on_after_a_death)
{
	auto_cell struct cell *c = open_python(s);
	struct flow f[4];
	static const char wait[] = "import os, time\nprint('b', flush=True)\n"
				   "while not os.path.exists('go'): time.sleep(0.01)\nos._exit(1)";

	flow_start(&f[0], c, &(struct cell_code_opts){.code = wait});
	while (!f[0].bytes[0])
		flow_until(&f[0], CELL_CODE_STDOUT);
	flow_start(&f[1], c, &(struct cell_code_opts){.code = "1"});
	OK(cell_context_reset(c, "python", &E));
	for (int i = 0; i < 2; i++) {
		flow_end(&f[i]);
		ASSERT_INT(f[i].done.state, CELL_CODE_LOST);
	}
	flow_start(&f[2], c, &(struct cell_code_opts){.code = wait});
	flow_start(&f[3], c, &(struct cell_code_opts){.code = "print('alive')"});
	store(c, "go", "");
	flow_end(&f[2]);
	flow_end(&f[3]);
	ASSERT_INT(f[2].done.state, CELL_CODE_LOST);
	ASSERT(f[3].done.is_ok && f[3].done.restarted);
	for (int i = 0; i < 4; i++)
		flow_free(&f[i]);
}

TEST(a_context_has_its_directory_and_environment)
{
	auto_cell struct cell *c = open_python(s);
	auto_code struct cell_code_result r = {0};
	char name[CELL_CONTEXT_MAX];

	OK(cell_file_mkdir(c, "sub", 0, true, &E));
	OK(cell_context_create(c,
		&(struct cell_context_opts){.name = "p",
			.cwd = "sub",
			.env = ARGV("COLOUR=blue"),
			.preload = ARGV("json", "decimal")},
		name, &E));
	r = code_in(c, "p",
		"import os\nos.getcwd().endswith('/sub'), os.environ['COLOUR'], 'HOME' in "
		"os.environ, "
		"'decimal' in __import__('sys').modules");
	ASSERT_STR(r.value, "(True, 'blue', True, True)");
	/* and the next interpreter has them, too */
	OK(cell_context_reset(c, "p", &E));
	auto_code struct cell_code_result again =
		code_in(c, "p", "import os\nos.environ['COLOUR']");
	ASSERT_STR(again.value, "'blue'");
}

TEST(variables_are_listed_fetched_and_set)
{
	auto_cell struct cell *c = open_python(s);
	auto_free char *vars = NULL, *one = NULL, *set = NULL, *words = NULL, *none = NULL;

	FAILS(NOT_FOUND, cell_context_vars(c, "python", &none, &E));
	auto_code struct cell_code_result r = code(c, "numbers = [1, 2, 3]\nname = 'Ada'");
	ASSERT(r.done.is_ok);
	OK(cell_context_vars(c, "python", &vars, &E));
	ASSERT_HAS(vars, "\"numbers\"");
	ASSERT_HAS(vars, "\"list\"");
	OK(cell_context_get(c, "python", "numbers", &one, &E));
	ASSERT_HAS(one, "\"list\"");
	OK(cell_context_set(c, "python", "given", "{\"a\": [1, 2.5, null]}", &E));
	expect_value(c, "given['a'][1]", "2.5");
	FAILS(NOT_FOUND, cell_context_get(c, "python", "nothing", &set, &E));
	FAILS(INVALID | NOT_FOUND, cell_context_set(c, "python", "given", "{no json", &E));
	OK(cell_context_complete(c, "python", "numb", 4, &words, &E));
	ASSERT_HAS(words, "numbers");
	/* questions are no runs */
	auto_code struct cell_code_result last = code(c, "1");
	ASSERT_INT(last.done.execution_count, 3);
}

TEST(a_language_that_is_not_there_is_told)
{
	struct cell_spec spec = suite_spec(s);
	struct cell_code_result r = {0};
	char name[CELL_CONTEXT_MAX];

	spec.env = ARGV("PATH=/nonexistent");
	auto_cell struct cell *c = open_spec(&spec);
	FAILS(NOT_FOUND, cell_code(c, &(struct cell_code_opts){.code = "1"}, &r, &E));
	cell_code_result_done(&r);
	ASSERT_HAS(E.msg, "python");
	ASSERT_HAS(E.hint, "none");
	FAILS(NOT_FOUND, cell_context_create(c, &(struct cell_context_opts){0}, name, &E));
	FAILS(INVALID,
		cell_code(c, &(struct cell_code_opts){.code = "1", .language = "cobol"}, &r, &E));
	cell_code_result_done(&r);
	ASSERT_INT(context(c, "python").all, 0);
}

/* ---- clients come and go ---- */

TEST(an_id_is_used_once)
{
	auto_cell struct cell *c = open_python(s);
	struct cell_code_result r = {0};

	OK(cell_code(c, &(struct cell_code_opts){.code = "n = 1", .id = "mine"}, &r, &E));
	ASSERT_STR(r.id, "mine");
	cell_code_result_done(&r);
	FAILS(EXISTS,
		cell_code(c, &(struct cell_code_opts){.code = "n = 2", .id = "mine"}, &r, &E));
	cell_code_result_done(&r);
	expect_value(c, "n", "1");
	FAILS(INVALID, cell_code(c, &(struct cell_code_opts){.code = "1", .id = "no id"}, &r, &E));
	cell_code_result_done(&r);
}

TEST_NEEDS(a_run_is_read_afterwards_from_any_event, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_python(s);
	struct cell_code_run *x = NULL;
	struct cell_exec_info info;

	OK(cell_code_start(c,
		&(struct cell_code_opts){.id = "alone",
			.is_detached = true,
			.code = "for i in range(3):\n    print('line', i)\n    display(i)\n'end'"},
		&x, &E));
	free_run(&x);
	WAIT_FOR(find_exec(c, "alone", &info) && info.state == CELL_EXEC_EXITED);

	uint64_t at[32] = {0};
	size_t n = 0;
	struct flow whole = {.hash = HASH_START};
	OK(cell_code_attach(c, "alone", 0, &whole.x, &E));
	while (!whole.is_over) {
		struct cell_code_event ev;

		at[n++] = cell_code_offset(whole.x);
		OK(cell_code_next(whole.x, (int)patience(20000), &ev, &E));
		note_event(&whole, &ev);
	}
	ASSERT_STR(whole.log, "o:line 0\n|d|o:line 1\n|d|o:line 2\n|d|R|D");
	flow_free(&whole);
	for (size_t i = 0; i < n; i++) {
		struct flow f = {.hash = HASH_START};

		OK(cell_code_attach(c, "alone", at[i], &f.x, &E));
		flow_end(&f);
		const char *tail = strstr("o:line 0\n|d|o:line 1\n|d|o:line 2\n|d|R|D", f.log);
		ASSERT(tail && strlen(tail) == strlen(f.log));
		flow_free(&f);
	}
}

TEST_NEEDS(a_look_at_a_run_ends_with_what_is_there, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_python(s);
	struct cell_code_run *x = NULL;
	struct cell_exec_info info;
	struct cell_code_event ev;

	OK(cell_code_start(c,
		&(struct cell_code_opts){.id = "looked-at",
			.code = "import os, time\nprint('begun', flush=True)\n"
				"while not os.path.exists('go'): time.sleep(0.01)"},
		&x, &E));
	OK(cell_code_next(x, (int)patience(20000), &ev, &E));
	ASSERT_INT(ev.type, CELL_CODE_STDOUT);
	ASSERT(find_exec(c, "looked-at", &info) && info.is_code);
	for (int i = 0; i < 2; i++) {
		struct cell_code_run *look = NULL;

		OK(cell_code_look(c, "looked-at", 0, false, &look, &E));
		OK(cell_code_next(look, (int)patience(20000), &ev, &E));
		ASSERT(ev.type == CELL_CODE_STDOUT && ev.len == 6);
		OK(cell_code_next(look, (int)patience(20000), &ev, &E));
		ASSERT_INT(ev.type, CELL_CODE_END);
		free_run(&look);
	}
	auto_result struct cell_result w = sh(c, "> go");
	ASSERT_INT(w.exit.exit_code, 0);
	struct flow f = {.hash = HASH_START};
	OK(cell_code_look(c, "looked-at", 0, true, &f.x, &E));
	flow_end(&f);
	ASSERT_STR(f.log, "o:begun\n|D");
	flow_free(&f);
	free_run(&x);
}

static void start_and_die(struct suite *s, void *arg)
{
	struct cell *c = NULL;
	struct flow f;

	(void)s, (void)arg;
	OK(cell_reopen("survivor", &c, &E));
	auto_code struct cell_code_result r = code(c, "x = 41");
	ASSERT(r.done.is_ok);
	flow_start(&f, c,
		&(struct cell_code_opts){.id = "orphan",
			.code = "import os, time\nprint('begun', flush=True)\n"
				"while not os.path.exists('go'): "
				"time.sleep(0.01)\nprint('over')\nx += 1"});
	while (!f.bytes[0])
		flow_until(&f, CELL_CODE_STDOUT);
	_exit(0); /* without a word */
}

TEST_NEEDS(a_context_outlives_its_clients, NEEDS(NAMED))
{
	struct cell *c = open_python_named(s, "survivor");

	must_succeed(other_process(start_and_die, s, NULL));
	store(c, "go", "");
	struct flow f = {.hash = HASH_START};
	OK(cell_code_attach(c, "orphan", 0, &f.x, &E));
	flow_end(&f);
	ASSERT_STR(f.log, "o:begun\nover\n|D");
	flow_free(&f);
	expect_value(c, "x", "42");
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(a_run_that_nobody_reads_ends_and_says_what_is_missing, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_python(s);
	struct cell_code_run *x = NULL;
	struct cell_exec_info info;

	OK(cell_code_start(c,
		&(struct cell_code_opts){.id = "unread",
			.is_detached = true,
			.keep_bytes = 300000,
			.code = "import os\nfor i in range(32): _ = os.write(1, b'y' * "
				"65536)\n1/0"},
		&x, &E));
	free_run(&x);
	WAIT_FOR(find_exec(c, "unread", &info) && info.state == CELL_EXEC_EXITED);
	struct flow f = {.hash = HASH_START};
	OK(cell_code_attach(c, "unread", 0, &f.x, &E));
	flow_end(&f);
	ASSERT(f.bytes[0] >= 100000 && f.bytes[0] < 400000);
	ASSERT_INT(f.bytes[0] + f.done.dropped_bytes >= 32 * 65536, 1);
	ASSERT(!f.done.is_ok);
	flow_free(&f);
}

TEST_NEEDS(a_durable_run_waits_for_its_reader, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_python(s);
	struct cell_code_run *x = NULL;

	OK(cell_code_start(c,
		&(struct cell_code_opts){.id = "durable",
			.is_detached = true,
			.is_durable = true,
			.keep_bytes = 300000,
			.code = "import os\nfor i in range(64): _ = os.write(1, b'y' * "
				"65536)\n'end'"},
		&x, &E));
	free_run(&x);
	struct flow f = {.hash = HASH_START};
	OK(cell_code_attach(c, "durable", 0, &f.x, &E));
	flow_end(&f);
	ASSERT_INT(f.bytes[0], 64 * 65536);
	ASSERT_INT(f.done.dropped_bytes, 0);
	ASSERT(f.done.is_ok);
	flow_free(&f);

	/* with nobody there an interrupt ends it all the same */
	OK(cell_code_start(c,
		&(struct cell_code_opts){.id = "stuck",
			.is_detached = true,
			.is_durable = true,
			.keep_bytes = 300000,
			.code = "import os\nwhile True: _ = os.write(1, b'z' * 65536)"},
		&x, &E));
	free_run(&x);
	struct cell_exec_info info = {0};
	WAIT_FOR(find_exec(c, "stuck", &info) && info.out_bytes > 100000);
	OK(cell_context_interrupt(c, "python", &E));
	WAIT_FOR(find_exec(c, "stuck", &info) && info.state == CELL_EXEC_EXITED);
	expect_value(c, "1 + 1", "2");
}

TEST(a_cell_ends_while_code_runs)
{
	struct cell *c = open_python(s);
	struct flow f[3];

	for (int i = 0; i < 3; i++)
		flow_start(&f[i], c,
			&(struct cell_code_opts){.context = i < 2 ? "a" : "b",
				.code = "import subprocess\nsubprocess.run(['./probe', 'stay', "
					"'600'])"});
	WAIT_FOR(context(c, "b").info.is_busy);
	for (int i = 0; i < 3; i++)
		flow_free(&f[i]);
	OK(cell_close(c, &E)); /* the suite looks for what is left */
}

TEST(many_contexts_come_and_go)
{
	auto_cell struct cell *c = open_python(s);
	char name[CELL_CONTEXT_MAX];

	auto_code struct cell_code_result warm = code(c, "1");
	ASSERT(warm.done.is_ok);
	int64_t guest = ask_guest(c).pid;
	unsigned before = count_fds(guest);
	for (int i = 0; i < 8; i++) {
		OK(cell_context_create(c, &(struct cell_context_opts){0}, name, &E));
		auto_code struct cell_code_result r = code_in(c, name, "2");
		ASSERT_STR(r.value, "2");
		OK(cell_context_delete(c, name, &E));
	}
	WAIT_FOR(count_fds(guest) <= before + 1); /* a keeper may wait for the next */
	ASSERT_INT(context(c, "python").all, 1);
}
