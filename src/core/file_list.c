/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.c: what comes from the guest as records: listings, searches, events. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "core/file_call.h"

struct file_sink {
	cell_file_fn fn;
	void *user;
};

static int on_file(const uint8_t *p, size_t len, void *user, struct cell_error *err)
{
	struct file_sink *sink = user;
	struct file_info f;
	int r = file_info_get(&f, p, len, NULL, err);

	if (r < 0)
		return r;
	r = sink->fn(&f.info, sink->user);
	file_info_done(&f);
	return r;
}

int cell_file_list(struct cell *c, const char *path, uint32_t depth, cell_file_fn fn, void *user,
	struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	struct file_sink sink = {fn, user};

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_u64(&q, WIRE_T_DEPTH, depth);
	int r = file_open(c, WIRE_OP_LIST, &q, &s, err);
	return r < 0 ? r : file_records(s, -1, on_file, &sink, NULL, err);
}

int cell_file_glob(struct cell *c, const char *path, const char *pattern, uint32_t limit,
	cell_file_fn fn, void *user, bool *ret_truncated, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	auto_buf struct buf end = BUF_INIT(WIRE_MAX_PAYLOAD);
	struct file_sink sink = {fn, user};

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_str(&q, WIRE_T_PATTERN, pattern);
	file_put_u64(&q, WIRE_T_LIMIT, limit);
	int r = file_open(c, WIRE_OP_GLOB, &q, &s, err);
	if (r == 0)
		r = file_records(s, -1, on_file, &sink, &end, err);
	if (r == 0 && ret_truncated)
		*ret_truncated = wire_find_u64(end.data, end.len, WIRE_T_TRUNCATED, 0);
	return r;
}

struct grep_sink {
	cell_grep_fn fn;
	void *user;
};

static int on_match(const uint8_t *p, size_t len, void *user, struct cell_error *err)
{
	auto_free char *path = wire_find_str(p, len, WIRE_T_PATH, WIRE_MAX_RECORD);
	struct grep_sink *sink = user;
	struct wire_field text;

	if (!path || !wire_find(p, len, WIRE_T_TEXT, &text))
		return cell_fail(err, CELL_EPROTOCOL, EPROTO, "grep: the guest described no match");
	/* A copy with a NUL behind it: the text itself may have some. */
	auto_buf struct buf line = BUF_INIT(WIRE_MAX_RECORD);
	if (buf_add(&line, text.p, text.len) < 0)
		return cell_fail_errno(err, ENOMEM, "grep");
	const struct cell_grep_match m = {
		.path = path,
		.line_number = wire_find_u64(p, len, WIRE_T_LINE, 0),
		.line = buf_str(&line),
		.line_len = line.len,
	};
	return sink->fn(&m, sink->user);
}

int cell_file_grep(struct cell *c, const struct cell_grep_opts *opts, cell_grep_fn fn, void *user,
	bool *ret_truncated, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	auto_buf struct buf end = BUF_INIT(WIRE_MAX_PAYLOAD);
	struct grep_sink sink = {fn, user};

	file_put_str(&q, WIRE_T_PATH, opts->path);
	file_put_str(&q, WIRE_T_PATTERN, opts->pattern);
	file_put_str(&q, WIRE_T_GLOB, opts->glob);
	file_put_u64(&q, WIRE_T_LIMIT, opts->limit);
	file_put_u64(&q, WIRE_T_FLAGS, (opts->is_fixed ? 1u : 0) | (opts->ignore_case ? 2u : 0));
	int r = file_open(c, WIRE_OP_GREP, &q, &s, err);
	if (r == 0)
		r = file_records(s, -1, on_match, &sink, &end, err);
	if (r == 0 && ret_truncated)
		*ret_truncated = wire_find_u64(end.data, end.len, WIRE_T_TRUNCATED, 0);
	return r;
}

struct watch_sink {
	cell_watch_fn fn;
	void *user;
};

static int on_event(const uint8_t *p, size_t len, void *user, struct cell_error *err)
{
	auto_free char *path = wire_find_str(p, len, WIRE_T_PATH, WIRE_MAX_RECORD);
	struct watch_sink *sink = user;
	uint64_t type = wire_find_u64(p, len, WIRE_T_EVENT, 0);

	if (!path || type < CELL_WATCH_CREATED || type > CELL_WATCH_READY)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"watch: the guest described no event");
	const struct cell_watch_event e = {
		.type = (enum cell_watch_type)type,
		.path = path,
		.is_directory = wire_find_u64(p, len, WIRE_T_TYPE, 0) == CELL_FILE_DIRECTORY,
	};
	return sink->fn(&e, sink->user);
}

int cell_file_watch(struct cell *c, const char *path, bool recursive, int timeout_ms,
	cell_watch_fn fn, void *user, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	struct watch_sink sink = {fn, user};

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_u64(&q, WIRE_T_FLAGS, recursive);
	int r = file_open(c, WIRE_OP_WATCH, &q, &s, err);
	return r < 0 ? r : file_records(s, timeout_ms, on_event, &sink, NULL, err);
}
