/* SPDX-License-Identifier: Apache-2.0 */
/* api_deps.c: packages for the code of a session. Fetched, checked and unpacked by the server, outside of the session's cell, from where the
 * server's owner says; a client names packages and files of its own workspace, never places of this machine. */
#include <string.h>

#include "cell/cell.h"
#include "cell/deps.h"

#include "base/cleanup.h"
#include "server/api.h"
#include "server/filework.h"
#include "server/session.h"

#define PACKAGES_MAX 1000

static bool begin(struct call *c)
{
	if (!api_ready_session(c))
		return false;
	if (c->session->seat)
		return true;
	call_failf(c, CELL_ENOTSUP,
		"use a session that is not ephemeral, or list them in deps.preinstalled",
		"an ephemeral session keeps no packages: each command has a fresh cell");
	return false;
}

static const char *language_of(struct call *c)
{
	const char *asked = http_query(c->x, "language");
	const char *told = json_string_value(json_object_get(c->body, "language"));

	return told ? told : asked;
}

static void permit(struct call *c, void (*go)(struct call *c))
{
	const char *language = language_of(c);
	json_t *packages = json_object_get(c->body, "packages");

	c->details = packages ? json_pack("{s:O}", "packages", packages) : json_object();
	call_permit(c, &(struct policy_request){.language = language ? language : "python"}, go);
}

static void answer(struct filework *w)
{
	struct call *c = w->call;
	json_t *o = w->answer;

	w->answer = NULL;
	filework_free(w);
	call_json(c, 200, o ? o : json_object());
}

/* ---- looking ---- */

static int add_one(const struct cell_dep *d, void *user)
{
	return json_array_append_new(user,
		       json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "language", d->language, "name",
			       d->name, "version", d->version, "hash", d->hash, "file", d->file,
			       "requested", d->is_requested)) < 0
		       ? -ENOMEM
		       : 0;
}

static int put_list(struct filework *w, const char *language, struct cell_error *err)
{
	json_t *list = json_array();
	int r = cell_deps_list(w->cell, language, add_one, list, err);

	json_decref(w->answer);
	w->answer = json_pack("{s:o}", "packages", list);
	return r;
}

static int run_list(struct filework *w, struct cell_error *err)
{
	return put_list(w, w->path, err);
}

static int run_lock(struct filework *w, struct cell_error *err)
{
	auto_free char *text = NULL;
	int r = cell_deps_lock(w->cell, w->path, &text, err);

	if (r == 0)
		w->answer = json_pack("{s:s}", "lock", text);
	return r;
}

static void look(struct call *c, int (*run)(struct filework *w, struct cell_error *err))
{
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->run = run;
	w->done = answer;
	w->path = language_of(c);
	filework_start(w);
}

static void list_go(struct call *c)
{
	look(c, run_list);
}

static void lock_go(struct call *c)
{
	look(c, run_lock);
}

static void get_deps(struct call *c)
{
	if (begin(c))
		permit(c, list_go);
}

static void get_lock(struct call *c)
{
	if (begin(c))
		permit(c, lock_go);
}

/* ---- changing ---- */

static int tell(const struct cell_deps_progress *p, void *user)
{
	static const char *const steps[] = {"", "resolve", "fetch", "unpack", "install"};
	struct filework *w = user;

	if (w->is_cancelled)
		return 1;
	if (!w->mine)
		return 0;
	/* a line for each megabyte is enough to see it move */
	if (p->step == CELL_DEPS_FETCH && p->bytes / (1u << 20) == w->number && p->bytes >> 20)
		return 0;
	w->number = p->bytes >> 20;
	json_t *o = json_pack("{s:s, s:s?, s:I, s:I}", "type", steps[p->step], "name", p->name,
		"bytes", (json_int_t)p->bytes, "total", (json_int_t)p->total);
	auto_free char *line = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return line &&
	       (conduit_put(w->mine, line, strlen(line)) < 0 || conduit_put(w->mine, "\n", 1) < 0);
}

/* The members of the body; the thread only reads it. */
static const char **texts(const json_t *body, const char *name)
{
	json_t *list = json_object_get(body, name), *x;
	const char **ret = calloc(json_array_size(list) + 1, sizeof *ret);
	size_t i, n = 0;

	json_array_foreach (list, i, x)
		if (ret)
			ret[n++] = json_string_value(x);
	return ret;
}

