/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: files of a server's cell. Names are bytes: they travel percent-encoded, and come back in base64 where they are no UTF-8. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "cli/signals.h"

static const char *id_of(const struct cell *c)
{
	return remote_cell_of(c)->id;
}

static const char *on(bool is_on)
{
	return is_on ? "true" : NULL;
}

static bool is_stopped(void)
{
	return cli_signals_stop() != 0;
}

/* ---- looking ---- */

static enum cell_file_type type_of(const char *word)
{
	return !strcmp(word, "file")	    ? CELL_FILE_REGULAR
	       : !strcmp(word, "directory") ? CELL_FILE_DIRECTORY
	       : !strcmp(word, "symlink")   ? CELL_FILE_SYMLINK
					    : CELL_FILE_OTHER;
}

static int show(const json_t *o, cell_file_fn fn, void *user)
{
	auto_free char *own_path = NULL, *own_target = NULL;
	size_t n;
	struct cell_file_info info = {.path = remote_bytes(o, "path", &own_path, &n),
		.type = type_of(remote_text(o, "type")),
		.size = (uint64_t)remote_int(o, "size"),
		.mode = (uint32_t)strtoul(remote_text(o, "mode"), NULL, 8),
		.uid = (uint32_t)remote_int(o, "uid"),
		.gid = (uint32_t)remote_int(o, "gid"),
		.mtime_ns = remote_int(o, "mtime_ns"),
		.target = remote_bytes(o, "target", &own_target, &n)};

	return fn(&info, user);
}

int remote_file_stat(struct cell *c, const char *path, cell_file_fn fn, void *user,
	struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files/stat", "path", path, NULL);
	json_t *o = NULL;
	int r = remote_call(&(struct remote_request){.target = target}, &o, err);

	if (r == 0)
		r = show(o, fn, user);
	json_decref(o);
	return r;
}

static int nothing(const struct cell_file_info *info, void *user)
{
	(void)info;
	(void)user;
	return 0;
}

int remote_file_exists(struct cell *c, const char *path, struct cell_error *err)
{
	struct cell_error why = {0};
	int r = remote_file_stat(c, path, nothing, NULL, &why);

	if (r == 0)
		return 1;
	if (why.code == CELL_ENOTFOUND)
		return 0;
	if (err)
		*err = why;
	return r;
}

static int show_entries(const char *target, cell_file_fn fn, void *user, bool *ret_truncated,
	struct cell_error *err)
{
	json_t *page = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &page, err);

	if (r == 0 && ret_truncated)
		*ret_truncated = json_is_true(json_object_get(page, "truncated"));
	json_array_foreach (json_object_get(page, "entries"), i, o)
		if (r == 0)
			r = show(o, fn, user);
	json_decref(page);
	return r;
}

int remote_file_list(struct cell *c, const char *path, uint32_t depth, cell_file_fn fn, void *user,
	struct cell_error *err)
{
	auto_free char *levels = cli_format("%" PRIu32, depth);
	auto_free char *target =
		remote_target(id_of(c), "/files/list", "path", path, "depth", levels, NULL);
	bool is_cut = false;
	int r = show_entries(target, fn, user, &is_cut, err);

	if (r == 0 && is_cut) {
		r = cell_fail(err, CELL_ELIMIT, 0,
			"list '%.200s': there is more than a server gives at once", path);
		r = cell_error_hint(err, r, "list directories below it one by one");
	}
	return r;
}

int remote_file_glob(struct cell *c, const char *path, const char *pattern, uint32_t limit,
	cell_file_fn fn, void *user, bool *ret_truncated, struct cell_error *err)
{
	auto_free char *most = limit ? cli_format("%" PRIu32, limit) : NULL;
	auto_free char *target = remote_target(id_of(c), "/files/glob", "pattern", pattern, "path",
		path, "limit", most, NULL);

	return show_entries(target, fn, user, ret_truncated, err);
}

