/* SPDX-License-Identifier: Apache-2.0 */
/* code_flow.c: see code_flow.h. */
#include "code_flow.h"

void free_run(struct cell_code_run **x)
{
	cell_code_free(*x);
	*x = NULL;
}

bool has_python(struct cell *c)
{
	struct cell_code_result r = {0};
	int e = cell_code(c, &(struct cell_code_opts){.code = "0"}, &r, &E);

	cell_code_result_done(&r);
	if (e < 0 && E.code == CELL_ENOTFOUND) {
		ASSERT_HAS(E.hint, "languages it has");
		return false;
	}
	OK(e);
	OK(cell_context_delete(c, "python", &E));
	return true;
}

struct cell *open_python_named(const struct suite *s, const char *name)
{
	struct cell *c = open_programs(s, name);

	if (!has_python(c)) {
		(void)cell_destroy(c, NULL);
		SKIP("the cells of this back end have no Python here");
	}
	put_probe(s, c);
	return c;
}

struct cell *open_python(const struct suite *s)
{
	return open_python_named(s, NULL);
}

struct cell_code_result code_in(struct cell *c, const char *context, const char *code)
{
	struct cell_code_result r = {0};

	OK(cell_code(c, &(struct cell_code_opts){.code = code, .context = context}, &r, &E));
	ASSERT(r.out && r.err && r.results);
	return r;
}

struct cell_code_result code(struct cell *c, const char *text)
{
	return code_in(c, NULL, text);
}

/* What the last expression is, or DIE. */
void expect_value(struct cell *c, const char *text, const char *value)
{
	auto_code struct cell_code_result r = code(c, text);

	if (!r.done.is_ok || !r.value || strcmp(r.value, value) != 0)
		DIE("'%s' is %s (error %s: %s), want %s", text, r.value ? r.value : "nothing",
			r.error_name ? r.error_name : "none",
			r.error_message ? r.error_message : "", value);
}

void flow_start(struct flow *f, struct cell *c, const struct cell_code_opts *o)
{
	*f = (struct flow){.hash = HASH_START};
	OK(cell_code_start(c, o, &f->x, &E));
}

void flow_free(struct flow *f)
{
	cell_code_free(f->x);
}

static void note(struct flow *f, const char *text, size_t n)
{
	size_t at = strlen(f->log);

	if (n > sizeof f->log - 1 - at)
		n = sizeof f->log - 1 - at;
	memcpy(f->log + at, text, n);
}

void note_event(struct flow *f, const struct cell_code_event *ev)
{
	static const char *const letters[] = {[CELL_CODE_STDOUT] = "o:",
		[CELL_CODE_STDERR] = "e:",
		[CELL_CODE_DISPLAY] = "d",
		[CELL_CODE_RESULT] = "R",
		[CELL_CODE_ERROR] = "E",
		[CELL_CODE_INPUT] = "I",
		[CELL_CODE_CLEAR] = "C",
		[CELL_CODE_ANSWER] = "A",
		[CELL_CODE_DONE] = "D"};
	bool is_text = ev->type == CELL_CODE_STDOUT || ev->type == CELL_CODE_STDERR;

	if (!(is_text && ev->type == f->last)) {
		if (f->last)
			note(f, "|", 1);
		note(f, letters[ev->type], strlen(letters[ev->type]));
	}
	if (is_text) {
		f->bytes[ev->type - CELL_CODE_STDOUT] += ev->len;
		if (ev->type == CELL_CODE_STDOUT)
			f->hash = hash_add(f->hash, ev->data, ev->len);
		if (ev->is_late)
			f->late_bytes += ev->len;
		note(f, ev->data, ev->len);
	} else {
		ASSERT_INT(ev->data[ev->len], 0);
	}
	f->last = ev->type;
	if (ev->len > f->largest)
		f->largest = ev->len;
	if (ev->type == CELL_CODE_DONE) {
		f->done = ev->done;
		f->is_over = true;
	}
}

/* Take events until one of this type, or the last. */
void flow_until(struct flow *f, enum cell_code_event_type type)
{
	struct cell_code_event ev = {0};

	while (!f->is_over && ev.type != type) {
		OK(cell_code_next(f->x, (int)patience(60000), &ev, &E));
		if (ev.type == CELL_CODE_NONE)
			DIE("no event came; until now: %s", f->log);
		note_event(f, &ev);
	}
}

void flow_end(struct flow *f)
{
	struct cell_code_event ev;

	flow_until(f, CELL_CODE_DONE);
	OK(cell_code_next(f->x, (int)patience(60000), &ev, &E));
	ASSERT_INT(ev.type, CELL_CODE_NONE);
}

static int note_context(const struct cell_context_info *info, void *user)
{
	struct wanted *w = user;

	w->all++;
	if (strcmp(info->name, w->name) != 0)
		return 0;
	w->found++;
	w->info = *info;
	snprintf(w->version, sizeof w->version, "%s", info->version);
	return 0;
}

struct wanted context(struct cell *c, const char *name)
{
	struct wanted w = {.name = name};

	OK(cell_context_list(c, note_context, &w, &E));
	ASSERT(w.found <= 1);
	return w;
}
