/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of a scenario fails in its turn. Each time the call must either cope or return an
 * error with a code and a message, and leave no memory (under a leak checker), no process and no cell
 * behind. Beyond 300 allocations a scenario is sampled evenly; TORTURE_ALL=1 takes every one.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "cell/cell.h"
#include "cell/config.h"

#include "test.h"
#include "torture/alloc.h"

#define MAX_RUNS     300
#define EXIT_NO_MORE 42 /* fewer allocations than that were made */

struct scene {
	char directory[128];
	char workspace[160];
	struct cell_error err;
	struct cell *cell; /* for scenarios that begin with an open one */
};

struct scenario {
	/* 0, or negative with s->err filled. Only here allocations fail. */
	int (*run)(struct scene *s);
	/* May be NULL: cleans up, with memory to be had again. */
	void (*after)(struct scene *s);
	bool with_cell;
};

static unsigned long *shared_count;

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void make_scene(struct scene *s)
{
	const char *tmp = getenv("TMPDIR");
	char state[160];

	*s = (struct scene){0};
	(void)snprintf(s->directory, sizeof s->directory, "%s/torture.XXXXXX", tmp ? tmp : "/tmp");
	CHECK_(mkdtemp(s->directory), "mkdtemp %s: %s", s->directory, strerror(errno));
	(void)snprintf(s->workspace, sizeof s->workspace, "%s/work", s->directory);
	(void)snprintf(state, sizeof state, "%s/state", s->directory);
	ASSERT(mkdir(s->workspace, 0755) == 0);
	ASSERT(setenv("CELL_STATE_DIR", state, 1) == 0);
}

