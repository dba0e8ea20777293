/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.c: how an engine is asked about one container: does it run, remove it, let it stand still, count what it uses, save it as an
 * image; and which are ours. When that is done is in core/container_life.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cell/cell.h"

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "net/text.h"

#define SAVE_TIMEOUT_MS	  (60u * 60 * 1000)
#define REMOVE_TIMEOUT_MS 60000

static bool runs(void *at, const char *container)
{
	json_auto_t *j = NULL;
	int r = engine_get(at, &j, NULL, "/containers/%s/json", container);

	return r < 0 ? r != -ENOENT : json_is_true_at(j, "State/Running");
}

/* One that is being removed, by us or by the engine because it has ended, is waited for. */
static int remove_container(void *at, const char *container, struct cell_error *err)
{
	struct engine *e = at;
	const struct timespec pause = {.tv_nsec = 20 * 1000000};
	char doing[120];
	struct engine_request rq = {.http.method = "DELETE", .doing = doing, .fine = 404};
	struct cell_error why = {0};
	int r = 0;

	(void)snprintf(doing, sizeof doing, "remove container '%.90s'", container);
	for (int waited_ms = 0; waited_ms < REMOVE_TIMEOUT_MS; waited_ms += 20) {
		r = engine_call(e, &rq, NULL, &why, "/containers/%s?force=1&v=1", container);
		/* Podman is asked once more, until it is not there */
		if (r == 0 && (e->status == 404 || !e->is_libpod))
			return 0;
		if (r < 0 && e->status != 409 && e->status != 500) /* Podman says 500 */
			break;
		if (r < 0)
			(void)nanosleep(&pause, NULL);
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

static int pause_one(void *at, const char *container, bool is_on, struct cell_error *err)
{
	struct engine *e = at;
	struct cell_error why = {0};
	struct engine_request rq = {.http.method = "POST",
		.doing = is_on ? "pause the container" : "unpause the container"};
	int r = engine_call(e, &rq, NULL, &why, "/containers/%s/%s", container,
		is_on ? "pause" : "unpause");

	/* so it is already: who was at it before us died, or somebody used the engine's own tools */
	if (r == 0 || strstr(e->said, is_on ? "already paused" : "not paused"))
		return 0;
	if (err)
		*err = why;
	return r;
}

/* --- what it uses --- */

static void read_stats(const json_t *j, struct cell_stats *ret)
{
	const json_t *memory = json_object_get(j, "memory_stats"), *value;
	const char *key;
	size_t i;
	/* pages of files that can be dropped are not counted, as `docker stats` does not; the key is v1's or v2's */
	uint64_t cache = json_count_at(memory, "stats/total_inactive_file");
	uint64_t used = json_count_at(memory, "usage");

	cache = cache ? cache : json_count_at(memory, "stats/inactive_file");
	ret->memory_bytes = used > cache ? used - cache : 0;
	ret->memory_limit_bytes = json_count_at(memory, "limit");
	ret->cpu_ns = json_count_at(j, "cpu_stats/cpu_usage/total_usage");
	ret->processes = (uint32_t)json_count_at(j, "pids_stats/current");
	json_object_foreach (json_object_get(j, "networks"), key, value) {
		ret->net_in_bytes += json_count_at(value, "rx_bytes");
		ret->net_out_bytes += json_count_at(value, "tx_bytes");
	}
	json_array_foreach (json_at(j, "blkio_stats/io_service_bytes_recursive"), i, value) {
		const char *op = json_text_at(value, "op");
		uint64_t bytes = json_count_at(value, "value");
		if (op && !strcasecmp(op, "read"))
			ret->disk_read_bytes += bytes;
		else if (op && !strcasecmp(op, "write"))
			ret->disk_written_bytes += bytes;
	}
}

static int count(void *at, const char *container, struct cell_stats *ret, struct cell_error *err)
{
	json_auto_t *j = NULL;
	/* one-shot: or it looks twice, a second apart */
	int r = engine_get(at, &j, err, "/containers/%s/stats?stream=false&one-shot=true",
		container);

	if (r == 0)
		read_stats(j, ret);
	return r;
}

/* --- snapshots --- */

/* Our own entry point is not the image's, and neither is where it runs: what that was goes into a label. */
static int changes(struct engine *e, const struct cell *c, struct buf *ret, struct cell_error *err)
{
	json_auto_t *image = NULL;
	int r = engine_get(e, &image, err, "/images/%s/json", cell_note(c, "image"));

	if (r < 0 && r != -ENOENT)
		return r;
	const char *cwd = engine_image_cwd(image);
	json_auto_t *value = json_string(cwd ? cwd : "");
	auto_free char *quoted = json_dumps(value, JSON_ENCODE_ANY);
	r = quoted ? buf_addz(ret,
			     "&changes=ENTRYPOINT%20%5B%5D&changes=LABEL%20" ENGINE_CWD_LABEL "%3D")
		   : -ENOMEM;
	if (r == 0)
		r = net_encode(ret, quoted, strlen(quoted), false);
	return r < 0 ? cell_fail_errno(err, ENOMEM, "save the container") : 0;
}

/* Asked before it is asked to save them: all files of the container together, holes counted. */
static int check_size(struct engine *e, const char *container, struct cell_error *err)
{
	json_auto_t *j = NULL;
	int r = engine_look(e, err);

	if (r == 0)
		r = engine_get(e, &j, err, "/containers/%s/json?size=true", container);
	if (r < 0)
		return r == -ENOENT ? container_gone(container, err) : r;
	return container_check_saved(json_count_at(j, "SizeRw"),
		e->info.is_near ? e->info.root : NULL, err);
}

int engine_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err)
{
	auto_engine void *e = NULL;
	auto_buf struct buf more = BUF_INIT(2048);
	const char *container;
	int r = container_reach(c, &e, &container, err);

	if (r == 0)
		r = check_size(e, container, err);
	if (r == 0)
		r = changes(e, c, &more, err);
	if (r < 0)
		return r;
	*ret_apart = CELL_APART_WORKSPACE | CELL_APART_HOME; /* in memory: no image has them */
	struct engine_request rq = {.http = {.method = "POST", .timeout_ms = SAVE_TIMEOUT_MS},
		.doing = "save the container",
		.json = json_object()};
	/* standing still meanwhile, where it can */
	return engine_call(e, &rq, NULL, err,
		"/commit?container=%s&repo=" CONTAINER_SNAPSHOTS "&tag=%s&pause=%s%s", container,
		id, cell_supports(c, CELL_CAP_PAUSE) ? "true" : "false", buf_str(&more));
}

static int remove_image(void *at, const char *name, struct cell_error *err)
{
	const struct engine *e = at;
	struct engine_request rq = {
		.http.method = "DELETE", .doing = "remove the snapshot's image", .fine = 404};
	int r = engine_call(at, &rq, NULL, err, "/images/%s", name);

	return r < 0 && e->status == 409
		       ? cell_error_hint(err, r, "cells made from it are there: remove them first")
		       : r;
}

/* --- what has our mark --- */

static void list(void *at, enum container_marked what, const char *state_id, container_marked_fn fn,
	void *user)
{
	bool is_image = what == CONTAINER_IMAGES;
	json_auto_t *all = NULL;
	const json_t *one, *name;
	size_t i, k;

	(void)engine_get(at, &all, NULL,
		"/%s/json?all=1&filters=%%7B%%22label%%22:%%5B%%22" CONTAINER_LABEL_STATE
		"=%s%%22%%5D%%7D",
		is_image ? "images" : "containers", state_id);
	json_array_foreach (all, i, one) {
		const json_t *names = json_at(one, is_image ? "RepoTags" : "Names");
		json_array_foreach (names, k, name) {
			const char *text = json_string_value(name);
			fn(user, json_text_at(one, "Labels/" CONTAINER_LABEL_NAME),
				text && *text == '/' ? text + 1 : text);
			if (!is_image) /* its others are those it has for others */
				break;
		}
	}
}

const struct container_engine engine_calls = {
	.open = engine_open,
	.close = engine_close,
	.start = engine_start,
	.runs = runs,
	.remove = remove_container,
	.put = engine_put,
	.exec = engine_exec,
	.pause = pause_one,
	.stats = count,
	.remove_image = remove_image,
	.list = list,
};
