/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: the image a cell is made of, as the engine has it, or fetches it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"

#define PULL_TIMEOUT_MS (60u * 60 * 1000)
#define LINE_MAX_BYTES	(64u * 1024)
#define LAYERS_MAX	1000u

/* One layer of the image that is pulled. */
struct layer {
	char id[80];
	uint64_t bytes, total;
	bool is_done;
};

/* A pull answers 200 at once; how it goes comes as JSON objects, one in a line. The last error counts. */
struct pull {
	const struct cell_spec *spec;
	struct buf line;
	char error[1000]; /* what went wrong is at its end */
	struct layer *layers;
	size_t n;
	int stopped; /* what the caller's function returned */
};

static struct layer *find_layer(struct pull *p, const char *id)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->layers[i].id, id))
			return &p->layers[i];
	void *more = p->n < LAYERS_MAX ? realloc(p->layers, (p->n + 1) * sizeof *p->layers) : NULL;
	if (!more)
		return NULL;
	p->layers = more;
	struct layer *l = &p->layers[p->n++];
	*l = (struct layer){0};
	(void)snprintf(l->id, sizeof l->id, "%s", id);
	return l;
}

static void tell(struct pull *p, const char *layer, const char *status)
{
	struct cell_making m = {.image = p->spec->image,
		.layer = layer,
		.status = status,
		.layers = (unsigned)p->n};

	for (size_t i = 0; i < p->n; i++) {
		m.bytes += p->layers[i].bytes;
		m.total_bytes += p->layers[i].total;
		m.layers_done += p->layers[i].is_done;
	}
	if (p->spec->making && !p->stopped)
		p->stopped = p->spec->making(&m, p->spec->making_user);
}

/* Docker names each layer with what it does to it: downloading and then extracting, each with its own count. */
static void take_progress(struct pull *p, const json_t *j, const char *status)
{
	const char *id = json_string_value(json_object_get(j, "id"));
	const json_t *detail = json_object_get(j, "progressDetail");
	json_int_t now = json_integer_value(json_object_get(detail, "current")),
		   total = json_integer_value(json_object_get(detail, "total"));
	bool is_layer = id && strncmp(status, "Pulling from", 12) != 0;
	struct layer *l = is_layer ? find_layer(p, id) : NULL;

	if (l && !strcmp(status, "Downloading") && total > 0) {
		l->bytes = (uint64_t)now;
		l->total = (uint64_t)total;
	} else if (l && (!strncmp(status, "Download complete", 17) ||
				!strncmp(status, "Pull complete", 13) ||
				!strncmp(status, "Already exists", 14))) {
		l->bytes = l->total;
		l->is_done = l->is_done || strncmp(status, "Download", 8) != 0;
	}
	tell(p, l ? id : "", status);
}

static int take_line(struct pull *p)
{
	json_t *j = json_loads(buf_str(&p->line), 0, NULL);
	const char *error = json_string_value(json_object_get(j, "error"));
	const char *message = json_string_value(json_object_get(j, "message"));
	const char *status = json_string_value(json_object_get(j, "status"));

	if (error || message)
		(void)snprintf(p->error, sizeof p->error, "%s", error ? error : message);
	else if (status)
		take_progress(p, j, status);
	json_decref(j);
	buf_reset(&p->line);
	return p->stopped ? -ECANCELED : 0;
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
	static const char *const missing[] = {"manifest unknown", "not found", "name unknown"};
	static const char *const denied[] = {
		"no basic auth credentials", "unauthorized", "authentication required", "denied"};
	enum cell_code code = status == 404 ? CELL_ENOTFOUND : CELL_EBACKEND;
	const char *hint =
		"check its name and tag or digest, and that its registry can be reached; or "
		"load it: docker load";

	for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
		if (strstr(p->error, missing[i]))
			code = CELL_ENOTFOUND;
	for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
		if (strstr(p->error, denied[i])) {
			code = CELL_EDENIED;
			hint = "log in to its registry (docker login, podman login), and check "
			       "that you "
			       "may have this image";
		}
	if (strstr(p->error, "no space left on device")) {
		code = CELL_ENOSPACE;
		hint = "free some space where the engine keeps its images";
	}
	int r = cell_fail(err, code, 0, "pull image '%s': %s", image,
		p->error[0] ? p->error : "refused");
	return cell_error_hint(err, r, "%s", hint);
}

static int pull(struct engine *e, const struct cell_spec *spec, struct cell_error *err)
{
	const char *image = spec->image;
	struct pull p = {.spec = spec, .line = BUF_INIT(LINE_MAX_BYTES)};
	auto_buf struct buf path = BUF_INIT(4096);
	auto_buf struct buf auth = BUF_INIT(64u * 1024);
	int r = engine_auth(image, &auth, err);

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
	tell(&p, "", "Pulling");
	r = engine_send(e, &rq, NULL, err);
	if (p.line.len && !p.stopped)
		(void)take_line(&p); /* a refusal: an object without an end of line */
	if (p.stopped)
		r = cell_fail(err, CELL_EBUSY, ECANCELED, "pull image '%s'", image);
	else if (r > 0 && (r != 200 || p.error[0]))
		r = fail_pull(&p, image, r, err);
	else if (r > 0)
		tell(&p, "", "Pulled");
	buf_done(&p.line);
	free(p.layers);
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
	if (spec->pull == CELL_PULL_ALWAYS && (r = pull(e, spec, err)) < 0)
		return r;
	r = inspect(e, image, ret, err);
	if (r != -ENOENT)
		return r;
	if (spec->pull == CELL_PULL_NEVER) {
		r = cell_fail(err, CELL_ENOTFOUND, 0, "the %s engine has no image '%s'",
			e->kind->title, image);
		return cell_error_hint(err, r, "pull it, or set pull: missing");
	}
	r = pull(e, spec, err);
	if (r < 0)
		return r;
	r = inspect(e, image, ret, err);
	return r == -ENOENT ? cell_fail(err, CELL_ENOTFOUND, 0,
				      "image '%s' was pulled and is not there", image)
			    : r;
}
