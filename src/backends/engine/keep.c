/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.c: what is done to a container besides making and removing it: let it stand still, count what it uses, save it as
 * an image, and find those of ours whose cell is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cell/cell.h"

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/room.h"
#include "net/text.h"

#define SAVE_TIMEOUT_MS (60u * 60 * 1000)
#define SAVE_MAX	(UINT64_C(64) << 30)

static int open_for(struct cell *c, struct engine **ret, const char **ret_container,
	struct cell_error *err)
{
	*ret_container = cell_note(c, "container");
	if (!*ret_container)
		return cell_fail(err, CELL_EGONE, 0, "the cell has no container");
	return engine_open(cell_kind(c), c, ret, err);
}

/* --- standing still --- */

int engine_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	const char *container;
	struct cell_error why = {0};
	struct engine_request rq = {
		.method = "POST", .doing = is_on ? "pause the container" : "unpause the container"};
	int r = open_for(c, &e, &container, err);

	if (r < 0)
		return r;
	r = engine_call(e, &rq, NULL, &why, "/containers/%s/%s", container,
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

int engine_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	const char *container;
	json_t *j = NULL;
	int r = open_for(c, &e, &container, err);

	if (r < 0)
		return r;
	/* one-shot: or it looks twice, a second apart */
	r = engine_get(e, &j, err, "/containers/%s/stats?stream=false&one-shot=true", container);
	if (r == -ENOENT)
		return cell_fail(err, CELL_EGONE, 0, "the container '%s' is gone", container);
	if (r == 0)
		read_stats(j, ret);
	json_decref(j);
	return r;
}

/* --- snapshots --- */

/* Our own entry point is not the image's, and neither is where it runs: what that was goes into a label. */
static int changes(struct engine *e, const struct cell *c, struct buf *ret, struct cell_error *err)
{
	json_t *image = NULL, *quoted = NULL;
	int r = engine_get(e, &image, err, "/images/%s/json", cell_note(c, "image"));

	if (r < 0 && r != -ENOENT)
		return r;
	const char *cwd = image ? engine_image_cwd(image) : NULL;
	quoted = json_string(cwd ? cwd : "");
	auto_free char *text = json_dumps(quoted, JSON_ENCODE_ANY);
	auto_free char *label = NULL;
	if (!text || asprintf(&label, "LABEL " ENGINE_CWD_LABEL "=%s", text) < 0)
		label = NULL;
	r = label ? buf_addz(ret, "&changes=ENTRYPOINT%20%5B%5D&changes=") : -ENOMEM;
	if (r == 0)
		r = net_encode(ret, label, strlen(label), false);
	json_decref(quoted);
	json_decref(image);
	return r < 0 ? cell_fail_errno(err, ENOMEM, "save the container") : 0;
}

/* An engine writes holes down as zeros: a file that took no space takes all of its length. So it is asked what all files of the
 * container have together before it is asked to save them. */
static int check_size(struct engine *e, const char *container, struct cell_error *err)
{
	json_t *j = NULL;
	int r = engine_look(e, err);

	if (r < 0)
		return r;
	r = engine_get(e, &j, err, "/containers/%s/json?size=true", container);
	if (r < 0)
		return r == -ENOENT ? cell_fail(err, CELL_EGONE, 0, "the container '%s' is gone",
					      container)
				    : r;
	uint64_t bytes = json_count_at(j, "SizeRw");
	json_decref(j);
	if (bytes > SAVE_MAX) {
		r = cell_fail(err, CELL_ELIMIT, 0,
			"what the cell changed of its image has %llu GiB, holes counted; %llu can "
			"be saved",
			(unsigned long long)(bytes >> 30), (unsigned long long)(SAVE_MAX >> 30));
		return cell_error_hint(err, r,
			"remove large files, or keep them in a workspace or mount of the host");
	}
	auto_fd int root = e->info.is_near && *e->info.root
				   ? open(e->info.root, O_PATH | O_DIRECTORY | O_CLOEXEC)
				   : -1;
	r = root < 0 ? 0 : room_check(root, bytes, err);
	return r < 0 ? cell_error_prefix(err, r,
			       "save the %llu MiB that the cell changed of its image",
			       (unsigned long long)(bytes >> 20))
		     : 0;
}

