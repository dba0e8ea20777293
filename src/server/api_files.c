/* SPDX-License-Identifier: Apache-2.0 */
/* api_files.c: files of a session's workspace: read (also in parts), write, list, find, change, directories as tar, watch. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "net/sse.h"
#include "net/text.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/filework.h"
#include "server/flow_text.h"
#include "server/session.h"

#define LIST_MAX 100000 /* entries of one answer */

/* ---- asking ---- */

static bool flag(struct call *c, const char *name)
{
	const char *v = http_query(c->x, name);

	return v && (!*v || !strcmp(v, "true") || !strcmp(v, "1"));
}

/* The session, a path from the query (NULL allowed when is_optional). */
static bool begin(struct call *c, bool is_optional, const char **ret)
{
	if (!api_ready_session(c))
		return false;
	if (!c->session->seat) {
		call_failf(c, CELL_ENOTSUP, "use a session that is not ephemeral",
			"an ephemeral session has no files: each command has a fresh cell");
		return false;
	}
	*ret = http_query(c->x, "path");
	if (*ret || is_optional)
		return true;
	call_failf(c, CELL_EINVAL, "add ?path=...", "which file?");
	return false;
}

static void permit(struct call *c, const char *path, void (*go)(struct call *c))
{
	c->details = json_pack("{s:s?}", "path", path);
	if (!c->details) /* a name that is no UTF-8 */
		c->details = json_object();
	call_permit(c, &(struct policy_request){.path = path}, go);
}

/* Names are bytes: NAME_base64 has them where they are no UTF-8. */
static void put_name(json_t *o, const char *key, const char *s)
{
	flow_put_text(o, key, (const uint8_t *)s, strlen(s));
}

static json_t *info_json(const struct cell_file_info *i)
{
	static const char *const types[] = {"", "file", "directory", "symlink", "other"};
	json_t *o = json_object();
	char mode[8], when[CLOCK_TEXT_MAX];

	put_name(o, "path", i->path);
	(void)json_object_set_new(o, "type", json_string(types[i->type]));
	(void)json_object_set_new(o, "size", json_integer((json_int_t)i->size));
	(void)snprintf(mode, sizeof mode, "%04o", i->mode & 07777u);
	(void)json_object_set_new(o, "mode", json_string(mode));
	(void)json_object_set_new(o, "modified_at", json_string(clock_text(i->mtime_ns, when)));
	(void)json_object_set_new(o, "mtime_ns", json_integer(i->mtime_ns));
	(void)json_object_set_new(o, "uid", json_integer(i->uid));
	(void)json_object_set_new(o, "gid", json_integer(i->gid));
	if (i->target && *i->target)
		put_name(o, "target", i->target);
	return o;
}

static void answer_json(struct filework *w)
{
	struct call *c = w->call;
	json_t *o = w->answer;

	w->answer = NULL;
	filework_free(w);
	if (o)
		call_json(c, 200, o);
	else
		call_empty(c, 204);
}

/* ---- stat, list, glob, grep ---- */

static int take_stat(const struct cell_file_info *info, void *user)
{
	struct filework *w = user;

	json_decref(w->answer);
	w->answer = info_json(info);
	w->number = info->size;
	w->depth = (uint32_t)info->type;
	return 0;
}

static int run_stat(struct filework *w, struct cell_error *err)
{
	return cell_file_stat(w->cell, w->path, take_stat, w, err);
}

static int take_entry(const struct cell_file_info *info, void *user)
{
	struct filework *w = user;
	json_t *list = json_object_get(w->answer, "entries");

	if (json_array_size(list) >= LIST_MAX) {
		w->is_second = true;
		return 1;
	}
	(void)json_array_append_new(list, info_json(info));
	return 0;
}

static int run_list(struct filework *w, struct cell_error *err)
{
	w->answer = json_pack("{s:[]}", "entries");
	int r = cell_file_list(w->cell, w->path ? w->path : ".", w->depth, take_entry, w, err);
	(void)json_object_set_new(w->answer, "truncated", json_boolean(w->is_second));
	return r < 0 ? r : 0;
}

