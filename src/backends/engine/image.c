/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: the image a cell is made of, as the engine has it, or fetches it. Who we are to a registry is known from where
 * `docker login` and `podman login` put it (distribution/credentials.h); the engine gets it with the pull, in a header, and it is
 * written nowhere. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/making.h"
#include "distribution/credentials.h"
#include "distribution/reference.h"
#include "net/text.h"

#define PULL_TIMEOUT_MS (60u * 60 * 1000)
#define LINE_MAX_BYTES	(64u * 1024)

/* --- pulling --- */

/* A pull answers 200 at once; how it goes comes as JSON objects, one in a line. The last error counts. */
struct pull {
	struct making making;
	struct buf line;
	char error[1000]; /* what went wrong is at its end */
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Docker names each layer with what it does to it: downloading and then extracting, each with its own count. */
static void take_progress(struct pull *p, const json_t *j, const char *status)
{
	const char *id = engine_text(j, "id", NULL);
	json_int_t now = json_integer_value(engine_at(j, "progressDetail", "current")),
		   total = json_integer_value(engine_at(j, "progressDetail", "total"));
	struct making_layer *l =
		id && !begins(status, "Pulling from") ? making_layer(&p->making, id) : NULL;

	if (l && !strcmp(status, "Downloading") && total > 0) {
		l->bytes = (uint64_t)now;
		l->total = (uint64_t)total;
	} else if (l && (begins(status, "Download complete") || begins(status, "Pull complete") ||
				begins(status, "Already exists"))) {
		l->bytes = l->total;
		l->is_done = l->is_done || !begins(status, "Download");
	}
	making_tell(&p->making, l ? id : "", status);
}

static int take_line(struct pull *p)
{
	json_t *j = json_loads(buf_str(&p->line), 0, NULL);
	const char *error = engine_text(j, "error", NULL), *status = engine_text(j, "status", NULL);

	error = error ? error : engine_text(j, "message", NULL);
	if (error)
		(void)snprintf(p->error, sizeof p->error, "%s", error);
	else if (status)
		take_progress(p, j, status);
	json_decref(j);
	buf_reset(&p->line);
	return p->making.stopped ? -ECANCELED : 0;
}

static int take(void *arg, const void *bytes, size_t n)
{
	struct pull *p = arg;
	int r = 0;

	for (const char *c = bytes; r == 0 && n > 0; n--, c++)
		r = *c == '\n' ? take_line(p) : buf_addc(&p->line, *c) < 0 ? -EPROTO : 0;
	return r;
}

/* Answered with 404 or 500 by one engine, with 200 and an error by the other. */
static int fail_pull(const struct pull *p, const char *image, int status, struct cell_error *err)
{
	static const char login[] = "log in to its registry (docker login, podman login), and "
				    "check that you may have this image";
	static const struct {
		const char *words;
		enum cell_code code;
		const char *hint;
	} known[] = {{"manifest unknown", CELL_ENOTFOUND, NULL},
		{"not found", CELL_ENOTFOUND, NULL}, {"name unknown", CELL_ENOTFOUND, NULL},
		{"no basic auth credentials", CELL_EDENIED, login},
		{"unauthorized", CELL_EDENIED, login},
		{"authentication required", CELL_EDENIED, login}, {"denied", CELL_EDENIED, login},
		{"no space left on device", CELL_ENOSPACE,
			"free some space where the engine keeps its images"}};
	enum cell_code code = status == 404 ? CELL_ENOTFOUND : CELL_EBACKEND;
	const char *hint = "check its name and tag or digest, and that its registry can be "
			   "reached; or load it: docker load";

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(p->error, known[i].words)) { /* the last counts */
			code = known[i].code;
			hint = known[i].hint ? known[i].hint : hint;
		}
	int r = cell_fail(err, code, 0, "pull image '%s': %s", image,
		p->error[0] ? p->error : "refused");
	return cell_error_hint(err, r, "%s", hint);
}

