/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle_test.c: cells are made, found again, shared, abandoned and removed; clients, creators
 * and guests die in the middle of it.
 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "suite.h"

static int note_pid(const struct cell_info *i, void *user)
{
	*(int64_t *)user = i->guest_pid;
	return 0;
}

static int64_t host_pid_of(const char *name)
{
	int64_t pid = 0;

	OK(cell_inspect(name, note_pid, &pid, &E));
	ASSERT(pid > 1);
	return pid;
}

static int count_info(const struct cell_info *i, void *user)
{
	(void)i;
	(*(int *)user)++;
	return 0;
}

static int count_cells(void)
{
	int n = 0;

	OK(cell_list(count_info, &n, &E));
	return n;
}

TEST(an_ephemeral_cell_is_gone_when_closed)
{
	struct cell *c = open_cell(s);
	int64_t pid = ask_guest(c).pid;

	ASSERT(pid > 0);
	OK(cell_close(c, &E));
	ASSERT_INT(count_cells(), 0);
	WAIT_FOR(take_census(NULL).processes == 1);
}

TEST(closing_nothing_is_fine)
{
	OK(cell_close(NULL, &E));
	cell_exec_free(NULL);
	struct cell_result r = {0};
	cell_result_done(&r);
	cell_result_done(&r);
}

TEST(many_cells_come_and_go)
{
	for (int i = 0; i < 30; i++) {
		auto_cell struct cell *c = open_cell(s);
		auto_result struct cell_result r = RUN(c, "./probe", "exit", "3");
		ASSERT_INT(r.exit.exit_code, 3);
	}
	ASSERT_INT(count_cells(), 0);
	WAIT_FOR(take_census(NULL).processes == 1);
}

TEST(opening_and_closing_leaks_no_descriptor)
{
	unsigned before;

	/* a process that makes many keeps a directory for the next one, and that open */
	for (int i = 0; i < 10; i++)
		close_cell(&(struct cell *){open_cell(s)});
	before = count_fds(getpid());
	for (int i = 0; i < 10; i++)
		close_cell(&(struct cell *){open_cell(s)});
	ASSERT_INT(count_fds(getpid()), before);
}

TEST(several_cells_live_side_by_side)
{
	enum {
		N = 6
	};
	struct cell *c[N];

	for (int i = 0; i < N; i++)
		c[i] = open_cell(s);
	for (int i = 0; i < N; i++) {
		char line[64], want[32];
		snprintf(line, sizeof(line), "echo cell %d", i);
		snprintf(want, sizeof(want), "cell %d\n", i);
		auto_result struct cell_result r = sh(c[i], line);
		ASSERT_STR(r.out, want);
	}
	OK(cell_close(c[2], &E));
	auto_result struct cell_result r = sh(c[3], "echo still");
	ASSERT_STR(r.out, "still\n");
	for (int i = 0; i < N; i++)
		if (i != 2)
			OK(cell_close(c[i], &E));
}

static void use_by_name(struct suite *s, void *arg)
{
	struct cell *c = NULL;

	(void)s;
	OK(cell_reopen(arg, &c, &E));
	auto_result struct cell_result r = sh(c, "cat hello; echo from elsewhere > answer");
	ASSERT_STR(r.out, "hello");
	OK(cell_close(c, &E));
}

TEST_NEEDS(a_named_cell_is_used_by_another_process, NEEDS(NAMED))
{
	char name[] = "shared";
	struct cell *c = open_named(s, name);

	ASSERT_STR(cell_name(c), name);
	store(c, "hello", "hello");
	must_succeed(other_process(use_by_name, s, name));
	auto_free char *answer = load(c, "answer");
	ASSERT_STR(answer, "from elsewhere\n");
	OK(cell_close(c, &E));
	OK(cell_reopen(name, &c, &E));
	auto_free char *again = load(c, "answer");
	ASSERT_STR(again, "from elsewhere\n");
	OK(cell_destroy(c, &E));
	ASSERT_INT(count_cells(), 0);
}

