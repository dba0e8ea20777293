/* SPDX-License-Identifier: Apache-2.0 */
/* code_warm_test.c: interpreters that were started before anybody asked, and cells that wait with them. */
#include <time.h>

#include "code_flow.h"

static uint64_t unix_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static struct cell_spec warm_spec(const struct suite *s)
{
	static const char *const warm[] = {"python", NULL}, *const preload[] = {
								    "json", "decimal", NULL};
	struct cell_spec spec = programs_spec(s);
	struct cell *c = NULL;

	if (spec.image)
		c = open_spec(&spec);
	else if (cell_open(&spec, &c, &E) < 0)
		SKIP("the cells of this back end have no Python here");
	bool is_there = has_python(c);
	OK(cell_close(c, &E));
	if (!is_there)
		SKIP("the cells of this back end have no Python here");
	spec.warm = warm;
	spec.preload = preload;
	return spec;
}

/* When the interpreter of the context was started; it has to have had a run. */
static uint64_t started(struct cell *c)
{
	struct wanted w = context(c, "python");

	ASSERT_INT(w.found, 1);
	return w.info.started_unix_ms;
}

/* Have the shelf filled, or skip. */
static void fill(const struct cell_spec *spec, unsigned n)
{
	E = (struct cell_error){0};
	if (cell_shelf_fill(spec, n, &E) < 0) {
		ASSERT_INT(E.code, CELL_ENOTSUP);
		SKIP("%s", E.msg);
	}
}

/* Open until one comes from the shelf: when it is filled is the launcher's business. */
static struct cell *open_from_shelf(const struct cell_spec *spec)
{
	long long end = now_ms() + patience(60000);

	while (now_ms() < end) {
		uint64_t before = unix_ms();
		struct cell *c = open_spec(spec);

		expect_value(c, "1 + 1", "2");
		ASSERT_INT(context(c, "python").info.execution_count, 1);
		if (started(c) < before)
			return c;
		OK(cell_destroy(c, &E));
		usleep(100000);
	}
	DIE("no cell ever came from the shelf");
}

TEST(an_interpreter_is_started_with_the_cell)
{
	struct cell_spec spec = warm_spec(s);
	auto_cell struct cell *c = open_spec(&spec);

	ASSERT_INT(context(c, "python").all, 0);
	ASSERT_INT(ask_guest(c).running, 0);
	uint64_t opened = unix_ms(); /* its guest has answered: it had started it before */
	auto_code struct cell_code_result r =
		code(c, "import sys, os\n'decimal' in sys.modules, os.path.realpath('.') == "
			"os.getcwd(), '_' in globals()");
	ASSERT_STR(r.value, "(True, True, False)");
	ASSERT_INT(r.done.execution_count, 1);
	ASSERT(!r.done.restarted);
	ASSERT(started(c) <= opened);
	/* it was one: the next has to be started */
	auto_code struct cell_code_result other = code_in(c, "other", "1");
	ASSERT(other.done.is_ok);
	ASSERT(context(c, "other").info.started_unix_ms >= started(c));
}

TEST(an_interpreter_started_ahead_knows_its_place)
{
	struct cell_spec spec = warm_spec(s);

	spec.env = ARGV("COLOUR=blue and green", "LANG=de_DE.UTF-8");
	auto_cell struct cell *c = open_spec(&spec);

	store(c, "module_of_mine.py", "value = 7\n");
	store(c, "data", "here");
	uint64_t opened = unix_ms();
	auto_code struct cell_code_result r = code(c, "import os, module_of_mine, subprocess\n"
						      "(os.environ['COLOUR'], os.environ['LANG'], "
						      "open('data').read(), module_of_mine.value,\n"
						      " subprocess.run('echo $COLOUR', shell=True, "
						      "capture_output=True, text=True).stdout)");
	ASSERT_STR(r.value, "('blue and green', 'de_DE.UTF-8', 'here', 7, 'blue and green\\n')");
	ASSERT(started(c) <= opened);
}

TEST(what_counts_at_the_start_has_one_started)
{
	struct cell_spec spec = warm_spec(s);

	spec.env = ARGV("PYTHONHASHSEED=0");
	auto_cell struct cell *c = open_spec(&spec);
	expect_value(c, "__import__('sys').flags.hash_randomization", "0");
}

