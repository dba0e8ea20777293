/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_grep.c: lines that match, in files sorted by path. Symbolic links met on the way are not followed,
 * files that cannot be read are passed over. Lines may be of any length.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/ere.h"
#include "base/globmatch.h"
#include "guest/fs_op.h"

#define CHUNK	     (64u * 1024)
#define TEXT_MAX     4096u /* of a line, in the answer */
#define BINARY_LOOK  8192u
#define FLAG_FIXED   1u
#define FLAG_NO_CASE 2u

struct grep {
	struct fs_out out;
	struct globmatch *glob;
	bool is_glob_of_names; /* no slash in it: matched against names, not paths */
	struct ere *ere;
	uint64_t left; /* matches still wanted */
	bool is_truncated;
	char *chunk; /* CHUNK bytes */
};

static void grep_done(struct grep *g)
{
	fs_out_done(&g->out);
	globmatch_free(g->glob);
	ere_free(g->ere);
	free(g->chunk);
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

/* The line being read, which may have begun in an earlier chunk. */
struct line {
	uint64_t number;
	char head[TEXT_MAX];
	size_t head_len;
	bool is_begun, is_matched;
};

static void line_add(struct grep *g, struct line *l, const char *p, size_t n)
{
	size_t room = TEXT_MAX - l->head_len;

	if (!l->is_begun)
		ere_begin(g->ere);
	l->is_begun = true;
	memcpy(l->head + l->head_len, p, n < room ? n : room);
	l->head_len += n < room ? n : room;
	if (!l->is_matched)
		l->is_matched = ere_feed(g->ere, p, n);
}

static int line_end(struct grep *g, struct line *l, const char *path)
{
	int r = 0;

	if (l->is_matched || ere_end(g->ere))
		r = report(g, path, l->number, l->head, l->head_len);
	l->number++;
	l->head_len = 0;
	l->is_begun = l->is_matched = false;
	return r;
}

/* Up to a full chunk; what cannot be read (any more) counts as the end. */
static size_t read_chunk(const struct grep *g, int fd)
{
	size_t have = 0;

	while (have < CHUNK) {
		ssize_t n = read(fd, g->chunk + have, CHUNK - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

static int grep_file(struct grep *g, int fd, const char *path)
{
	struct line l = {.number = 1};
	size_t have = read_chunk(g, fd);
	int r = 0;

	if (memchr(g->chunk, 0, have < BINARY_LOOK ? have : BINARY_LOOK))
		return 0;
	for (; r == 0 && have > 0; have = read_chunk(g, fd)) {
		const char *p = g->chunk, *end = p + have;

		while (r == 0 && p < end && !g->is_truncated) {
			const char *newline = memchr(p, '\n', (size_t)(end - p));
			line_add(g, &l, p, (size_t)((newline ? newline : end) - p));
			p = newline ? newline + 1 : end;
			if (newline)
				r = line_end(g, &l, path);
		}
		if (g->is_truncated)
			return r;
	}
	return r == 0 && l.is_begun ? line_end(g, &l, path) : r;
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

static int get_pattern(const struct fs_call *call, struct grep *g, struct cell_error *err)
{
	uint64_t flags = fs_get_u64(call, WIRE_T_FLAGS, 0);
	auto_free char *pattern = NULL;
	const char *why = "";

	int r = fs_get_text(call, WIRE_T_PATTERN, ERE_MAX_PATTERN, "grep", "pattern", &pattern,
		err);
	if (r < 0)
		return r;
	r = ere_new(pattern,
		(flags & FLAG_FIXED ? ERE_FIXED : 0u) | (flags & FLAG_NO_CASE ? ERE_NO_CASE : 0u),
		&g->ere, &why);
	if (r == -EINVAL)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0,
				"grep: '%.150s' is no regular expression: %s", pattern, why),
			"POSIX extended syntax; plain text can be looked for as fixed text");
	return r < 0 ? cell_fail_errno(err, -r, "grep") : 0;
}

int fs_grep(struct fs_call *call, struct cell_error *err)
{
	auto_(grep_done) struct grep g = {.out = FS_OUT_INIT(call->out_fd)};
	uint64_t limit = fs_get_u64(call, WIRE_T_LIMIT, 0);
	struct fs_path path;
	struct stat st;

	g.left = limit ? limit : FS_DEFAULT_LIMIT;
	int r = fs_get_path(call, WIRE_T_PATH, "grep", &path, err);
	if (r == 0)
		r = get_pattern(call, &g, err);
	if (r == 0)
		r = get_glob(call, &g, err);
	if (r < 0)
		return r;
	g.chunk = malloc(CHUNK);
	if (!g.chunk)
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
