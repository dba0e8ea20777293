/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths_test.c: no path and no link leaves the workspace. Every attack is tried with every file
 * operation; the same operation on a path inside succeeds, so that a refusal means something.
 */
#include <limits.h>

#include "suite.h"

#define SECRET "the secret outside"

struct attack {
	const char *what;
	char file[PATH_MAX]; /* a way to outside/secret, or another file that exists outside */
	char dir[PATH_MAX];  /* a way to its directory */
	/* The last step is a link. Operations on the link itself (stat, remove, move) are then
	 * harmless and allowed; what follows it is not. */
	bool file_is_link, dir_is_link;
	bool is_for_reading;
};

struct outside {
	char dir[PATH_MAX]; /* as the cell sees it */
	struct attack attacks[24];
	size_t n;
};

static struct attack *add(struct outside *o, const char *what, const char *file, const char *dir)
{
	struct attack *a = &o->attacks[o->n++];

	a->what = what;
	snprintf(a->file, sizeof(a->file), "%s", file);
	snprintf(a->dir, sizeof(a->dir), "%s", dir);
	return a;
}

static void make_links(struct cell *c, const struct outside *o)
{
	char var[PATH_MAX + 8];

	snprintf(var, sizeof(var), "OUT=%s", o->dir);
	auto_result struct cell_result r = run_opts(c,
		&(struct cell_exec_opts){
			.shell = "rm -rf link-* sub/link-*; "
				 "ln -s \"$OUT/secret\" link-abs && ln -s ../outside/secret "
				 "link-rel && "
				 "ln -s \"$OUT\" link-dir && ln -s ../../outside sub/link-dir && "
				 "ln -s link-dir link-two && ln -s / link-root && "
				 "ln -s /proc/self/root link-proc && ln -s . link-here && "
				 "ln -s link-rel link-to-link && ln -s .. link-up",
			.env = ARGV(var)},
		NULL, 0);
	ASSERT_INT(r.exit.exit_code, 0);
}

/* A way given by what comes before the absolute path of the outside directory. */
static struct attack *add_before(struct outside *o, const char *what, const char *before)
{
	char file[PATH_MAX * 2], dir[PATH_MAX * 2];

	snprintf(file, sizeof(file), "%s%s/secret", before, o->dir);
	snprintf(dir, sizeof(dir), "%s%s", before, o->dir);
	return add(o, what, file, dir);
}

/* Make the secret beside the workspace, and the links in it; collect the ways to get there. */
static void prepare_outside(struct cell *c, struct outside *o)
{
	struct guest_facts f = ask_guest(c);
	struct attack *a;

	*o = (struct outside){0};
	auto_result struct cell_result r =
		sh(c, "mkdir -p ../outside/inner sub && cd ../outside && "
		      "printf '" SECRET "' > secret && pwd");
	ASSERT_INT(r.exit.exit_code, 0);
	r.out[strcspn(r.out, "\n")] = '\0';
	snprintf(o->dir, sizeof(o->dir), "%s", r.out);
	make_links(c, o);

	add(o, "dots", "../outside/secret", "../outside");
	add(o, "dots from within", "sub/../../outside/secret", "sub/../../outside");
	add(o, "dots with noise", ".//sub//.././/..//outside/secret", "./sub/../.././outside");
	add_before(o, "many dots", "../../../../../../../../../../../../../../../..");
	add_before(o, "absolute", "");
	add_before(o, "proc root", "/proc/self/root");
	add_before(o, "a link to proc root", "link-proc");
	add_before(o, "through a link to the root", "link-root");
	add(o, "proc cwd", "/proc/self/cwd/../outside/secret", "/proc/self/cwd/../outside");
	a = add(o, "absolute, from within", "", "");
	snprintf(a->file, sizeof(a->file), "%.4000s/../outside/secret", f.workspace);
	snprintf(a->dir, sizeof(a->dir), "%.4000s/../outside", f.workspace);
	a = add(o, "beside, same beginning", "", "");
	snprintf(a->file, sizeof(a->file), "%.4000s-not-it/secret", f.workspace);
	snprintf(a->dir, sizeof(a->dir), "%.4000s-not-it", f.workspace);
	a = add(o, "absolute link", "link-abs", "link-dir");
	a->file_is_link = a->dir_is_link = true;
	a = add(o, "relative link", "link-rel", "sub/link-dir");
	a->file_is_link = a->dir_is_link = true;
	a = add(o, "link to a link", "link-to-link", "link-two");
	a->file_is_link = a->dir_is_link = true;
	add(o, "through a linked directory", "link-dir/secret", "link-dir/inner");
	add(o, "through two links", "link-two/secret", "link-two/inner");
	add(o, "through a relative link", "sub/link-dir/secret", "sub/link-dir/inner");
	add(o, "through a link to the parent", "link-up/outside/secret", "link-up/outside");
	add(o, "dots after a link", "link-here/../outside/secret", "link-here/../outside");
	/* Were Cell to fail, these would harm the machine: only tried by what reads. */
	add(o, "the machine's own", "/etc/passwd", "/etc")->is_for_reading = true;
	add(o, "the machine's own, by dots", "../../../../../../../../../../../../etc/passwd",
		"../../../../../../../../../../../../etc")
		->is_for_reading = true;
	add(o, "the machine's own, by proc", "/proc/self/root/etc/passwd", "/proc/self/root/etc")
		->is_for_reading = true;
}