static int run_glob(struct filework *w, struct cell_error *err)
{
	bool is_cut = false;

	w->answer = json_pack("{s:[]}", "entries");
	int r = cell_file_glob(w->cell, w->path ? w->path : ".", w->pattern, (uint32_t)w->limit,
		take_entry, w, &is_cut, err);
	(void)json_object_set_new(w->answer, "truncated", json_boolean(is_cut || w->is_second));
	return r < 0 ? r : 0;
}

static int take_match(const struct cell_grep_match *m, void *user)
{
	struct filework *w = user;
	json_t *o = json_object();

	put_name(o, "path", m->path);
	(void)json_object_set_new(o, "line", json_integer((json_int_t)m->line_number));
	flow_put_text(o, "text", (const uint8_t *)m->line, m->line_len);
	(void)json_array_append_new(json_object_get(w->answer, "matches"), o);
	return 0;
}

static int run_grep(struct filework *w, struct cell_error *err)
{
	bool is_cut = false;
	struct cell_grep_opts o = {.pattern = w->pattern,
		.is_fixed = w->is_on,
		.ignore_case = w->is_second,
		.path = w->path,
		.glob = w->glob,
		.limit = (uint32_t)w->limit};

	w->answer = json_pack("{s:[]}", "matches");
	int r = cell_file_grep(w->cell, &o, take_match, w, &is_cut, err);
	(void)json_object_set_new(w->answer, "truncated", json_boolean(is_cut));
	return r < 0 ? r : 0;
}

static void look(struct call *c, int (*run)(struct filework *w, struct cell_error *err))
{
	struct filework *w = filework_new(c);
	struct cell_error err = {0};
	uint64_t limit, depth;

	if (!w)
		return;
	if (call_query_uint(c, "limit", 1000, &limit, &err) < 0 ||
		call_query_uint(c, "depth", 1, &depth, &err) < 0) {
		filework_free(w);
		call_fail(c, &err);
		return;
	}
	w->run = run;
	w->done = answer_json;
	w->path = http_query(c->x, "path");
	w->pattern = http_query(c->x, "pattern");
	w->glob = http_query(c->x, "glob");
	w->limit = limit > LIST_MAX ? LIST_MAX : limit;
	w->depth = (uint32_t)(depth > 1000 ? 1000 : depth);
	w->is_on = flag(c, "fixed");
	w->is_second = flag(c, "ignore_case");
	filework_start(w);
}

static void stat_go(struct call *c)
{
	look(c, run_stat);
}
static void list_go(struct call *c)
{
	look(c, run_list);
}
static void glob_go(struct call *c)
{
	look(c, run_glob);
}
static void grep_go(struct call *c)
{
	look(c, run_grep);
}

static void get_stat(struct call *c)
{
	const char *path;

	if (begin(c, false, &path))
		permit(c, path, stat_go);
}

static void get_list(struct call *c)
{
	const char *path;

	if (begin(c, true, &path))
		permit(c, path, list_go);
}

static bool has_pattern(struct call *c)
{
	if (http_query(c->x, "pattern"))
		return true;
	call_failf(c, CELL_EINVAL, "add ?pattern=...", "which pattern?");
	return false;
}

static void get_glob(struct call *c)
{
	const char *path;

	if (begin(c, true, &path) && has_pattern(c))
		permit(c, path, glob_go);
}

static void get_grep(struct call *c)
{
	const char *path;

	if (begin(c, true, &path) && has_pattern(c))
		permit(c, path, grep_go);
}

/* ---- reading ---- */

static int to_pipe(const void *p, size_t n, void *user)
{
	struct filework *w = user;

	return conduit_put(w->mine, p, n);
}

static int run_read(struct filework *w, struct cell_error *err)
{
	return cell_file_read(w->cell, w->path, w->offset, w->limit, to_pipe, w, err);
}