TEST(a_language_that_cannot_be_warm_is_no_harm)
{
	struct cell_spec spec = warm_spec(s);

	spec.warm = ARGV("cobol", "python");
	spec.preload = ARGV("no_such_module");
	auto_cell struct cell *c = open_spec(&spec);
	expect_value(c, "1 + 1", "2");
	spec.warm = ARGV("py thon");
	struct cell *none = NULL;
	FAILS(INVALID, cell_open(&spec, &none, &E));
}

TEST(cells_come_from_the_shelf)
{
	struct cell_spec spec = warm_spec(s);

	fill(&spec, 2);
	struct cell *a = open_from_shelf(&spec);
	auto_code struct cell_code_result r = code(a,
		"import random, uuid, tempfile, os\nsecret = 1\n"
		"open('/tmp/left', 'w').close()\nos.environ['LEFT'] = '1'\n"
		"(random.random(), uuid.uuid4().hex, tempfile.mktemp(), os.urandom(8), hash('a'))");
	ASSERT(r.done.is_ok);
	struct cell *b = open_from_shelf(&spec);
	auto_code struct cell_code_result q = code(b,
		"import random, uuid, tempfile, os\n"
		"(random.random(), uuid.uuid4().hex, tempfile.mktemp(), os.urandom(8), hash('a'))");
	ASSERT(q.done.is_ok);
	/* nothing of the one is in the other, nor do they draw the same numbers */
	char mine[6][200], theirs[6][200];
	memset(mine, 0, sizeof mine);
	memset(theirs, 0, sizeof theirs);
	ASSERT_INT(sscanf(r.value, "(%199[^,], %199[^,], %199[^,], %199[^,], %199[^)])", mine[0],
			   mine[1], mine[2], mine[3], mine[4]),
		5);
	ASSERT_INT(sscanf(q.value, "(%199[^,], %199[^,], %199[^,], %199[^,], %199[^)])", theirs[0],
			   theirs[1], theirs[2], theirs[3], theirs[4]),
		5);
	for (int i = 0; i < 5; i++)
		ASSERT(strcmp(mine[i], theirs[i]) != 0);
	expect_value(b,
		"('secret' in globals(), os.path.exists('/tmp/left'), 'LEFT' in os.environ)",
		"(False, False, False)");
	OK(cell_destroy(a, &E));
	OK(cell_destroy(b, &E));
	OK(cell_shelf_fill(&spec, 0, &E));
}

TEST_NEEDS(a_cell_from_the_shelf_has_its_limits, NEEDS(LIMIT_FILES))
{
	struct cell_spec spec = warm_spec(s);

	fill(&spec, 1);
	spec.limits.files = 300;
	struct cell *c = open_from_shelf(&spec);
	expect_value(c, "__import__('resource').getrlimit(7)", "(300, 300)"); /* RLIMIT_NOFILE */
	OK(cell_destroy(c, &E));
}

static void open_named_and_die(struct suite *s, void *arg)
{
	struct cell_spec spec = *(struct cell_spec *)arg;
	long long end = now_ms() + patience(60000);

	(void)s;
	fill(&spec, 1);
	for (int i = 0; now_ms() < end; i++) {
		char name[32];
		uint64_t before = unix_ms();

		snprintf(name, sizeof name, "kept-%d", i);
		spec.name = name;
		struct cell *c = open_spec(&spec);
		auto_code struct cell_code_result r = code(c, "x = 41");
		ASSERT(r.done.is_ok);
		if (started(c) < before) {
			host_store("kept", name, strlen(name));
			_exit(0); /* and the launcher with us */
		}
		OK(cell_destroy(c, &E));
		usleep(100000);
	}
	DIE("no cell ever came from the shelf");
}

TEST_NEEDS(a_named_cell_from_the_shelf_outlives_who_opened_it, NEEDS(NAMED))
{
	struct cell_spec spec = warm_spec(s);

	E = (struct cell_error){0};
	if (cell_shelf_fill(&spec, 0, &E) < 0)
		SKIP("%s", E.msg);
	if (chdir(s->dir) < 0)
		DIE("enter '%s'", s->dir);
	must_succeed(other_process(open_named_and_die, s, &spec));
	auto_free char *name = host_load("kept", NULL);
	struct cell *c = NULL;
	OK(cell_reopen(name, &c, &E));
	expect_value(c, "x + 1", "42");
	OK(cell_destroy(c, &E));
	ASSERT(unlink("kept") == 0);
}