TEST_NEEDS(a_name_is_taken_once, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "taken"), *again = NULL;
	struct cell_spec spec = suite_spec(s);

	spec.name = "taken";
	FAILS(EXISTS, cell_open(&spec, &again, &E));
	ASSERT_HAS(E.msg, "taken");
	ASSERT(again == NULL);
	auto_result struct cell_result r = sh(c, "echo unharmed");
	ASSERT_STR(r.out, "unharmed\n");
	OK(cell_destroy(c, &E));
	c = open_named(s, "taken");
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(a_bad_name_is_refused, NEEDS(NAMED))
{
	static const char *const bad[] = {"", ".", "..", "../up", "a/b", ".hidden", "-dash", "A B",
		"new\nline", "\xff", "Upper",
		"a-name-of-more-than-sixty-three-bytes-which-is-more-than-fits-into-it"};
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		spec.name = bad[i];
		FAILS(INVALID, cell_open(&spec, &c, &E));
		ASSERT(E.hint[0]);
		FAILS(INVALID | NOT_FOUND, cell_reopen(bad[i], &c, &E));
		FAILS(INVALID | NOT_FOUND, cell_remove(bad[i], &E));
	}
	ASSERT_INT(count_cells(), 0);
	spec.name = "a.good_name-0";
	c = open_spec(&spec);
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(the_longest_name_works, NEEDS(NAMED))
{
	char name[CELL_NAME_MAX];
	struct cell *c;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	c = open_named(s, name);
	OK(cell_close(c, &E));
	OK(cell_reopen(name, &c, &E));
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(a_cell_that_never_was_is_not_found, NEEDS(NAMED))
{
	struct cell *c = NULL;

	FAILS(NOT_FOUND, cell_reopen("never", &c, &E));
	ASSERT_HAS(E.msg, "never");
	FAILS(NOT_FOUND, cell_remove("never", &E));
	ASSERT(c == NULL);
}

TEST_NEEDS(a_cell_is_removed_by_name_while_in_use, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "in-use");
	struct cell_result r = {0};
	auto_talk struct talk t;

	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "stay", "300", "mark-in-use")});
	talk_expect(&t, "ready\n");
	OK(cell_remove("in-use", &E));
	ASSERT_INT(take_census("mark-in-use").execs_with_marker, 0);
	FAILS(GONE, cell_run(c, &(struct cell_exec_opts){.shell = "true"}, NULL, 0, &r, &E));
	cell_result_done(&r);
	talk_done(&t);
	OK(cell_close(c, &E));
	ASSERT_INT(count_cells(), 0);
}

static void create_and_die(struct suite *s, void *arg)
{
	struct cell *c = open_named(s, arg);
	struct cell_exec *x = NULL;
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "drip", "stop"), .id = "drip", .flags = CELL_EXEC_DETACH};

	OK(cell_exec_start(c, &o, &x, &E));
	raise(SIGKILL);
}

TEST_NEEDS(a_named_cell_outlives_its_creator_killed, NEEDS(NAMED) | NEEDS(BACKGROUND))
{
	char name[] = "orphan";
	struct cell *c = NULL;
	auto_talk struct talk t;
	int st = 0;

	pid_t pid = other_process(create_and_die, s, name);
	ASSERT_INT(waitpid(pid, &st, 0), pid);
	ASSERT(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	OK(cell_reopen(name, &c, &E));
	talk_attach(&t, c, "drip", NULL);
	talk_expect(&t, "line 0\n");
	talk_expect(&t, "line 3\n");
	store(c, "stop", "");
	talk_expect(&t, "end\n");
	ASSERT_INT(talk_end(&t).exit_code, 0);
	talk_done(&t);
	OK(cell_destroy(c, &E));
}

static void open_ephemeral_and_die(struct suite *s, void *arg)
{
	struct cell *c = open_cell(s);
	struct talk t;

	(void)arg;
	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "tree", "mark-owner-died")});
	talk_expect(&t, "ready\n");
	raise(SIGKILL);
}

TEST_NEEDS(an_ephemeral_cell_dies_with_its_owner, NEEDS(KILL_TREE))
{
	int st = 0, told = 0;

	pid_t pid = other_process(open_ephemeral_and_die, s, NULL);
	ASSERT_INT(waitpid(pid, &st, 0), pid);
	ASSERT(WIFSIGNALED(st));
	WAIT_FOR(take_census("mark-owner-died").execs_with_marker == 0);
	WAIT_FOR(take_census(NULL).processes == 1);
	OK(cell_prune(count_info, &told, &E));
	ASSERT_INT(count_cells(), 0);
}

