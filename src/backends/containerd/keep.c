/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c: what is done to a container besides making and removing it: let it stand still, count what it uses, save it as an image. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cell/cell.h"

#include "backends/containerd/ctd.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/json_at.h"
#include "net/protobuf.h"

#define PAUSE_TRIES 20
#define LAYER_TYPE  "application/vnd.oci.image.layer.v1.tar"

/* ---- standing still ---- */

bool ctd_is_paused(struct ctd *d, const char *id)
{
	enum {
		PAUSED = 4
	};
	auto_buf struct buf answer = BUF_INIT(65536);
	struct pb_field process, status = {0};

	if (ctd_about(d, "tasks.v1.Tasks/Get", id, &answer, "ask for the task", NULL) == 0 &&
		pb_find(answer.data, answer.len, 1, &process))
		(void)pb_find(process.data, process.size, 4, &status);
	return status.value == PAUSED;
}

/* Processes that run all the time slip through a runtime's fingers now and then, on cgroup v1: it gives up and says so. */
static int set_paused(struct ctd *d, const char *id, bool is_on, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = 20 * 1000000};
	struct cell_error why;
	int r = 0;

	for (int tries = 0; tries < PAUSE_TRIES && !d->is_broken; tries++) {
		r = ctd_about(d, is_on ? "tasks.v1.Tasks/Pause" : "tasks.v1.Tasks/Resume", id, NULL,
			is_on ? "pause the task" : "resume the task", &why);
		if (r == 0 || ctd_is_paused(d, id) == is_on)
			return 0;
		if (r == -ENOENT)
			return container_gone(id, err);
		(void)nanosleep(&pause, NULL);
	}
	if (err)
		*err = why;
	return r;
}

static int pause_one(void *at, const char *id, bool is_on, struct cell_error *err)
{
	return ctd_is_paused(at, id) == is_on ? 0 : set_paused(at, id, is_on, err);
}

/* ---- what it uses ---- */

/* The number at the end of a path of fields; 0 when there is none. */
static uint64_t number_at(const void *p, size_t n, const unsigned *path)
{
	struct pb_field f = {.data = p, .size = n};

	for (; *path; path++)
		if (!pb_find(f.data, f.size, *path, &f))
			return 0;
	return f.value;
}
#define AT(f, ...) number_at((f)->data, (f)->size, (const unsigned[]){__VA_ARGS__, 0})

/* io.containerd.cgroups.v1.Metrics */
static void read_first(const struct pb_field *m, struct cell_stats *ret)
{
	uint64_t used = AT(m, 4, 33, 2), cache = AT(m, 4, 30);
	struct pb_field blkio, f;

	ret->processes = (uint32_t)AT(m, 2, 1);
	ret->cpu_ns = AT(m, 3, 1, 1);
	ret->memory_bytes = used > cache ? used - cache : 0;
	ret->memory_limit_bytes = AT(m, 4, 33, 1);
	if (!pb_find(m->data, m->size, 5, &blkio))
		return;
	struct pb_reader r = pb_read(blkio.data, blkio.size);
	while (pb_next(&r, &f)) {
		char op[8];

		if (f.number != 1)
			continue;
		pb_find_str(f.data, f.size, 1, op, sizeof op);
		if (!strcasecmp(op, "read"))
			ret->disk_read_bytes += AT(&f, 5);
		else if (!strcasecmp(op, "write"))
			ret->disk_written_bytes += AT(&f, 5);
	}
}

/* io.containerd.cgroups.v2.Metrics */
static void read_second(const struct pb_field *m, struct cell_stats *ret)
{
	uint64_t used = AT(m, 4, 32), cache = AT(m, 4, 13);
	struct pb_field io, f;

	ret->processes = (uint32_t)AT(m, 1, 1);
	ret->cpu_ns = AT(m, 2, 1) * 1000;
	ret->memory_bytes = used > cache ? used - cache : 0;
	ret->memory_limit_bytes = AT(m, 4, 33);
	if (!pb_find(m->data, m->size, 6, &io))
		return;
	struct pb_reader r = pb_read(io.data, io.size);
	while (pb_next(&r, &f)) {
		if (f.number != 1)
			continue;
		ret->disk_read_bytes += AT(&f, 3);
		ret->disk_written_bytes += AT(&f, 4);
	}
}