static int run_change(struct filework *w, struct cell_error *err)
{
	const json_t *body = w->call->body;
	auto_free const char **packages = texts(body, "packages");
	auto_free const char **inside = texts(body, "inside");
	const char *language = json_string_value(json_object_get(body, "language"));
	const struct cell_deps_opts o = {.language = language,
		.packages = packages,
		.inside = inside,
		.requirements = json_string_value(json_object_get(body, "requirements")),
		.upgrade = json_is_true(json_object_get(body, "upgrade")),
		.progress = tell,
		.user = w};
	int r = -ENOMEM;

	if (!packages || !inside)
		return cell_fail_errno(err, ENOMEM, "install packages");
	if (w->flags == 2)
		r = cell_deps_remove(w->cell, language, packages, err);
	else
		r = w->flags == 1 ? cell_deps_sync(w->cell, &o, err)
				  : cell_deps_add(w->cell, &o, err);
	return r < 0 ? r : put_list(w, language, err);
}

/* The answer has begun: what goes wrong is its last line. */
static int run_stream(struct filework *w, struct cell_error *err)
{
	struct cell_error why = {0};
	int r = run_change(w, &why);
	json_t *o = r < 0 ? json_pack("{s:s, s:o}", "type", "error", "error",
				    call_error_json(&why, NULL))
			  : json_pack("{s:s, s:O}", "type", "done", "packages",
				    json_object_get(w->answer, "packages"));
	auto_free char *line = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	if (!line || conduit_put(w->mine, line, strlen(line)) < 0)
		return cell_fail_errno(err, ENOMEM, "answer");
	(void)conduit_put(w->mine, "\n", 1);
	return 0;
}

static bool check_texts(struct call *c, const char *name)
{
	struct cell_error err = {0};
	const char **list = NULL;
	size_t n = 0;

	if (call_texts(c, name, &list, &err) < 0) {
		call_fail(c, &err);
		return false;
	}
	while (list && list[n])
		n++;
	free(list);
	if (n <= PACKAGES_MAX)
		return true;
	call_failf(c, CELL_ELIMIT, "", "%s: more than %d", name, PACKAGES_MAX);
	return false;
}

static bool check_body(struct call *c, const char *const *names)
{
	struct cell_error err = {0};
	const char *text;
	bool flag;

	if (call_known(c, names, &err) < 0 || call_text(c, "language", &text, &err) < 0 ||
		call_text(c, "requirements", &text, &err) < 0 ||
		call_bool(c, "upgrade", &flag, &err) < 0) {
		call_fail(c, &err);
		return false;
	}
	return check_texts(c, "packages") && check_texts(c, "inside");
}

static void change_go(struct call *c, uint32_t how)
{
	const char *stream = http_query(c->x, "stream");
	struct filework *w = filework_new(c);

	if (!w)
		return;
	w->flags = how;
	if (how != 2 && stream && (!*stream || !strcmp(stream, "true") || !strcmp(stream, "1"))) {
		w->run = run_stream;
		(void)http_add_header(c->x, "Cache-Control", "no-store");
		filework_download(w, 200, "application/x-ndjson", -1);
		return;
	}
	w->run = run_change;
	w->done = answer;
	filework_start(w);
}

static void add_go(struct call *c)
{
	change_go(c, 0);
}
static void sync_go(struct call *c)
{
	change_go(c, 1);
}
static void remove_go(struct call *c)
{
	change_go(c, 2);
}

static const char *const change_names[] = {
	"language", "packages", "inside", "requirements", "upgrade", NULL};
static const char *const remove_names[] = {"language", "packages", NULL};

static void post_deps(struct call *c)
{
	if (begin(c) && check_body(c, change_names))
		permit(c, add_go);
}

static void put_deps(struct call *c)
{
	if (begin(c) && check_body(c, change_names))
		permit(c, sync_go);
}

static void post_remove(struct call *c)
{
	if (begin(c) && check_body(c, remove_names))
		permit(c, remove_go);
}

extern const struct route api_deps_routes[];
const struct route api_deps_routes[] = {
	{"GET", "/v1/sessions/{session}/deps", TOKEN_READ_ONLY, .action = "deps.list",
		.handler = get_deps},
	{"POST", "/v1/sessions/{session}/deps", TOKEN_USER, .action = "deps.add", .has_json = true,
		.is_replayable = true, .handler = post_deps},
	{"PUT", "/v1/sessions/{session}/deps", TOKEN_USER, .action = "deps.sync", .has_json = true,
		.is_replayable = true, .handler = put_deps},
	{"POST", "/v1/sessions/{session}/deps/remove", TOKEN_USER, .action = "deps.remove",
		.has_json = true, .is_replayable = true, .handler = post_remove},
	{"GET", "/v1/sessions/{session}/deps/lock", TOKEN_READ_ONLY, .action = "deps.lock",
		.handler = get_lock},
	{NULL},
};
