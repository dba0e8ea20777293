/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: the image a cell is made of, as the engine has it, or fetches it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"

#define PULL_TIMEOUT_MS (60u * 60 * 1000)
#define LINE_MAX_BYTES	(64u * 1024)

/* A pull answers 200 at once; how it went comes as JSON objects, one in a line. The last error counts. */
struct pull {
	struct buf line;
	char error[200];
};

static void take_line(struct pull *p)
{
	json_t *j = json_loads(buf_str(&p->line), 0, NULL);
	const char *error = json_string_value(json_object_get(j, "error"));

	if (error)
		(void)snprintf(p->error, sizeof p->error, "%s", error);
	json_decref(j);
	buf_reset(&p->line);
}

static int take(void *arg, const void *bytes, size_t n)
{
	struct pull *p = arg;

	for (const char *c = bytes; n > 0; n--, c++) {
		if (*c == '\n')
			take_line(p);
		else if (buf_addc(&p->line, *c) < 0)
			return -EPROTO;
	}
	return 0;
}

static int pull(struct engine *e, const char *image, struct cell_error *err)
{
	struct pull p = {.line = BUF_INIT(LINE_MAX_BYTES)};
	auto_buf struct buf path = BUF_INIT(4096);
	auto_buf struct buf auth = BUF_INIT(64u * 1024);
	int r = engine_auth(e->kind, image, &auth, err);

	if (r < 0)
		return r;
	/* a tag must be named, or the engine fetches all there are */
	const char *slash = strrchr(image, '/'), *name = slash ? slash : image;
	bool is_exact = strchr(name, ':') || strchr(name, '@');
	if (buf_addz(&path, "/images/create?fromImage=") < 0 || engine_escape(&path, image) < 0 ||
		(!is_exact && buf_addz(&path, "&tag=latest") < 0))
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "the image's name is too long");
	struct engine_request rq = {.method = "POST",
		.path = buf_str(&path),
		.auth = buf_str(&auth),
		.sink = take,
		.arg = &p,
		.timeout_ms = PULL_TIMEOUT_MS};
	r = engine_send(e, &rq, NULL, err);
	if (p.line.len)
		take_line(&p); /* a refusal: an object without an end of line */
	if (r > 0 && (r != 200 || p.error[0])) {
		r = cell_fail(err, r == 404 ? CELL_ENOTFOUND : CELL_EBACKEND, 0,
			"pull image '%s': %s", image, p.error[0] ? p.error : "refused");
		r = cell_error_hint(err, r,
			"check its name and tag or digest, and that you are logged in to its "
			"registry; or load it: docker load");
	}
	buf_done(&p.line);
	return r < 0 ? r : 0;
}

static int inspect(struct engine *e, const char *image, json_t **ret, struct cell_error *err)
{
	auto_buf struct buf path = BUF_INIT(4096);

	/* the name's slashes stay as they are in this path */
	if (strpbrk(image, " ?#%\r\n\t") || buf_addf(&path, "/images/%s/json", image) < 0) {
		int r = cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no name of an image", image);
		return cell_error_hint(err, r, "give NAME[:TAG], NAME@sha256:... or sha256:...");
	}
	return engine_get(e, buf_str(&path), ret, err);
}

int engine_image(struct engine *e, const struct cell_spec *spec, json_t **ret,
	struct cell_error *err)
{
	const char *image = spec->image;
	char saved[100];
	int r;

	if (spec->from) {
		(void)snprintf(saved, sizeof saved, ENGINE_SNAPSHOTS ":%.64s", spec->from);
		r = inspect(e, saved, ret, err);
		if (r != -ENOENT)
			return r;
		r = cell_fail(err, CELL_ENOTFOUND, 0,
			"the %s engine has no image '%s' of the snapshot", e->kind->title, saved);
		return cell_error_hint(err, r,
			"it was saved with another engine, or its image was removed there");
	}

	if (!image || !*image) {
		r = cell_fail(err, CELL_EINVAL, 0, "back end '%s' needs an image", e->kind->name);
		return cell_error_hint(err, r, "name one: --image NAME, or image: in cell.yaml");
	}
	if (spec->pull == CELL_PULL_ALWAYS && (r = pull(e, image, err)) < 0)
		return r;
	r = inspect(e, image, ret, err);
	if (r != -ENOENT)
		return r;
	if (spec->pull == CELL_PULL_NEVER) {
		r = cell_fail(err, CELL_ENOTFOUND, 0, "the %s engine has no image '%s'",
			e->kind->title, image);
		return cell_error_hint(err, r, "pull it, or set pull: missing");
	}
	r = pull(e, image, err);
	if (r == 0)
		r = inspect(e, image, ret, err);
	return r == -ENOENT ? cell_fail(err, CELL_ENOTFOUND, 0,
				      "image '%s' was pulled and is not there", image)
			    : r;
}
