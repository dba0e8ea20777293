/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: an image in containerd's store is a name for a manifest; its layers become snapshots when they are unpacked, each named by
 * the digests of all up to it. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "backends/containerd/ctd.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/container_image.h"
#include "distribution/reference.h"
#include "net/protobuf.h"

#define MAX_INDEX_DEPTH 3

void ctd_image_done(struct ctd_image *i)
{
	buf_done(&i->manifest);
	oci_config_done(&i->config);
}

/* ---- its name ---- */

/* -ENOENT, and *err left as it is: it has none of that name. */
static int look_up(struct ctd *d, const char *name, struct ctd_image *i, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(4096), answer = BUF_INIT(65536);
	struct pb_field image, target;

	if (pb_add_str(&request, 1, name) < 0)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "the image's name");
	int r = ctd_try(d, "images.v1.Images/Get", &request, &answer, "look for the image", -ENOENT,
		err);
	if (r < 0)
		return r;
	if (!pb_find(answer.data, answer.len, 1, &image) ||
		!pb_find(image.data, image.size, 3, &target))
		return cell_fail(err, CELL_EPROTOCOL, 0, "image '%.200s' stands for nothing", name);
	pb_find_str(target.data, target.size, 2, i->target, sizeof i->target);
	(void)snprintf(i->name, sizeof i->name, "%s", name);
	return 0;
}

/* As containerd's other users write it: docker.io/library/python:3.12 */
static void full_name(const struct reference *ref, bool with_digest, char ret[CTD_NAME_MAX])
{
	bool is_digest = with_digest && *ref->digest;

	(void)snprintf(ret, CTD_NAME_MAX, "%s/%s%s%s%s%s", ref->host, ref->path,
		*ref->tag ? ":" : "", ref->tag, is_digest ? "@sha256:" : "",
		is_digest ? ref->digest : "");
}

/* As it is written, in full, and when a digest is asked for, what has the name without it and is that. */
static int find(struct ctd *d, const char *text, const struct reference *ref, struct ctd_image *i,
	struct cell_error *err)
{
	char name[CTD_NAME_MAX];
	int r = look_up(d, text, i, err);

	full_name(ref, true, name);
	if (r == -ENOENT && strcmp(name, text) != 0)
		r = look_up(d, name, i, err);
	if (r == -ENOENT && *ref->digest && *ref->tag) {
		full_name(ref, false, name);
		r = look_up(d, name, i, err);
		if (r == 0 && strcmp(i->target + 7, ref->digest) != 0)
			r = -ENOENT;
	}
	return r;
}

struct wanted {
	struct ctd *d;
	struct ctd_image *i;
};

/* container_images.pull */
static int pull(void *user, const struct cell_spec *spec, struct cell_error *err)
{
	const struct wanted *w = user;
	struct reference ref;
	char name[CTD_NAME_MAX];
	int r = reference_parse(spec->image, &ref, err);

	if (r == 0)
		r = ctd_lease(w->d, err);
	if (r < 0)
		return r;
	full_name(&ref, true, name);
	r = ctd_pull(w->d, &ref, name, err);
	if (r == 0) {
		r = look_up(w->d, name, w->i, err);
		if (r == -ENOENT)
			r = cell_fail(err, CELL_ENOTFOUND, 0, "it is gone again");
	}
	ctd_lease_end(w->d);
	return r < 0 ? cell_error_prefix(err, r, "pull image '%.200s'", spec->image) : 1;
}

/* container_images.find */
static int find_any(void *user, const char *text, struct cell_error *err)
{
	const struct wanted *w = user;
	struct reference ref;

	if (digest_parse(text)) {
		(void)snprintf(w->i->target, sizeof w->i->target, "%s", text);
		return 0;
	}
	int r = reference_parse(text, &ref, err);
	return r < 0 ? r : find(w->d, text, &ref, w->i, err);
}

/* ---- what it is ---- */

static bool is_index(const struct buf *text)
{
	json_t *root = json_loadb((const char *)text->data, text->len, 0, NULL);
	bool has_list = json_is_array(json_object_get(root, "manifests"));

	json_decref(root);
	return has_list;
}