static int count(void *at, const char *id, struct cell_stats *ret, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(1024), answer = BUF_INIT(CTD_TEXT_MAX);
	struct pb_field metric, any, m;
	char filter[200], type[80];

	(void)snprintf(filter, sizeof filter, "id==%s", id);
	if (pb_add_str(&request, 1, filter) < 0)
		return cell_fail_errno(err, ENOMEM, "count");
	int r = ctd_call(at, "tasks.v1.Tasks/Metrics", &request, &answer, "count", err);
	if (r < 0)
		return r;
	if (!pb_find(answer.data, answer.len, 1, &metric) ||
		!pb_find(metric.data, metric.size, 3, &any) || !pb_find(any.data, any.size, 2, &m))
		return -ENOENT;
	pb_find_str(any.data, any.size, 1, type, sizeof type);
	if (strstr(type, "cgroups.v2"))
		read_second(&m, ret);
	else
		read_first(&m, ret);
	return 0;
}

/* ---- snapshots ---- */

struct layer {
	char digest[CTD_DIGEST];
	uint64_t size;
};

static int add_mounts(struct buf *request, unsigned field, const struct buf *mounts)
{
	struct pb_reader r = pb_read(mounts->data, mounts->len);
	struct pb_field f;
	int rc = 0;

	while (rc == 0 && pb_next(&r, &f))
		if (f.number == 1)
			rc = pb_add_bytes(request, field, f.data, f.size);
	return rc;
}

static int snapshot_call(struct ctd *d, const char *method, const char *key, const char *parent,
	struct buf *ret, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(4096);

	if (pb_add_str(&request, 1, d->snapshotter) < 0 || pb_add_str(&request, 2, key) < 0 ||
		pb_add_str(&request, 3, parent) < 0)
		return cell_fail_errno(err, ENOMEM, "save the container");
	return ctd_call(d, method, &request, ret, "save the container", err);
}

/* What the container has and its image has not, as a layer. Not compressed: then its two digests are one. */
static int take_layer(struct ctd *d, const char *container, const char *parent, struct layer *ret,
	struct cell_error *err)
{
	auto_buf struct buf left = BUF_INIT(65536), right = BUF_INIT(65536),
			    request = BUF_INIT(262144), answer = BUF_INIT(65536);
	struct pb_field descriptor, size = {0};
	char view[200];

	(void)snprintf(view, sizeof view, "%.150s-saved", container);
	int r = snapshot_call(d, "snapshots.v1.Snapshots/View", view, parent, &left, err);
	if (r < 0)
		return r;
	r = snapshot_call(d, "snapshots.v1.Snapshots/Mounts", container, NULL, &right, err);
	if (r == 0 && (add_mounts(&request, 1, &left) < 0 || add_mounts(&request, 2, &right) < 0 ||
			      pb_add_str(&request, 3, LAYER_TYPE) < 0 ||
			      pb_add_str(&request, 4, view) < 0))
		r = cell_fail_errno(err, ENOMEM, "save the container");
	if (r == 0)
		r = ctd_call(d, "diff.v1.Diff/Diff", &request, &answer, "save the container", err);
	(void)ctd_remove_snapshot(d, view, NULL);
	if (r < 0)
		return r;
	if (!pb_find(answer.data, answer.len, 3, &descriptor))
		return cell_fail(err, CELL_EPROTOCOL, 0, "save the container: nothing came of it");
	pb_find_str(descriptor.data, descriptor.size, 2, ret->digest, sizeof ret->digest);
	(void)pb_find(descriptor.data, descriptor.size, 3, &size);
	ret->size = size.value;
	return 0;
}