static int run_tar(struct filework *w, struct cell_error *err)
{
	return cell_file_tar(w->cell, w->path, to_pipe, w, err);
}

/* "bytes=a-b", one range only. 1: a part; 0: all of it; -1: nothing of it is there. */
static int range(struct call *c, uint64_t size, uint64_t *from, uint64_t *len)
{
	const char *h = http_header(c->x, "Range");
	char *end;
	uint64_t a, b;

	*from = 0;
	*len = size;
	if (!h || strncmp(h, "bytes=", 6) != 0 || strchr(h, ','))
		return 0;
	h += 6;
	if (*h == '-') {
		b = strtoull(h + 1, &end, 10);
		if (*end || end == h + 1)
			return 0;
		if (!b || !size)
			return -1;
		*from = b < size ? size - b : 0;
		*len = size - *from;
		return 1;
	}
	a = strtoull(h, &end, 10);
	if (end == h || *end != '-')
		return 0;
	h = end + 1;
	b = *h ? strtoull(h, &end, 10) : UINT64_MAX - 1;
	if (*h && *end)
		return 0;
	if (b < a)
		return 0;
	if (a >= size)
		return -1;
	*from = a;
	*len = (b >= size ? size - 1 : b) - a + 1;
	return 1;
}

static void have_size(struct filework *w)
{
	struct call *c = w->call;
	uint64_t size = w->number, from, len;
	int part = range(c, size, &from, &len);

	if (w->depth == CELL_FILE_DIRECTORY) {
		filework_free(w);
		call_failf(c, CELL_EINVAL,
			"GET .../files/list lists it, .../files/tar gives all of it",
			"'%.200s' is a directory", http_query(c->x, "path"));
		return;
	}
	if (part < 0) {
		struct http_exchange *x = c->x;
		filework_free(w);
		(void)http_add_headerf(x, "Content-Range", "bytes */%" PRIu64, size);
		call_done(c, 416, NULL);
		http_fail(x, 416, "no byte of the file is in that range");
		return;
	}
	(void)http_add_header(c->x, "Accept-Ranges", "bytes");
	if (part)
		(void)http_add_headerf(c->x, "Content-Range",
			"bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, from + len - 1, size);
	json_t *mode = json_object_get(w->answer, "mode"),
	       *when = json_object_get(w->answer, "modified_at");
	(void)http_add_header(c->x, "X-Cell-Mode", json_string_value(mode));
	(void)http_add_header(c->x, "X-Cell-Modified", json_string_value(when));
	if (!strcmp(http_method(c->x), "HEAD") || !len) {
		struct http_exchange *x = c->x;
		filework_free(w);
		call_done(c, part ? 206 : 200, NULL);
		/* the length of what GET would give */
		if (http_begin(x, part ? 206 : 200, "application/octet-stream", (int64_t)len) == 0)
			http_end(x);
		else
			http_abort(x);
		return;
	}
	w->run = run_read;
	w->offset = from;
	w->limit = len;
	filework_download(w, part ? 206 : 200, "application/octet-stream", (int64_t)len);
}

/* The size comes first; that it is not there is said of the reading, which is what was asked for. */
static int run_size(struct filework *w, struct cell_error *err)
{
	int r = run_stat(w, err);

	if (r < 0 && !strncmp(err->msg, "stat ", 5))
		memcpy(err->msg, "read ", 5);
	return r;
}

static void read_go(struct call *c)
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run_size;
	w->done = have_size;
	w->path = http_query(c->x, "path");
	filework_start(w);
}

static void get_file(struct call *c)
{
	const char *path;

	if (begin(c, false, &path))
		permit(c, path, read_go);
}

static void have_directory(struct filework *w)
{
	struct call *c = w->call;

	if (w->depth != CELL_FILE_DIRECTORY) {
		filework_free(w);
		call_failf(c, CELL_EINVAL, "GET .../files gives a file", "'%.200s' is no directory",
			http_query(c->x, "path"));
		return;
	}
	w->run = run_tar;
	filework_download(w, 200, "application/x-tar", -1);
}