TEST_NEEDS(a_dead_guest_is_found_and_cleaned_up, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "doomed");
	struct cell_result r = {0};

	ASSERT_INT(kill((pid_t)host_pid_of("doomed"), SIGKILL), 0);
	WAIT_FOR(take_census(NULL).processes == 1);
	FAILS(GONE, cell_run(c, &(struct cell_exec_opts){.shell = "true"}, NULL, 0, &r, &E));
	cell_result_done(&r);
	OK(cell_close(c, &E));
	FAILS(GONE, cell_reopen("doomed", &c, &E));
	ASSERT_HAS(E.msg, "doomed");
	FAILS(NOT_FOUND, cell_reopen("doomed", &c, &E));
	ASSERT_INT(count_cells(), 0);
	c = open_named(s, "doomed");
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(a_running_call_learns_that_the_guest_died, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "mid-call");
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "nap", "300")};
	struct cell_event e = {0};
	int r;

	OK(cell_exec_start(c, &o, &x, &E));
	OK(cell_exec_next(x, 20000, &e, &E));
	ASSERT_INT(kill((pid_t)host_pid_of("mid-call"), SIGKILL), 0);
	do
		r = cell_exec_next(x, 20000, &e, &E);
	while (r == 0 && e.type == CELL_EVENT_STDOUT);
	ASSERT(r < 0);
	ASSERT_INT(E.code, CELL_EGONE);
	cell_exec_free(x);
	x = NULL;
	OK(cell_close(c, &E));
	int told = 0, removed = 0;
	WAIT_FOR((removed += (int)OK(cell_prune(count_info, &told, &E))) > 0);
	ASSERT_INT(removed, 1);
	ASSERT_INT(told, 1);
	ASSERT_INT(count_cells(), 0);
	WAIT_FOR(take_census(NULL).processes == 1);
}

TEST_NEEDS(what_ran_in_a_cell_whose_guest_died_is_ended, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "headless");
	const char *marker = mark(s, "headless");
	auto_talk struct talk t;

	talk_start(&t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "stay", "300", marker)});
	talk_expect(&t, "ready\n");
	ASSERT(count_on_host(marker) > 0);
	pid_t guest = (pid_t)host_pid_of("headless");
	ASSERT_INT(kill(guest, SIGKILL), 0);
	talk_done(&t);
	(void)cell_close(c, NULL);
	WAIT_FOR(kill(guest, 0) < 0);
	FAILS(GONE, cell_reopen("headless", &c, &E));
	WAIT_FOR(count_on_host(marker) == 0);
}

TEST(prune_leaves_living_cells_alone)
{
	auto_cell struct cell *c = open_cell(s);

	ASSERT_INT(OK(cell_prune(NULL, NULL, &E)), 0);
	auto_result struct cell_result r = sh(c, "echo alive");
	ASSERT_STR(r.out, "alive\n");
}

static void read_a_little_and_die(struct suite *s, void *arg)
{
	struct cell *c = NULL;
	struct cell_exec *x = NULL;
	struct cell_event e = {0};
	uint64_t got = 0;

	(void)s;
	OK(cell_reopen(arg, &c, &E));
	OK(cell_exec_attach(c, "endless", &(struct cell_attach_opts){.hold = true}, &x, &E));
	while (got < 300000) {
		OK(cell_exec_next(x, 20000, &e, &E));
		got += e.len;
	}
	raise(SIGKILL);
}