struct leak {
	char text[65536];
	size_t len;
};

static int leak_data(const void *p, size_t n, void *user)
{
	struct leak *l = user;
	size_t room = sizeof(l->text) - 1 - l->len;

	if (n > room)
		n = room;
	memcpy(l->text + l->len, p, n);
	l->len += n;
	return 0;
}

static int leak_file(const struct cell_file_info *info, void *user)
{
	return leak_data(info->path, strlen(info->path), user);
}

static int leak_match(const struct cell_grep_match *m, void *user)
{
	return leak_data(m->line, m->line_len, user);
}

static int leak_watch(const struct cell_watch_event *e, void *user)
{
	(void)user;
	return e->type == CELL_WATCH_READY ? 5 : 0;
}

static ssize_t one_letter(void *p, size_t n, void *user)
{
	bool *is_done = user;

	if (*is_done || !n)
		return 0;
	*is_done = true;
	*(char *)p = 'w';
	return 1;
}

static ssize_t empty_tar(void *p, size_t n, void *user)
{
	size_t *left = user;

	if (n > *left)
		n = *left;
	memset(p, 0, n);
	*left -= n;
	return (ssize_t)n;
}

/* Every operation: name, what it is told, whether the last link may be taken as the thing itself.
 */
enum operation {
	OP_STAT,
	OP_EXISTS,
	OP_READ,
	OP_LOAD,
	OP_WRITE,
	OP_STORE_NEW,
	OP_APPEND,
	OP_MKDIR,
	OP_MKDIR_PARENTS,
	OP_REMOVE,
	OP_REMOVE_TREE,
	OP_MOVE_FROM,
	OP_MOVE_TO,
	OP_LIST,
	OP_GLOB,
	OP_GREP,
	OP_EDIT,
	OP_TAR,
	OP_UNTAR,
	OP_UPLOAD,
	OP_DOWNLOAD,
	OP_WATCH,
	OP_COUNT
};

static const struct {
	const char *name;
	bool takes_dir;
	bool may_mean_the_link;
	bool is_reading;
} operations[OP_COUNT] = {
	[OP_STAT] = {"stat", false, true, true},
	[OP_EXISTS] = {"exists", false, true, true},
	[OP_READ] = {"read", false, false, true},
	[OP_LOAD] = {"load", false, false, true},
	[OP_WRITE] = {"write", false, true, false},
	[OP_STORE_NEW] = {"write a new file into", true, false, false},
	[OP_APPEND] = {"append", false, false, false},
	[OP_MKDIR] = {"mkdir below", true, false, false},
	[OP_MKDIR_PARENTS] = {"mkdir -p below", true, false, false},
	[OP_REMOVE] = {"remove", false, true, false},
	[OP_REMOVE_TREE] = {"remove -r", true, true, false},
	[OP_MOVE_FROM] = {"move from", false, true, false},
	[OP_MOVE_TO] = {"move to", false, true, false},
	[OP_LIST] = {"list", true, false, true},
	[OP_GLOB] = {"glob", true, false, true},
	[OP_GREP] = {"grep", false, false, true},
	[OP_EDIT] = {"edit", false, false, false},
	[OP_TAR] = {"tar", true, true, true},
	[OP_UNTAR] = {"untar", true, false, false},
	[OP_UPLOAD] = {"upload", false, true, false},
	[OP_DOWNLOAD] = {"download", false, true, true},
	[OP_WATCH] = {"watch", true, false, true},
};