static int read_manifest(struct ctd *d, struct ctd_image *i, struct cell_error *err)
{
	const char *hex = digest_parse(i->target);
	struct oci_blob next;

	if (!hex)
		return cell_fail(err, CELL_ENOTSUP, 0, "its digest '%.80s' is of another kind",
			i->target);
	for (int depth = 0;; depth++) {
		bool is_again;

		(void)snprintf(i->digest, sizeof i->digest, "sha256:%s", hex);
		buf_reset(&i->manifest);
		int r = ctd_content(d, hex, &i->manifest, err);
		if (r < 0 || !is_index(&i->manifest))
			return r;
		if (depth == MAX_INDEX_DEPTH)
			return cell_fail(err, CELL_EINVAL, 0,
				"its indexes lie too deep in each other");
		r = oci_index_parse(buf_str(&i->manifest), i->manifest.len, &next, &is_again, err);
		if (r < 0)
			return r;
		hex = next.hex;
	}
}

/* chain(n) = sha256(chain(n - 1) + " " + layer n) */
static void add_to_chain(char chain[CTD_DIGEST], const char *layer)
{
	struct digest sum;
	char text[2 * CTD_DIGEST + 2], hex[DIGEST_HEX + 1];

	if (!*chain) {
		(void)snprintf(chain, CTD_DIGEST, "sha256:%s", layer);
		return;
	}
	int n = snprintf(text, sizeof text, "%s sha256:%s", chain, layer);
	digest_init(&sum);
	digest_add(&sum, text, (size_t)n);
	digest_hex(&sum, hex);
	(void)snprintf(chain, CTD_DIGEST, "sha256:%s", hex);
}

static int read_config(struct ctd *d, struct ctd_image *i, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(CTD_TEXT_MAX);
	__attribute__((cleanup(oci_manifest_done))) struct oci_manifest m = {0};
	int r = oci_manifest_parse(buf_str(&i->manifest), i->manifest.len, &m, err);

	if (r == 0)
		r = ctd_content(d, m.config.hex, &text, err);
	if (r == 0)
		r = oci_config_parse(buf_str(&text), text.len, &i->config, err);
	if (r == 0 && (i->config.n_layers != m.n_layers || m.n_layers == 0))
		r = cell_fail(err, CELL_EINVAL, 0,
			"its manifest has %zu layers, its configuration %zu", m.n_layers,
			i->config.n_layers);
	for (size_t k = 0; r == 0 && k < i->config.n_layers; k++)
		add_to_chain(i->chain, i->config.layers[k]);
	return r;
}

int ctd_image_get(struct ctd *d, const struct cell_spec *spec, struct ctd_image *ret,
	struct cell_error *err)
{
	char fix[260];
	struct wanted w = {d, ret};
	const struct container_images images = {.backend = "containerd",
		.owner = "containerd",
		.fix = fix,
		.find = find_any,
		.pull = pull,
		.user = &w};

	(void)snprintf(fix, sizeof fix,
		"its namespace '%s' has not: pull it, set pull: missing, or load it: ctr -n %s "
		"images import FILE",
		d->space, d->space);
	int r = container_image(spec, &images, err);
	if (r < 0)
		return r;
	r = read_manifest(d, ret, err);
	if (r == -ENOENT && !*ret->name)
		return container_image_missing(&images, spec->image, err);
	if (r == 0)
		r = read_config(d, ret, err);
	return r < 0 ? cell_error_prefix(err, r, "image '%.200s'",
			       spec->from ? ret->name : spec->image)
		     : 0;
}

/* ---- its layers ---- */

static bool has_snapshot(struct ctd *d, const char *name)
{
	auto_buf struct buf request = BUF_INIT(1024);

	return pb_add_str(&request, 1, d->snapshotter) == 0 && pb_add_str(&request, 2, name) == 0 &&
	       ctd_call(d, "snapshots.v1.Snapshots/Stat", &request, NULL, "look for a layer",
		       NULL) == 0;
}

