/* SPDX-License-Identifier: Apache-2.0 */
/* notebook.c: see notebook.h. */
#include "cli/code/notebook.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/utf8.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "core/code_language.h"
#include "core/run_gather.h"

#define FILE_MAX   (256u << 20)
#define MINOR	   5 /* the first with ids */
#define STREAM_MAX (64u << 20)

/* ---- reading ---- */

static int damaged(const char *name, struct cell_error *err, const char *what)
{
	int r = cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no notebook: %s", name, what);

	return cell_error_hint(err, r, "notebooks of Jupyter, nbformat 4, can be run");
}

static bool is_id(const char *id)
{
	size_t n = id ? strlen(id) : 0;

	return n && n <= 64 &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == n;
}

/* Format 4.5 wants an id of each cell; one that is there stays. */
static void give_id(json_t *cell)
{
	uint32_t word = 0;
	char id[16];

	if (is_id(json_string_value(json_object_get(cell, "id"))))
		return;
	if (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word)
		abort();
	(void)snprintf(id, sizeof id, "%08x", word);
	(void)json_object_set_new(cell, "id", json_string(id));
}

static int check_cell(json_t *cell, const char *name, struct cell_error *err)
{
	const json_t *source = json_object_get(cell, "source");

	if (!json_is_string(json_object_get(cell, "cell_type")))
		return damaged(name, err, "a cell has no cell_type");
	if (!json_is_string(source) && !json_is_array(source))
		return damaged(name, err, "a cell has no source");
	if (!json_is_object(json_object_get(cell, "metadata")))
		(void)json_object_set_new(cell, "metadata", json_object());
	give_id(cell);
	return 0;
}

int notebook_parse(const char *text, size_t n, const char *name, struct notebook *ret,
	struct cell_error *err)
{
	json_error_t why;
	struct notebook nb = {.root = json_loadb(text, n, 0, &why)};
	int r = 0;

	if (!nb.root) {
		r = cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no notebook: line %d: %.80s", name,
			why.line, why.text);
		return cell_error_hint(err, r, "a notebook is a JSON document");
	}
	nb.cells = json_object_get(nb.root, "cells");
	if (json_integer_value(json_object_get(nb.root, "nbformat")) != 4)
		r = damaged(name, err, "its nbformat is not 4");
	else if (!json_is_array(nb.cells))
		r = damaged(name, err, "it has no cells");
	for (size_t i = 0; r == 0 && i < json_array_size(nb.cells); i++)
		r = check_cell(json_array_get(nb.cells, i), name, err);
	if (r < 0) {
		json_decref(nb.root);
		return r;
	}
	if (json_integer_value(json_object_get(nb.root, "nbformat_minor")) < MINOR)
		(void)json_object_set_new(nb.root, "nbformat_minor", json_integer(MINOR));
	if (!json_is_object(json_object_get(nb.root, "metadata")))
		(void)json_object_set_new(nb.root, "metadata", json_object());
	nb.shown = json_object();
	*ret = nb;
	return 0;
}

int notebook_read(const char *path, struct notebook *ret, struct cell_error *err)
{
	bool is_stdin = !strcmp(path, "-");
	auto_fd int own = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int fd = is_stdin ? STDIN_FILENO : own;
	auto_buf struct buf b = BUF_INIT(FILE_MAX);
	char piece[65536];
	ssize_t n = 0;

	if (fd < 0)
		return cell_fail_errno(err, errno, "read '%s'", path);
	while ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && buf_add(&b, piece, (size_t)n) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "read '%s': it is too big", path);
	if (n < 0)
		return cell_fail_errno(err, errno, "read '%s'", path);
	return notebook_parse(buf_str(&b), b.len, path, ret, err);
}

void notebook_done(struct notebook *nb)
{
	json_decref(nb->root);
	json_decref(nb->shown);
	*nb = (struct notebook){0};
}

