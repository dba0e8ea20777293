/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault.c: the wrappers, and what the core does when a back end breaks. */
#include <errno.h>
#include <time.h>

#include "base/cleanup.h"
#include "core/handle.h"
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

TEST(what_a_dead_place_left_is_removed_in_the_end_or_told)
{
	struct cell_error err = {0};
	struct cell *c, *again;

	scratch_make();
	ASSERT_OK(cell_open(&null_named, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	faults("is_alive:*:EIO,destroy:1:EBUSY"); /* an engine that is busy with it */
	ASSERT(cell_reopen("x", &again, &err) < 0);
	ASSERT_EQ(err.code, CELL_EGONE);
	ASSERT_HAS(err.hint, "cleaned up");
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	faults("");
	ASSERT_OK(cell_open(&null_named, &c, NULL));
	ASSERT_OK(cell_close(c, NULL));
	faults("is_alive:*:EIO,destroy:*:EBUSY");
	ASSERT(cell_reopen("x", &again, &err) < 0);
	ASSERT_EQ(err.code, CELL_EGONE);
	ASSERT_HAS(err.msg, "cannot be removed");
	ASSERT_HAS(err.hint, "rm -f");
	faults("");
	ASSERT_OK(cell_remove("x", &err));
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

/* ---- slots that few back ends have ---- */

extern const struct cell_backend cell_backend_trace, cell_backend_fault;

static char asked[200]; /* of the wrapped one */

static int fake_shelf(struct cell *c, const struct cell_spec *spec, unsigned n,
	struct cell_error *err)
{
	(void)c, (void)spec, (void)err;
	(void)snprintf(asked, sizeof asked, "shelf %u", n);
	return 0;
}

static int fake_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	(void)c, (void)err;
	(void)snprintf(asked, sizeof asked, "pause %d", is_on);
	return 0;
}

static int fake_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	(void)c, (void)err;
	(void)snprintf(asked, sizeof asked, "stats");
	ret->processes = 7;
	return 0;
}

static int fake_snapshot(struct cell *c, const char *id, unsigned *ret_apart,
	struct cell_error *err)
{
	(void)err;
	/* it is its own state that it sees */
	(void)snprintf(asked, sizeof asked, "snapshot %s %s", id, (const char *)cell_state(c));
	*ret_apart = CELL_APART_HOME;
	return 0;
}

static int fake_forget(struct cell *c, const char *id, struct cell_error *err)
{
	(void)c, (void)err;
	(void)snprintf(asked, sizeof asked, "forget %s", id);
	return 0;
}

static const struct cell_backend fake = {.name = "fake",
	.state_size = 16,
	.shelf = fake_shelf,
	.pause = fake_pause,
	.stats = fake_stats,
	.snapshot = fake_snapshot,
	.forget = fake_forget};
static const struct cell_backend bare = {.name = "bare"};

static struct cell *wrapped(const struct cell_backend *inner)
{
	const struct cell_backend *const chain[] = {
		&cell_backend_trace, &cell_backend_fault, inner, NULL};
	struct cell *c = cell_handle_new("x");

	ASSERT(c);
	ASSERT_OK(cell_handle_set_chain(c, chain));
	if (inner->state_size)
		(void)snprintf(c->states[2], inner->state_size, "mine");
	ASSERT(setenv("CELL_TRACE", scratch_path("log"), 1) == 0);
	return c;
}

static const char *log_text(void)
{
	static char text[16384];
	auto_fd int fd = open(scratch_path("log"), O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);

	ASSERT(n > 0);
	text[n] = '\0';
	return text;
}

TEST(every_slot_goes_through_both_wrappers)
{
	struct cell_error err = {0};
	struct cell_stats stats = {0};
	unsigned apart = 0;

	scratch_make();
	auto_cell struct cell *c = wrapped(&fake);
	ASSERT_OK(cell_place_pause(c, true, &err));
	ASSERT_STR(asked, "pause 1");
	ASSERT_OK(cell_place_pause(c, false, &err));
	ASSERT_STR(asked, "pause 0");
	ASSERT_OK(cell_place_stats(c, &stats, &err));
	ASSERT_EQ(stats.processes, 7);
	ASSERT_OK(cell_place_snapshot(c, "id1", &apart, &err));
	ASSERT_STR(asked, "snapshot id1 mine");
	ASSERT_EQ(apart, CELL_APART_HOME);
	ASSERT_OK(cell_place_forget(c, "id2", &err));
	ASSERT_STR(asked, "forget id2");
	ASSERT_OK(cell_next_shelf(c, &null_spec, 3, &err)); /* from the outermost on */
	ASSERT_STR(asked, "shelf 3");
	ASSERT_OK(cell_backend_trace.shelf(c, &null_spec, 4, &err));
	ASSERT_STR(asked, "shelf 4");
	ASSERT_EQ(c->level, 0);
	ASSERT_HAS(log_text(), "call=pause to=\"on\" result=0");
	ASSERT_HAS(log_text(), "call=pause to=\"off\" result=0");
	ASSERT_HAS(log_text(), "call=stats result=0");
	ASSERT_HAS(log_text(), "call=snapshot id=\"id1\" result=0");
	ASSERT_HAS(log_text(), "call=forget id=\"id2\" result=0");
	ASSERT_HAS(log_text(), "call=shelf n=4 result=0");
}

TEST(every_slot_can_be_made_to_fail)
{
	struct cell_error err = {0};
	struct cell_stats stats = {0};
	unsigned apart = 0;

	scratch_make();
	auto_cell struct cell *c = wrapped(&fake);
	faults("pause:1:EIO,pause:2:after=EIO,stats:1:ENOMEM,snapshot:1:ENOSPC,snapshot:2:after="
	       "EIO,"
	       "forget:1:EBUSY,shelf:1:EAGAIN");
	asked[0] = '\0';
	ASSERT_ERR(cell_place_pause(c, true, &err), -EIO);
	ASSERT_HAS(err.msg, "call 1 of pause");
	ASSERT_STR(err.backend, "fake");
	ASSERT_STR(asked, "");
	ASSERT_ERR(cell_place_pause(c, true, &err), -EIO);
	ASSERT_STR(asked, "pause 1");
	ASSERT_OK(cell_place_pause(c, true, &err));
	ASSERT_ERR(cell_place_stats(c, &stats, &err), -ENOMEM);
	ASSERT_ERR(cell_place_snapshot(c, "a", &apart, &err), -ENOSPC);
	ASSERT_EQ(err.code, CELL_ENOSPACE);
	ASSERT_ERR(cell_place_snapshot(c, "b", &apart, &err), -EIO);
	ASSERT_STR(asked, "snapshot b mine");
	ASSERT_ERR(cell_place_forget(c, "b", &err), -EBUSY);
	ASSERT_ERR(cell_backend_trace.shelf(c, &null_spec, 1, &err), -EAGAIN);
	ASSERT_EQ(c->level, 0);
	ASSERT_HAS(log_text(), "call=snapshot id=\"a\" result=-28");
	ASSERT_HAS(log_text(), "call=forget id=\"b\" result=-16");
}

TEST(wrappers_add_no_slot_to_what_has_none)
{
	struct cell_error err = {0};
	struct cell_stats stats = {0};
	unsigned apart = 0;

	scratch_make();
	auto_cell struct cell *c = wrapped(&bare);
	ASSERT_ERR(cell_place_stats(c, &stats, &err), -ENOTSUP);
	ASSERT_EQ(err.code, CELL_OK); /* the guest is to be asked */
	ASSERT(cell_place_pause(c, true, &err) < 0 && err.code == CELL_ENOTSUP);
	ASSERT(cell_place_snapshot(c, "a", &apart, &err) < 0 && err.code == CELL_ENOTSUP);
	ASSERT(cell_place_forget(c, "a", &err) < 0 && err.code == CELL_ENOTSUP);
	ASSERT(cell_backend_trace.shelf(c, &null_spec, 1, &err) < 0 && err.code == CELL_ENOTSUP);
	/* a record of another build has no chain at all */
	auto_cell struct cell *none = cell_handle_new("y");
	ASSERT(none && cell_place_forget(none, "a", &err) < 0 && err.code == CELL_ENOTSUP);
	ASSERT_ERR(cell_place_stats(none, &stats, NULL), -ENOTSUP);
}