int remote_file_grep(struct cell *c, const struct cell_grep_opts *opts, cell_grep_fn fn, void *user,
	bool *ret_truncated, struct cell_error *err)
{
	auto_free char *most = opts->limit ? cli_format("%" PRIu32, opts->limit) : NULL;
	auto_free char *target = remote_target(id_of(c), "/files/grep", "pattern", opts->pattern,
		"path", opts->path, "glob", opts->glob, "fixed", on(opts->is_fixed), "ignore_case",
		on(opts->ignore_case), "limit", most, NULL);
	json_t *page = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &page, err);

	if (r == 0 && ret_truncated)
		*ret_truncated = json_is_true(json_object_get(page, "truncated"));
	json_array_foreach (json_object_get(page, "matches"), i, o) {
		auto_free char *own_path = NULL, *own_line = NULL;
		size_t n;
		struct cell_grep_match m = {.path = remote_bytes(o, "path", &own_path, &n),
			.line_number = (uint64_t)remote_int(o, "line")};
		m.line = remote_bytes(o, "text", &own_line, &m.line_len);
		if (r == 0)
			r = fn(&m, user);
	}
	json_decref(page);
	return r;
}

/* ---- content ---- */

struct reading {
	cell_data_fn fn;
	void *user;
};

static int to_reader(void *arg, const void *p, size_t n)
{
	struct reading *r = arg;

	return r->fn(p, n, r->user);
}

int remote_file_read(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
	cell_data_fn fn, void *user, struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files", "path", path, NULL);
	auto_free char *range = NULL;
	struct reading rd = {fn, user};
	struct cell_error why = {0};

	if (limit)
		range = cli_format("bytes=%" PRIu64 "-%" PRIu64, offset,
			limit > UINT64_MAX - offset ? UINT64_MAX - 1 : offset + limit - 1);
	else if (offset)
		range = cli_format("bytes=%" PRIu64 "-", offset);
	int r = remote_call(&(struct remote_request){.target = target,
				    .sink = to_reader,
				    .arg = &rd,
				    .range = range,
				    .is_cancelled = is_stopped},
		NULL, &why);
	if (r == -ERANGE) /* behind the end: nothing, as here */
		return 0;
	if (r < 0 && err && why.code)
		*err = why;
	return r;
}

struct writing {
	cell_source_fn fn;
	void *user;
};

static ssize_t from_writer(void *arg, void *p, size_t max)
{
	struct writing *w = arg;

	return w->fn(p, max, w->user);
}

int remote_file_write(struct cell *c, const char *path, uint32_t mode, uint32_t flags,
	cell_source_fn fn, void *user, uint64_t *ret_size, struct cell_error *err)
{
	auto_free char *bits = mode ? cli_format("%04o", mode) : NULL;
	auto_free char *target = remote_target(id_of(c), "/files", "path", path, "mode", bits,
		"append", on(flags & CELL_WRITE_APPEND), "exclusive",
		on(flags & CELL_WRITE_EXCLUSIVE), "parents", on(flags & CELL_WRITE_PARENTS), NULL);
	struct writing w = {fn, user};
	json_t *o = NULL;
	int r = remote_call(&(struct remote_request){.method = "PUT",
				    .target = target,
				    .source = from_writer,
				    .arg = &w,
				    .is_change = true},
		&o, err);

	if (r == 0 && ret_size)
		*ret_size = (uint64_t)remote_int(o, "size");
	json_decref(o);
	return r;
}

int remote_file_edit(struct cell *c, const char *path, const void *old_text, size_t old_len,
	const void *new_text, size_t new_len, bool all, uint64_t *ret_count, struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files/edit", "path", path, NULL);
	json_t *o = NULL;
	int r = remote_call(&(struct remote_request){.method = "POST",
				    .target = target,
				    .body = json_pack("{s:o, s:o, s:b}", "old_base64",
					    remote_base64(old_text, old_len), "new_base64",
					    remote_base64(new_text, new_len), "all", all),
				    .is_change = true},
		&o, err);

	if (r == 0 && ret_count)
		*ret_count = (uint64_t)remote_int(o, "replacements");
	json_decref(o);
	return r;
}