TEST_NEEDS(a_client_that_vanishes_in_the_middle_harms_nothing, NEEDS(NAMED) | NEEDS(BACKGROUND))
{
	char name[] = "vanish";
	struct cell *c = open_named(s, name);
	struct cell_exec_opts o = {.argv = ARGV("./probe", "endless", "counter"),
		.id = "endless",
		.flags = CELL_EXEC_DETACH,
		.keep_bytes = 65536};
	struct cell_exec *x = NULL;
	struct cell_exec_info info;

	OK(cell_exec_start(c, &o, &x, &E));
	cell_exec_free(x);
	for (int i = 0; i < 5; i++) {
		int st = 0;
		pid_t pid = other_process(read_a_little_and_die, s, name);
		ASSERT_INT(waitpid(pid, &st, 0), pid);
		ASSERT(WIFSIGNALED(st));
	}
	WAIT_FOR(ask_guest(c).clients == 1);
	ASSERT(find_exec(c, "endless", &info));
	ASSERT_INT(info.state, CELL_EXEC_RUNNING);
	uint64_t before = info.out_bytes;
	/* the reader that held it back is gone, so it goes on */
	WAIT_FOR(find_exec(c, "endless", &info) && info.out_bytes > before + 1000000);
	OK(cell_signal(c, "endless", SIGKILL, true, &E));
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(two_clients_work_at_the_same_time, NEEDS(NAMED))
{
	struct cell *a = open_named(s, "two"), *b = NULL;
	auto_talk struct talk ta, tb;

	OK(cell_reopen("two", &b, &E));
	ASSERT_INT(ask_guest(a).clients, 2);
	talk_start(&ta, a,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "cat"), .flags = CELL_EXEC_STDIN});
	talk_start(&tb, b,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "cat"), .flags = CELL_EXEC_STDIN});
	talk_send(&tb, "from b\n");
	talk_send(&ta, "from a\n");
	talk_expect(&ta, "from a\n");
	talk_expect(&tb, "from b\n");
	ASSERT_INT(ask_guest(b).running, 2);
	OK(cell_exec_close_stdin(ta.x, &E));
	OK(cell_exec_close_stdin(tb.x, &E));
	ASSERT_STR((talk_end(&ta), ta.out), "from a\n");
	ASSERT_STR((talk_end(&tb), tb.out), "from b\n");
	talk_done(&ta);
	talk_done(&tb);
	OK(cell_close(b, &E));
	auto_result struct cell_result r = sh(a, "echo one left");
	ASSERT_STR(r.out, "one left\n");
	OK(cell_destroy(a, &E));
}

static void start_and_wait(struct suite *s, void *arg)
{
	struct cell *c = NULL;

	(void)s;
	OK(cell_reopen(arg, &c, &E));
	for (int i = 0; i < 25; i++) {
		auto_result struct cell_result r = RUN(c, "./probe", "gen", "50000");
		ASSERT_INT(r.out_len, 50000);
	}
	OK(cell_close(c, &E));
}

TEST_NEEDS(many_processes_use_one_cell_at_once, NEEDS(NAMED))
{
	enum {
		N = 8
	};
	char name[] = "busy";
	struct cell *c = open_named(s, name);
	pid_t pids[N];

	for (int i = 0; i < N; i++)
		pids[i] = other_process(start_and_wait, s, name);
	for (int i = 0; i < N; i++)
		must_succeed(pids[i]);
	WAIT_FOR(ask_guest(c).clients == 1);
	OK(cell_destroy(c, &E));
}

static void race_to_create(struct suite *s, void *arg)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	spec.name = arg;
	E = (struct cell_error){0};
	if (cell_open(&spec, &c, &E) == 0)
		_exit(10);
	_exit(E.code == CELL_EEXISTS || E.code == CELL_EBUSY ? 11 : 12);
}

TEST_NEEDS(of_many_that_take_a_name_at_once_one_gets_it, NEEDS(NAMED))
{
	enum {
		N = 8
	};
	char name[] = "race";
	pid_t pids[N];
	int winners = 0;

	for (int i = 0; i < N; i++)
		pids[i] = other_process(race_to_create, s, name);
	for (int i = 0; i < N; i++) {
		int st = 0;
		ASSERT_INT(waitpid(pids[i], &st, 0), pids[i]);
		ASSERT(WIFEXITED(st) && (WEXITSTATUS(st) == 10 || WEXITSTATUS(st) == 11));
		winners += WEXITSTATUS(st) == 10;
	}
	ASSERT_INT(winners, 1);
	ASSERT_INT(count_cells(), 1);
	OK(cell_remove(name, &E));
}

static void make_and_remove(struct suite *s, void *arg)
{
	(void)arg;
	for (int i = 0; i < 5; i++) {
		char name[32];
		snprintf(name, sizeof(name), "p%d-%d", getpid(), i);
		struct cell *c = open_named(s, name);
		OK(cell_close(c, &E));
		OK(cell_list(count_info, &(int){0}, &E));
		(void)OK(cell_prune(NULL, NULL, &E));
		OK(cell_remove(name, &E));
	}
}

TEST_NEEDS(making_listing_pruning_and_removing_at_once_is_safe, NEEDS(NAMED))
{
	pid_t pids[6];

	for (size_t i = 0; i < 6; i++)
		pids[i] = other_process(make_and_remove, s, NULL);
	for (size_t i = 0; i < 6; i++)
		must_succeed(pids[i]);
	ASSERT_INT(count_cells(), 0);
}