const char *notebook_language(const struct notebook *nb)
{
	const json_t *meta = json_object_get(nb->root, "metadata");
	const json_t *spec = json_object_get(meta, "kernelspec"),
		     *info = json_object_get(meta, "language_info");
	const char *word = json_string_value(json_object_get(info, "name"));

	if (!word)
		word = json_string_value(json_object_get(spec, "language"));
	if (!word)
		word = json_string_value(json_object_get(spec, "name"));
	return word ? code_language(word) : NULL;
}

void notebook_set_language(struct notebook *nb, const char *language)
{
	json_t *meta = json_object_get(nb->root, "metadata");

	if (!json_is_object(json_object_get(meta, "language_info")))
		(void)json_object_set_new(meta, "language_info",
			json_pack("{s:s}", "name", language));
}

bool notebook_is_code(const json_t *cell)
{
	return !strcmp(json_string_value(json_object_get(cell, "cell_type")), "code");
}

bool notebook_has_tag(const json_t *cell, const char *tag)
{
	const json_t *tags = json_object_get(json_object_get(cell, "metadata"), "tags");

	for (size_t i = 0; i < json_array_size(tags); i++) {
		const char *have = json_string_value(json_array_get(tags, i));
		if (have && !strcmp(have, tag))
			return true;
	}
	return false;
}

char *notebook_source(const json_t *cell)
{
	char *own = NULL;
	const char *text = run_bundle_text(cell, "source", &own);

	return own ? own : cli_strdup(text ? text : "");
}

void notebook_clear(json_t *cell)
{
	(void)json_object_set_new(cell, "outputs", json_array());
	(void)json_object_set_new(cell, "execution_count", json_null());
}

/* ---- writing ---- */

int notebook_write(const struct notebook *nb, const char *path, struct cell_error *err)
{
	bool is_stdout = !strcmp(path, "-");
	auto_free char *text =
		cli_json_text(nb->root, JSON_INDENT(1), is_stdout ? STDOUT_FILENO : -1);
	auto_free char *part = NULL;
	size_t n = text ? strlen(text) : 0;
	auto_fd int fd = -1;
	int r;

	if (!text)
		return cell_fail_errno(err, ENOMEM, "write a notebook");
	text[n++] = '\n'; /* in the place of the NUL */
	if (is_stdout) {
		r = fd_write_all(STDOUT_FILENO, text, n);
		return r < 0 ? cell_fail_errno(err, -r, "write to stdout") : 0;
	}
	part = cli_format("%s.%d.part", path, (int)getpid());
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0)
		return cell_fail_errno(err, errno, "write '%s'", path);
	r = fd_write_all(fd, text, n);
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(part);
		return cell_fail_errno(err, -r, "write '%s'", path);
	}
	return 0;
}

/* ---- outputs ---- */

void notebook_begin(struct notebook *nb, json_t *cell, struct notebook_outputs *ret)
{
	notebook_clear(cell);
	*ret = (struct notebook_outputs){.nb = nb,
		.cell = cell,
		.list = json_object_get(cell, "outputs"),
		.text = BUF_INIT(STREAM_MAX)};
}

/* Lines, as notebooks keep text. Bytes that are no UTF-8 become U+FFFD: JSON has no other way. */
static json_t *lines_of(const uint8_t *p, size_t n)
{
	auto_buf struct buf line = BUF_INIT(3u * STREAM_MAX);
	json_t *list = json_array();

	while (n) {
		int len = utf8_next(p, n);
		size_t taken = len > 0 ? (size_t)len : 1;
		bool is_end = *p == '\n';
		(void)buf_add(&line, len > 0 ? (const void *)p : "\xef\xbf\xbd",
			len > 0 ? taken : 3);
		p += taken;
		n -= taken;
		if (is_end || !n) {
			(void)json_array_append_new(list,
				json_stringn_nocheck(buf_str(&line), line.len));
			buf_reset(&line);
		}
	}
	return list;
}

