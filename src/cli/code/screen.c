/* SPDX-License-Identifier: Apache-2.0 */
/* screen.c: see screen.h. */
#include "cli/code/screen.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/output.h"
#include "core/run_gather.h"

#define WAITING_MAX (6u * WIRE_RUN_MAX_WHOLE) /* one event, made visible */

void code_screen_init(struct code_screen *s, const struct cli *cli, bool is_lines, bool is_raw)
{
	*s = (struct code_screen){.cli = cli, .is_lines = is_lines};
	cli_sink_fd(&s->out, STDOUT_FILENO, is_raw || is_lines, 0);
	cli_sink_fd(&s->err, STDERR_FILENO, is_raw, 0);
	s->out.waiting.max = s->err.waiting.max = WAITING_MAX;
}

void code_screen_done(struct code_screen *s)
{
	cli_sink_done(&s->out);
	cli_sink_done(&s->err);
}

bool code_screen_is_full(const struct code_screen *s)
{
	return cli_sink_is_full(&s->out) || cli_sink_is_full(&s->err);
}

int code_screen_flush(struct code_screen *s, struct cell_error *err)
{
	int r = cli_sink_flush(&s->out, err);

	return r < 0 ? r : cli_sink_flush(&s->err, err);
}

/* ---- lines of JSON ---- */

json_t *code_event_json(const struct cell_code_event *e)
{
	json_t *o;

	if (e->type == CELL_CODE_STDOUT || e->type == CELL_CODE_STDERR) {
		o = json_object();
		cli_json_bytes(o, "data", e->data, e->len);
	} else if (e->type == CELL_CODE_DONE) {
		o = run_done_json(&e->done);
	} else {
		o = json_loadb(e->data, e->len, 0, NULL);
		if (!json_is_object(o)) {
			json_decref(o);
			o = json_object();
		}
	}
	(void)json_object_set_new(o, "type", json_string(run_event_name(e->type)));
	if (e->is_late)
		(void)json_object_set_new(o, "late", json_true());
	return o;
}

static int put_line(struct code_screen *s, const struct cell_code_event *e, struct cell_error *err)
{
	json_t *o = code_event_json(e);
	auto_free char *text = cli_json_text(o, JSON_COMPACT, STDOUT_FILENO);
	int r;

	json_decref(o);
	if (!text)
		return cell_fail_errno(err, ENOMEM, "write an event");
	r = cli_sink_put(&s->out, text, strlen(text), err);
	return r < 0 ? r : cli_sink_put(&s->out, "\n", 1, err);
}

/* ---- text and pictures ---- */

static int put(struct cli_sink *sink, const char *text, struct cell_error *err)
{
	size_t n = strlen(text);
	int r = n ? cli_sink_put(sink, text, n, err) : 0;

	return r == 0 && (!n || text[n - 1] != '\n') ? cli_sink_put(sink, "\n", 1, err) : r;
}

/* Our own sequences, past what takes those of the cell out. */
static int put_raw(struct code_screen *s, const struct buf *b, struct cell_error *err)
{
	if (s->out.is_broken)
		return 0;
	if (buf_add(&s->out.waiting, b->data, b->len) < 0)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "show a picture");
	return cli_sink_flush(&s->out, err);
}

static int save(struct code_screen *s, const char *suffix, const void *p, size_t n,
	struct cell_error *err)
{
	auto_free char *path = NULL;
	int r = picture_save(s->directory ? s->directory : ".", suffix, p, n, &path, err);

	if (r == 0)
		cli_note(s->cli, "saved %s", path);
	return r;
}

/* 1: it was a picture, and is shown or saved. */
static int put_picture(struct code_screen *s, const json_t *data, struct cell_error *err)
{
	for (const char *const *mime = picture_types; *mime; mime++) {
		auto_buf struct buf bytes = BUF_INIT(WIRE_RUN_MAX_WHOLE),
				    sequence = BUF_INIT(2u * WIRE_RUN_MAX_WHOLE);
		auto_free char *own = NULL;
		const char *text = run_bundle_text(data, *mime, &own);
		bool is_shown = false;
		int r = 0;
		if (!text)
			continue;
		r = picture_is_text(*mime) ? buf_addz(&bytes, text) : picture_decode(text, &bytes);
		if (r < 0 || !bytes.len)
			continue;
		if (s->way == PICTURE_NONE)
			return 0;
		if (picture_sequence(s->way, *mime, &bytes, &sequence) == 0) {
			r = put_raw(s, &sequence, err);
			is_shown = true;
		}
		if (r == 0 && (!is_shown || s->directory))
			r = save(s, picture_suffix(*mime), bytes.data, bytes.len, err);
		return r < 0 ? r : 1;
	}
	return 0;
}