/* ---- the tree ---- */

int remote_file_mkdir(struct cell *c, const char *path, uint32_t mode, bool parents,
	struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files/mkdir", "path", path, NULL);
	json_t *body = json_pack("{s:b}", "parents", parents);

	if (mode)
		(void)json_object_set_new(body, "mode", json_sprintf("%04o", mode));
	return remote_call(&(struct remote_request){.method = "POST",
				   .target = target,
				   .body = body,
				   .is_change = true},
		NULL, err);
}

int remote_file_remove(struct cell *c, const char *path, bool recursive, struct cell_error *err)
{
	auto_free char *target =
		remote_target(id_of(c), "/files", "path", path, "recursive", on(recursive), NULL);

	return remote_call(&(struct remote_request){.method = "DELETE",
				   .target = target,
				   .is_change = true},
		NULL, err);
}

int remote_file_move(struct cell *c, const char *from, const char *to, bool replace,
	struct cell_error *err)
{
	auto_free char *target =
		remote_target(id_of(c), "/files/move", "from", from, "to", to, NULL);

	return remote_call(&(struct remote_request){.method = "POST",
				   .target = target,
				   .body = json_pack("{s:b}", "replace", replace),
				   .is_change = true},
		NULL, err);
}

int remote_file_tar(struct cell *c, const char *path, cell_data_fn fn, void *user,
	struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files/tar", "path", path, NULL);
	struct reading rd = {fn, user};

	return remote_call(&(struct remote_request){.target = target,
				   .sink = to_reader,
				   .arg = &rd,
				   .is_cancelled = is_stopped},
		NULL, err);
}

int remote_file_untar(struct cell *c, const char *path, cell_source_fn fn, void *user,
	struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files/tar", "path", path, NULL);
	struct writing w = {fn, user};

	return remote_call(&(struct remote_request){.method = "PUT",
				   .target = target,
				   .source = from_writer,
				   .arg = &w,
				   .is_change = true},
		NULL, err);
}

/* ---- watching ---- */

struct watching {
	cell_watch_fn fn;
	void *user;
};

static int watch_type(const char *word)
{
	static const char *const words[] = {"", "created", "modified", "removed", "moved_from",
		"moved_to", "overflow", "ready"};

	for (size_t i = 1; i < sizeof words / sizeof words[0]; i++)
		if (!strcmp(words[i], word))
			return (int)i;
	return 0;
}

static int take_event(void *user, json_t *o, const struct buf *line)
{
	const struct watching *w = user;
	auto_free char *own = NULL;
	size_t n;
	struct cell_watch_event e = {
		.type = (enum cell_watch_type)watch_type(remote_text(o, "type")),
		.path = remote_bytes(o, "path", &own, &n),
		.is_directory = json_is_true(json_object_get(o, "is_directory"))};

	(void)line;
	return e.type ? w->fn(&e, w->user) : 0;
}

static uint64_t watch_until_ms; /* 0: for ever */

static bool is_watch_over(void)
{
	return is_stopped() || (watch_until_ms && remote_now_ms() >= watch_until_ms);
}

int remote_file_watch(struct cell *c, const char *path, bool recursive, int timeout_ms,
	cell_watch_fn fn, void *user, struct cell_error *err)
{
	auto_free char *target = remote_target(id_of(c), "/files/watch", "path", path, "recursive",
		on(recursive), NULL);
	struct watching w = {.fn = fn, .user = user};
	struct json_lines lines = {.take = take_event, .user = &w, .line = BUF_INIT(1u << 20)};
	struct cell_error why = {0};

	watch_until_ms = timeout_ms >= 0 ? remote_now_ms() + (uint64_t)timeout_ms : 0;
	int r = remote_call(&(struct remote_request){.target = target,
				    .sink = json_lines_add,
				    .arg = &lines,
				    .is_cancelled = is_watch_over},
		NULL, &why);
	json_lines_done(&lines);
	if (r == -EINTR && !is_stopped())
		return 0;
	if (r < 0 && err && why.code)
		*err = why;
	return r;
}
