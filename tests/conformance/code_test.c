/* SPDX-License-Identifier: Apache-2.0 */
/* code_test.c: interpreters that remember: what a run gives, and what comes of it when things go wrong. */
#include <errno.h>
#include <signal.h>

#include "cell/code.h"

#include "suite.h"

#define auto_code __attribute__((cleanup(cell_code_result_done)))
#define auto_run  __attribute__((cleanup(free_run)))

static void free_run(struct cell_code_run **x)
{
	cell_code_free(*x);
	*x = NULL;
}

/* A cell that has a Python; the root tree of some back ends has none. */
static struct cell *having_python(struct cell *c)
{
	struct cell_code_result r = {0};
	int e = cell_code(c, &(struct cell_code_opts){.code = "0"}, &r, &E);

	cell_code_result_done(&r);
	if (e < 0 && E.code == CELL_ENOTFOUND) {
		ASSERT_HAS(E.hint, "languages it has");
		(void)cell_destroy(c, NULL);
		SKIP("the cells of this back end have no Python here");
	}
	OK(e);
	OK(cell_context_delete(c, "python", &E));
	return c;
}

static struct cell *open_python(const struct suite *s)
{
	return having_python(open_cell(s));
}

static struct cell_code_result code_in(struct cell *c, const char *context, const char *code)
{
	struct cell_code_result r = {0};

	OK(cell_code(c, &(struct cell_code_opts){.code = code, .context = context}, &r, &E));
	ASSERT(r.out && r.err && r.results);
	return r;
}

static struct cell_code_result code(struct cell *c, const char *text)
{
	return code_in(c, NULL, text);
}

/* What the last expression is, or DIE. */
static void expect_value(struct cell *c, const char *text, const char *value)
{
	auto_code struct cell_code_result r = code(c, text);

	if (!r.done.is_ok || !r.value || strcmp(r.value, value) != 0)
		DIE("'%s' is %s (error %s: %s), want %s", text, r.value ? r.value : "nothing",
			r.error_name ? r.error_name : "none",
			r.error_message ? r.error_message : "", value);
}

/* A run as a list of events, in short: "o:text|e:text|R|E:Name|D". Texts of one stream that follow each other are one. */
struct flow {
	struct cell_code_run *x;
	char log[4096];
	enum cell_code_event_type last;
	uint64_t bytes[2]; /* of stdout and stderr */
	uint64_t hash;	   /* of stdout */
	uint64_t late_bytes;
	size_t largest; /* event */
	struct cell_code_done done;
	bool is_over;
};

static void flow_start(struct flow *f, struct cell *c, const struct cell_code_opts *o)
{
	*f = (struct flow){.hash = HASH_START};
	OK(cell_code_start(c, o, &f->x, &E));
}

static void flow_free(struct flow *f)
{
	cell_code_free(f->x);
}
#define auto_flow __attribute__((cleanup(flow_free)))

static void note(struct flow *f, const char *text, size_t n)
{
	size_t at = strlen(f->log);

	if (n > sizeof f->log - 1 - at)
		n = sizeof f->log - 1 - at;
	memcpy(f->log + at, text, n);
}

static void note_event(struct flow *f, const struct cell_code_event *ev)
{
	static const char *const letters[] = {[CELL_CODE_STDOUT] = "o:",
		[CELL_CODE_STDERR] = "e:",
		[CELL_CODE_DISPLAY] = "d",
		[CELL_CODE_RESULT] = "R",
		[CELL_CODE_ERROR] = "E",
		[CELL_CODE_INPUT] = "I",
		[CELL_CODE_CLEAR] = "C",
		[CELL_CODE_ANSWER] = "A",
		[CELL_CODE_DONE] = "D"};
	bool is_text = ev->type == CELL_CODE_STDOUT || ev->type == CELL_CODE_STDERR;

	if (!(is_text && ev->type == f->last)) {
		if (f->last)
			note(f, "|", 1);
		note(f, letters[ev->type], strlen(letters[ev->type]));
	}
	if (is_text) {
		f->bytes[ev->type - CELL_CODE_STDOUT] += ev->len;
		if (ev->type == CELL_CODE_STDOUT)
			f->hash = hash_add(f->hash, ev->data, ev->len);
		if (ev->is_late)
			f->late_bytes += ev->len;
		note(f, ev->data, ev->len);
	} else {
		ASSERT_INT(ev->data[ev->len], 0);
	}
	f->last = ev->type;
	if (ev->len > f->largest)
		f->largest = ev->len;
	if (ev->type == CELL_CODE_DONE) {
		f->done = ev->done;
		f->is_over = true;
	}
}

/* Take events until one of this type, or the last. */
static void flow_until(struct flow *f, enum cell_code_event_type type)
{
	struct cell_code_event ev = {0};

	while (!f->is_over && ev.type != type) {
		OK(cell_code_next(f->x, (int)patience(60000), &ev, &E));
		if (ev.type == CELL_CODE_NONE)
			DIE("no event came; until now: %s", f->log);
		note_event(f, &ev);
	}
}

static void flow_end(struct flow *f)
{
	struct cell_code_event ev;

	flow_until(f, CELL_CODE_DONE);
	OK(cell_code_next(f->x, (int)patience(60000), &ev, &E));
	ASSERT_INT(ev.type, CELL_CODE_NONE);
}

/* Of a context: its pid, -1 when there is none of the name. */
struct wanted {
	const char *name;
	struct cell_context_info info;
	char version[32];
	int found, all;
};

static int note_context(const struct cell_context_info *info, void *user)
{
	struct wanted *w = user;

	w->all++;
	if (strcmp(info->name, w->name) != 0)
		return 0;
	w->found++;
	w->info = *info;
	snprintf(w->version, sizeof w->version, "%s", info->version);
	return 0;
}

static struct wanted context(struct cell *c, const char *name)
{
	struct wanted w = {.name = name};

	OK(cell_context_list(c, note_context, &w, &E));
	ASSERT(w.found <= 1);
	return w;
}

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
	auto_code struct cell_code_result r = {0};
	char name[CELL_CONTEXT_MAX];

	OK(cell_context_create(c, &(struct cell_context_opts){.timeout_ms = 500}, name, &E));
	ASSERT_HAS(name, "python");
	r = code_in(c, name, "import time\ntime.sleep(600)");
	ASSERT(r.done.timed_out);
	ASSERT_STR(r.error_name, "KeyboardInterrupt");
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

/* ---- deaths ---- */

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
	struct cell *c = having_python(open_named(s, "survivor"));

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
	WAIT_FOR(count_fds(guest) <= before);
	ASSERT_INT(context(c, "python").all, 1);
}