static int put_json(struct ctd *d, const json_t *j, const struct ctd_label *labels,
	char hex[DIGEST_HEX + 1], size_t *ret_size, struct cell_error *err)
{
	auto_free char *text = json_dumps(j, JSON_COMPACT);
	struct digest sum;

	if (!text)
		return cell_fail_errno(err, ENOMEM, "save the container");
	struct buf b = {.data = (uint8_t *)text, .len = strlen(text)};
	digest_init(&sum);
	digest_add(&sum, b.data, b.len);
	digest_hex(&sum, hex);
	*ret_size = b.len;
	return ctd_put_text(d, hex, &b, labels, err);
}

/* The image with this layer upon it. */
static int put_image(struct ctd *d, json_t *manifest, json_t *config, const struct layer *layer,
	const char *name, struct cell_error *err)
{
	json_t *layers = json_object_get(manifest, "layers"), *one;
	json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
	char hex[DIGEST_HEX + 1], digest[CTD_DIGEST];
	size_t size, i, n = 0;

	json_array_append_new(ids, json_string(layer->digest));
	json_object_del(config, "history"); /* which would have to tell of this layer, too */
	json_array_append_new(layers, json_pack("{s:s,s:s,s:I}", "mediaType", LAYER_TYPE, "digest",
					      layer->digest, "size", (json_int_t)layer->size));
	int r = put_json(d, config, NULL, hex, &size, err);
	if (r < 0)
		return r;
	(void)snprintf(digest, sizeof digest, "sha256:%s", hex);
	json_t *descriptor = json_object_get(manifest, "config");
	json_object_set_new(descriptor, "digest", json_string(digest));
	json_object_set_new(descriptor, "size", json_integer((json_int_t)size));
	struct part {
		char key[48];
	};
	auto_free struct part *parts = calloc(json_array_size(layers) + 1, sizeof *parts);
	auto_free struct ctd_label *labels = calloc(json_array_size(layers) + 2, sizeof *labels);
	if (!parts || !labels)
		return cell_fail_errno(err, ENOMEM, "save the container");
	json_array_foreach (layers, i, one) {
		(void)snprintf(parts[n].key, sizeof parts[n].key,
			"containerd.io/gc.ref.content.%zu", n);
		labels[n] = (struct ctd_label){
			parts[n].key, json_string_value(json_object_get(one, "digest"))};
		n++;
	}
	labels[n] = (struct ctd_label){"containerd.io/gc.ref.content.config", digest};
	r = put_json(d, manifest, labels, hex, &size, err);
	const struct ctd_label whose[] = {{CONTAINER_LABEL_STATE, d->state}, {0}};
	return r < 0 ? r : ctd_name_image(d, name, whose, hex, size, false, err);
}

static int save(struct ctd *d, struct cell *c, const char *container, const char *id,
	struct cell_error *err)
{
	auto_ctd_image struct ctd_image image = CTD_IMAGE_INIT;
	auto_buf struct buf text = BUF_INIT(CTD_TEXT_MAX);
	const struct cell_spec spec = {.image = cell_note(c, "image"), .pull = CELL_PULL_NEVER};
	char name[CONTAINER_SNAPSHOT_SIZE];
	struct layer layer = {0};
	int r = ctd_image_get(d, &spec, &image, err);

	if (r < 0)
		return r;
	container_snapshot(id, name);
	json_t *manifest =
		json_loadb((const char *)image.manifest.data, image.manifest.len, 0, NULL);
	const char *hex = json_text_at(manifest, "config/digest");
	r = hex && digest_parse(hex)
		    ? ctd_content(d, digest_parse(hex), &text, err)
		    : cell_fail(err, CELL_EPROTOCOL, 0, "the image has no configuration");
	json_t *config = r == 0 ? json_loadb((const char *)text.data, text.len, 0, NULL) : NULL;
	if (r == 0)
		r = take_layer(d, container, image.chain, &layer, err);
	if (r == 0)
		r = put_image(d, manifest, config, &layer, name, err);
	json_decref(config);
	json_decref(manifest);
	return r;
}

