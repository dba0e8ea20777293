/* SPDX-License-Identifier: Apache-2.0 */
/* files_test.c: the files of a workspace: each operation, its result and its errors. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "suite.h"

struct seen {
	struct cell_file_info last;
	char text[8192]; /* "path:type\n" of each */
	char target[256];
	size_t n;
};

static int note(const struct cell_file_info *info, void *user)
{
	struct seen *f = user;
	size_t at = strlen(f->text);

	f->last = *info;
	f->n++;
	snprintf(f->target, sizeof(f->target), "%s", info->target);
	snprintf(f->text + at, sizeof(f->text) - at, "%s:%c\n", info->path,
		"?fdlo"[info->type <= CELL_FILE_OTHER ? info->type : 0]);
	return 0;
}

TEST_NEEDS(what_is_written_is_read, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	store(c, "a.txt", "hello\n");
	auto_free char *text = load(c, "a.txt");
	ASSERT_STR(text, "hello\n");
	auto_result struct cell_result r = sh(c, "cat a.txt");
	ASSERT_STR(r.out, "hello\n");
	store(c, "a.txt", "");
	auto_free char *empty = load(c, "a.txt");
	ASSERT_STR(empty, "");
}

TEST_NEEDS(a_path_may_be_absolute_below_the_workspace, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char path[5000];

	snprintf(path, sizeof(path), "%s/abs.txt", ask_guest(c).workspace);
	store(c, path, "absolute");
	auto_free char *text = load(c, "abs.txt");
	ASSERT_STR(text, "absolute");
	ASSERT(exists(c, path));
}

struct piece {
	char text[64];
	size_t len;
};

static int collect(const void *p, size_t n, void *user)
{
	struct piece *at = user;

	ASSERT(at->len + n < sizeof(at->text));
	memcpy(at->text + at->len, p, n);
	at->len += n;
	at->text[at->len] = '\0';
	return 0;
}

TEST_NEEDS(a_part_of_a_file_is_read, NEEDS(FILES))
{
	static const struct {
		uint64_t offset, limit;
		const char *want;
	} all[] = {{0, 0, "0123456789"}, {3, 0, "3456789"}, {3, 4, "3456"}, {8, 100, "89"},
		{10, 0, ""}, {1000, 5, ""}, {0, 1, "0"}};
	auto_cell struct cell *c = open_cell(s);

	store(c, "ten", "0123456789");
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct piece p = {0};
		OK(cell_file_read(c, "ten", all[i].offset, all[i].limit, collect, &p, &E));
		ASSERT_STR(p.text, all[i].want);
	}
}

static int stop_at_once(const void *p, size_t n, void *user)
{
	(void)p;
	(void)n;
	(void)user;
	return 7;
}

TEST_NEEDS(reading_stops_when_the_callback_says_so, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "file", "big", "30000000");

	ASSERT_INT(r.exit.exit_code, 0);
	ASSERT_INT(cell_file_read(c, "big", 0, 0, stop_at_once, NULL, &E), 7);
	store(c, "after", "fine");
	auto_free char *after = load(c, "after");
	ASSERT_STR(after, "fine");
}

TEST_NEEDS(loading_more_than_allowed_is_refused, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char *text = NULL;
	size_t n = 0;

	store(c, "five", "12345");
	ASSERT_INT(cell_file_load(c, "five", 4, &text, &n, &E), -EFBIG);
	ASSERT(text == NULL);
	OK(cell_file_load(c, "five", 5, &text, &n, &E));
	ASSERT_STR(text, "12345");
	free(text);
}

TEST_NEEDS(appending_appends, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	OK(cell_file_store(c, "log", 0, CELL_WRITE_APPEND, "one\n", 4, &E));
	OK(cell_file_store(c, "log", 0, CELL_WRITE_APPEND, "two\n", 4, &E));
	auto_free char *text = load(c, "log");
	ASSERT_STR(text, "one\ntwo\n");
}

TEST_NEEDS(an_exclusive_write_is_the_first_or_none, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	OK(cell_file_store(c, "once", 0, CELL_WRITE_EXCLUSIVE, "first", 5, &E));
	FAILS(EXISTS, cell_file_store(c, "once", 0, CELL_WRITE_EXCLUSIVE, "second", 6, &E));
	auto_free char *text = load(c, "once");
	ASSERT_STR(text, "first");
}

