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

#define SAVE_TIMEOUT_MS (60u * 60 * 1000)
#define SAVE_MAX	(UINT64_C(64) << 30)

static int open_for(const struct engine_kind *kind, struct cell *c, struct engine **ret,
	const char **ret_container, struct cell_error *err)
{
	*ret_container = cell_note(c, "container");
	if (!*ret_container)
		return cell_fail(err, CELL_EGONE, 0, "the cell has no container");
	return engine_open(kind, c, ret, err);
}

/* --- standing still --- */

int engine_pause(const struct engine_kind *kind, struct cell *c, bool is_on, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	auto_buf struct buf text = {0};
	const char *container;
	char path[300], said[200];
	int r = open_for(kind, c, &e, &container, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof path, "/containers/%s/%s", container,
		is_on ? "pause" : "unpause");
	struct engine_request rq = {.method = "POST", .path = path};
	int status = engine_send(e, &rq, &text, err);
	if (status < 0 || status / 100 == 2)
		return status < 0 ? status : 0;
	engine_message(&text, said, sizeof said);
	/* so it is already: who was at it before us died, or somebody used the engine's own tools */
	if (strstr(said, is_on ? "already paused" : "not paused"))
		return 0;
	return engine_refused(e, status, &text, err, "%s the container",
		is_on ? "pause" : "unpause");
}

/* --- what it uses --- */

static const json_t *at(const json_t *j, const char *key, const char *inner)
{
	return json_object_get(json_object_get(j, key), inner);
}

static uint64_t number(const json_t *j)
{
	return json_integer_value(j) > 0 ? (uint64_t)json_integer_value(j) : 0;
}

static void read_stats(const json_t *j, struct cell_stats *ret)
{
	const json_t *memory = json_object_get(j, "memory_stats"), *value;
	const char *key;
	size_t i;
	/* pages of files that can be dropped are not counted, as `docker stats` does not; the key is v1's or v2's */
	uint64_t cache = number(at(memory, "stats", "total_inactive_file"));
	uint64_t used = number(json_object_get(memory, "usage"));

	cache = cache ? cache : number(at(memory, "stats", "inactive_file"));
	ret->memory_bytes = used > cache ? used - cache : 0;
	ret->memory_limit_bytes = number(json_object_get(memory, "limit"));
	ret->cpu_ns = number(json_object_get(at(j, "cpu_stats", "cpu_usage"), "total_usage"));
	ret->processes = (uint32_t)number(at(j, "pids_stats", "current"));
	json_object_foreach (json_object_get(j, "networks"), key, value) {
		ret->net_in_bytes += number(json_object_get(value, "rx_bytes"));
		ret->net_out_bytes += number(json_object_get(value, "tx_bytes"));
	}
	json_array_foreach (at(j, "blkio_stats", "io_service_bytes_recursive"), i, value) {
		const char *op = json_string_value(json_object_get(value, "op"));
		uint64_t bytes = number(json_object_get(value, "value"));
		if (op && !strcasecmp(op, "read"))
			ret->disk_read_bytes += bytes;
		else if (op && !strcasecmp(op, "write"))
			ret->disk_written_bytes += bytes;
	}
}

int engine_stats(const struct engine_kind *kind, struct cell *c, struct cell_stats *ret,
	struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	const char *container;
	char path[300];
	json_t *j = NULL;
	int r = open_for(kind, c, &e, &container, err);

	if (r < 0)
		return r;
	/* one-shot: or it looks twice, a second apart */
	(void)snprintf(path, sizeof path, "/containers/%s/stats?stream=false&one-shot=true",
		container);
	r = engine_get(e, path, &j, err);
	if (r == -ENOENT)
		return cell_fail(err, CELL_EGONE, 0, "the container '%s' is gone", container);
	if (r == 0)
		read_stats(j, ret);
	json_decref(j);
	return r;
}

/* --- snapshots --- */

/* The container runs in /, whatever its image says: what that was is kept in a label. */
const char *engine_image_cwd(const json_t *image)
{
	const json_t *config = json_object_get(image, "Config");
	const char *kept = json_string_value(at(config, "Labels", ENGINE_CWD_LABEL));

	return kept ? kept : json_string_value(json_object_get(config, "WorkingDir"));
}

static int add_change(struct buf *path, const char *what, const json_t *value)
{
	auto_free char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
	int r = value && !text ? -ENOMEM : buf_addz(path, "&changes=");

	if (r == 0)
		r = engine_escape(path, what);
	return r == 0 && text ? engine_escape(path, text) : r;
}

static int commit_path(struct engine *e, const struct cell *c, const char *container,
	const char *id, struct buf *ret, struct cell_error *err)
{
	char path[300];
	json_t *image = NULL, *cwd = NULL, *none = json_array();

	(void)snprintf(path, sizeof path, "/images/%s/json", cell_note(c, "image"));
	int r = engine_get(e, path, &image, err);
	if (r < 0 && r != -ENOENT) {
		json_decref(none);
		return r;
	}
	cwd = json_string(image && engine_image_cwd(image) ? engine_image_cwd(image) : "");
	/* standing still meanwhile, where it can */
	r = buf_addf(ret, "/commit?container=%s&repo=" ENGINE_SNAPSHOTS "&tag=%s&pause=%s",
		container, id, cell_supports(c, CELL_CAP_PAUSE) ? "true" : "false");
	if (r == 0)
		r = add_change(ret, "ENTRYPOINT ", none);
	if (r == 0)
		r = add_change(ret, "LABEL " ENGINE_CWD_LABEL "=", cwd);
	json_decref(image);
	json_decref(cwd);
	json_decref(none);
	return r < 0 ? cell_fail_errno(err, ENOMEM, "save the container") : 0;
}