static void create_until_killed(struct suite *s, void *arg)
{
	(void)arg;
	for (int i = 0;; i++) {
		char name[32];
		snprintf(name, sizeof(name), "k%d-%d", getpid(), i);
		struct cell_spec spec = suite_spec(s);
		struct cell *c = NULL;
		spec.name = name;
		if (cell_open(&spec, &c, NULL) == 0)
			(void)cell_destroy(c, NULL);
	}
}

static int collect_name(const struct cell_info *i, void *user)
{
	char(*name)[CELL_NAME_MAX] = user;

	snprintf(*name, sizeof(*name), "%s", i->name);
	return 1;
}

TEST_NEEDS(a_creator_killed_at_any_moment_leaves_what_can_be_removed, NEEDS(NAMED))
{
	char name[CELL_NAME_MAX];

	for (int i = 0; i < 12; i++) {
		pid_t pid = other_process(create_until_killed, s, NULL);
		usleep(15000 + (useconds_t)i * 3700);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	OK(cell_prune(NULL, NULL, &E));
	for (int i = 0; i < 30 && cell_list(collect_name, &name, &E) == 1; i++)
		OK(cell_remove(name, &E));
	ASSERT_INT(count_cells(), 0);
	WAIT_FOR(take_census(NULL).processes == 1);
}

TEST_NEEDS(the_workspace_stays_when_the_cell_goes, NEEDS(WORKSPACE))
{
	char path[256];

	{
		auto_cell struct cell *c = open_cell(s);
		store(c, "kept", "kept");
	}
	snprintf(path, sizeof(path), "%s/kept", s->workspace);
	auto_free char *text = host_load(path, NULL);
	ASSERT(text);
	ASSERT_STR(text, "kept");
}

TEST_NEEDS(a_workspace_that_is_not_there_is_an_error_that_names_it, NEEDS(WORKSPACE))
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	spec.workspace = "/no/such/workspace";
	FAILS(NOT_FOUND | INVALID, cell_open(&spec, &c, &E));
	ASSERT_HAS(E.msg, "/no/such/workspace");
	ASSERT_INT(count_cells(), 0);
	spec.workspace = "/etc/passwd";
	FAILS(INVALID | NOT_FOUND, cell_open(&spec, &c, &E));
	ASSERT_INT(count_cells(), 0);
}

TEST(an_unwritable_state_directory_is_an_error_that_names_it)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	setenv("CELL_STATE_DIR", "/proc/no-state-here", 1);
	FAILS(ANY_ERROR, cell_open(&spec, &c, &E));
	ASSERT_HAS(E.msg, "/proc/no-state-here");
	ASSERT(E.hint[0]);
	ASSERT_INT(take_census(NULL).processes, 1);
}

static int note_dir(const struct cell_info *i, void *user)
{
	snprintf(user, 4096, "%s", i->directory);
	return 0;
}

static int note_state(const struct cell_info *i, void *user)
{
	*(enum cell_state *)user = i->state;
	return 0;
}

TEST_NEEDS(a_corrupt_record_is_told_and_can_be_removed, NEEDS(NAMED))
{
	struct cell *good = open_named(s, "good"), *bad = open_named(s, "bad"), *c = NULL;
	char dir[4096], path[4200];
	enum cell_state state = 0;

	OK(cell_inspect("bad", note_dir, dir, &E));
	OK(cell_close(bad, &E));
	snprintf(path, sizeof(path), "%s/cell.json", dir);
	ASSERT_INT(access(path, F_OK), 0);
	size_t n = 0;
	auto_free char *old = host_load(path, &n);
	host_store(path, "{\"name\": \"ba", 12);
	FAILS(ANY_ERROR, cell_reopen("bad", &c, &E));
	ASSERT_HAS(E.msg, "bad");
	int cells = 0;
	OK(cell_list(count_info, &cells, &E));
	ASSERT_INT(cells, 2);
	OK(cell_inspect("bad", note_state, &state, &E));
	ASSERT_INT(state, CELL_STATE_BROKEN);
	auto_result struct cell_result r = sh(good, "echo unharmed");
	ASSERT_STR(r.out, "unharmed\n");
	host_store(path, old, n); /* repaired by hand, it works again: nothing was lost */
	OK(cell_reopen("bad", &c, &E));
	OK(cell_close(c, &E));
	host_store(path, "", 0);
	OK(cell_remove("bad", &E));
	OK(cell_destroy(good, &E));
	ASSERT_INT(count_cells(), 0);
}
