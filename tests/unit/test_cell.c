/* SPDX-License-Identifier: Apache-2.0 */
/* test_cell.c: the life of cells as records and locks, with nothing running in them: made, listed, found broken,
 * left by crashes at every point, cleaned up. */
#include <errno.h>
#include <sys/wait.h>

#include "core/record.h"
#include "scratch.h"

static int show_state(const struct cell_info *info, void *user)
{
	*(enum cell_state *)user = info->state;
	return 0;
}

static enum cell_state state_of(const char *name)
{
	enum cell_state state = 0;

	ASSERT_OK(cell_inspect(name, show_state, &state, NULL));
	return state;
}

static void make_named(const char *name)
{
	struct cell *c;

	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = name}, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
}

TEST(a_named_cell_stays_and_an_ephemeral_one_goes)
{
	struct cell *c;
	struct cell_error err = {0};

	scratch_make();
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null"}, &c, NULL));
	ASSERT_EQ(cells_listed(), 1);
	ASSERT_EQ(state_of(cell_name(c)), CELL_STATE_READY);
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(cells_listed(), 0);
	make_named("stay");
	ASSERT_EQ(state_of("stay"), CELL_STATE_READY);
	ASSERT_ERR(cell_open(&(struct cell_spec){.backend = "null", .name = "stay"}, &c, &err),
		-EEXIST);
	ASSERT_EQ(err.code, CELL_EEXISTS);
	ASSERT_OK(cell_reopen("stay", &c, NULL));
	ASSERT_OK(cell_destroy(c, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

static int check_info(const struct cell_info *info, void *user)
{
	(void)user;
	ASSERT_STR(info->name, "full");
	ASSERT_STR(info->backend, "trace:null");
	ASSERT_STR(info->workspace, "/usr");
	ASSERT_STR(info->labels[0], "team=blue");
	ASSERT(!info->labels[1]);
	ASSERT(!info->is_ephemeral && info->created_unix_ms > 1700000000000);
	ASSERT_HAS(info->directory, "/state/cells/full");
	return 0;
}

TEST(what_was_asked_for_is_found_again)
{
	struct cell_spec spec = {.backend = "trace:null",
		.name = "full",
		.workspace = "/usr/../usr/.",
		.cwd = "sub",
		.user = "nobody",
		.timeout_ms = 1234,
		.labels = (const char *const[]){"team=blue", NULL},
		.limits = {.memory_bytes = 1 << 20, .is_best_effort = true}};
	struct cell *c;

	scratch_make();
	ASSERT(setenv("CELL_TRACE", "/dev/null", 1) == 0);
	ASSERT_OK(cell_open(&spec, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_OK(cell_inspect("full", check_info, NULL, NULL));
	ASSERT_OK(cell_reopen("full", &c, NULL));
	ASSERT_STR(cell_backend_of(c), "trace:null");
	ASSERT(cell_supports(c, CELL_CAP_FORK));
	ASSERT(!cell_supports(c, (enum cell_cap)99));
	ASSERT_EQ(cell_degraded(c), 0);
	ASSERT_OK(cell_destroy(c, NULL));
}

TEST(unknown_and_bad_names_are_told_apart)
{
	struct cell *c;
	struct cell_error err = {0};

	scratch_make();
	ASSERT_ERR(cell_reopen("nope", &c, &err), -ENOENT);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
	ASSERT_ERR(cell_remove("nope", &err), -ENOENT);
	ASSERT_ERR(cell_inspect("nope", count_cell, NULL, &err), -ENOENT);
	ASSERT_EQ(cells_listed(), 0);
	ASSERT_EQ(cell_prune(NULL, NULL, NULL), 0);
	ASSERT(access(scratch_path("state"), F_OK) < 0); /* looking makes nothing */
	ASSERT_ERR(cell_reopen("../x", &c, &err), -EINVAL);
	ASSERT_ERR(cell_remove("../x", &err), -EINVAL);
	ASSERT_ERR(cell_remove(".", &err), -EINVAL);
	ASSERT_ERR(cell_open(&(struct cell_spec){.backend = "null", .name = "A b"}, &c, &err),
		-EINVAL);
}

TEST(a_workspace_that_is_not_there_is_refused_before_anything_is_made)
{
	struct cell *c;
	struct cell_error err = {0};

	scratch_make();
	ASSERT_ERR(cell_open(&(struct cell_spec){.backend = "null", .workspace = "/nonexistent"},
			   &c, &err),
		-ENOENT);
	ASSERT_HAS(err.msg, "/nonexistent");
	ASSERT_ERR(cell_open(&(struct cell_spec){.backend = "null", .workspace = "/etc/passwd"}, &c,
			   &err),
		-ENOTDIR);
	ASSERT_EQ(cells_listed(), 0);
}

TEST(a_broken_record_is_listed_and_can_only_be_removed)
{
	static const char *const texts[] = {"", "{\"version\": 99}", "garbage"};
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		make_named("x");
		make_named("other");
		scratch_write(scratch_path("state/cells/x/cell.json"), texts[i]);
		ASSERT_EQ(state_of("x"), CELL_STATE_BROKEN);
		ASSERT_EQ(state_of("other"), CELL_STATE_READY);
		ASSERT_EQ(cells_listed(), 2);
		ASSERT_ERR(cell_reopen("x", &c, &err), -EBADMSG);
		ASSERT_HAS(err.msg, "cell 'x'");
		ASSERT_HAS(err.hint, "cell rm");
		ASSERT_EQ(cell_prune(NULL, NULL, NULL), 0);
		ASSERT_OK(cell_remove("x", &err));
		ASSERT_EQ(cells_listed(), 1);
		ASSERT_OK(cell_remove("other", &err));
	}
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(a_record_of_another_build_can_be_listed_and_removed)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	make_named("x");
	scratch_write(scratch_path("state/cells/x/cell.json"),
		"{\"version\": 1, \"name\": \"x\", \"backend\": \"kubernetes\", \"state\": "
		"\"ready\"}");
	ASSERT_EQ(cells_listed(), 1);
	ASSERT(cell_reopen("x", &c, &err) < 0);
	ASSERT_OK(cell_remove("x", &err));
	ASSERT_EQ(cells_listed(), 0);
}

/* Run `fn` in a process of its own that dies by SIGKILL in the middle. */
static void crash(const char *fault, const struct cell_spec *spec)
{
	int status;
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid == 0) {
		struct cell *c;
		(void)setenv("CELL_FAULT", fault, 1);
		if (cell_open(spec, &c, NULL) == 0)
			(void)cell_destroy(c, NULL);
		_exit(0);
	}
	ASSERT(waitpid(pid, &status, 0) == pid);
	CHECK_(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s did not kill", fault);
}

static const char *const crash_points[] = {"create:*:kill", "create:*:after=kill",
	"open_guest:*:kill", "open_guest:*:after=kill", "detach:*:kill", "destroy:*:kill",
	"destroy:*:after=kill"};

TEST(after_a_crash_at_any_point_prune_leaves_nothing)
{
	static const struct cell_spec specs[] = {
		{.backend = "fault:null"},
		{.backend = "fault:null", .name = "x"},
	};

	scratch_make();
	for (size_t s = 0; s < 2; s++) {
		for (size_t i = 0; i < sizeof crash_points / sizeof *crash_points; i++) {
			bool was_ready = i >= 4; /* a named one is still good then */
			crash(crash_points[i], &specs[s]);
			ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 1);
			ASSERT_EQ(cells_listed(), 1);
			int want = specs[s].name && was_ready ? 0 : 1;
			CHECK_(cell_prune(NULL, NULL, NULL) == want, "%s: not pruned",
				crash_points[i]);
			if (!want)
				ASSERT_OK(cell_remove("x", NULL));
			ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
		}
	}
}

TEST(the_next_open_reaps_what_a_crash_left)
{
	struct cell *c;

	scratch_make();
	crash("create:*:after=kill", &(struct cell_spec){.backend = "fault:null", .name = "x"});
	crash("destroy:*:kill", &(struct cell_spec){.backend = "fault:null"});
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = "x"}, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(cells_listed(), 1);
}

TEST(directories_from_before_the_first_record_are_reaped)
{
	scratch_make();
	make_named("seed");
	ASSERT(mkdir(scratch_path("state/cells/a"), 0700) == 0); /* killed after mkdir */
	ASSERT(mkdir(scratch_path("state/cells/b"), 0700) == 0); /* ... after its lock */
	scratch_write(scratch_path("state/cells/b/lock"), "");
	ASSERT(mkdir(scratch_path("state/cells/c"), 0700) == 0); /* ... in its first record */
	scratch_write(scratch_path("state/cells/c/lock"), "");
	scratch_write(scratch_path("state/cells/c/cell.json.new"), "{\"vers");
	ASSERT_EQ(state_of("a"), CELL_STATE_DEAD);
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 3);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 1);
}

