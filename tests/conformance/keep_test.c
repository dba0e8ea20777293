/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep_test.c: cells that stand still and cells that are saved. Where a back end promises neither, asking for it is a typed error and
 * changes nothing.
 */
#include "suite.h"

static int note_state(const struct cell_info *i, void *user)
{
	*(enum cell_state *)user = i->state;
	return 0;
}

static enum cell_state state_of(const char *name)
{
	enum cell_state state = 0;

	OK(cell_inspect(name, note_state, &state, &E));
	return state;
}

/* What a file of the workspace says, without the cell's help: "" when it cannot be read now. */
static long long count_in(struct cell *c, const char *path)
{
	auto_free char *p = NULL;
	size_t n = 0;

	if (cell_file_load(c, path, 64, &p, &n, NULL) < 0)
		return -1;
	return n ? strtoll(p, NULL, 10) : -1;
}

#define COUNT "i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; sleep 0.02; done"

TEST_NEEDS(a_paused_cell_stands_still_and_goes_on, NEEDS(PAUSE) | NEEDS(NAMED) | NEEDS(BACKGROUND))
{
	struct cell *c = open_named(s, "still");
	auto_talk struct talk t = {0};

	talk_start(&t, c, &(struct cell_exec_opts){.shell = COUNT});
	WAIT_FOR(count_in(c, "n") > 3);
	OK(cell_pause("still", &E));
	ASSERT_INT(state_of("still"), CELL_STATE_PAUSED);
	OK(cell_pause("still", &E)); /* it is so already */
	struct cell *again = NULL;
	FAILS(BUSY, cell_reopen("still", &again, &E));
	ASSERT_HAS(E.hint, "resume");
	struct cell_stats st;
	if (s->workspace[0]) { /* seen from the host: nothing is written any more */
		char path[256];
		size_t n = 0;
		(void)snprintf(path, sizeof path, "%s/n", s->workspace);
		auto_free char *before = host_load(path, &n);
		usleep(300 * 1000);
		auto_free char *after = host_load(path, &n);
		ASSERT(before && after && strtoll(before, NULL, 10) > 0);
		ASSERT_INT(strtoll(after, NULL, 10), strtoll(before, NULL, 10));
	}
	OK(cell_resume("still", &E));
	ASSERT_INT(state_of("still"), CELL_STATE_READY);
	OK(cell_resume("still", &E));
	long long n = count_in(c, "n");
	ASSERT(n > 0);
	WAIT_FOR(count_in(c, "n") > n + 3); /* the same process: it counts on */
	OK(cell_stats("still", &st, &E));
	ASSERT(st.processes > 0 && st.memory_bytes > 0);
	OK(cell_exec_kill(t.x, &E));
	(void)talk_end(&t);
	talk_done(&t);
	t = (struct talk){0};
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(a_paused_cell_can_be_removed, NEEDS(PAUSE) | NEEDS(NAMED))
{
	struct cell *c = open_named(s, "frozen");

	OK(cell_close(c, &E));
	OK(cell_pause("frozen", &E));
	OK(cell_remove("frozen", &E));
	FAILS(NOT_FOUND, cell_resume("frozen", &E));
}

static bool has_snapshot(const char *name);

TEST_NEEDS(what_is_not_promised_is_refused_and_changes_nothing, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "plain");

	if (!(s->caps & NEEDS(PAUSE))) {
		FAILS(NOT_SUPPORTED, cell_pause("plain", &E));
		ASSERT_HAS(E.msg, "pause");
		FAILS(NOT_SUPPORTED, cell_resume("plain", &E));
	}
	if (!(s->caps & NEEDS(SNAPSHOT))) {
		FAILS(NOT_SUPPORTED, cell_snapshot("plain", "saved", &E));
		ASSERT_HAS(E.msg, "snapshot");
	}
	FAILS(NOT_FOUND, cell_pause("nobody", &E));
	FAILS(NOT_FOUND, cell_snapshot("nobody", "saved", &E));
	FAILS(INVALID, cell_snapshot("plain", "no good name", &E));
	FAILS(NOT_FOUND, cell_snapshot_remove("nobody", &E));
	ASSERT(!has_snapshot("saved"));
	ASSERT_INT(state_of("plain"), CELL_STATE_READY);
	auto_result struct cell_result r = sh(c, "echo alive");
	ASSERT_STR(r.out, "alive\n");
	OK(cell_destroy(c, &E));
}

