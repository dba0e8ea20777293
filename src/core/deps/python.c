/* SPDX-License-Identifier: Apache-2.0 */
/* python.c: see python.h. */
#include "core/deps/python.h"

#include <string.h>

#include "cell/cell.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

#define DESCRIBE_TIMEOUT_MS 60000 /* a slow disk, a loaded machine; not a hang */
#define DESCRIBE_MAX	    4096
#define MINORS_MAX	    24

struct finding {
	char path[512];
	struct buf *all; /* names of those that are there */
};

static int note_tool(const char *name, const char *path, void *user)
{
	struct finding *f = user;

	if (!*path)
		return 0;
	if (!*f->path)
		(void)snprintf(f->path, sizeof f->path, "%s", path);
	if (f->all)
		return buf_addf(f->all, "%s%s", f->all->len ? ", " : "", name);
	return 0;
}

static int look_for(struct cell *c, const char *name, struct finding *ret, struct cell_error *err)
{
	const char *names[] = {name, NULL};

	return cell_tools(c, names, note_tool, ret, err);
}

/* All by their versioned names, and python3. */
static int list_all(struct cell *c, struct buf *ret, struct cell_error *err)
{
	char texts[MINORS_MAX + 1][16];
	const char *names[MINORS_MAX + 3];
	struct finding f = {.all = ret};
	size_t n = 0;

	for (unsigned i = 2; i <= MINORS_MAX; i++) {
		(void)snprintf(texts[n], sizeof texts[n], "python3.%u", i);
		names[n] = texts[n];
		n++;
	}
	names[n++] = "python3";
	names[n] = NULL;
	return cell_tools(c, names, note_tool, &f, err);
}

static int run(struct cell *c, const char *path, char *ret, size_t size, struct cell_error *err)
{
	const char *argv[] = {path, "-I", "-S", "-c", interpreter_script, NULL};
	struct cell_exec_opts o = {
		.argv = argv, .timeout_ms = DESCRIBE_TIMEOUT_MS, .max_output = DESCRIBE_MAX};
	struct cell_result result = {0};
	int r = cell_run(c, &o, NULL, 0, &result, err);

	if (r == 0 && (result.exit.exit_code || result.out_len >= size)) {
		r = cell_fail(err, CELL_EBACKEND, 0,
			"'%.200s' of the cell does not work: exit code %d: %.120s", path,
			result.exit.exit_code, result.err ? result.err : "");
	} else if (r == 0) {
		memcpy(ret, result.out, result.out_len);
		ret[result.out_len] = '\0';
	}
	cell_result_done(&result);
	return r;
}

static int fail_missing(struct cell *c, const char *version, struct cell_error *err)
{
	auto_buf struct buf all = BUF_INIT(4096);
	struct cell_error ignored;

	(void)list_all(c, &all, &ignored);
	int r = version ? cell_fail(err, CELL_ENOTFOUND, 0,
				  "python_version: there is no Python %.32s in this cell", version)
			: cell_fail(err, CELL_ENOTFOUND, 0, "there is no python3 in this cell");
	if (all.len)
		return cell_error_hint(err, r, "it has %s", buf_str(&all));
	return cell_error_hint(err, r, "it has none; use an image with Python");
}

static int note(json_t *state, const char *key, const char *text, struct cell_error *err)
{
	return json_object_set_new(state, key, json_string(text)) < 0
		       ? cell_fail(err, CELL_EINVAL, 0, "the path of the cell's Python is no UTF-8")
		       : 0;
}

/* 3, 3.11 or 3.11.2 */
static bool is_version(const char *s)
{
	size_t dots = 0;

	if (strlen(s) > 15 || strspn(s, "0123456789.") != strlen(s) || *s == '.' || !*s)
		return false;
	for (; *s; s++) {
		dots += *s == '.';
		if (*s == '.' && (s[1] == '.' || !s[1]))
			return false;
	}
	return dots <= 2;
}

/* Does 3.11.2 begin with 3.11? */
static bool begins(const char *full, const char *wanted)
{
	size_t n = strlen(wanted);

	return !strncmp(full, wanted, n) && (!full[n] || full[n] == '.');
}

static int find_version(struct cell *c, const char *version, json_t *state, struct cell_error *err)
{
	const char *dot = strchr(version, '.');
	char name[32], text[DESCRIBE_MAX];
	struct interpreter i;
	int r = 0;

	if (!is_version(version))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "python_version: '%.32s' is no version",
				version),
			"write 3, 3.11 or 3.11.2");
	size_t n = dot ? (size_t)(dot - version) + 1 + strcspn(dot + 1, ".") : strlen(version);
	for (int k = 0; r == 0 && k < 2; k++) {
		struct finding f = {0};
		(void)snprintf(name, sizeof name, "python%.*s", k ? 1 : (int)n, k ? "3" : version);
		r = look_for(c, name, &f, err);
		if (r < 0 || !*f.path)
			continue;
		r = run(c, f.path, text, sizeof text, err);
		if (r < 0 || !interpreter_parse(text, &i) || !begins(i.version, version))
			continue;
		r = note(state, "python", f.path, err);
		if (r == 0)
			r = note(state, "describe", text, err);
		return r < 0 ? r : note(state, "version", i.version, err);
	}
	return r < 0 ? r : fail_missing(c, version, err);
}

int python_find(struct cell *c, const char *version, json_t *state, struct cell_error *err)
{
	struct finding f = {0};

	(void)json_object_del(state, "python");
	(void)json_object_del(state, "describe");
	(void)json_object_del(state, "version");
	if (version)
		return find_version(c, version, state, err);
	int r = look_for(c, "python3", &f, err);
	return r < 0 || !*f.path ? r : note(state, "python", f.path, err);
}

int python_describe(struct cell *c, json_t *state, struct interpreter *ret, struct cell_error *err)
{
	const char *path = json_string_value(json_object_get(state, "python"));
	const char *known = json_string_value(json_object_get(state, "describe"));
	char text[DESCRIBE_MAX];

	if (!path)
		return fail_missing(c, NULL, err);
	if (known && interpreter_parse(known, ret))
		return 0;
	int r = run(c, path, text, sizeof text, err);
	if (r < 0)
		return r;
	if (!interpreter_parse(text, ret))
		return cell_fail(err, CELL_EPROTOCOL, 0,
			"'%.200s' of the cell does not say what it is", path);
	r = note(state, "describe", text, err);
	return r < 0 ? r : note(state, "version", ret->version, err);
}
