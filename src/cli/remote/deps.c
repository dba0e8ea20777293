/* SPDX-License-Identifier: Apache-2.0 */
/* deps.c: packages of a server's cell. Files of this machine are put into the cell's workspace for as long as it takes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "cli/signals.h"

static bool is_stopped(void)
{
	return cli_signals_stop() != 0;
}

/* ---- a stream of lines ---- */

struct reading {
	const struct cell_deps_opts *opts;
	struct cell_error err;
	bool is_done;
	int result;
};

static int take_step(void *user, json_t *o, const struct buf *line)
{
	struct reading *rd = user;
	const char *type = remote_text(o, "type");
	static const char *const steps[] = {"", "resolve", "fetch", "unpack", "install"};
	int r = 0;

	(void)line;
	if (!strcmp(type, "done")) {
		rd->is_done = true;
	} else if (!strcmp(type, "error")) {
		rd->is_done = true;
		rd->result = remote_error(json_object_get(o, "error"), &rd->err);
	}
	for (size_t i = 1; i < sizeof steps / sizeof *steps && rd->opts->progress; i++)
		if (!strcmp(type, steps[i]))
			r = rd->opts->progress(
				    &(struct cell_deps_progress){.step = (enum cell_deps_step)i,
					    .name = remote_text(o, "name"),
					    .bytes = (uint64_t)remote_int(o, "bytes"),
					    .total = (uint64_t)remote_int(o, "total")},
				    rd->opts->user)
				    ? -EINTR
				    : 0;
	return r;
}

static json_t *words(const char *const *list)
{
	json_t *a = json_array();

	for (; list && *list; list++)
		(void)json_array_append_new(a, json_string(*list));
	return a;
}

static int send(struct cell *c, const char *method, const struct cell_deps_opts *o,
	const char *const *inside, struct cell_error *err)
{
	auto_free char *target =
		remote_target(remote_cell_of(c)->id, "/deps", "stream", "true", NULL);
	struct reading rd = {.opts = o};
	struct json_lines lines = {.take = take_step, .user = &rd, .line = BUF_INIT(1u << 20)};
	json_t *body = json_pack("{s:o, s:o, s:b}", "packages", words(o->packages), "inside",
		words(inside), "upgrade", o->upgrade);

	if (o->language)
		(void)json_object_set_new(body, "language", json_string(o->language));
	if (o->requirements)
		(void)json_object_set_new(body, "requirements", json_string(o->requirements));
	int r = remote_call(&(struct remote_request){.method = method,
				    .target = target,
				    .body = body,
				    .sink = json_lines_add,
				    .arg = &lines,
				    .is_once = true,
				    .is_cancelled = is_stopped},
		NULL, err);
	json_lines_done(&lines);
	if (r == 0 && rd.result < 0) {
		*err = rd.err;
		return rd.result;
	}
	if (r == 0 && !rd.is_done)
		r = cell_fail(err, CELL_EGONE, 0, "the server's answer was cut off");
	return r;
}

/* ---- files ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int change(struct cell *c, const char *method, const struct cell_deps_opts *o,
	struct cell_error *err)
{
	size_t n = 0, k = 0;
	auto_free char *dir = cli_format(".cell-deps-%ld", (long)getpid());
	int r = 0;

	for (; o->files && o->files[n]; n++)
		;
	for (; o->inside && o->inside[k]; k++)
		;
	auto_free const char **inside = cli_calloc(n + k + 1, sizeof *inside);
	char **own = cli_calloc(n + 1, sizeof *own);
	for (size_t i = 0; i < n; i++)
		inside[i] = own[i] = cli_format("%s/%s", dir, base_name(o->files[i]));
	for (size_t i = 0; i < k; i++)
		inside[n + i] = o->inside[i];
	for (size_t i = 0; r == 0 && i < n; i++)
		r = remote_file_upload(c, o->files[i], own[i], NULL, NULL, err);
	if (r == 0)
		r = send(c, method, o, inside, err);
	if (n)
		(void)remote_file_remove(c, dir, true, &(struct cell_error){0});
	for (size_t i = 0; i < n; i++)
		free(own[i]);
	free(own);
	return r;
}

int remote_deps_add(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err)
{
	return change(c, "POST", opts, err);
}

int remote_deps_sync(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err)
{
	return change(c, "PUT", opts, err);
}

int remote_deps_remove(struct cell *c, const char *language, const char *const *names,
	struct cell_error *err)
{
	auto_free char *target = remote_target(remote_cell_of(c)->id, "/deps/remove", NULL);
	json_t *body = json_pack("{s:o}", "packages", words(names));

	if (language)
		(void)json_object_set_new(body, "language", json_string(language));
	return remote_call(&(struct remote_request){.method = "POST",
				   .target = target,
				   .body = body,
				   .is_change = true},
		NULL, err);
}

int remote_deps_list(struct cell *c, const char *language, cell_dep_fn fn, void *user,
	struct cell_error *err)
{
	auto_free char *target =
		remote_target(remote_cell_of(c)->id, "/deps", "language", language, NULL);
	json_t *page = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &page, err);

	json_array_foreach (json_object_get(page, "packages"), i, o)
		if (r == 0)
			r = fn(&(struct cell_dep){.language = remote_text(o, "language"),
				       .name = remote_text(o, "name"),
				       .version = remote_text(o, "version"),
				       .hash = remote_text(o, "hash"),
				       .file = remote_text(o, "file"),
				       .is_requested =
					       json_is_true(json_object_get(o, "requested"))},
				user);
	json_decref(page);
	return r;
}

int remote_deps_lock(struct cell *c, const char *language, char **ret, struct cell_error *err)
{
	auto_free char *target =
		remote_target(remote_cell_of(c)->id, "/deps/lock", "language", language, NULL);
	json_t *o = NULL;
	int r = remote_call(&(struct remote_request){.target = target}, &o, err);

	if (r == 0)
		*ret = cli_strdup(remote_text(o, "lock"));
	json_decref(o);
	return r;
}