static void tar_go(struct call *c)
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run_stat;
	w->done = have_directory;
	w->path = http_query(c->x, "path");
	if (!w->path)
		w->path = ".";
	filework_start(w);
}

static void get_tar(struct call *c)
{
	const char *path;

	if (begin(c, true, &path))
		permit(c, path, tar_go);
}

/* ---- writing ---- */

static ssize_t from_pipe(void *p, size_t n, void *user)
{
	struct filework *w = user;

	return conduit_get(w->mine, p, n);
}

static int run_write(struct filework *w, struct cell_error *err)
{
	int r = cell_file_write(w->cell, w->path, w->mode, w->flags, from_pipe, w, &w->number, err);

	if (r >= 0)
		w->answer = json_pack("{s:I}", "size", (json_int_t)w->number);
	return r;
}

static int run_untar(struct filework *w, struct cell_error *err)
{
	return cell_file_untar(w->cell, w->path, from_pipe, w, err);
}

static void write_go(struct call *c)
{
	struct filework *w = filework_new(c);
	const char *mode = http_query(c->x, "mode");
	char *end = NULL;

	if (!w)
		return;
	w->run = run_write;
	w->done = answer_json;
	w->path = http_query(c->x, "path");
	w->mode = mode ? (uint32_t)strtoul(mode, &end, 8) : 0;
	if (mode && (*end || w->mode > 07777)) {
		filework_free(w);
		call_failf(c, CELL_EINVAL, "for example ?mode=0755", "?mode=%.16s must be octal",
			mode);
		return;
	}
	w->flags = (flag(c, "append") ? CELL_WRITE_APPEND : 0u) |
		   (flag(c, "exclusive") ? CELL_WRITE_EXCLUSIVE : 0u) |
		   (flag(c, "parents") ? CELL_WRITE_PARENTS : 0u);
	filework_upload(w);
}

static void put_file(struct call *c)
{
	const char *path;

	if (begin(c, false, &path))
		permit(c, path, write_go);
}

static void untar_go(struct call *c)
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run_untar;
	w->done = answer_json;
	w->path = http_query(c->x, "path");
	if (!w->path)
		w->path = ".";
	filework_upload(w);
}

static void put_tar(struct call *c)
{
	const char *path;

	if (begin(c, true, &path))
		permit(c, path, untar_go);
}

/* ---- changing ---- */

static int run_remove(struct filework *w, struct cell_error *err)
{
	return cell_file_remove(w->cell, w->path, w->is_on, err);
}

static void remove_go(struct call *c)
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run_remove;
	w->done = answer_json;
	w->path = http_query(c->x, "path");
	w->is_on = flag(c, "recursive");
	filework_start(w);
}

static void delete_file(struct call *c)
{
	const char *path;

	if (begin(c, false, &path))
		permit(c, path, remove_go);
}

static int run_mkdir(struct filework *w, struct cell_error *err)
{
	return cell_file_mkdir(w->cell, w->path, w->mode, w->is_on, err);
}

static int run_move(struct filework *w, struct cell_error *err)
{
	return cell_file_move(w->cell, w->path, w->other, w->is_on, err);
}

static int run_edit(struct filework *w, struct cell_error *err)
{
	int r = cell_file_edit(w->cell, w->path, w->old_text, w->old_len, w->new_text, w->new_len,
		w->is_on, &w->number, err);

	if (r >= 0)
		w->answer = json_pack("{s:I}", "replacements", (json_int_t)w->number);
	return r;
}

/* From the body; or from the query, where it may be any bytes. */
static const char *member(struct call *c, const char *name)
{
	const char *text = json_string_value(json_object_get(c->body, name));

	return text ? text : http_query(c->x, name);
}

static bool need(struct call *c, const char *name, const char **ret)
{
	struct cell_error err = {0};

	if (call_text(c, name, ret, &err) < 0) {
		call_fail(c, &err);
		return false;
	}
	if (!*ret)
		*ret = http_query(c->x, name);
	if (*ret)
		return true;
	call_failf(c, CELL_EINVAL, "", "'%s' is missing", name);
	return false;
}

