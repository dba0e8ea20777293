/* SPDX-License-Identifier: Apache-2.0 */
/* watch_test.c: changes are noticed as they happen. They are made over a second connection. */
#include "suite.h"

struct watcher {
	struct cell *other; /* a second handle of the same cell */
	const char *line;   /* what to do once the watch is in place */
	const char *last;   /* the path that ends the watch */
	char text[8192];
	bool is_ready;
};

static int note(const struct cell_watch_event *e, void *user)
{
	static const char *const words[] = {"?", "created", "modified", "removed", "moved-from",
		"moved-to", "overflow", "ready"};
	struct watcher *w = user;
	size_t at = strlen(w->text);

	ASSERT(e->type >= CELL_WATCH_CREATED && e->type <= CELL_WATCH_READY);
	if (e->type == CELL_WATCH_READY) {
		w->is_ready = true;
		auto_result struct cell_result r = sh(w->other, w->line);
		ASSERT_INT(r.exit.exit_code, 0);
		return 0;
	}
	ASSERT(w->is_ready);
	snprintf(w->text + at, sizeof(w->text) - at, "%s %s%s\n", words[e->type], e->path,
		e->is_directory ? "/" : "");
	return e->type == CELL_WATCH_OVERFLOW || !strcmp(e->path, w->last);
}

static void watch(struct suite *s, const char *name, struct watcher *w, bool recursive)
{
	struct cell *c = open_named(s, name);

	OK(cell_file_mkdir(c, "w/sub/deep", 0, true, &E));
	store(c, "w/old", "x");
	store(c, "w/sub/old", "x");
	OK(cell_reopen(name, &w->other, &E));
	ASSERT_INT(cell_file_watch(c, "w", recursive, 120000, note, w, &E), 1);
	OK(cell_close(w->other, &E));
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(changes_in_a_directory_are_told, NEEDS(WATCH) | NEEDS(NAMED))
{
	struct watcher w = {
		.line = "cd w; echo x > new; echo y >> old; mkdir d; mv old moved; rm new; "
			": > last",
		.last = "last"};

	watch(s, "watch-flat", &w, false);
	ASSERT_HAS(w.text, "created new\n");
	ASSERT_HAS(w.text, "modified old\n");
	ASSERT_HAS(w.text, "created d/\n");
	ASSERT_HAS(w.text, "moved-from old\n");
	ASSERT_HAS(w.text, "moved-to moved\n");
	ASSERT_HAS(w.text, "removed new\n");
}

TEST_NEEDS(changes_below_are_told_only_when_asked, NEEDS(WATCH) | NEEDS(NAMED))
{
	struct watcher flat = {.line = "echo x > w/sub/deep/f; : > w/last", .last = "last"};
	/* a file that was not there before: in gVisor nobody is told that one was cut to nothing */
	struct watcher deep = {.line = "echo x > w/sub/deep/g; : > w/end", .last = "end"};

	watch(s, "watch-flat", &flat, false);
	ASSERT(!strstr(flat.text, "deep/f"));
	watch(s, "watch-deep", &deep, true);
	ASSERT_HAS(deep.text, "created sub/deep/g\n");
}

TEST_NEEDS(new_directories_are_watched_too, NEEDS(WATCH) | NEEDS(NAMED))
{
	struct watcher w = {
		.line = "mkdir -p w/n1/n2; sleep 0.2; echo x > w/n1/n2/f; echo x > w/n1/g; "
			"sleep 0.2; : > w/last",
		.last = "last"};

	watch(s, "watch-new", &w, true);
	ASSERT_HAS(w.text, "created n1/\n");
	ASSERT_HAS(w.text, "n1/n2/f\n");
	ASSERT_HAS(w.text, "n1/g\n");
}

TEST_NEEDS(odd_names_are_told_as_they_are, NEEDS(WATCH) | NEEDS(NAMED))
{
	struct watcher w = {
		.line = "cd w; : > \"$(printf 'new\\nline\\377')\"; : > last", .last = "last"};

	watch(s, "watch-odd", &w, false);
	ASSERT_HAS(w.text, "created new\nline\xff\n");
}

static int never(const struct cell_watch_event *e, void *user)
{
	(*(int *)user) += e->type != CELL_WATCH_READY;
	return 0;
}

TEST_NEEDS(a_watch_ends_in_time_when_nothing_happens, NEEDS(WATCH))
{
	auto_cell struct cell *c = open_cell(s);
	int events = 0;

	OK(cell_file_watch(c, ".", true, 200, never, &events, &E));
	ASSERT_INT(events, 0);
	store(c, "after", "fine");
	ASSERT(exists(c, "after"));
}

TEST_NEEDS(watching_what_is_not_there_is_not_found, NEEDS(WATCH))
{
	auto_cell struct cell *c = open_cell(s);
	int events = 0;

	FAILS(NOT_FOUND, cell_file_watch(c, "none", false, 1000, never, &events, &E));
	ASSERT_HAS(E.msg, "none");
}

TEST_NEEDS(a_flood_of_changes_is_survived, NEEDS(WATCH) | NEEDS(NAMED))
{
	struct watcher w = {.line = "cd w; i=0; while [ $i -lt 20000 ]; do : > f$i; i=$((i + 1)); "
				    "done; : > last",
		.last = "last"};

	watch(s, "watch-flood", &w, false);
	ASSERT_HAS(w.text, "created f0\n");
}