static void end_stream(struct notebook_outputs *o)
{
	if (o->stream && o->text.len)
		(void)json_array_append_new(o->list,
			json_pack("{s:s, s:s, s:o}", "output_type", "stream", "name",
				o->stream == 1 ? "stdout" : "stderr", "text",
				lines_of(o->text.data, o->text.len)));
	o->stream = 0;
	buf_reset(&o->text);
}

static int add_stream(struct notebook_outputs *o, int stream, const struct cell_code_event *e)
{
	size_t room;

	if (o->stream != stream)
		end_stream(o);
	o->stream = stream;
	room = o->text.max - o->text.len;
	return buf_add(&o->text, e->data, e->len < room ? e->len : room);
}

static json_t *member(const json_t *o, const char *name)
{
	json_t *v = json_object_get(o, name);

	return json_is_object(v) ? json_incref(v) : json_object();
}

static void add_shown(struct notebook_outputs *o, const json_t *event, bool is_result)
{
	const char *id = json_string_value(json_object_get(event, "id"));
	json_t *known = id ? json_object_get(o->nb->shown, id) : NULL, *output;
	size_t i;

	if (json_is_true(json_object_get(event, "update"))) {
		json_array_foreach (known, i, output) {
			(void)json_object_set_new(output, "data", member(event, "data"));
			(void)json_object_set_new(output, "metadata", member(event, "metadata"));
		}
		return;
	}
	output = json_pack("{s:s, s:o, s:o}", "output_type",
		is_result ? "execute_result" : "display_data", "data", member(event, "data"),
		"metadata", member(event, "metadata"));
	if (is_result)
		(void)json_object_set_new(output, "execution_count", json_null());
	if (id && !known) {
		known = json_array();
		(void)json_object_set_new(o->nb->shown, id, known);
	}
	if (id)
		(void)json_array_append(known, output);
	(void)json_array_append_new(o->list, output);
}

static void add_error(struct notebook_outputs *o, const json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "name"));
	const char *message = json_string_value(json_object_get(event, "message"));
	json_t *lines = json_object_get(event, "traceback");

	o->has_error = true;
	(void)json_array_append_new(o->list,
		json_pack("{s:s, s:s, s:s, s:o}", "output_type", "error", "ename", name ? name : "",
			"evalue", message ? message : "", "traceback",
			json_is_array(lines) ? json_incref(lines) : json_array()));
}

static void clear(struct notebook_outputs *o)
{
	o->is_clearing = false;
	o->stream = 0;
	buf_reset(&o->text);
	(void)json_array_clear(o->list);
}

int notebook_add(struct notebook_outputs *o, const struct cell_code_event *e)
{
	bool is_output = e->type >= CELL_CODE_STDOUT && e->type <= CELL_CODE_ERROR;
	json_t *event;

	if (is_output && o->is_clearing)
		clear(o);
	if (e->type == CELL_CODE_STDOUT || e->type == CELL_CODE_STDERR)
		return add_stream(o, e->type == CELL_CODE_STDOUT ? 1 : 2, e);
	if (!is_output && e->type != CELL_CODE_CLEAR)
		return 0;
	event = json_loadb(e->data, e->len, 0, NULL);
	if (e->type == CELL_CODE_CLEAR) {
		o->is_clearing = true;
		if (!json_is_true(json_object_get(event, "wait")))
			clear(o);
	} else {
		end_stream(o);
		if (e->type == CELL_CODE_ERROR)
			add_error(o, event);
		else
			add_shown(o, event, e->type == CELL_CODE_RESULT);
	}
	json_decref(event);
	return 0;
}

void notebook_end(struct notebook_outputs *o, uint64_t execution_count)
{
	json_t *output;
	size_t i;

	end_stream(o);
	buf_done(&o->text);
	if (!execution_count)
		return;
	(void)json_object_set_new(o->cell, "execution_count",
		json_integer((json_int_t)execution_count));
	json_array_foreach (o->list, i, output)
		if (json_object_get(output, "execution_count"))
			(void)json_object_set_new(output, "execution_count",
				json_integer((json_int_t)execution_count));
}
