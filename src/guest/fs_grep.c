/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_grep.c: lines that match, in files sorted by path. Symbolic links met on the way are not
 * followed, files that cannot be read are passed over. A line is looked at in windows of WINDOW
 * bytes that overlap by OVERLAP, so in longer lines a match longer than OVERLAP can be missed.
 */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/globmatch.h"
#include "guest/fs_op.h"

#define WINDOW	     (64u * 1024)
#define OVERLAP	     4096u
#define TEXT_MAX     4096u /* of a line, in the answer */
#define BINARY_LOOK  8192u
#define PATTERN_MAX  4096u
#define REPEATS_MAX  10000u
#define FLAG_FIXED   1u
#define FLAG_NO_CASE 2u

struct grep {
	struct fs_out out;
	struct globmatch *glob;
	bool is_glob_of_names; /* no slash in it: matched against names, not paths */
	char *pattern;
	size_t pattern_len;
	bool is_fixed, ignores_case;
	regex_t regex;
	bool has_regex;
	uint64_t left; /* matches still wanted */
	bool is_truncated;
	char *window;  /* WINDOW + 1 bytes */
	char *scratch; /* the same again, for a window made fit for the matcher */
};

static void grep_done(struct grep *g)
{
	fs_out_done(&g->out);
	globmatch_free(g->glob);
	if (g->has_regex)
		regfree(&g->regex);
	free(g->pattern);
	free(g->window);
	free(g->scratch);
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Repetitions multiply when nested, and the automaton with them. */
static bool is_too_repetitive(const char *p)
{
	uint64_t product = 1;

	for (; *p; p++) {
		uint64_t n = 0, most = 0;

		if (*p == '\\' && p[1]) {
			p++;
			continue;
		}
		if (*p != '{')
			continue;
		const char *q = p + 1;
		for (; (*q >= '0' && *q <= '9') || *q == ','; q++) {
			n = *q == ',' ? 0 : n * 10 + (unsigned)(*q - '0');
			if (n > REPEATS_MAX)
				return true;
			most = n > most ? n : most;
		}
		if (most > 1)
			product *= most;
		if (product > REPEATS_MAX)
			return true;
	}
	return false;
}

static int compile(struct grep *g, struct cell_error *err)
{
	g->pattern_len = strlen(g->pattern);
	if (g->is_fixed) {
		for (size_t i = 0; g->ignores_case && i < g->pattern_len; i++)
			g->pattern[i] = lower(g->pattern[i]);
		return 0;
	}
	if (is_too_repetitive(g->pattern))
		return cell_fail(err, CELL_EINVAL, 0,
			"grep: the expression's repetitions multiply to more than %u", REPEATS_MAX);
	int r = regcomp(&g->regex, g->pattern,
		REG_EXTENDED | REG_NOSUB | (g->ignores_case ? REG_ICASE : 0));
	if (r != 0) {
		char why[120];
		(void)regerror(r, &g->regex, why, sizeof why);
		(void)cell_fail(err, CELL_EINVAL, 0, "grep: '%.150s' is no regular expression: %s",
			g->pattern, why);
		return cell_error_hint(err, -EINVAL,
			"POSIX extended syntax; plain text can be looked for as fixed text");
	}
	g->has_regex = true;
	return 0;
}

/* n bytes of a line; is_begin and is_end: it has the line's ends. p[n] may be overwritten. */
static bool is_match(struct grep *g, char *p, size_t n, bool is_begin, bool is_end)
{
	if (g->is_fixed) {
		if (!g->ignores_case)
			return memmem(p, n, g->pattern, g->pattern_len) != NULL;
		for (size_t i = 0; i < n; i++)
			g->scratch[i] = lower(p[i]);
		return memmem(g->scratch, n, g->pattern, g->pattern_len) != NULL;
	}
	const char *text = p;
	char saved = p[n];
	p[n] = '\0';
	if (memchr(p, 0, n)) {
		for (size_t i = 0; i < n; i++)
			g->scratch[i] = p[i] ? p[i] : '\1';
		g->scratch[n] = '\0';
		text = g->scratch;
	}
	bool is_found = regexec(&g->regex, text, 0, NULL,
				(is_begin ? 0 : REG_NOTBOL) | (is_end ? 0 : REG_NOTEOL)) == 0;
	p[n] = saved;
	return is_found;
}

static int report(struct grep *g, const char *path, uint64_t line, const char *text, size_t len)
{
	auto_buf struct buf record = BUF_INIT(WIRE_MAX_RECORD);

	if (g->left == 0) {
		g->is_truncated = true;
		return 0;
	}
	g->left--;
	int r = wire_put_str(&record, WIRE_T_PATH, path);
	if (r == 0)
		r = wire_put_u64(&record, WIRE_T_LINE, line);
	if (r == 0)
		r = wire_put(&record, WIRE_T_TEXT, text, len);
	return r < 0 ? r : fs_out_record(&g->out, &record);
}

/* Reading a file line by line, a window at a time. */
struct scan {
	int fd;
	size_t have;
	bool is_eof;
	uint64_t line;
	bool is_matched;     /* the line being read matched already */
	bool is_continued;   /* the window begins inside a line */
	char head[TEXT_MAX]; /* how a continued line began */
	size_t head_len;
};

static int fill(struct grep *g, struct scan *s)
{
	while (s->have < WINDOW && !s->is_eof) {
		ssize_t n = read(s->fd, g->window + s->have, WINDOW - s->have);
		if (n < 0 && errno == EINTR)
			continue;
		/* What cannot be read (any more) is passed over. */
		if (n <= 0)
			s->is_eof = true;
		else
			s->have += (size_t)n;
	}
	return 0;
}

/* One piece of a line, its end or not. */
static int look(struct grep *g, struct scan *s, const char *path, char *p, size_t n, bool is_end)
{
	int r = 0;

	if (!s->is_continued) {
		s->head_len = n < TEXT_MAX ? n : TEXT_MAX;
		memcpy(s->head, p, s->head_len);
	}
	if (!s->is_matched && is_match(g, p, n, !s->is_continued, is_end)) {
		s->is_matched = true;
		r = report(g, path, s->line, s->head, s->head_len);
	}
	s->is_continued = !is_end;
	if (is_end) {
		s->line++;
		s->is_matched = false;
	}
	return r;
}

static int grep_file(struct grep *g, int fd, const char *path)
{
	struct scan s = {.fd = fd, .line = 1};
	int r = fill(g, &s);

	if (memchr(g->window, 0, s.have < BINARY_LOOK ? s.have : BINARY_LOOK))
		return 0;
	while (r == 0 && s.have > 0 && !g->is_truncated) {
		size_t at = 0;

		while (r == 0 && at < s.have && !g->is_truncated) {
			char *p = g->window + at;
			char *newline = memchr(p, '\n', s.have - at);
			if (!newline && !s.is_eof && at > 0)
				break;
			size_t n = newline ? (size_t)(newline - p) : s.have - at;
			bool is_end = newline || s.is_eof;
			r = look(g, &s, path, p, n, is_end);
			if (is_end) {
				at += n + (newline != NULL);
				continue;
			}
			at = s.have - OVERLAP;
			break;
		}
		memmove(g->window, g->window + at, s.have - at);
		s.have -= at;
		if (r == 0 && !s.is_eof)
			r = fill(g, &s);
	}
	return r;
}

static bool is_wanted(struct grep *g, const struct treewalk_entry *e)
{
	return S_ISREG(e->st.st_mode) &&
	       (!g->glob || globmatch_test(g->glob, g->is_glob_of_names ? e->name : e->path));
}

static int grep_tree(struct grep *g, int dir, const char *path, struct cell_error *err)
{
	auto_(fs_walk_freep) struct treewalk *w = NULL;
	struct treewalk_entry e;
	int r = treewalk_new(dir, 0, TREEWALK_NO_KERNEL_FS, &w);

	while (r >= 0 && !g->is_truncated && (r = treewalk_next(w, &e)) > 0) {
		if (e.type == TREEWALK_FAILED) {
			g->is_truncated |= e.error == EOVERFLOW;
			continue;
		}
		if (!is_wanted(g, &e))
			continue;
		auto_fd int fd = openat(e.dir_fd, e.name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		struct stat st;
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		r = grep_file(g, fd, e.path);
	}
	return r < 0 ? fs_fail(err, r, "grep in", path) : 0;
}

static int grep_one(struct fs_call *call, struct grep *g, const char *path, struct cell_error *err)
{
	auto_(fs_file_done) struct fs_file f = FS_FILE_INIT;
	int r = fs_file_open(call, "grep in", path, O_RDONLY, &f, err);

	if (r < 0)
		return r;
	if (g->glob && !globmatch_test(g->glob, g->is_glob_of_names ? f.name : path))
		return 0;
	r = grep_file(g, f.fd, path);
	return r < 0 ? fs_fail(err, r, "grep in", path) : 0;
}

static int get_glob(const struct fs_call *call, struct grep *g, struct cell_error *err)
{
	struct wire_field f;
	auto_free char *glob = NULL;

	if (!wire_find(call->fields, call->fields_len, WIRE_T_GLOB, &f))
		return 0;
	int r = fs_get_text(call, WIRE_T_GLOB, GLOBMATCH_MAX_PATTERN, "grep", "glob", &glob, err);
	if (r < 0)
		return r;
	g->is_glob_of_names = !strchr(glob, '/');
	if (globmatch_new(glob, &g->glob) < 0)
		return cell_fail(err, CELL_EINVAL, 0, "grep: the glob nests braces too deep");
	return 0;
}

int fs_grep(struct fs_call *call, struct cell_error *err)
{
	auto_(grep_done) struct grep g = {.out = FS_OUT_INIT(call->out_fd)};
	uint64_t flags = fs_get_u64(call, WIRE_T_FLAGS, 0);
	uint64_t limit = fs_get_u64(call, WIRE_T_LIMIT, 0);
	struct fs_path path;
	struct stat st;

	g.is_fixed = flags & FLAG_FIXED;
	g.ignores_case = flags & FLAG_NO_CASE;
	g.left = limit ? limit : FS_DEFAULT_LIMIT;
	int r = fs_get_path(call, WIRE_T_PATH, "grep", &path, err);
	if (r == 0)
		r = fs_get_text(call, WIRE_T_PATTERN, PATTERN_MAX, "grep", "pattern", &g.pattern,
			err);
	if (r == 0)
		r = compile(&g, err);
	if (r == 0)
		r = get_glob(call, &g, err);
	if (r < 0)
		return r;
	g.window = malloc(WINDOW + 1);
	g.scratch = malloc(WINDOW + 1);
	if (!g.window || !g.scratch)
		return cell_fail_errno(err, ENOMEM, "grep");

	auto_fd int at = beneath_open(call->root_fd, path.text, O_PATH, 0);
	if (at < 0)
		return fs_fail(err, at, "grep in", path.text);
	if (fstat(at, &st) < 0)
		return fs_fail(err, -errno, "grep in", path.text);
	r = S_ISDIR(st.st_mode) ? grep_tree(&g, at, path.text, err)
				: grep_one(call, &g, path.text, err);
	if (r < 0)
		return r;
	r = fs_out_flush(&g.out);
	if (r == 0)
		r = wire_put_u64(&call->reply, WIRE_T_TRUNCATED, g.is_truncated);
	return r < 0 ? fs_fail(err, r, "grep in", path.text) : 0;
}