/* Do it. `path` is a file, or a directory where the operation takes one. */
static int attempt(struct suite *s, struct cell *c, enum operation op, const char *path,
	struct leak *l)
{
	char below[PATH_MAX + 16], host[PATH_MAX];
	bool is_done = false;
	size_t left = 1024;

	snprintf(below, sizeof(below), "%s/made-by-an-attack", path);
	switch (op) {
	case OP_STAT:
		return cell_file_stat(c, path, leak_file, l, &E);
	case OP_EXISTS:
		return cell_file_exists(c, path, &E);
	case OP_READ:
		return cell_file_read(c, path, 0, 0, leak_data, l, &E);
	case OP_LOAD: {
		char *text = NULL;
		size_t n = 0;
		int r = cell_file_load(c, path, sizeof(l->text), &text, &n, &E);
		if (r >= 0)
			leak_data(text, n, l);
		free(text);
		return r;
	}
	case OP_WRITE:
		return cell_file_write(c, path, 0, 0, one_letter, &is_done, NULL, &E);
	case OP_STORE_NEW:
		return cell_file_store(c, below, 0, CELL_WRITE_PARENTS, "w", 1, &E);
	case OP_APPEND:
		return cell_file_store(c, path, 0, CELL_WRITE_APPEND, "w", 1, &E);
	case OP_MKDIR:
		return cell_file_mkdir(c, below, 0, false, &E);
	case OP_MKDIR_PARENTS:
		return cell_file_mkdir(c, below, 0, true, &E);
	case OP_REMOVE:
		return cell_file_remove(c, path, false, &E);
	case OP_REMOVE_TREE:
		return cell_file_remove(c, path, true, &E);
	case OP_MOVE_FROM:
		return cell_file_move(c, path, "stolen", true, &E);
	case OP_MOVE_TO:
		store(c, "bait", "bait");
		E = (struct cell_error){0};
		return cell_file_move(c, "bait", path, true, &E);
	case OP_LIST:
		return cell_file_list(c, path, 1, leak_file, l, &E);
	case OP_GLOB:
		return cell_file_glob(c, path, "*", 0, leak_file, l, NULL, &E);
	case OP_GREP:
		return cell_file_grep(c, &(struct cell_grep_opts){.pattern = ".", .path = path},
			leak_match, l, NULL, &E);
	case OP_EDIT:
		return cell_file_edit(c, path, "e", 1, "E", 1, true, NULL, &E);
	case OP_TAR:
		return cell_file_tar(c, path, leak_data, l, &E);
	case OP_UNTAR:
		return cell_file_untar(c, path, empty_tar, &left, &E);
	case OP_UPLOAD:
		snprintf(host, sizeof(host), "%s/up", s->dir);
		host_store(host, "w", 1);
		return cell_file_upload(c, host, path, NULL, NULL, &E);
	case OP_DOWNLOAD: {
		snprintf(host, sizeof(host), "%s/down", s->dir);
		(void)unlink(host);
		int r = cell_file_download(c, path, host, NULL, NULL, &E);
		size_t n = 0;
		char target[16];
		if (r >= 0 && readlink(host, target, sizeof(target)) < 0) {
			auto_free char *text = host_load(host, &n);
			if (text)
				leak_data(text, n, l);
		}
		return r;
	}
	case OP_WATCH:
		return cell_file_watch(c, path, true, 2000, leak_watch, l, &E);
	default:
		DIE("no operation %d", op);
	}
}

static void check_untouched(struct cell *c, const char *op, const char *what)
{
	auto_result struct cell_result r =
		sh(c, "cat ../outside/secret; echo; ls ../outside ../outside/inner");

	if (strcmp(r.out, SECRET "\n../outside:\ninner\nsecret\n\n../outside/inner:\n") != 0)
		DIE("%s by %s changed what is outside: %s", op, what, r.out);
}