static void change(struct call *c, int (*run)(struct filework *w, struct cell_error *err),
	const char *path_name, const char *other_name, const char *flag_name)
{
	struct cell_error err = {0};
	struct filework *w = filework_new(c);
	bool is_on = false;

	if (!w)
		return;
	w->run = run;
	w->done = answer_json;
	w->path = member(c, path_name);
	w->other = other_name ? member(c, other_name) : NULL;
	json_t *old = json_object_get(c->body, "old"), *new = json_object_get(c->body, "new");
	w->old_text = json_string_value(old);
	w->old_len = json_string_length(old);
	w->new_text = json_string_value(new);
	w->new_len = json_string_length(new);
	if (call_bool(c, flag_name, &is_on, &err) < 0) {
		filework_free(w);
		call_fail(c, &err);
		return;
	}
	w->is_on = is_on;
	w->mode = (uint32_t)strtoul(member(c, "mode") ? member(c, "mode") : "0", NULL, 8);
	filework_start(w);
}

static void mkdir_go(struct call *c)
{
	change(c, run_mkdir, "path", NULL, "parents");
}
static void move_go(struct call *c)
{
	change(c, run_move, "from", "to", "replace");
}
static void edit_go(struct call *c)
{
	change(c, run_edit, "path", NULL, "all");
}

static bool body_is(struct call *c, const char *const *known)
{
	struct cell_error err = {0};
	const char *none;

	if (!begin(c, true, &none))
		return false;
	if (call_known(c, known, &err) == 0)
		return true;
	call_fail(c, &err);
	return false;
}

static void post_mkdir(struct call *c)
{
	static const char *const known[] = {"path", "parents", "mode", NULL};
	const char *path;

	if (!body_is(c, known) || !need(c, "path", &path))
		return;
	const char *mode = member(c, "mode");
	if (mode && (!*mode || strspn(mode, "01234567") != strlen(mode) || strlen(mode) > 5))
		call_failf(c, CELL_EINVAL, "for example \"0755\"",
			"'mode' must be a text of octal digits");
	else
		permit(c, path, mkdir_go);
}

static void post_move(struct call *c)
{
	static const char *const known[] = {"from", "to", "replace", NULL};
	const char *from, *to;

	if (body_is(c, known) && need(c, "from", &from) && need(c, "to", &to))
		permit(c, from, move_go);
}

/* NAME_base64 instead of NAME: bytes that are no text. */
static bool take_base64(struct call *c, const char *name, const char *encoded_name)
{
	json_t *v = json_object_get(c->body, encoded_name);
	size_t n = json_string_length(v);

	if (!v)
		return true;
	auto_free unsigned char *bytes = malloc(n / 4 * 3 + 1);
	int len = json_is_string(v) && n % 4 == 0 && bytes
			  ? EVP_DecodeBlock(bytes, (const unsigned char *)json_string_value(v),
				    (int)n)
			  : -1;
	if (len < 0) {
		call_failf(c, CELL_EINVAL, "", "'%s' must be base64", encoded_name);
		return false;
	}
	for (size_t i = n; i > 0 && i > n - 2 && json_string_value(v)[i - 1] == '='; i--)
		len--;
	(void)json_object_set_new_nocheck(c->body, name,
		json_stringn_nocheck((const char *)bytes, (size_t)len));
	return true;
}

static void post_edit(struct call *c)
{
	static const char *const known[] = {
		"path", "old", "new", "old_base64", "new_base64", "all", NULL};
	const char *path;

	if (!body_is(c, known) || !need(c, "path", &path) || !take_base64(c, "old", "old_base64") ||
		!take_base64(c, "new", "new_base64"))
		return;
	if (!json_is_string(json_object_get(c->body, "old")) ||
		!json_is_string(json_object_get(c->body, "new")))
		call_failf(c, CELL_EINVAL, "", "'old' and 'new' must be texts");
	else
		permit(c, path, edit_go);
}