static void write_file(const struct scene *s, const char *name, const char *text)
{
	char path[200];

	(void)snprintf(path, sizeof path, "%s/%s", s->workspace, name);
	FILE *f = fopen(path, "we");
	ASSERT(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static int open_cell(struct scene *s, const char *name, struct cell **ret)
{
	struct cell_spec spec = {.name = name, .backend = "local", .workspace = s->workspace};

	return cell_open(&spec, ret, &s->err);
}

static int count_one(const struct cell_info *info, void *user)
{
	(void)fprintf(stderr, "cell left: %s\n", info->name);
	++*(int *)user;
	return 0;
}

/* This process is a subreaper: what the scenario started and did not end is its child now. */
static void nothing_runs(void)
{
	struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	pid_t pid = 0;

	for (int i = 0; i < 300; i++) {
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			continue;
		if (pid < 0)
			return;
		(void)nanosleep(&pause, NULL);
	}
	CHECK_(false, "a process is left running");
}

/* One run, in a process of its own. */
static void play(const struct scenario *what, unsigned long nth, bool is_lasting)
{
	struct scene s;
	int n_left = 0;

	ASSERT(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	make_scene(&s);
	write_file(&s, "cell.yaml",
		"backend: local\ntimeout: 30s\nenv:\n  GREETING: hello\n  OTHER: x\n"
		"limits:\n  files: 64\nlabels:\n  a: b\n");
	if (what->with_cell)
		CHECK_(open_cell(&s, NULL, &s.cell) >= 0, "open: %s", s.err.msg);
	torture_arm(nth, is_lasting);
	int r = what->run(&s);
	*shared_count = torture_disarm();
	if (r < 0) {
		CHECK_(nth && *shared_count >= nth, "fails by itself: %s", s.err.msg);
		CHECK_(s.err.code > CELL_OK && s.err.code < CELL_CODE_COUNT,
			"returned %d without a code", r);
		CHECK_(s.err.msg[0], "returned %d without a message", r);
	}
	if (what->after)
		what->after(&s);
	(void)cell_close(s.cell, NULL);
	CHECK_(cell_list(count_one, &n_left, &s.err) >= 0, "list: %s", s.err.msg);
	CHECK_(n_left == 0, "%d cells are left", n_left);
	nothing_runs();
	(void)nftw(s.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	exit(*shared_count < nth ? EXIT_NO_MORE : 0);
}

static int play_apart(const struct scenario *what, unsigned long nth, bool is_lasting)
{
	int status = 0;

	(void)fflush(NULL);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0)
		play(what, nth, is_lasting);
	ASSERT(waitpid(pid, &status, 0) == pid);
	return status;
}

static void torture(const struct scenario *what)
{
	shared_count = mmap(NULL, sizeof *shared_count, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(shared_count != MAP_FAILED);
	ASSERT_EQ(play_apart(what, 0, false), 0);
	unsigned long total = *shared_count;
	CHECK_(total > 0, "no allocation was seen: the wrapping does not work");

	bool is_all = getenv("TORTURE_ALL") || total <= MAX_RUNS;
	unsigned long step = is_all ? 1 : (total + MAX_RUNS - 1) / MAX_RUNS;
	for (unsigned long nth = 1, done = 0; !done; nth += step) {
		for (int is_lasting = 0; is_lasting < 2; is_lasting++) {
			int status = play_apart(what, nth, is_lasting);

			done = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_MORE;
			CHECK_(status == 0 || done,
				"allocation %lu of about %lu failing (%s): %s %d", nth, total,
				is_lasting ? "and all after it" : "once",
				WIFSIGNALED(status) ? "signal" : "exit status",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		}
		CHECK_(nth < 100 * total + 100, "it never comes to an end");
	}
}

static int load_config(struct scene *s)
{
	struct cell_config_args args = {.directory = s->workspace, .no_env = true};
	const struct cell_spec *spec;
	struct cell_config *cfg = NULL;
	char *text = NULL;

	int r = cell_config_load(&args, &cfg, &s->err);
	if (r >= 0)
		r = cell_config_set(cfg, "limits.files", "128", "--files", &s->err);
	if (r >= 0)
		r = cell_config_spec(cfg, &spec, &s->err);
	if (r >= 0)
		r = cell_config_dump(cfg, CELL_CONFIG_JSON, true, &text, &s->err);
	free(text);
	cell_config_free(cfg);
	return r;
}

static int open_and_close(struct scene *s)
{
	struct cell *c = NULL;

	int r = open_cell(s, NULL, &c);
	return r < 0 ? r : cell_close(c, &s->err);
}

static int run_a_command(struct scene *s)
{
	struct cell_exec_opts opts = {
		.shell = "cat; echo err >&2", .env = (const char *[]){"A=b", NULL}};
	struct cell_result result = {0};

	int r = cell_run(s->cell, &opts, "input", 5, &result, &s->err);
	if (r >= 0)
		ASSERT_MEM(result.out, result.out_len, "input", 5);
	cell_result_done(&result);
	return r;
}

static int see_file(const struct cell_file_info *info, void *user)
{
	(void)info, (void)user;
	return 0;
}

static int use_files(struct scene *s)
{
	char *text = NULL;
	size_t len = 0;

	int r = cell_file_store(s->cell, "a/b", 0, CELL_WRITE_PARENTS, "text", 4, &s->err);
	if (r >= 0)
		r = cell_file_load(s->cell, "a/b", 100, &text, &len, &s->err);
	if (r >= 0)
		ASSERT_MEM(text, len, "text", 4);
	free(text);
	if (r >= 0)
		r = cell_file_list(s->cell, ".", 0, see_file, NULL, &s->err);
	if (r >= 0)
		r = cell_file_remove(s->cell, "a", true, &s->err);
	return r;
}

static int live_by_name(struct scene *s)
{
	struct cell *c = NULL;

	int r = open_cell(s, "named", &c);
	if (r >= 0)
		r = cell_close(c, &s->err);
	if (r >= 0)
		r = cell_reopen("named", &c, &s->err);
	if (r >= 0)
		r = cell_destroy(c, &s->err);
	return r;
}

static void remove_by_name(struct scene *s)
{
	int r = cell_remove("named", &s->err);

	CHECK_(r >= 0 || s->err.code == CELL_ENOTFOUND, "remove: %s", s->err.msg);
}

TEST_SLOW(loading_a_configuration_survives_every_failing_allocation, 900)
{
	torture(&(struct scenario){.run = load_config});
}

TEST_SLOW(opening_a_cell_survives_every_failing_allocation, 900)
{
	torture(&(struct scenario){.run = open_and_close});
}

TEST_SLOW(running_a_command_survives_every_failing_allocation, 900)
{
	torture(&(struct scenario){.run = run_a_command, .with_cell = true});
}

TEST_SLOW(file_operations_survive_every_failing_allocation, 900)
{
	torture(&(struct scenario){.run = use_files, .with_cell = true});
}

TEST_SLOW(a_named_cell_survives_every_failing_allocation, 900)
{
	torture(&(struct scenario){.run = live_by_name, .after = remove_by_name});
}
