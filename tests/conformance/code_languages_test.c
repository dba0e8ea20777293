/* SPDX-License-Identifier: Apache-2.0 */
/* code_languages_test.c: JavaScript, shell and SQL in a cell: state, values, errors, interrupts and ends, as the guest and
 * the library give them. What their drivers do in detail is tested without a cell, in tests/kernels. */
#include <signal.h>

#include "cell/code.h"

#include "suite.h"

#define auto_code __attribute__((cleanup(cell_code_result_done)))

/* A cell that has an interpreter of this language. */
static struct cell *open_with(const struct suite *s, const char *language)
{
	struct cell *c = open_programs(s, NULL);
	char name[CELL_CONTEXT_MAX];

	int r = cell_context_create(c,
		&(struct cell_context_opts){.name = language, .language = language}, name, &E);
	if (r < 0 && E.code == CELL_ENOTFOUND) {
		(void)cell_destroy(c, NULL);
		SKIP("the cells of this back end have no interpreter of %s here", language);
	}
	OK(r);
	return c;
}

static struct cell_code_result run(struct cell *c, const char *language, const char *text)
{
	struct cell_code_result r = {0};

	OK(cell_code(c, &(struct cell_code_opts){.code = text, .language = language}, &r, &E));
	return r;
}

static void expect_value(struct cell *c, const char *language, const char *text, const char *value)
{
	auto_code struct cell_code_result r = run(c, language, text);

	if (!r.done.is_ok || !r.value || strcmp(r.value, value) != 0)
		DIE("'%s' is %s (error %s: %s), want %s", text, r.value ? r.value : "nothing",
			r.error_name ? r.error_name : "none",
			r.error_message ? r.error_message : "", value);
}

static void expect_out(struct cell *c, const char *language, const char *text, const char *out)
{
	auto_code struct cell_code_result r = run(c, language, text);

	if (!r.done.is_ok || strcmp(r.out, out) != 0)
		DIE("'%s' says '%s' (error %s: %s), want '%s'", text, r.out,
			r.error_name ? r.error_name : "none",
			r.error_message ? r.error_message : "", out);
}

static void expect_error(struct cell *c, const char *language, const char *text, const char *name,
	const char *message)
{
	auto_code struct cell_code_result r = run(c, language, text);

	ASSERT(!r.done.is_ok);
	ASSERT_INT(r.done.state, CELL_CODE_KEPT);
	ASSERT_STR(r.error_name, name);
	ASSERT_HAS(r.error_message, message);
}

/* Code that goes on for ever is interrupted at its deadline, and what was there before is still there. */
static void expect_interrupt(struct cell *c, const char *language, const char *text)
{
	auto_code struct cell_code_result r = {0};

	OK(cell_code(c,
		&(struct cell_code_opts){
			.code = text, .language = language, .timeout_ms = 700, .grace_ms = 30000},
		&r, &E));
	if (r.done.is_ok || !r.done.timed_out || r.done.state != CELL_CODE_KEPT)
		DIE("'%s' is not interrupted: state %d, signal %d, exit %d, error %s: %s; stderr "
		    "'%s'",
			text, r.done.state, r.done.signal, r.done.exit_code,
			r.error_name ? r.error_name : "none",
			r.error_message ? r.error_message : "", r.err);
	ASSERT_STR(r.error_name, "Interrupted");
}

static void expect_ended(struct cell *c, const char *language, const char *text, int exit_code)
{
	auto_code struct cell_code_result r = run(c, language, text);

	ASSERT_INT(r.done.state, CELL_CODE_ENDED);
	ASSERT_INT(r.done.exit_code, exit_code);
}

TEST(javascript_keeps_its_variables_and_gives_values)
{
	auto_cell struct cell *c = open_with(s, "javascript");

	expect_out(c, "js", "let x = 40; console.log('hello')", "hello\n");
	expect_value(c, "javascript", "x + 2", "42");
	expect_value(c, "javascript", "const x = 1; ({x})", "{ x: 1 }");
	expect_value(c, "javascript", "await new Promise(r => setTimeout(r, 10, 'later'))",
		"'later'");
	expect_value(c, "javascript", "import { basename } from 'path'; basename('/a/b')", "'b'");
	expect_error(c, "javascript", "null.y", "TypeError", "null");
	expect_error(c, "javascript", "let = ;", "SyntaxError", "Unexpected");
}

TEST(javascript_is_interrupted_and_goes_on)
{
	auto_cell struct cell *c = open_with(s, "javascript");

	expect_value(c, "javascript", "var kept = 7; kept", "7");
	expect_interrupt(c, "javascript", "while (true) {}");
	expect_interrupt(c, "javascript", "await new Promise(() => {})");
	expect_interrupt(c, "javascript",
		"await new Promise(r => setTimeout(r, 20)); while (true) {}");
	expect_value(c, "javascript", "kept", "7");
	expect_ended(c, "javascript", "process.exit(3)", 3);
	expect_error(c, "javascript", "kept", "ReferenceError", "kept is not defined");
}

TEST(a_shell_keeps_its_variables_and_its_directory)
{
	auto_cell struct cell *c = open_with(s, "shell");

	expect_out(c, "shell", "x=40; f() { echo \"f $1\"; }; mkdir -p sub; cd sub", "");
	expect_out(c, "bash", "echo $((x + 2)); f 1; basename \"$PWD\"", "42\nf 1\nsub\n");
	expect_error(c, "shell", "(exit 3)", "ExitStatus", "exit status 3");
	expect_out(c, "shell", "echo $?", "3\n");
	expect_error(c, "shell", "if [", "SyntaxError", "line");
	expect_error(c, "shell", "set -e\nfalse\nx=lost", "ExitStatus", "exit status 1");
	expect_out(c, "shell", "set +e; echo $x", "40\n");
}