struct wanted {
	const char *name;
	int n;
};

static int find_snapshot(const struct cell_snapshot_info *i, void *user)
{
	struct wanted *w = user;

	ASSERT(i->created_unix_ms > 0 && *i->backend);
	w->n += !strcmp(i->name, w->name);
	return 0;
}

static bool has_snapshot(const char *name)
{
	struct wanted w = {.name = name};

	OK(cell_snapshot_list(find_snapshot, &w, &E));
	return w.n == 1;
}

/* A private workspace, so that it is saved too. */
static struct cell_spec private_spec(const struct suite *s, const char *name)
{
	struct cell_spec spec = suite_spec(s);

	spec.name = name;
	spec.workspace = NULL;
	spec.own_workspace = true;
	return spec;
}

TEST_NEEDS(a_cell_begins_where_a_saved_one_was, NEEDS(SNAPSHOT) | NEEDS(NAMED))
{
	struct cell_spec spec = private_spec(s, "first");
	struct cell *c = open_spec(&spec);

	auto_result struct cell_result made = sh(c,
		"echo one > kept; mkdir -p d; echo two > d/f; chmod 700 d; ln -s /bin/sh link; "
		"echo home > $HOME/h; echo gone > /tmp/t");
	ASSERT_INT(made.exit.exit_code, 0);
	OK(cell_snapshot("first", "saved", &E));
	ASSERT(has_snapshot("saved"));
	FAILS(EXISTS, cell_snapshot("first", "saved", &E));
	/* what comes later is not in it */
	auto_result struct cell_result later = sh(c, "echo later > kept; rm d/f");
	ASSERT_INT(later.exit.exit_code, 0);
	OK(cell_destroy(c, &E));

	struct cell_spec from = private_spec(s, "second");
	from.from = "saved";
	from.image = from.root = NULL;
	c = open_spec(&from);
	auto_result struct cell_result r =
		sh(c, "cat kept d/f $HOME/h; readlink link; test -e /tmp/t || echo fresh");
	ASSERT_STR(r.out, "one\ntwo\nhome\n/bin/sh\nfresh\n");
	/* and they stack */
	auto_result struct cell_result more = sh(c, "echo three > kept");
	ASSERT_INT(more.exit.exit_code, 0);
	OK(cell_snapshot("second", "more", &E));
	OK(cell_destroy(c, &E));
	from.name = NULL;
	from.from = "more";
	c = open_spec(&from);
	auto_result struct cell_result top = sh(c, "cat kept d/f");
	ASSERT_STR(top.out, "three\ntwo\n");
	OK(cell_close(c, &E));
	OK(cell_snapshot_remove("more", &E));
	OK(cell_snapshot_remove("saved", &E));
	ASSERT(!has_snapshot("saved"));
	struct cell *none = NULL;
	FAILS(NOT_FOUND, cell_open(&from, &none, &E));
}

TEST_NEEDS(a_snapshot_and_an_image_exclude_each_other, NEEDS(SNAPSHOT) | NEEDS(NAMED))
{
	struct cell_spec spec = private_spec(s, "one");
	struct cell *c = open_spec(&spec), *none = NULL;

	OK(cell_snapshot("one", "own/saved", &E));
	OK(cell_destroy(c, &E));
	spec.from = "own/saved";
	spec.image = "another";
	FAILS(INVALID, cell_open(&spec, &none, &E));
	spec.image = spec.root = NULL;
	spec.backend = "local";
	FAILS(NOT_SUPPORTED, cell_open(&spec, &none, &E));
	OK(cell_snapshot_remove("own/saved", &E));
}