TEST_NEEDS(missing_directories_are_made_when_asked, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	FAILS(NOT_FOUND, cell_file_store(c, "a/b/c.txt", 0, 0, "x", 1, &E));
	ASSERT_HAS(E.msg, "a/b/c.txt");
	ASSERT(!exists(c, "a"));
	OK(cell_file_store(c, "a/b/c.txt", 0, CELL_WRITE_PARENTS, "x", 1, &E));
	ASSERT(exists(c, "a/b/c.txt"));
}

TEST_NEEDS(the_mode_is_given_kept_or_0644, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct seen f = {0};

	OK(cell_file_store(c, "tool", 0755, 0, "x", 1, &E));
	OK(cell_file_stat(c, "tool", note, &f, &E));
	ASSERT_INT(f.last.mode, 0755);
	OK(cell_file_store(c, "tool", 0, 0, "y", 1, &E));
	OK(cell_file_stat(c, "tool", note, &f, &E));
	ASSERT_INT(f.last.mode, 0755);
	store(c, "plain", "z");
	OK(cell_file_stat(c, "plain", note, &f, &E));
	ASSERT_INT(f.last.mode, 0644);
	OK(cell_file_store(c, "private", 0600, 0, "y", 1, &E));
	OK(cell_file_stat(c, "private", note, &f, &E));
	ASSERT_INT(f.last.mode, 0600);
}

TEST_NEEDS(stat_tells_what_it_is, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct seen f = {0};
	auto_result struct cell_result r =
		sh(c, "mkdir d; ln -s some/target l; printf 12345 > f; touch -t 200001020304 f");

	ASSERT_INT(r.exit.exit_code, 0);
	OK(cell_file_stat(c, "f", note, &f, &E));
	ASSERT_INT(f.last.type, CELL_FILE_REGULAR);
	ASSERT_INT(f.last.size, 5);
	ASSERT(f.last.mtime_ns / 1000000000 > 946000000 &&
		f.last.mtime_ns / 1000000000 < 947000000);
	ASSERT_INT(f.last.uid, ask_guest(c).uid);
	ASSERT_STR(f.target, "");
	OK(cell_file_stat(c, "d", note, &f, &E));
	ASSERT_INT(f.last.type, CELL_FILE_DIRECTORY);
	OK(cell_file_stat(c, "l", note, &f, &E));
	ASSERT_INT(f.last.type, CELL_FILE_SYMLINK);
	ASSERT_STR(f.target, "some/target");
	OK(cell_file_stat(c, ".", note, &f, &E));
	ASSERT_INT(f.last.type, CELL_FILE_DIRECTORY);
	FAILS(NOT_FOUND, cell_file_stat(c, "no/such", note, &f, &E));
	ASSERT_HAS(E.msg, "no/such");
}

TEST_NEEDS(exists_says_yes_or_no, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	store(c, "yes", "");
	ASSERT(exists(c, "yes"));
	ASSERT(exists(c, "."));
	ASSERT(!exists(c, "no"));
	ASSERT(!exists(c, "no/deeper"));
	ASSERT(!exists(c, "yes/below-a-file"));
}

TEST_NEEDS(what_is_not_there_is_not_found, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct piece p = {0};
	struct seen f = {0};

	FAILS(NOT_FOUND, cell_file_read(c, "gone", 0, 0, collect, &p, &E));
	ASSERT_HAS(E.msg, "gone");
	FAILS(NOT_FOUND, cell_file_remove(c, "gone", false, &E));
	FAILS(NOT_FOUND, cell_file_move(c, "gone", "there", false, &E));
	FAILS(NOT_FOUND, cell_file_list(c, "gone", 1, note, &f, &E));
	FAILS(NOT_FOUND, cell_file_edit(c, "gone", "a", 1, "b", 1, false, NULL, &E));
	FAILS(NOT_FOUND, cell_file_tar(c, "gone", collect, &p, &E));
	FAILS(NOT_FOUND, cell_file_glob(c, "gone", "*", 0, note, &f, NULL, &E));
}