static void attack_with(struct suite *s, struct cell *c, struct outside *o, enum operation op)
{
	for (size_t i = 0; i < o->n; i++) {
		const struct attack *a = &o->attacks[i];
		const char *path = operations[op].takes_dir ? a->dir : a->file;
		bool is_link = operations[op].takes_dir ? a->dir_is_link : a->file_is_link;
		bool is_lax = is_link && operations[op].may_mean_the_link;
		struct leak l = {0};

		if (a->is_for_reading && !operations[op].is_reading)
			continue;
		if (is_lax)
			make_links(c, o);
		E = (struct cell_error){0};
		int r = attempt(s, c, op, path, &l);
		if (is_lax) {
			struct cell_error kept = E;
			make_links(c, o);
			E = kept;
		}
		if (!is_lax && (r == 0 || r == 1 || r == 5))
			DIE("%s '%s' (%s) succeeded", operations[op].name, path, a->what);
		if (!is_lax && E.code != CELL_EDENIED)
			DIE("%s '%s' (%s): %s, want denied: %s", operations[op].name, path, a->what,
				cell_code_name(E.code), E.msg);
		if (r < 0 && (E.code == CELL_OK || E.code == CELL_EINTERNAL || !E.msg[0]))
			DIE("%s '%s' (%s): no proper error: %s", operations[op].name, path, a->what,
				E.msg);
		if (memmem(l.text, l.len, SECRET, strlen(SECRET)) ||
			memmem(l.text, l.len, "root:x:0", 8))
			DIE("%s '%s' (%s) gave away the secret", operations[op].name, path,
				a->what);
	}
	check_untouched(c, operations[op].name, "some attack");
}

/* The positive control: the same call on a path inside. */
static void succeed_inside(struct suite *s, struct cell *c, enum operation op)
{
	struct leak l = {0};
	const char *path = operations[op].takes_dir ? "inside" : "inside/file";

	OK(cell_file_mkdir(c, "inside", 0, true, &E));
	store(c, "inside/file", "text here");
	E = (struct cell_error){0};
	int r = attempt(s, c, op, path, &l);
	if (r < 0)
		DIE("%s '%s', inside, failed: %s (%s)", operations[op].name, path, E.msg, E.hint);
	(void)cell_file_remove(c, "inside", true, NULL);
}

static void attack_by(struct suite *s, enum operation op)
{
	auto_cell struct cell *c = open_cell(s);
	auto_free struct outside *o = malloc(sizeof(*o));

	ASSERT(o);
	prepare_outside(c, o);
	succeed_inside(s, c, op);
	attack_with(s, c, o, op);
	succeed_inside(s, c, op);
	auto_result struct cell_result r = sh(c,
		"rm -rf ../outside/*; rmdir ../outside 2>/dev/null; test ! -e ../outside/secret");
	ASSERT_INT(r.exit.exit_code, 0);
}