/* An engine writes holes down as zeros: a file that took no space takes all of its length. So it is asked what all files of the
 * container have together before it is asked to save them. */
static int check_size(struct engine *e, const char *container, struct cell_error *err)
{
	char path[300];
	json_t *j = NULL;

	(void)snprintf(path, sizeof path, "/containers/%s/json?size=true", container);
	int r = engine_get(e, path, &j, err);
	if (r < 0)
		return r == -ENOENT ? cell_fail(err, CELL_EGONE, 0, "the container '%s' is gone",
					      container)
				    : r;
	uint64_t bytes = number(json_object_get(j, "SizeRw"));
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

int engine_snapshot(const struct engine_kind *kind, struct cell *c, const char *id,
	unsigned *ret_apart, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	auto_buf struct buf path = BUF_INIT(4096);
	auto_buf struct buf text = {0};
	const char *container;
	int r = open_for(kind, c, &e, &container, err);

	if (r == 0)
		r = check_size(e, container, err);
	if (r == 0)
		r = commit_path(e, c, container, id, &path, err);
	if (r < 0)
		return r;
	struct engine_request rq = {.method = "POST",
		.path = buf_str(&path),
		.body = "{}",
		.body_len = 2,
		.timeout_ms = SAVE_TIMEOUT_MS};
	int status = engine_send(e, &rq, &text, err);
	if (status < 0)
		return status;
	if (status != 201 && status != 200)
		return engine_refused(e, status, &text, err, "save the container");
	*ret_apart = CELL_APART_WORKSPACE | CELL_APART_HOME; /* in memory: no image has them */
	return 0;
}

static int remove_image(struct engine *e, const char *image, struct cell_error *err)
{
	auto_buf struct buf text = {0};
	char path[200];

	(void)snprintf(path, sizeof path, "/images/%.150s", image);
	struct engine_request rq = {.method = "DELETE", .path = path};
	int status = engine_send(e, &rq, &text, err);
	if (status < 0 || status / 100 == 2 || status == 404)
		return status < 0 ? status : 0;
	int r = engine_refused(e, status, &text, err, "remove the snapshot's image");
	return status == 409
		       ? cell_error_hint(err, r, "cells made from it are there: remove them first")
		       : r;
}

int engine_forget(const struct engine_kind *kind, struct cell *c, const char *id,
	struct cell_error *err)
{
	auto_engine struct engine *e = NULL;
	char image[120];
	int r = engine_open(kind, c, &e, err);

	(void)snprintf(image, sizeof image, ENGINE_SNAPSHOTS ":%.64s", id);
	return r < 0 ? r : remove_image(e, image, err);
}

/* --- what nobody knows any more --- */

/* Those with our mark: containers, or images, which have it from the container they were made of. */
static int list_marked(struct engine *e, const char *what, const char *state_id, json_t **ret)
{
	auto_buf struct buf path = BUF_INIT(1024);
	char filter[200];

	(void)snprintf(filter, sizeof filter, "{\"label\":[\"" ENGINE_STATE_LABEL "=%s\"]}",
		state_id);
	return buf_addf(&path, "/%s/json?all=1&filters=", what) < 0 ||
			       engine_escape(&path, filter) < 0
		       ? -ENOMEM
		       : engine_get(e, buf_str(&path), ret, NULL);
}

static int sweep_containers(struct engine *e, const struct cell_sweep *s)
{
	json_t *list = NULL;
	const json_t *one;
	size_t i;
	int n = 0;

	(void)list_marked(e, "containers", s->state_id, &list);
	json_array_foreach (list, i, one) {
		const char *cell = json_string_value(at(one, "Labels", "cell.name"));
		const char *name =
			json_string_value(json_array_get(json_object_get(one, "Names"), 0));
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
	static const char ours[] = ENGINE_SNAPSHOTS ":";
	json_t *list = NULL;
	const json_t *one, *tag;
	size_t i, k;

	(void)list_marked(e, "images", s->state_id, &list);
	json_array_foreach (list, i, one)
		json_array_foreach (json_object_get(one, "RepoTags"), k, tag) {
			const char *name = json_string_value(tag);
			if (name && !strncmp(name, ours, sizeof ours - 1) &&
				!s->is_saved(s, name + sizeof ours - 1))
				(void)remove_image(e, name, NULL);
		}
	json_decref(list);
}

int engine_sweep(const struct engine_kind *kind, const struct cell_sweep *s, struct cell_error *err)
{
	auto_engine struct engine *e = NULL;

	if (engine_open(kind, NULL, &e, err) < 0)
		return 0;
	int n = sweep_containers(e, s);
	sweep_images(e, s);
	return n;
}