static int note_saving(struct cell *c, bool is_on, struct cell_error *err)
{
	int r = cell_note_set_int(c, CTD_NOTE_SAVING, is_on, err);

	return r < 0 ? r : cell_note_save(c, err);
}

/* Who died may have asked for the pause a moment before: it is waited for. */
int ctd_let_go_on(struct cell *c, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = 20 * 1000000};
	auto_ctd void *d = NULL;
	const char *id;
	int r = container_reach(c, &d, &id, err);

	for (int i = 0; r == 0 && i < 50; i++) {
		if (ctd_is_paused(d, id)) {
			r = set_paused(d, id, false, err);
			break;
		}
		(void)nanosleep(&pause, NULL);
	}
	if (r == 0)
		(void)note_saving(c, false, NULL);
	return r;
}

/* It stands still meanwhile, so that its files are those of one moment. Who dies here has noted it: whoever opens the cell next lets it
 * go on. */
int ctd_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err)
{
	auto_ctd void *at = NULL;
	const char *container;
	int r = container_reach(c, &at, &container, err);
	struct ctd *d = at;

	if (r < 0)
		return r;
	bool was_paused = ctd_is_paused(d, container);
	if (!was_paused)
		r = note_saving(c, true, err);
	if (!was_paused && r == 0)
		r = set_paused(d, container, true, err);
	if (r == 0)
		r = cell_state_id(c, d->state, err);
	if (r == 0)
		r = ctd_lease(d, err);
	if (r == 0) {
		r = save(d, c, container, id, err);
		ctd_lease_end(d);
	}
	if (!was_paused && container_pause(c, false, r < 0 ? NULL : err) == 0)
		(void)note_saving(c, false, NULL);
	*ret_apart = CELL_APART_WORKSPACE | CELL_APART_HOME; /* in memory: no image has them */
	return r;
}

/* They would go on, but what they were made of could not be told any more. */
static int refuse_used(struct ctd *d, const char *name, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(2048), answer = BUF_INIT(CTD_TEXT_MAX);
	char filter[CTD_NAME_MAX + 16];

	(void)snprintf(filter, sizeof filter, "image==\"%s\"", name);
	if (pb_add_str(&request, 1, filter) < 0)
		return cell_fail_errno(err, ENOMEM, "remove the snapshot");
	int r = ctd_call(d, "containers.v1.Containers/List", &request, &answer,
		"look for cells of the snapshot", err);
	if (r < 0 || answer.len == 0)
		return r;
	r = cell_fail(err, CELL_EBUSY, 0, "remove the snapshot's image: it is in use");
	return cell_error_hint(err, r, "cells made from it are there: remove them first");
}

static int remove_image(void *at, const char *name, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(2048);
	int r = refuse_used(at, name, err);

	if (r < 0)
		return r;
	if (pb_add_str(&request, 1, name) < 0 || pb_add_uint(&request, 2, 1) < 0)
		return cell_fail_errno(err, ENOMEM, "remove the snapshot");
	r = ctd_try(at, "images.v1.Images/Delete", &request, NULL, "remove the snapshot's image",
		-ENOENT, err);
	return r == -ENOENT ? 0 : r;
}

static int remove_container(void *at, const char *id, struct cell_error *err)
{
	return ctd_container_remove(at, id, false, err);
}

const struct container_engine ctd_calls = {
	.open = ctd_open,
	.close = ctd_close,
	.start = ctd_container_start,
	.runs = ctd_container_runs,
	.remove = remove_container,
	.pause = pause_one,
	.stats = count,
	.remove_image = remove_image,
	.list = ctd_list,
};