#define ATTACK(name, op)                                                 \
	TEST_NEEDS(no_path_leaves_the_workspace_by_##name, NEEDS(FILES)) \
	{                                                                \
		attack_by(s, op);                                        \
	}

ATTACK(stat, OP_STAT)
ATTACK(exists, OP_EXISTS)
ATTACK(read, OP_READ)
ATTACK(load, OP_LOAD)
ATTACK(write, OP_WRITE)
ATTACK(a_new_file, OP_STORE_NEW)
ATTACK(append, OP_APPEND)
ATTACK(mkdir, OP_MKDIR)
ATTACK(mkdir_with_parents, OP_MKDIR_PARENTS)
ATTACK(remove, OP_REMOVE)
ATTACK(remove_of_a_tree, OP_REMOVE_TREE)
ATTACK(move_from, OP_MOVE_FROM)
ATTACK(move_to, OP_MOVE_TO)
ATTACK(list, OP_LIST)
ATTACK(glob, OP_GLOB)
ATTACK(grep, OP_GREP)
ATTACK(edit, OP_EDIT)
ATTACK(tar, OP_TAR)
ATTACK(untar, OP_UNTAR)
ATTACK(upload, OP_UPLOAD)
ATTACK(download, OP_DOWNLOAD)

TEST_NEEDS(no_path_leaves_the_workspace_by_watch, NEEDS(FILES) | NEEDS(WATCH))
{
	attack_by(s, OP_WATCH);
}

TEST_NEEDS(links_within_the_workspace_are_followed, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = sh(c, "mkdir -p real/deep; echo text > real/deep/f; "
						 "ln -s real link; ln -s deep/f real/short; "
						 "ln -s ../real/deep real/round");

	ASSERT_INT(r.exit.exit_code, 0);
	auto_free char *a = load(c, "link/deep/f");
	auto_free char *b = load(c, "link/short");
	auto_free char *d = load(c, "real/round/f");
	ASSERT_STR(a, "text\n");
	ASSERT_STR(b, "text\n");
	ASSERT_STR(d, "text\n");
	auto_free char *e = load(c, "real/deep/../../link/deep/f");
	ASSERT_STR(e, "text\n");
}

TEST_NEEDS(a_search_does_not_wander_through_links, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free struct outside *o = malloc(sizeof(*o));
	auto_free struct leak *l = calloc(1, sizeof(*l));

	ASSERT(o && l);
	prepare_outside(c, o);
	store(c, "sub/known", "known text\n");
	OK(cell_file_grep(c, &(struct cell_grep_opts){.pattern = "secret|known"}, leak_match, l,
		NULL, &E));
	ASSERT_HAS(l->text, "known text");
	ASSERT(!strstr(l->text, SECRET));
	*l = (struct leak){0};
	OK(cell_file_glob(c, NULL, "**/*", 0, leak_file, l, NULL, &E));
	ASSERT_HAS(l->text, "sub/known");
	ASSERT(!strstr(l->text, "link-dir/secret"));
	*l = (struct leak){0};
	OK(cell_file_list(c, ".", 0, leak_file, l, &E));
	ASSERT(!strstr(l->text, "link-dir/secret"));
	*l = (struct leak){0};
	OK(cell_file_tar(c, ".", leak_data, l, &E));
	ASSERT(!memmem(l->text, l->len, SECRET, strlen(SECRET)));
	auto_result struct cell_result r = sh(c,
		"rm -rf ../outside/*; rmdir ../outside 2>/dev/null; test ! -e ../outside/secret");
	ASSERT_INT(r.exit.exit_code, 0);
}

TEST_NEEDS(a_directory_swapped_for_a_link_lets_nothing_out, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free struct outside *o = malloc(sizeof(*o));
	auto_talk struct talk t;
	unsigned inside = 0;

	ASSERT(o);
	prepare_outside(c, o);
	OK(cell_file_mkdir(c, "swap", 0, false, &E));
	store(c, "swap/secret", "inside");
	talk_start(&t, c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "swap", "swap", "link-dir")});
	talk_expect(&t, "ready\n");
	for (int i = 0; i < 400; i++) {
		struct leak l = {0};
		int r = cell_file_read(c, "swap/secret", 0, 0, leak_data, &l, &E);
		ASSERT(!memmem(l.text, l.len, SECRET, strlen(SECRET)));
		inside += r == 0 && l.len == 6;
		(void)cell_file_store(c, "swap/made-by-an-attack", 0, 0, "w", 1, &E);
	}
	OK(cell_exec_signal(t.x, 9, &E));
	(void)talk_end(&t);
	ASSERT(inside > 0);
	check_untouched(c, "writing", "a swap");
	auto_result struct cell_result r = sh(c,
		"rm -rf ../outside/*; rmdir ../outside 2>/dev/null; test ! -e ../outside/secret");
	ASSERT_INT(r.exit.exit_code, 0);
}

static char longest[256]; /* as long as a name may be */
static const char *const odd_names[] = {"new\nline", "sp ace", "\xff\xfe\x80", "-rf", "*", "?[a]",
	"quote'\"`$(id)", "back\\slash", "\x01\x1b[31m", "tab\there", "...", "..x", "\xe2\x82\xac",
	"{a,b}", "#", "~", longest};

struct name_seen {
	const char *name;
	unsigned n;
};

static int note_name(const struct cell_file_info *info, void *user)
{
	struct name_seen *w = user;

	w->n += !strcmp(info->path, w->name);
	return 0;
}

static int note_match_name(const struct cell_grep_match *m, void *user)
{
	struct name_seen *w = user;
	size_t a = strlen(m->path), b = strlen(w->name);

	w->n += a >= b && !strcmp(m->path + a - b, w->name);
	return 0;
}

