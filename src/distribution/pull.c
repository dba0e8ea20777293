/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c: what is fetched becomes an OCI layout in the store's own tmp/, blob by blob, each checked as it
 * comes; then it is imported like any other layout. Layers the store has are not fetched.
 */
#include "distribution/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/image/image_store.h"
#include "core/image/oci.h"
#include "core/remove_tree.h"

#define MAX_INDEX_DEPTH 3

struct pull {
	const struct pull_options *o;
	struct pulled *ret;
	struct registry *registry;
	struct image_store store;
	int dir_fd, blobs_fd; /* the layout */
	uint64_t total;
	struct cell_error *err;
};

static void hex_of(const void *p, size_t n, char hex[DIGEST_HEX + 1])
{
	struct digest d;

	digest_init(&d);
	digest_add(&d, p, n);
	digest_hex(&d, hex);
}

static int write_file(struct pull *p, int dir_fd, const char *name, const void *bytes, size_t n)
{
	auto_fd int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		return cell_fail_errno(p->err, fd < 0 || errno ? errno : ENOSPC, "keep '%s'", name);
	return 0;
}

/* ---- blobs ---- */

struct blob {
	struct pull *p;
	const struct oci_blob *want;
	struct digest digest;
	uint64_t bytes;
	int fd;
};