TEST_NEEDS(a_directory_is_no_file_and_the_other_way_round, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct piece p = {0};
	struct seen f = {0};

	OK(cell_file_mkdir(c, "d", 0, false, &E));
	store(c, "f", "text");
	FAILS(ANY_ERROR, cell_file_read(c, "d", 0, 0, collect, &p, &E));
	FAILS(ANY_ERROR, cell_file_store(c, "d", 0, 0, "x", 1, &E));
	FAILS(ANY_ERROR, cell_file_store(c, "f/x", 0, CELL_WRITE_PARENTS, "x", 1, &E));
	FAILS(ANY_ERROR, cell_file_list(c, "f", 1, note, &f, &E));
	FAILS(ANY_ERROR, cell_file_edit(c, "d", "a", 1, "b", 1, false, NULL, &E));
	auto_free char *text = load(c, "f");
	ASSERT_STR(text, "text");
}

TEST_NEEDS(reading_a_fifo_or_device_does_not_hang, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct piece p = {0};
	auto_result struct cell_result r = sh(c, "command -v mkfifo >/dev/null && mkfifo pipe");

	if (r.exit.exit_code != 0)
		SKIP("no mkfifo in this root tree");
	FAILS(INVALID | DENIED | NOT_SUPPORTED, cell_file_read(c, "pipe", 0, 0, collect, &p, &E));
	FAILS(INVALID | DENIED | NOT_SUPPORTED,
		cell_file_store(c, "pipe", 0, CELL_WRITE_APPEND, "x", 1, &E));
}

TEST_NEEDS(directories_are_made, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct seen f = {0};

	OK(cell_file_mkdir(c, "one", 0, false, &E));
	FAILS(EXISTS, cell_file_mkdir(c, "one", 0, false, &E));
	FAILS(NOT_FOUND, cell_file_mkdir(c, "a/b/c", 0, false, &E));
	OK(cell_file_mkdir(c, "a/b/c", 0, true, &E));
	OK(cell_file_mkdir(c, "a/b/c", 0, true, &E));
	OK(cell_file_mkdir(c, "tight", 0700, false, &E));
	OK(cell_file_stat(c, "tight", note, &f, &E));
	ASSERT_INT(f.last.mode, 0700);
	OK(cell_file_stat(c, "a/b/c", note, &f, &E));
	ASSERT_INT(f.last.mode, 0755);
}

TEST_NEEDS(removing_a_directory_must_be_asked_for, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	OK(cell_file_store(c, "d/e/f", 0, CELL_WRITE_PARENTS, "x", 1, &E));
	FAILS(ANY_ERROR, cell_file_remove(c, "d", false, &E));
	ASSERT(exists(c, "d/e/f"));
	OK(cell_file_remove(c, "d", true, &E));
	ASSERT(!exists(c, "d"));
	store(c, "f", "");
	OK(cell_file_remove(c, "f", false, &E));
	ASSERT(!exists(c, "f"));
}

TEST_NEEDS(the_workspace_itself_is_neither_removed_nor_moved, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	store(c, "keep", "x");
	FAILS(INVALID | DENIED | BUSY, cell_file_remove(c, ".", true, &E));
	FAILS(INVALID | DENIED | BUSY, cell_file_remove(c, ask_guest(c).workspace, true, &E));
	FAILS(INVALID | DENIED | BUSY, cell_file_move(c, ".", "elsewhere", false, &E));
	ASSERT(exists(c, "keep"));
}

TEST_NEEDS(removing_a_tree_does_not_follow_links, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r =
		sh(c, "mkdir keep d; echo x > keep/f; ln -s ../keep d/l");

	ASSERT_INT(r.exit.exit_code, 0);
	OK(cell_file_remove(c, "d", true, &E));
	ASSERT(!exists(c, "d"));
	ASSERT(exists(c, "keep/f"));
}

TEST_NEEDS(moving_replaces_only_when_asked, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	store(c, "a", "A");
	store(c, "b", "B");
	FAILS(EXISTS, cell_file_move(c, "a", "b", false, &E));
	auto_free char *still = load(c, "b");
	ASSERT_STR(still, "B");
	OK(cell_file_move(c, "a", "b", true, &E));
	auto_free char *now = load(c, "b");
	ASSERT_STR(now, "A");
	ASSERT(!exists(c, "a"));
	OK(cell_file_mkdir(c, "d", 0, false, &E));
	OK(cell_file_move(c, "b", "d/c", false, &E));
	OK(cell_file_move(c, "d", "e", false, &E));
	ASSERT(exists(c, "e/c"));
	FAILS(ANY_ERROR, cell_file_move(c, "e", "e/inside", false, &E));
}

