/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: the image a cell is made of, as the engine has it, or fetches it. Who we are to a registry is known from where
 * `docker login` and `podman login` put it (distribution/credentials.h); the engine gets it with the pull, in a header, and it is
 * written nowhere. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "core/container_image.h"
#include "core/making.h"
#include "distribution/credentials.h"
#include "distribution/reference.h"
#include "distribution/refusal.h"
#include "net/json_lines.h"
#include "net/text.h"

#define PULL_TIMEOUT_MS (60u * 60 * 1000)
#define LINE_MAX_BYTES	(64u * 1024)

struct wanted {
	struct engine *e;
	json_t **ret;
};

/* --- pulling --- */

/* A pull answers 200 at once; how it goes comes as JSON objects, one in a line. The last error counts. */
struct pull {
	struct making making;
	char error[1000]; /* what went wrong is at its end */
};

/* Docker names each layer with what it does to it: downloading and then extracting, each with its own count. */
static void take_progress(struct pull *p, const json_t *j, const char *status)
{
	const char *id = json_text_at(j, "id");
	uint64_t now = json_count_at(j, "progressDetail/current"),
		 total = json_count_at(j, "progressDetail/total");
	struct making_layer *l =
		id && !text_begins(status, "Pulling from") ? making_layer(&p->making, id) : NULL;

	if (l && !strcmp(status, "Downloading") && total > 0) {
		l->bytes = now;
		l->total = total;
	} else if (l && (text_begins(status, "Download complete") ||
				text_begins(status, "Pull complete") ||
				text_begins(status, "Already exists"))) {
		l->bytes = l->total;
		l->is_done = l->is_done || !text_begins(status, "Download");
	}
	making_tell(&p->making, l ? id : "", status);
}

/* json_lines.take */
static int take(void *arg, json_t *j, const struct buf *line)
{
	struct pull *p = arg;
	const char *error = json_text_at(j, "error"), *status = json_text_at(j, "status");

	(void)line;
	if (error)
		(void)snprintf(p->error, sizeof p->error, "%s", error);
	else if (status)
		take_progress(p, j, status);
	return p->making.stopped ? -ECANCELED : 0;
}

/* Answered with 404 or 500 by one engine, with 200 and an error by the other. */
static int fail_pull(const struct engine *e, const char *image, const char *said,
	struct cell_error *err)
{
	int r = cell_fail(err, e->status == 404 ? CELL_ENOTFOUND : CELL_EBACKEND, 0,
		"pull image '%s': %s", image, *said ? said : "refused");

	r = cell_error_hint(err, r,
		"check its name and tag or digest, and that its registry can be reached; or load "
		"it: docker load");
	r = cell_error_known(err, r, said, refusal_words);
	return cell_error_known(err, r, said, engine_words);
}

/* container_images.pull */
static int pull(void *user, const struct cell_spec *spec, struct cell_error *err)
{
	const struct wanted *w = user;
	struct engine *e = w->e;
	const char *image = spec->image;
	struct pull p = {.making = {.spec = spec}};
	auto_(json_lines_done) struct json_lines lines = {
		.take = take, .user = &p, .line = BUF_INIT(LINE_MAX_BYTES)};
	auto_buf struct buf name = BUF_INIT(4096);
	auto_buf struct buf auth = BUF_INIT(64u * 1024);
	int r = credentials_pack_image(image, &auth, err);

	if (r < 0)
		return r;
	if (net_encode(&name, image, strlen(image), false) < 0)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "the image's name is too long");
	const struct http_field headers[] = {
		{auth.len ? "X-Registry-Auth" : NULL, buf_str(&auth)}, {0}};
	struct engine_request rq = {.http = {.method = "POST",
					    .headers = headers,
					    .sink = json_lines_add,
					    .arg = &lines,
					    .timeout_ms = PULL_TIMEOUT_MS},
		.fine = ENGINE_ANY};
	making_tell(&p.making, "", "Pulling");
	/* a tag must be named, or the engine fetches all there are */
	r = engine_call(e, &rq, NULL, err, "/images/create?fromImage=%s%s", buf_str(&name),
		reference_is_exact(image) ? "" : "&tag=latest");
	if (r == 0)
		r = json_lines_end(&lines);
	if (p.making.stopped)
		r = cell_fail(err, CELL_EBUSY, ECANCELED, "pull image '%s'", image);
	else if (r == 0 && (e->status != 200 || p.error[0]))
		r = fail_pull(e, image, p.error[0] ? p.error : e->said, err);
	else if (r == 0)
		making_tell(&p.making, "", "Pulled");
	making_done(&p.making);
	return r;
}

/* --- the image --- */

/* The container runs in /, whatever its image says: what that was is kept in a label. */
const char *engine_image_cwd(const json_t *image)
{
	const char *kept = json_text_at(image, "Config/Labels/" ENGINE_CWD_LABEL);

	return kept ? kept : json_text_at(image, "Config/WorkingDir");
}

/* container_images.find */
static int inspect(void *user, const char *image, struct cell_error *err)
{
	const struct wanted *w = user;

	/* the name's slashes stay as they are in this path */
	if (!strpbrk(image, " ?#%\r\n\t") && strlen(image) < 1500)
		return engine_get(w->e, w->ret, err, "/images/%s/json", image);
	int r = cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no name of an image", image);
	return cell_error_hint(err, r, "give NAME[:TAG], NAME@sha256:... or sha256:...");
}

int engine_image(struct engine *e, const struct cell_spec *spec, json_t **ret,
	struct cell_error *err)
{
	char owner[64];
	struct wanted w = {e, ret};
	const struct container_images images = {.backend = e->kind->name,
		.owner = owner,
		.fix = "pull it, or set pull: missing",
		.find = inspect,
		.pull = pull,
		.user = &w};

	(void)snprintf(owner, sizeof owner, "the %s engine", e->kind->title);
	return container_image(spec, &images, err);
}