static int take_piece(void *arg, const void *bytes, size_t n)
{
	struct blob *b = arg;

	if (n > b->want->size - b->bytes)
		return -EFBIG;
	digest_add(&b->digest, bytes, n);
	for (size_t at = 0; at < n;) {
		ssize_t w = write(b->fd, (const char *)bytes + at, n - at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -ENOSPC;
		at += (size_t)w;
	}
	b->bytes += n;
	b->p->ret->bytes += n;
	if (b->p->o->progress)
		b->p->o->progress(b->p->o->arg, b->p->ret->bytes, b->p->total);
	return 0;
}

static int fetch_blob(struct pull *p, const struct oci_blob *want)
{
	struct blob b = {.p = p, .want = want};
	char hex[DIGEST_HEX + 1];

	auto_fd int fd =
		openat(p->blobs_fd, want->hex, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0; /* an image may have the same layer twice */
	if (fd < 0)
		return cell_fail_errno(p->err, errno, "keep a part of the image");
	b.fd = fd;
	digest_init(&b.digest);
	int r = registry_blob(p->registry, want->hex, take_piece, &b, p->err);
	if (r == -ENOSPC || r == -EDQUOT)
		return cell_error_hint(p->err,
			cell_fail(p->err, CELL_ENOSPACE, -r, "keep sha256:%.12s", want->hex),
			"`cell image prune` frees what no image needs; CELL_IMAGE_DIR says where "
			"images are kept");
	if (r < 0 && r != -EFBIG)
		return r;
	digest_hex(&b.digest, hex);
	if (r == 0 && b.bytes == want->size && !strcmp(hex, want->hex))
		return 0;
	return cell_error_hint(p->err,
		cell_fail(p->err, CELL_EPROTOCOL, 0,
			"what came as sha256:%.12s... is something else (%llu of %llu bytes%s)",
			want->hex, (unsigned long long)b.bytes, (unsigned long long)want->size,
			r < 0 ? ", and more" : ""),
		"it was damaged on its way or at its source; nothing of it was kept. Try again");
}

static int read_blob(struct pull *p, const struct oci_blob *b, struct buf *ret)
{
	if (b->size > OCI_MAX_JSON)
		return cell_fail(p->err, CELL_ELIMIT, 0, "the image's configuration is too large");
	int r = fetch_blob(p, b);
	if (r < 0)
		return r;
	auto_fd int fd = openat(p->blobs_fd, b->hex, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || buf_reserve(ret, (size_t)b->size + 1) < 0 ||
		read(fd, ret->data, (size_t)b->size) != (ssize_t)b->size)
		return cell_fail_errno(p->err, EIO, "read the image's configuration");
	ret->len = (size_t)b->size;
	ret->data[ret->len] = '\0';
	return 0;
}

/* ---- manifests ---- */

static int fetch_manifest(struct pull *p, const char *which, const char *hex, struct buf *text)
{
	char have[DIGEST_HEX + 1];

	buf_reset(text);
	int r = registry_manifest(p->registry, which, text, p->err);
	if (r < 0)
		return r;
	hex_of(text->data, text->len, have);
	if (*hex && strcmp(hex, have) != 0)
		return cell_error_hint(p->err,
			cell_fail(p->err, CELL_EPROTOCOL, 0,
				"the registry gave sha256:%.12s... for sha256:%.12s...", have, hex),
			"what it has is not what was asked for: do not use it");
	memcpy(p->ret->manifest, have, sizeof have);
	return write_file(p, p->blobs_fd, have, text->data, text->len);
}

/* An index lists manifests; anything else is taken for one, and refused as one when it is not. */
static bool is_index_text(const struct buf *text)
{
	json_t *root = json_loadb((const char *)text->data, text->len, 0, NULL);
	bool has_list = json_is_array(json_object_get(root, "manifests"));

	json_decref(root);
	return has_list;
}

static int find_manifest(struct pull *p, const struct reference *ref, struct buf *text)
{
	char which[DIGEST_HEX + 8];
	int r;

	if (*ref->digest) {
		(void)snprintf(which, sizeof which, "sha256:%s", ref->digest);
		r = fetch_manifest(p, which, ref->digest, text);
	} else {
		r = fetch_manifest(p, ref->tag, "", text);
	}
	for (int depth = 0; r == 0 && is_index_text(text); depth++) {
		struct oci_blob b;
		bool is_index;

		if (depth == MAX_INDEX_DEPTH)
			return cell_fail(p->err, CELL_EINVAL, 0,
				"its indexes lie too deep in each other");
		r = oci_index_parse(buf_str(text), text->len, &b, &is_index, p->err);
		if (r < 0)
			return r;
		(void)snprintf(which, sizeof which, "sha256:%s", b.hex);
		r = fetch_manifest(p, which, b.hex, text);
	}
	return r;
}

static bool has_layer(const struct pull *p, const char *hex)
{
	return faccessat(p->store.layers_fd, hex, F_OK, 0) == 0;
}

static int fetch_layers(struct pull *p, const struct oci_manifest *m)
{
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};
	auto_buf struct buf text = BUF_INIT(OCI_MAX_JSON + 1);

	int r = read_blob(p, &m->config, &text);
	if (r == 0)
		r = oci_config_parse(buf_str(&text), text.len, &c, p->err);
	if (r < 0)
		return r;
	p->ret->n_layers = m->n_layers;
	p->ret->bytes = 0;
	uint64_t limit = p->o->limits.max_bytes ? p->o->limits.max_bytes : UINT64_C(32) << 30;
	for (size_t i = 0; i < m->n_layers; i++) {
		if (i < c.n_layers && has_layer(p, c.layers[i]))
			continue;
		if (m->layers[i].size > limit - p->total)
			return cell_fail(p->err, CELL_ELIMIT, 0,
				"the image is larger than %llu bytes", (unsigned long long)limit);
		p->total += m->layers[i].size;
	}
	for (size_t i = 0; r == 0 && i < m->n_layers; i++) {
		if (i < c.n_layers && has_layer(p, c.layers[i]))
			continue;
		p->ret->n_fetched++;
		r = fetch_blob(p, &m->layers[i]);
	}
	return r;
}

static int write_index(struct pull *p, size_t manifest_len)
{
	static const char layout[] = "{\"imageLayoutVersion\": \"1.0.0\"}";
	char text[320];
	int n = snprintf(text, sizeof text,
		"{\"schemaVersion\": 2, \"manifests\": [{\"mediaType\": "
		"\"application/vnd.oci.image.manifest.v1+json\", \"digest\": \"sha256:%s\", "
		"\"size\": "
		"%zu}]}",
		p->ret->manifest, manifest_len);
	int r = write_file(p, p->dir_fd, "index.json", text, (size_t)n);

	return r < 0 ? r : write_file(p, p->dir_fd, "oci-layout", layout, sizeof layout - 1);
}

static int fill_layout(struct pull *p, const struct reference *ref)
{
	__attribute__((cleanup(oci_manifest_done))) struct oci_manifest m = {0};
	auto_buf struct buf text = BUF_INIT(OCI_MAX_JSON + 1);

	if (mkdirat(p->dir_fd, "blobs", 0700) < 0 || mkdirat(p->dir_fd, "blobs/sha256", 0700) < 0)
		return cell_fail_errno(p->err, errno, "keep an image");
	p->blobs_fd = openat(p->dir_fd, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->blobs_fd < 0)
		return cell_fail_errno(p->err, errno, "keep an image");
	int r = find_manifest(p, ref, &text);
	if (r == 0)
		r = oci_manifest_parse(buf_str(&text), text.len, &m, p->err);
	if (r == 0)
		r = fetch_layers(p, &m);
	return r < 0 ? r : write_index(p, text.len);
}

static int pull_into(struct pull *p, const struct reference *ref, const char *name)
{
	char tmp[64], *path = NULL;

	int r = image_store_open(&p->store, IMAGE_LOCK_SHARED, p->err);
	if (r < 0)
		return r;
	image_store_sweep(&p->store);
	p->dir_fd = image_store_tmp(&p->store, tmp, p->err);
	if (p->dir_fd < 0)
		return p->dir_fd;
	r = fill_layout(p, ref);
	if (r == 0 && asprintf(&path, "%s/tmp/%s", p->store.path, tmp) < 0)
		r = cell_fail_errno(p->err, ENOMEM, "keep an image");
	if (r == 0)
		r = cell_image_import(path, name, &p->o->limits, p->ret->image, p->err);
	free(path);
	(void)cell_remove_tree(p->store.tmp_fd, tmp, NULL);
	return r;
}

int image_pull(const char *reference, const struct pull_options *o, struct pulled *ret,
	struct cell_error *err)
{
	struct pull p = {.o = o,
		.ret = ret,
		.store = IMAGE_STORE_INIT,
		.dir_fd = -1,
		.blobs_fd = -1,
		.err = err};
	struct reference ref;

	*ret = (struct pulled){0};
	int r = reference_parse(reference, &ref, err);
	if (r == 0)
		r = registry_open(&ref, &o->registry, &p.registry, err);
	if (r == 0)
		r = pull_into(&p, &ref, reference);
	if (p.blobs_fd >= 0)
		close(p.blobs_fd);
	if (p.dir_fd >= 0)
		close(p.dir_fd);
	image_store_done(&p.store);
	registry_free(p.registry);
	return r;
}