TEST(a_cell_in_use_by_a_living_process_is_not_pruned)
{
	struct cell *c;
	int ready[2], status;
	char byte;

	scratch_make();
	ASSERT(pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (cell_open(&(struct cell_spec){.backend = "null"}, &c, NULL) == 0 &&
			write(ready[1], "x", 1) == 1)
			(void)pause();
		_exit(1);
	}
	ASSERT(read(ready[0], &byte, 1) == 1);
	ASSERT_EQ(cell_prune(NULL, NULL, NULL), 0);
	ASSERT_EQ(cells_listed(), 1);
	ASSERT(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 1);
	ASSERT_EQ(cells_listed(), 0);
}

TEST(a_cell_being_made_is_shown_as_such_and_not_touched)
{
	struct cell_error err = {0};
	struct cell *c;
	int status;

	scratch_make();
	pid_t pid = fork();
	if (pid == 0) {
		(void)setenv("CELL_FAULT", "create:*:delay=600s", 1);
		(void)cell_open(&(struct cell_spec){.backend = "fault:null", .name = "slow"}, &c,
			NULL);
		_exit(1);
	}
	while (access(scratch_path("state/cells/slow/cell.json"), F_OK) < 0)
		(void)usleep(1000);
	ASSERT_EQ(state_of("slow"), CELL_STATE_CREATING);
	ASSERT_EQ(cell_prune(NULL, NULL, NULL), 0);
	ASSERT(cell_reopen("slow", &c, &err) < 0);
	ASSERT_EQ(err.code, CELL_EBUSY);
	ASSERT(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	ASSERT_EQ(state_of("slow"), CELL_STATE_DEAD);
	ASSERT(cell_reopen("slow", &c, &err) < 0);
	ASSERT_EQ(err.code, CELL_EGONE);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(an_ephemeral_cell_of_another_process_cannot_be_opened_but_removed)
{
	struct cell_error err = {0};
	struct cell *c;
	char name[CELL_NAME_MAX];
	int ready[2], status;

	scratch_make();
	ASSERT(pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (cell_open(&(struct cell_spec){.backend = "null"}, &c, NULL) == 0 &&
			write(ready[1], cell_name(c), CELL_NAME_MAX) > 0)
			(void)pause();
		_exit(1);
	}
	ASSERT(read(ready[0], name, sizeof name) > 0);
	ASSERT(cell_reopen(name, &c, &err) < 0);
	ASSERT_EQ(err.code, CELL_EBUSY);
	ASSERT_OK(cell_remove(name, &err));
	ASSERT_EQ(cells_listed(), 0);
	ASSERT(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
}

TEST(closing_a_cell_that_somebody_removed_is_fine)
{
	static const char *const names[] = {NULL, "x"};
	struct cell *c, *other;

	scratch_make();
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = names[i]}, &c,
			NULL));
		ASSERT_OK(cell_remove(cell_name(c), NULL));
		ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
		ASSERT_OK(cell_destroy(c, NULL));
	}
	/* and does not take away a later cell of that name */
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = "x"}, &c, NULL));
	ASSERT_OK(cell_remove("x", NULL));
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = "x"}, &other, NULL));
	ASSERT_OK(cell_destroy(c, NULL));
	ASSERT_EQ(cells_listed(), 1);
	ASSERT_OK(cell_destroy(other, NULL));
}