TEST_NEEDS(a_listing_is_sorted_and_as_deep_as_asked, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct seen one = {0}, two = {0}, all = {0}, empty = {0};
	auto_result struct cell_result r =
		sh(c, "mkdir -p t/b/c/d t/none; touch t/z t/a t/b/y t/b/c/x; ln -s z t/l");

	ASSERT_INT(r.exit.exit_code, 0);
	OK(cell_file_list(c, "t", 1, note, &one, &E));
	ASSERT_STR(one.text, "a:f\nb:d\nl:l\nnone:d\nz:f\n");
	OK(cell_file_list(c, "t", 2, note, &two, &E));
	ASSERT_INT(two.n, 7);
	ASSERT_HAS(two.text, "b/c:d\n");
	ASSERT_HAS(two.text, "b/y:f\n");
	OK(cell_file_list(c, "t", 0, note, &all, &E));
	ASSERT_INT(all.n, 9);
	ASSERT_HAS(all.text, "b/c/d:d\n");
	ASSERT_HAS(all.text, "b/c/x:f\n");
	OK(cell_file_list(c, "t/none", 0, note, &empty, &E));
	ASSERT_INT(empty.n, 0);
}

TEST_NEEDS(a_directory_of_thousands_is_listed, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct seen f = {0};
	auto_result struct cell_result r =
		sh(c, "mkdir many; cd many; i=0; while [ $i -lt 5000 ]; do : > file-$i; "
		      "i=$((i + 1)); done");

	ASSERT_INT(r.exit.exit_code, 0);
	OK(cell_file_list(c, "many", 1, note, &f, &E));
	ASSERT_INT(f.n, 5000);
}

static int stop_list(const struct cell_file_info *info, void *user)
{
	(void)info;
	(*(int *)user)++;
	return 11;
}

TEST_NEEDS(a_listing_stops_when_the_callback_says_so, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	int calls = 0;

	store(c, "a", "");
	store(c, "b", "");
	ASSERT_INT(cell_file_list(c, ".", 1, stop_list, &calls, &E), 11);
	ASSERT_INT(calls, 1);
	ASSERT_INT(cell_file_glob(c, NULL, "*", 0, stop_list, &calls, NULL, &E), 11);
	ASSERT_INT(calls, 2);
}

TEST_NEEDS(a_glob_finds_by_name_newest_first, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = sh(c,
		"mkdir -p t/x/y; cd t; touch -t 202001010000 old.c; touch -t 202101010000 x/mid.c; "
		"touch -t 202201010000 x/y/new.c; touch -t 202301010000 x/note.txt x/b1 x/b2 x/c1");
	static const struct {
		const char *pattern, *want;
	} all[] = {{"*.c", "old.c:f\n"}, {"**/*.c", "x/y/new.c:f\nx/mid.c:f\nold.c:f\n"},
		{"x/*.c", "x/mid.c:f\n"}, {"x/?1", NULL}, {"x/[b]1", "x/b1:f\n"},
		{"x/{mid,none}.c", "x/mid.c:f\n"}, {"*.none", ""}};

	ASSERT_INT(r.exit.exit_code, 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct seen f = {0};
		bool is_truncated = true;
		OK(cell_file_glob(c, "t", all[i].pattern, 0, note, &f, &is_truncated, &E));
		ASSERT(!is_truncated);
		if (all[i].want)
			ASSERT_STR(f.text, all[i].want);
		else
			ASSERT_INT(f.n, 2);
	}
	struct seen first = {0};
	bool is_truncated = false;
	OK(cell_file_glob(c, "t", "**/*.c", 1, note, &first, &is_truncated, &E));
	ASSERT_STR(first.text, "x/y/new.c:f\n");
	ASSERT(is_truncated);
}

struct matches {
	char text[4096];
	size_t n, longest;
};