/* The layer's blob onto these mounts. What it is, containerd takes from the manifest's word for it. */
static int apply(struct ctd *d, const json_t *layer, const struct buf *mounts,
	struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(65536), descriptor = BUF_INIT(1024);
	struct pb_reader r = pb_read(mounts->data, mounts->len);
	struct pb_field f;
	int rc = pb_add_str(&descriptor, 1, json_string_value(json_object_get(layer, "mediaType")));

	if (rc == 0)
		rc = pb_add_str(&descriptor, 2,
			json_string_value(json_object_get(layer, "digest")));
	if (rc == 0)
		rc = pb_add_uint(&descriptor, 3,
			(uint64_t)json_integer_value(json_object_get(layer, "size")));
	if (rc == 0)
		rc = pb_add_message(&request, 1, &descriptor);
	while (rc == 0 && pb_next(&r, &f))
		if (f.number == 1)
			rc = pb_add_bytes(&request, 2, f.data, f.size);
	if (rc < 0)
		return cell_fail_errno(err, -rc, "unpack a layer");
	return ctd_call(d, "diff.v1.Diff/Apply", &request, NULL, "unpack a layer", err);
}

static int commit(struct ctd *d, const char *key, const char *name, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(1024);

	if (pb_add_str(&request, 1, d->snapshotter) < 0 || pb_add_str(&request, 2, name) < 0 ||
		pb_add_str(&request, 3, key) < 0)
		return cell_fail_errno(err, ENOMEM, "unpack a layer");
	return ctd_try(d, "snapshots.v1.Snapshots/Commit", &request, NULL, "keep a layer", -EEXIST,
		err);
}

static int unpack_layer(struct ctd *d, const json_t *layer, const char *parent, const char *name,
	struct cell_error *err)
{
	auto_buf struct buf mounts = BUF_INIT(65536);
	uint64_t number;
	char key[64];

	if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
		return cell_fail_errno(err, errno, "choose a name");
	(void)snprintf(key, sizeof key, "cell-layer-%016" PRIx64, number);
	int r = ctd_prepare(d, key, parent, NULL, &mounts, err);
	if (r < 0)
		return r == -ENOENT ? cell_fail(err, CELL_EBACKEND, 0,
					      "a layer of the image is gone again")
				    : r;
	r = apply(d, layer, &mounts, err);
	if (r == 0)
		r = commit(d, key, name, err);
	if (r < 0)
		(void)ctd_remove_snapshot(d, key, NULL);
	return r == -EEXIST ? 0 : r; /* somebody else was unpacking it, too */
}

static int unpack_layers(struct ctd *d, const struct ctd_image *i, const json_t *manifest,
	struct cell_error *err)
{
	char chain[CTD_DIGEST] = "", parent[CTD_DIGEST] = "", key[200];
	const char *config =
		digest_parse(json_string_value(json_object_get(json_object_get(manifest, "config"),
			"digest")));
	int r = 0;

	for (size_t k = 0; r == 0 && k < i->config.n_layers; k++) {
		memcpy(parent, chain, sizeof parent);
		add_to_chain(chain, i->config.layers[k]);
		if (!has_snapshot(d, chain))
			r = unpack_layer(d, json_array_get(json_object_get(manifest, "layers"), k),
				parent, chain, err);
	}
	/* as long as the image is there, so are they */
	(void)snprintf(key, sizeof key, "containerd.io/gc.ref.snapshot.%s", d->snapshotter);
	const struct ctd_label label = {key, i->chain};
	return r < 0 ? r : ctd_label_content(d, config, &label, err);
}

int ctd_image_unpack(struct ctd *d, const struct ctd_image *i, struct cell_error *err)
{
	json_t *manifest = json_loadb((const char *)i->manifest.data, i->manifest.len, 0, NULL);
	int r = ctd_lease(d, err);

	if (r == 0) {
		r = unpack_layers(d, i, manifest, err);
		ctd_lease_end(d);
	}
	json_decref(manifest);
	return r;
}