static int put_bundle(struct code_screen *s, const json_t *data, struct cell_error *err)
{
	static const char *const texts[] = {
		"text/plain", "text/markdown", "text/latex", "application/javascript", NULL};
	int r = put_picture(s, data, err);

	if (r != 0)
		return r < 0 ? r : 0;
	for (const char *const *mime = texts; *mime; mime++) {
		auto_free char *own = NULL;
		const char *text = run_bundle_text(data, *mime, &own);
		if (text)
			return put(&s->out, text, err);
	}
	const json_t *json = json_object_get(data, "application/json");
	if (json) {
		auto_free char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_INDENT(2));
		return text ? put(&s->out, text, err) : 0;
	}
	auto_free char *own = NULL;
	const char *html = run_bundle_text(data, "text/html", &own);
	return html ? save(s, "html", html, strlen(html), err) : 0;
}

bool code_error_is_exit(const json_t *error, int *ret_code)
{
	const char *name = json_string_value(json_object_get(error, "name"));
	const char *message = json_string_value(json_object_get(error, "message"));
	char *end;

	*ret_code = 0;
	if (!name || strcmp(name, "SystemExit") != 0)
		return false;
	if (!message || !*message || !strcmp(message, "None"))
		return true;
	long code = strtol(message, &end, 10);
	*ret_code = *end ? 1 : (int)(code & 0xff);
	return true;
}

static bool is_number(const char *text)
{
	return text && text[strspn(text, "-0123456789")] == 0;
}

static int put_error(struct code_screen *s, const json_t *error, struct cell_error *err)
{
	const json_t *lines = json_object_get(error, "traceback");
	const char *name = json_string_value(json_object_get(error, "name"));
	const char *message = json_string_value(json_object_get(error, "message")), *last = "";
	auto_buf struct buf b = BUF_INIT(WIRE_RUN_MAX_WHOLE);
	int r = 0;

	if (s->is_exit)
		return !message || is_number(message) || !strcmp(message, "None")
			       ? 0
			       : put(&s->err, message, err);
	for (size_t i = 0; r == 0 && i < json_array_size(lines); i++) {
		last = json_string_value(json_array_get(lines, i));
		last = last ? last : "";
		r = put(&s->err, last, err);
	}
	if (r < 0 || (name && strstr(last, name)))
		return r;
	(void)buf_addf(&b, "%s%s%s", name ? name : "error", message && *message ? ": " : "",
		message ? message : "");
	return put(&s->err, buf_str(&b), err);
}

static int put_prompt(struct code_screen *s, const json_t *o, struct cell_error *err)
{
	const char *prompt = json_string_value(json_object_get(o, "prompt"));

	return prompt && *prompt ? cli_sink_put(&s->out, prompt, strlen(prompt), err) : 0;
}

static void note_error(struct code_screen *s, const json_t *error)
{
	s->has_error = true;
	s->is_exit = code_error_is_exit(error, &s->exit_code);
}

static int put_json(struct code_screen *s, const struct cell_code_event *e, struct cell_error *err)
{
	json_t *o = json_loadb(e->data, e->len, 0, NULL);
	int r = 0;

	if (e->type == CELL_CODE_ERROR)
		note_error(s, o);
	if (s->is_lines)
		r = put_line(s, e, err);
	else if (e->type == CELL_CODE_DISPLAY || e->type == CELL_CODE_RESULT)
		r = put_bundle(s, json_object_get(o, "data"), err);
	else if (e->type == CELL_CODE_ERROR)
		r = put_error(s, o, err);
	else if (e->type == CELL_CODE_INPUT)
		r = put_prompt(s, o, err);
	json_decref(o);
	return r;
}

int code_screen_event(struct code_screen *s, const struct cell_code_event *e,
	struct cell_error *err)
{
	if (s->is_lines && e->type != CELL_CODE_ERROR)
		return put_line(s, e, err);
	switch (e->type) {
	case CELL_CODE_STDOUT:
		return cli_sink_put(&s->out, e->data, e->len, err);
	case CELL_CODE_STDERR:
		return cli_sink_put(&s->err, e->data, e->len, err);
	case CELL_CODE_DISPLAY:
	case CELL_CODE_RESULT:
	case CELL_CODE_ERROR:
	case CELL_CODE_INPUT:
		return put_json(s, e, err);
	case CELL_CODE_CLEAR: /* what is on a terminal or in a pipe stays there */
	case CELL_CODE_ANSWER:
	case CELL_CODE_DONE:
	case CELL_CODE_NONE:
	case CELL_CODE_END:
		return 0;
	}
	return 0;
}