static int note_match(const struct cell_grep_match *m, void *user)
{
	struct matches *g = user;
	size_t at = strlen(g->text);

	g->n++;
	if (m->line_len > g->longest)
		g->longest = m->line_len;
	snprintf(g->text + at, sizeof(g->text) - at, "%s:%llu:%.*s\n", m->path,
		(unsigned long long)m->line_number, (int)m->line_len, m->line);
	return 0;
}

static struct matches grep_for(struct cell *c, struct cell_grep_opts o, bool *ret_truncated)
{
	struct matches g = {0};

	OK(cell_file_grep(c, &o, note_match, &g, ret_truncated, &E));
	return g;
}

TEST_NEEDS(grep_finds_lines, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	bool is_truncated = true;

	OK(cell_file_mkdir(c, "g/sub", 0, true, &E));
	store(c, "g/a.txt", "first\nNeedle here\nlast needle");
	store(c, "g/sub/b.md", "a.c\nabc\nneedle\n");
	store_bytes(c, "g/bin", "needle\0needle", 13);
	struct matches m = grep_for(c, (struct cell_grep_opts){.pattern = "need.e", .path = "g"},
		&is_truncated);
	ASSERT_INT(m.n, 2);
	ASSERT(!is_truncated);
	ASSERT_HAS(m.text, "a.txt:3:last needle\n");
	ASSERT_HAS(m.text, "sub/b.md:3:needle\n");
	ASSERT(!strstr(m.text, "bin"));
	m = grep_for(c,
		(struct cell_grep_opts){
			.pattern = "needle", .ignore_case = true, .path = "g/a.txt"},
		NULL);
	ASSERT_INT(m.n, 2);
	m = grep_for(c, (struct cell_grep_opts){.pattern = "a.c", .is_fixed = true, .path = "g"},
		NULL);
	ASSERT_INT(m.n, 1);
	m = grep_for(c, (struct cell_grep_opts){.pattern = "needle", .glob = "*.md", .path = "g"},
		NULL);
	ASSERT_INT(m.n, 1);
	m = grep_for(c, (struct cell_grep_opts){.pattern = "needle", .limit = 1, .path = "g"},
		&is_truncated);
	ASSERT_INT(m.n, 1);
	ASSERT(is_truncated);
	m = grep_for(c, (struct cell_grep_opts){.pattern = "(a|b)bc$", .path = "g"}, NULL);
	ASSERT_INT(m.n, 1);
}

TEST_NEEDS(grep_cuts_long_lines_and_refuses_bad_patterns, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free char *line = malloc(200000);

	ASSERT(line);
	memset(line, 'l', 200000);
	store_bytes(c, "long", line, 200000);
	struct matches m =
		grep_for(c, (struct cell_grep_opts){.pattern = "lll", .path = "long"}, NULL);
	ASSERT_INT(m.n, 1);
	ASSERT(m.longest <= 4096);
	struct cell_grep_opts bad = {.pattern = "("};
	FAILS(INVALID, cell_file_grep(c, &bad, note_match, &m, NULL, &E));
}

TEST_NEEDS(an_edit_must_match_once_unless_all, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	uint64_t count = 99;

	store(c, "e", "one two two");
	OK(cell_file_edit(c, "e", "one", 3, "1", 1, false, &count, &E));
	ASSERT_INT(count, 1);
	FAILS(INVALID, cell_file_edit(c, "e", "two", 3, "2", 1, false, NULL, &E));
	FAILS(NOT_FOUND, cell_file_edit(c, "e", "three", 5, "3", 1, false, NULL, &E));
	FAILS(INVALID, cell_file_edit(c, "e", "", 0, "3", 1, false, NULL, &E));
	auto_free char *before = load(c, "e");
	ASSERT_STR(before, "1 two two");
	OK(cell_file_edit(c, "e", "two", 3, "twotwo", 6, true, &count, &E));
	ASSERT_INT(count, 2);
	auto_free char *after = load(c, "e");
	ASSERT_STR(after, "1 twotwo twotwo");
	OK(cell_file_edit(c, "e", "two", 3, "", 0, true, &count, &E));
	ASSERT_INT(count, 4);
}

TEST_NEEDS(an_edit_keeps_the_mode, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct seen f = {0};

	OK(cell_file_store(c, "x", 0750, 0, "abc", 3, &E));
	OK(cell_file_edit(c, "x", "b", 1, "B", 1, false, NULL, &E));
	OK(cell_file_stat(c, "x", note, &f, &E));
	ASSERT_INT(f.last.mode, 0750);
}