/* ---- watching ---- */

static int take_change(const struct cell_watch_event *e, void *user)
{
	static const char *const types[] = {"", "created", "modified", "removed", "moved_from",
		"moved_to", "overflow", "ready"};
	struct filework *w = user;
	auto_buf struct buf b = BUF_INIT(65536);
	json_t *o =
		json_pack("{s:s, s:b}", "type", types[e->type], "is_directory", e->is_directory);

	if (e->path)
		put_name(o, "path", e->path);
	auto_free char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (!text)
		return -ENOMEM;
	if (w->is_sse)
		(void)sse_event(&b, NULL, types[e->type], text, strlen(text));
	else
		(void)buf_addf(&b, "%s\n", text);
	return w->is_cancelled ? -ECANCELED : conduit_put(w->mine, b.data, b.len);
}

static int run_watch(struct filework *w, struct cell_error *err)
{
	return cell_file_watch(w->cell, w->path, w->is_on, -1, take_change, w, err);
}

static void watch_begin(struct filework *w)
{
	struct call *c = w->call;

	w->run = run_watch;
	w->is_watch = true;
	w->is_on = flag(c, "recursive");
	w->is_sse = http_header_has(c->x, "Accept", "text/event-stream");
	(void)http_add_header(c->x, "Cache-Control", "no-store");
	filework_download(w, 200, w->is_sse ? "text/event-stream" : "application/x-ndjson", -1);
}

static void watch_go(struct call *c)
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run_stat;
	w->done = watch_begin;
	w->path = http_query(c->x, "path");
	if (!w->path)
		w->path = ".";
	filework_start(w);
}

static void get_watch(struct call *c)
{
	const char *path;

	if (begin(c, true, &path))
		permit(c, path, watch_go);
}

const struct route api_file_routes[] = {
	{"GET", "/v1/sessions/{session}/files", TOKEN_READ_ONLY, .action = "file.read",
		.handler = get_file},
	{"PUT", "/v1/sessions/{session}/files", TOKEN_USER, .action = "file.write",
		.is_replayable = true, .handler = put_file},
	{"DELETE", "/v1/sessions/{session}/files", TOKEN_USER, .action = "file.remove",
		.is_replayable = true, .handler = delete_file},
	{"GET", "/v1/sessions/{session}/files/stat", TOKEN_READ_ONLY, .action = "file.stat",
		.handler = get_stat},
	{"GET", "/v1/sessions/{session}/files/list", TOKEN_READ_ONLY, .action = "file.list",
		.handler = get_list},
	{"GET", "/v1/sessions/{session}/files/glob", TOKEN_READ_ONLY, .action = "file.glob",
		.handler = get_glob},
	{"GET", "/v1/sessions/{session}/files/grep", TOKEN_READ_ONLY, .action = "file.grep",
		.handler = get_grep},
	{"GET", "/v1/sessions/{session}/files/tar", TOKEN_READ_ONLY, .action = "file.tar",
		.handler = get_tar},
	{"PUT", "/v1/sessions/{session}/files/tar", TOKEN_USER, .action = "file.untar",
		.is_replayable = true, .handler = put_tar},
	{"GET", "/v1/sessions/{session}/files/watch", TOKEN_READ_ONLY, .action = "file.watch",
		.handler = get_watch},
	{"POST", "/v1/sessions/{session}/files/mkdir", TOKEN_USER, .action = "file.mkdir",
		.has_json = true, .is_replayable = true, .handler = post_mkdir},
	{"POST", "/v1/sessions/{session}/files/move", TOKEN_USER, .action = "file.move",
		.has_json = true, .is_replayable = true, .handler = post_move},
	{"POST", "/v1/sessions/{session}/files/edit", TOKEN_USER, .action = "file.edit",
		.has_json = true, .is_replayable = true, .handler = post_edit},
	{NULL},
};