TEST(a_shell_is_interrupted_and_goes_on)
{
	auto_cell struct cell *c = open_with(s, "shell");

	expect_out(c, "shell", "kept=7", "");
	expect_interrupt(c, "shell", "sleep 1000; kept=lost");
	expect_interrupt(c, "shell", "while :; do :; done");
	expect_out(c, "shell", "echo $kept", "7\n");
	expect_ended(c, "shell", "exit 3", 3);
	expect_out(c, "shell", "echo \"[$kept]\"", "[]\n");
}

/* `exec program`: what it writes, however late, is the run's, and its end the shell's. */
TEST(a_shell_may_become_another_program)
{
	auto_cell struct cell *c = open_with(s, "shell");
	auto_code struct cell_code_result r = {0}, killed = {0}, late = {0};

	expect_out(c, "shell", "kept=7", "");
	r = run(c, "shell",
		"echo first; exec sh -c 'echo second; sleep 0.3; seq 200000 | tail -n 1; echo e "
		">&2; exit 4'");
	ASSERT_STR(r.out, "first\nsecond\n200000\n");
	ASSERT_STR(r.err, "e\n");
	ASSERT_INT(r.done.state, CELL_CODE_ENDED);
	ASSERT_INT(r.done.exit_code, 4);
	ASSERT(!r.error_name);
	expect_out(c, "shell", "echo \"[$kept]\"", "[]\n");
	expect_ended(c, "shell", "exec true", 0);
	killed = run(c, "shell", "exec sh -c 'echo seen; kill -9 $$'");
	ASSERT_STR(killed.out, "seen\n");
	ASSERT_INT(killed.done.state, CELL_CODE_LOST);
	ASSERT_INT(killed.done.signal, SIGKILL);
	ASSERT_STR(killed.error_name, "InterpreterDied");
	expect_out(c, "shell", "echo up", "up\n"); /* its start is no part of the deadline */
	OK(cell_code(c,
		&(struct cell_code_opts){.code = "exec sleep 1000",
			.language = "shell",
			.timeout_ms = 300,
			.grace_ms = 30000},
		&late, &E));
	ASSERT(late.done.timed_out);
	ASSERT_INT(late.done.state, CELL_CODE_LOST);
	ASSERT_INT(late.done.signal, SIGINT);
	expect_out(c, "shell", "echo again", "again\n");
}

TEST(sql_gives_tables_from_a_database_and_from_a_file)
{
	auto_cell struct cell *c = open_with(s, "sql");
	auto_code struct cell_code_result r = {0};

	auto_result struct cell_result w =
		sh(c, "printf 'id,name\\n1,Ada\\n2,Grace\\n' > people.csv");
	ASSERT_INT(w.exit.exit_code, 0);
	expect_value(c, "sql",
		"create table t(x); insert into t values (40); select x + 2 as v from t",
		" v\n--\n42\n(1 row)");
	expect_value(c, "sql", "select name from 'people.csv', t where id = x - 38",
		"name\n-----\nGrace\n(1 row)");
	expect_error(c, "sql", "select 1;\nselect * form t", "OperationalError", "form");
	expect_interrupt(c, "sql",
		"with recursive c(x) as (select 1 union all select x + 1 from c) select sum(x) "
		"from c");
	r = run(c, "sql", "select * from t");
	ASSERT_HAS(r.results, "application/vnd.dataresource+json");
	ASSERT_HAS(r.results, "text/html");
}

TEST(sql_keeps_a_database_in_the_workspace)
{
	auto_cell struct cell *c = open_with(s, "sql");
	char name[CELL_CONTEXT_MAX];
	const struct cell_context_opts o = {.name = "db", .language = "sql", .database = "my.db"};

	OK(cell_context_create(c, &o, name, &E));
	for (int i = 0; i < 2; i++) {
		auto_code struct cell_code_result r = {0};

		OK(cell_code(c,
			&(struct cell_code_opts){.context = "db",
				.code = "create table if not exists t(x); insert into t values(1); "
					"select count(*) as n from t"},
			&r, &E));
		ASSERT_STR(r.value, i == 0 ? "n\n-\n1\n(1 row)" : "n\n-\n2\n(1 row)");
		OK(cell_context_reset(c, "db", &E));
	}
}

TEST(variables_of_every_language_are_listed_set_and_got)
{
	static const struct {
		const char *language, *code, *show;
	} cases[] = {
		{"javascript", "let a = [1, 2]", "console.log(b.k)"},
		{"shell", "a=(1 2)", "echo ${b[k]}"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *l = cases[i].language;
		auto_cell struct cell *c = open_with(s, l);
		auto_free char *vars = NULL, *got = NULL, *done = NULL;

		expect_out(c, l, cases[i].code, "");
		OK(cell_context_vars(c, l, &vars, &E));
		ASSERT_HAS(vars, "\"a\"");
		OK(cell_context_get(c, l, "a", &got, &E));
		ASSERT_HAS(got, "[2]"); /* its shape */
		OK(cell_context_set(c, l, "b", "{\"k\": \"v\"}", &E));
		expect_out(c, l, cases[i].show, "v\n");
		OK(cell_context_complete(c, l, "zz", 2, &done, &E));
		ASSERT_HAS(done, "\"matches\"");
	}
}