struct source {
	size_t left;
	int fail_at_end;
};

static ssize_t give(void *p, size_t n, void *user)
{
	struct source *from = user;

	if (!from->left)
		return from->fail_at_end ? -ECANCELED : 0;
	if (n > from->left)
		n = from->left;
	memset(p, 'n', n);
	from->left -= n;
	return (ssize_t)n;
}

TEST_NEEDS(a_write_that_gives_up_leaves_the_old_file, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct source from = {.left = 3000000, .fail_at_end = 1};
	struct seen f = {0};
	uint64_t size = 0;

	OK(cell_file_mkdir(c, "w", 0, false, &E));
	store(c, "w/f", "old");
	ASSERT(cell_file_write(c, "w/f", 0, 0, give, &from, &size, &E) < 0);
	auto_free char *text = load(c, "w/f");
	ASSERT_STR(text, "old");
	OK(cell_file_list(c, "w", 0, note, &f, &E));
	ASSERT_STR(f.text, "f:f\n");
	from = (struct source){.left = 3000000};
	OK(cell_file_write(c, "w/f", 0, 0, give, &from, &size, &E));
	ASSERT_INT(size, 3000000);
}

static ssize_t give_then_die(void *p, size_t n, void *user)
{
	struct source *from = user;

	if (from->left < 1000000)
		raise(SIGKILL);
	return give(p, n, user);
}

static void write_and_die(struct suite *s, void *arg)
{
	struct cell *c = NULL;
	struct source from = {.left = 4000000};

	(void)s;
	OK(cell_reopen(arg, &c, &E));
	(void)cell_file_write(c, "w/f", 0, 0, give_then_die, &from, NULL, &E);
}

TEST_NEEDS(a_writer_killed_in_the_middle_leaves_the_old_file, NEEDS(FILES) | NEEDS(NAMED))
{
	char name[] = "halfway";
	struct cell *c = open_named(s, name);
	struct seen f = {0};
	int st = 0;

	OK(cell_file_mkdir(c, "w", 0, false, &E));
	store(c, "w/f", "old");
	pid_t pid = other_process(write_and_die, s, name);
	ASSERT_INT(waitpid(pid, &st, 0), pid);
	ASSERT(WIFSIGNALED(st));
	auto_free char *text = load(c, "w/f");
	ASSERT_STR(text, "old");
	WAIT_FOR((f = (struct seen){0}, (void)OK(cell_file_list(c, "w", 0, note, &f, &E)),
		f.n == 1));
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(readers_see_the_old_file_or_the_new_one, NEEDS(FILES))
{
	enum {
		N = 200000
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *as = malloc(N), *bs = malloc(N);
	auto_talk struct talk t;

	ASSERT(as && bs);
	memset(as, 'a', N);
	memset(bs, 'b', N);
	store_bytes(c, "f", as, N);
	/* Each round reads the file once: it must have both the right length and one letter only.
	 */
	talk_start(&t, c,
		&(struct cell_exec_opts){
			.shell = "while [ ! -e stop ]; do x=$(tr -s ab < f); n=$(wc -c < f); "
				 "case $x in a|b) ;; *) echo mixed $x;; esac; "
				 "[ $n -eq 200000 ] || echo short $n; done; echo done"});
	for (int i = 0; i < 60; i++)
		store_bytes(c, "f", i % 2 ? as : bs, N);
	store(c, "stop", "");
	ASSERT_INT(talk_end(&t).exit_code, 0);
	ASSERT_STR(t.out, "done\n");
}

TEST_NEEDS(a_full_disk_is_said_and_leaves_the_old_file, NEEDS(FILES) | NEEDS(LIMIT_FILE_SIZE))
{
	struct cell_spec spec = suite_spec(s);
	struct source from = {.left = 3000000};

	spec.limits.file_size_bytes = 1000000;
	auto_cell struct cell *c = open_spec(&spec);
	store(c, "f", "old");
	FAILS(OVER_LIMIT | NO_SPACE | BACKEND,
		cell_file_write(c, "f", 0, 0, give, &from, NULL, &E));
	auto_free char *text = load(c, "f");
	ASSERT_STR(text, "old");
}
