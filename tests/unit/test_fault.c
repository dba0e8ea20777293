/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault.c: the wrappers, and what the core does when a back end breaks. */
#include <errno.h>
#include <time.h>

#include "scratch.h"

static const struct cell_spec null_spec = {.backend = "fault:null"};
static const struct cell_spec null_named = {.backend = "fault:null", .name = "x"};

static void faults(const char *text)
{
	ASSERT(setenv("CELL_FAULT", text, 1) == 0);
}

TEST(without_faults_the_wrapped_backend_works)
{
	struct cell *c;

	scratch_make();
	ASSERT_OK(cell_open(&null_spec, &c, NULL));
	ASSERT_STR(cell_backend_of(c), "fault:null");
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(the_nth_call_fails_with_the_error_asked_for)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	faults("create:2:ENOSPC");
	ASSERT_OK(cell_open(&null_spec, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_ERR(cell_open(&null_spec, &c, &err), -ENOSPC);
	ASSERT_EQ(err.code, CELL_ENOSPACE);
	ASSERT_STR(err.backend, "null");
	ASSERT_HAS(err.msg, "call 2 of create");
	ASSERT_OK(cell_open(&null_spec, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(whatever_slot_fails_while_opening_nothing_is_left)
{
	static const char *const rules[] = {"create:*:EIO", "create:*:after=EIO",
		"open_guest:*:EMFILE", "open_guest:*:after=EIO"};
	struct cell *c;

	scratch_make();
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		faults(rules[i]);
		ASSERT(cell_open(&null_spec, &c, NULL) < 0);
		ASSERT(cell_open(&null_named, &c, NULL) < 0);
		ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	}
}

TEST(a_cell_that_cannot_be_destroyed_is_kept_for_the_next_attempt)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	faults("destroy:1:EBUSY");
	ASSERT_OK(cell_open(&null_spec, &c, NULL));
	ASSERT_ERR(cell_close(c, &err), -EBUSY);
	ASSERT_EQ(err.code, CELL_EBUSY);
	ASSERT_EQ(cells_listed(), 1);
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 1);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(one_cell_that_resists_does_not_keep_the_others_from_being_pruned)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	faults("destroy:*:EBUSY");
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(cell_open(&null_spec, &c, NULL));
		ASSERT(cell_close(c, NULL) < 0);
	}
	/* each open above tried to reap, too: count from here */
	unsetenv("CELL_FAULT");
	int before = cells_listed();
	ASSERT_EQ(before, 2);
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, &err)), 2);
}

TEST(a_dead_place_is_reported_as_gone_and_cleaned_up)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	ASSERT_OK(cell_open(&null_named, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_OK(cell_reopen("x", &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	faults("is_alive:*:EIO");
	ASSERT(cell_reopen("x", &c, &err) < 0);
	ASSERT_EQ(err.code, CELL_EGONE);
	ASSERT_EQ(cells_listed(), 0);
	ASSERT_ERR(cell_reopen("x", &c, &err), -ENOENT);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
}

TEST(delays_delay)
{
	struct timespec a, b;
	struct cell *c;

	scratch_make();
	faults("create:1:delay=150ms");
	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	ASSERT_OK(cell_open(&null_spec, &c, NULL));
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	ASSERT((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 >= 150);
	ASSERT_OK(cell_close(c, NULL));
}

TEST(a_rule_that_cannot_be_read_fails_at_once)
{
	static const char *const bad[] = {"create", "create:", "create:1",
		"create:1:", "create:0:EIO", "create:-1:EIO", "crate:1:EIO", "create:1:EWHAT",
		"create:1:delay=", "create:1:delay=5", "create:1:delay=5m", "create:x:EIO",
		"create:1:EIO,,", "create:9:EIO,nonsense", "create:1:after=", ":1:EIO"};
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		faults(bad[i]);
		CHECK_(cell_open(&null_spec, &c, &err) < 0, "%s is taken", bad[i]);
		ASSERT_EQ(err.code, CELL_EINVAL);
		ASSERT_HAS(err.hint, "slot:n:what");
	}
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(a_trace_has_a_line_for_each_call_and_no_secret)
{
	char text[8192] = "";
	struct cell *c;
	struct cell_spec spec = {.backend = "trace:fault:null",
		.workspace = "/tmp",
		.env = (const char *const[]){"DB_PASSWORD=hunter2", NULL}};

	scratch_make();
	ASSERT(setenv("CELL_TRACE", scratch_path("log"), 1) == 0);
	ASSERT_OK(cell_open(&spec, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	faults("create:*:EIO");
	ASSERT_ERR(cell_open(&spec, &c, NULL), -EIO);
	int fd = open(scratch_path("log"), O_RDONLY | O_CLOEXEC);
	ASSERT(read(fd, text, sizeof text - 1) > 0);
	ASSERT_HAS(text, "call=create");
	ASSERT_HAS(text, "workspace=\"/tmp\"");
	ASSERT_HAS(text, "call=open_guest");
	ASSERT_HAS(text, "call=destroy");
	ASSERT_HAS(text, "result=-5");
	ASSERT_HAS(text, "duration_us=");
	ASSERT(!strstr(text, "hunter2"));
	close(fd);
}

TEST(text_from_outside_cannot_forge_a_trace_line)
{
	char text[8192] = "";
	struct cell *c;
	const char *evil;

	scratch_make();
	evil = scratch_path("a\" result=0\ntrace forged");
	ASSERT(mkdir(evil, 0700) == 0);
	ASSERT(setenv("CELL_TRACE", scratch_path("log"), 1) == 0);
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "trace:null", .workspace = evil}, &c,
		NULL));
	ASSERT_OK(cell_close(c, NULL));
	int fd = open(scratch_path("log"), O_RDONLY | O_CLOEXEC);
	ASSERT(read(fd, text, sizeof text - 1) > 0);
	ASSERT(!strstr(text, "\ntrace forged"));
	ASSERT_HAS(text, "\\\" result=0\\x0atrace forged");
	close(fd);
}