int engine_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	auto_buf struct buf more = BUF_INIT(2048);
	const char *container;
	int r = open_for(c, &e, &container, err);

	if (r == 0)
		r = check_size(e, container, err);
	if (r == 0)
		r = changes(e, c, &more, err);
	if (r < 0)
		return r;
	*ret_apart = CELL_APART_WORKSPACE | CELL_APART_HOME; /* in memory: no image has them */
	struct engine_request rq = {.method = "POST",
		.doing = "save the container",
		.json = json_object(),
		.timeout_ms = SAVE_TIMEOUT_MS};
	/* standing still meanwhile, where it can */
	return engine_call(e, &rq, NULL, err,
		"/commit?container=%s&repo=" CONTAINER_SNAPSHOTS "&tag=%s&pause=%s%s", container,
		id, cell_supports(c, CELL_CAP_PAUSE) ? "true" : "false", buf_str(&more));
}

static int remove_image(struct engine *e, const char *id, struct cell_error *err)
{
	struct engine_request rq = {
		.method = "DELETE", .doing = "remove the snapshot's image", .fine = 404};
	int r = engine_call(e, &rq, NULL, err, "/images/" CONTAINER_SNAPSHOTS ":%.64s", id);

	return r < 0 && e->status == 409
		       ? cell_error_hint(err, r, "cells made from it are there: remove them first")
		       : r;
}

int engine_forget(struct cell *c, const char *id, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	int r = engine_open(cell_kind(c), c, &e, err);

	return r < 0 ? r : remove_image(e, id, err);
}

/* --- what nobody knows any more --- */

/* Those with our mark: containers, or images, which have it from the container they were made of. */
static json_t *list_marked(struct engine *e, const char *what, const char *state_id)
{
	json_t *list = NULL;

	(void)engine_get(e, &list, NULL,
		"/%s/json?all=1&filters=%%7B%%22label%%22:%%5B%%22" CONTAINER_LABEL_STATE
		"=%s%%22%%5D%%7D",
		what, state_id);
	return list;
}

static int sweep_containers(struct engine *e, const struct cell_sweep *s)
{
	json_t *list = list_marked(e, "containers", s->state_id);
	const json_t *one;
	size_t i;
	int n = 0;

	json_array_foreach (list, i, one) {
		const char *cell = json_text_at(one, "Labels/" CONTAINER_LABEL_NAME);
		const char *name = json_text_at(one, "Names/0");
		if (!cell || !name)
			continue;
		name += *name == '/';
		if (!s->is_known(s, cell, "container", name) &&
			engine_remove_container(e, name, NULL) == 0)
			n++;
	}
	json_decref(list);
	return n;
}

/* An engine finishes what it was asked for, also when who asked is dead and its traces are removed. */
static void sweep_images(struct engine *e, const struct cell_sweep *s)
{
	static const char ours[] = CONTAINER_SNAPSHOTS ":";
	json_t *list = list_marked(e, "images", s->state_id);
	const json_t *one, *tag;
	size_t i, k;

	json_array_foreach (list, i, one)
		json_array_foreach (json_object_get(one, "RepoTags"), k, tag) {
			const char *name = json_string_value(tag);
			if (name && !strncmp(name, ours, sizeof ours - 1) &&
				!s->is_saved(s, name + sizeof ours - 1))
				(void)remove_image(e, name + sizeof ours - 1, NULL);
		}
	json_decref(list);
}

int engine_sweep(const struct cell_sweep *s, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;

	if (engine_open(s->backend->kind, NULL, &e, err) < 0)
		return 0;
	int n = sweep_containers(e, s);
	sweep_images(e, s);
	return n;
}