TEST(a_state_directory_named_differently_since_is_no_obstacle_to_closing)
{
	struct cell *c;

	scratch_make();
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null"}, &c, NULL));
	ASSERT(setenv("CELL_STATE_DIR", "/nonexistent", 1) == 0);
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(creators_and_pruners_at_once_lose_nothing_and_leave_nothing)
{
	pid_t pids[6];
	int status;

	scratch_make();
	for (int i = 0; i < 6; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		for (int n = 0; n < 60; n++) {
			struct cell_error err = {0};
			struct cell *c;
			int r;

			if (i < 2) {
				r = cell_prune(NULL, NULL, &err);
			} else {
				r = cell_open(&(struct cell_spec){.backend = "null"}, &c, &err);
				if (!r)
					r = cell_close(c, &err);
			}
			if (r < 0) {
				(void)fprintf(stderr, "%d: %s\n", i, err.msg);
				_exit(1);
			}
		}
		_exit(0);
	}
	for (int i = 0; i < 6; i++)
		ASSERT(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	/* they ended without a chance to remove the directories they kept for their next cells */
	ASSERT_OK(cell_prune(NULL, NULL, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(two_removers_of_one_cell_both_end_well)
{
	int status, removed = 0;
	pid_t pids[4];

	scratch_make();
	for (int round = 0; round < 10; round++) {
		make_named("x");
		for (int i = 0; i < 4; i++) {
			pids[i] = fork();
			if (pids[i] == 0) {
				struct cell_error err = {0};
				int r = cell_remove("x", &err);
				_exit(r == 0 ? 0 : err.code == CELL_ENOTFOUND ? 1 : 2);
			}
		}
		for (int i = 0; i < 4; i++) {
			ASSERT(waitpid(pids[i], &status, 0) == pids[i]);
			ASSERT(WIFEXITED(status) && WEXITSTATUS(status) < 2);
			removed += WEXITSTATUS(status) == 0;
		}
		ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	}
	ASSERT_EQ(removed, 10);
}

TEST(hundreds_of_cells_are_listed_and_removed)
{
	struct cell *c;
	char name[16];

	scratch_make();
	for (int i = 0; i < 250; i++) {
		(void)snprintf(name, sizeof name, "c%04d", i);
		ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = name}, &c,
			NULL));
		ASSERT_OK(cell_close(c, NULL));
	}
	ASSERT_EQ(cells_listed(), 250);
	ASSERT_EQ(cell_prune(NULL, NULL, NULL), 0);
	for (int i = 0; i < 250; i++) {
		(void)snprintf(name, sizeof name, "c%04d", i);
		ASSERT_OK(cell_remove(name, NULL));
	}
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(what_the_back_end_never_promised_is_refused_in_an_open_cell)
{
	struct cell_exec_opts opts = {.argv = (const char *const[]){"true", NULL}};
	struct cell_error err = {0};
	struct cell_exec *x = NULL;
	struct cell *c;

	scratch_make();
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null"}, &c, NULL));
	ASSERT_ERR(cell_exec_start(c, &opts, &x, &err), -EOPNOTSUPP);
	ASSERT_EQ(err.code, CELL_ENOTSUP);
	ASSERT_STR(err.backend, "null");
	ASSERT_HAS(err.msg, "does not promise exec");
	ASSERT_HAS(err.hint, "subprocess");
	ASSERT_ERR(cell_file_mkdir(c, "d", 0755, false, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "does not promise files");
	ASSERT_ERR(cell_file_watch(c, "", false, 0, NULL, NULL, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "does not promise watch");
	ASSERT_OK(cell_close(c, NULL));
}

TEST(destructors_take_null)
{
	ASSERT_OK(cell_close(NULL, NULL));
	ASSERT_OK(cell_destroy(NULL, NULL));
}