TEST_NEEDS(odd_names_work_with_every_operation, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);

	memset(longest, 'n', sizeof(longest) - 1);
	for (size_t i = 0; i < sizeof(odd_names) / sizeof(*odd_names); i++) {
		const char *name = odd_names[i];
		char path[512], host[512];
		struct name_seen listed = {name, 0}, globbed = {name, 0}, found = {name, 0};
		struct leak l = {0};

		snprintf(path, sizeof(path), "odd/%s", name);
		OK(cell_file_store(c, path, 0, CELL_WRITE_PARENTS, "text", 4, &E));
		OK(cell_file_store(c, path, 0, CELL_WRITE_APPEND, " more", 5, &E));
		ASSERT(exists(c, path));
		OK(cell_file_stat(c, path, leak_file, &l, &E));
		OK(cell_file_edit(c, path, "more", 4, "less", 4, false, NULL, &E));
		auto_free char *text = load(c, path);
		ASSERT_STR(text, "text less");
		OK(cell_file_list(c, "odd", 1, note_name, &listed, &E));
		ASSERT_INT(listed.n, 1);
		OK(cell_file_glob(c, "odd", "*", 0, note_name, &globbed, NULL, &E));
		OK(cell_file_glob(c, "odd", ".*", 0, note_name, &globbed, NULL, &E));
		ASSERT(globbed.n >= 1);
		OK(cell_file_grep(c, &(struct cell_grep_opts){.pattern = "less", .path = "odd"},
			note_match_name, &found, NULL, &E));
		ASSERT_INT(found.n, 1);
		auto_result struct cell_result r = RUN(c, "cat", "--", path);
		ASSERT_STR(r.out, "text less");
		snprintf(host, sizeof(host), "%s/odd-copy", s->dir);
		OK(cell_file_download(c, path, host, NULL, NULL, &E));
		auto_free char *copy = host_load(host, NULL);
		ASSERT_STR(copy, "text less");
		OK(cell_file_move(c, path, "moved", false, &E));
		OK(cell_file_move(c, "moved", path, false, &E));
		OK(cell_file_remove(c, path, false, &E));
		OK(cell_file_mkdir(c, path, 0, false, &E));
		OK(cell_file_remove(c, path, true, &E));
		OK(cell_file_upload(c, host, path, NULL, NULL, &E));
		ASSERT(exists(c, path));
		OK(cell_file_remove(c, path, false, &E));
		(void)unlink(host);
	}
}

TEST_NEEDS(names_and_paths_that_are_too_long_are_refused, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free char *path = malloc(70000);

	ASSERT(path);
	memset(path, 'n', 256);
	path[256] = '\0';
	FAILS(ANY_ERROR, cell_file_store(c, path, 0, 0, "x", 1, &E));
	for (size_t i = 0; i < 69998; i += 2)
		memcpy(path + i, "a/", 2);
	path[69998] = '\0';
	FAILS(ANY_ERROR, cell_file_store(c, path, 0, CELL_WRITE_PARENTS, "x", 1, &E));
	FAILS(ANY_ERROR, cell_file_mkdir(c, path, 0, true, &E));
	FAILS(ANY_ERROR, cell_file_exists(c, path, &E));
	store(c, "after", "fine");
	ASSERT(!exists(c, "a"));
}

TEST_NEEDS(an_empty_path_is_refused_where_a_file_is_meant, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct leak l = {0};

	FAILS(INVALID | DENIED | NOT_FOUND, cell_file_read(c, "", 0, 0, leak_data, &l, &E));
	FAILS(INVALID | DENIED | NOT_FOUND, cell_file_store(c, "", 0, 0, "x", 1, &E));
	FAILS(INVALID | DENIED | NOT_FOUND, cell_file_remove(c, "", true, &E));
}

TEST_NEEDS(links_in_a_circle_are_an_error, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = sh(c, "ln -s b a; ln -s a b; ln -s self self");
	struct leak l = {0};

	ASSERT_INT(r.exit.exit_code, 0);
	FAILS(ANY_ERROR, cell_file_read(c, "a", 0, 0, leak_data, &l, &E));
	FAILS(ANY_ERROR, cell_file_list(c, "a/x", 1, leak_file, &l, &E));
	FAILS(ANY_ERROR, cell_file_store(c, "self/x", 0, 0, "x", 1, &E));
	OK(cell_file_list(c, ".", 0, leak_file, &l, &E));
	OK(cell_file_remove(c, "self", false, &E));
}

TEST_NEEDS(a_deep_tree_is_handled, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char path[2100] = "deep";
	struct name_seen w = {"x", 0};

	for (size_t n = 4; n + 2 < 1500; n += 2)
		memcpy(path + n, "/d", 3);
	OK(cell_file_mkdir(c, path, 0, true, &E));
	OK(cell_file_list(c, "deep", 100, note_name, &w, &E));
	FAILS(OVER_LIMIT, cell_file_list(c, "deep", 0, note_name, &w, &E));
	OK(cell_file_remove(c, "deep", true, &E));
	ASSERT(!exists(c, "deep"));
}