static int pull(struct engine *e, const struct cell_spec *spec, struct cell_error *err)
{
	const char *image = spec->image;
	struct pull p = {.making = {.spec = spec}, .line = BUF_INIT(LINE_MAX_BYTES)};
	auto_buf struct buf name = BUF_INIT(4096);
	auto_buf struct buf auth = BUF_INIT(64u * 1024);
	struct reference from;
	/* one that cannot be read is the engine's to refuse */
	int r = reference_parse(image, &from, NULL) < 0 ? 0
							: credentials_pack(from.host, &auth, err);

	if (r < 0)
		return r;
	/* a tag must be named, or the engine fetches all there are */
	const char *slash = strrchr(image, '/');
	bool is_exact = strpbrk(slash ? slash : image, ":@");
	if (net_encode(&name, image, strlen(image), false) < 0)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "the image's name is too long");
	struct engine_request rq = {.method = "POST",
		.auth = buf_str(&auth),
		.sink = take,
		.arg = &p,
		.timeout_ms = PULL_TIMEOUT_MS};
	making_tell(&p.making, "", "Pulling");
	r = engine_call(e, &rq, NULL, err, "/images/create?fromImage=%s%s", buf_str(&name),
		is_exact ? "" : "&tag=latest");
	if (p.line.len && !p.making.stopped)
		(void)take_line(&p); /* a refusal: an object without an end of line */
	if (p.making.stopped)
		r = cell_fail(err, CELL_EBUSY, ECANCELED, "pull image '%s'", image);
	else if (r == 0 && (e->status != 200 || p.error[0]))
		r = fail_pull(&p, image, e->status, err);
	else if (r == 0)
		making_tell(&p.making, "", "Pulled");
	buf_done(&p.line);
	making_done(&p.making);
	return r;
}

/* --- the image --- */

/* The container runs in /, whatever its image says: what that was is kept in a label. */
const char *engine_image_cwd(const json_t *image)
{
	const json_t *config = json_object_get(image, "Config");
	const char *kept = engine_text(config, "Labels", ENGINE_CWD_LABEL);

	return kept ? kept : engine_text(config, "WorkingDir", NULL);
}

static int inspect(struct engine *e, const char *image, json_t **ret, struct cell_error *err)
{
	/* the name's slashes stay as they are in this path */
	if (!strpbrk(image, " ?#%\r\n\t") && strlen(image) < 1500)
		return engine_get(e, ret, err, "/images/%s/json", image);
	int r = cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no name of an image", image);
	return cell_error_hint(err, r, "give NAME[:TAG], NAME@sha256:... or sha256:...");
}

static int find_saved(struct engine *e, const char *id, json_t **ret, struct cell_error *err)
{
	char saved[100];

	(void)snprintf(saved, sizeof saved, CONTAINER_SNAPSHOTS ":%.64s", id);
	int r = inspect(e, saved, ret, err);
	if (r != -ENOENT)
		return r;
	r = cell_fail(err, CELL_ENOTFOUND, 0, "the %s engine has no image '%s' of the snapshot",
		e->kind->title, saved);
	return cell_error_hint(err, r,
		"it was saved with another engine, or its image was removed there");
}

int engine_image(struct engine *e, const struct cell_spec *spec, json_t **ret,
	struct cell_error *err)
{
	const char *image = spec->image;
	int r;

	if (spec->from)
		return find_saved(e, spec->from, ret, err);
	if (!image || !*image) {
		r = cell_fail(err, CELL_EINVAL, 0, "back end '%s' needs an image", e->kind->name);
		return cell_error_hint(err, r, "name one: --image NAME, or image: in cell.yaml");
	}
	if (spec->pull == CELL_PULL_ALWAYS && (r = pull(e, spec, err)) < 0)
		return r;
	r = inspect(e, image, ret, err);
	if (r == -ENOENT && spec->pull == CELL_PULL_NEVER) {
		r = cell_fail(err, CELL_ENOTFOUND, 0, "the %s engine has no image '%s'",
			e->kind->title, image);
		return cell_error_hint(err, r, "pull it, or set pull: missing");
	}
	if (r == -ENOENT && spec->pull != CELL_PULL_ALWAYS) {
		if ((r = pull(e, spec, err)) < 0)
			return r;
		r = inspect(e, image, ret, err);
	}
	return r == -ENOENT ? cell_fail(err, CELL_ENOTFOUND, 0,
				      "image '%s' was pulled and is not there", image)
			    : r;
}
