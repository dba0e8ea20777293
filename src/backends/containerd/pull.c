/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c: from a registry into containerd's store. We fetch, with the credentials of `docker login`; containerd checks every blob against
 * its digest before it keeps it. Labels say what belongs to what, or containerd would throw it away as nobody's.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "backends/containerd/ctd.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/image/image.h"
#include "distribution/registry.h"
#include "net/protobuf.h"

#define PIECE_BYTES	(1u << 20)
#define MAX_INDEX_DEPTH 3
#define MANIFEST_TYPE	"application/vnd.oci.image.manifest.v1+json"
#define INDEX_TYPE	"application/vnd.oci.image.index.v1+json"

enum {
	WRITE = 1,
	COMMIT = 2
};

/* ---- a blob ---- */

struct blob {
	struct ctd *d;
	const char *hex;
	uint64_t size;
	const struct ctd_label *labels;
	char ref[64]; /* while it is not whole */
	struct buf piece;
	uint64_t sent;
	struct cell_error *err;
};

static int send_piece(struct blob *b, unsigned action)
{
	auto_buf struct buf message = BUF_INIT(PIECE_BYTES + 65536);
	char digest[CTD_DIGEST];

	(void)snprintf(digest, sizeof digest, "sha256:%s", b->hex);
	int r = pb_add_uint(&message, 1, action);
	if (r == 0)
		r = pb_add_str(&message, 2, b->ref);
	if (r == 0 && action == COMMIT)
		r = pb_add_uint(&message, 3, b->size);
	if (r == 0 && action == COMMIT)
		r = pb_add_str(&message, 4, digest);
	if (r == 0)
		r = pb_add_uint(&message, 5, b->sent);
	if (r == 0)
		r = pb_add_bytes(&message, 6, b->piece.data, b->piece.len);
	if (r == 0 && action == COMMIT)
		r = ctd_add_labels(&message, 7, b->labels);
	if (r < 0)
		return cell_fail_errno(b->err, -r, "keep a part of the image");
	b->sent += b->piece.len;
	buf_reset(&b->piece);
	return grpc_send(b->d->rpc, &message, b->err);
}

/* registry_sink */
static int take(void *arg, const void *p, size_t n)
{
	struct blob *b = arg;

	if (n > b->size - b->sent - b->piece.len)
		return -EFBIG;
	for (const uint8_t *at = p; n > 0;) {
		size_t room = PIECE_BYTES - b->piece.len, k = n < room ? n : room;

		if (buf_add(&b->piece, at, k) < 0)
			return -ENOMEM;
		if (b->piece.len == PIECE_BYTES) {
			int r = send_piece(b, WRITE);
			if (r < 0)
				return r;
		}
		at += k;
		n -= k;
	}
	return 0;
}

static int begin(struct blob *b)
{
	uint64_t number;

	if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
		return cell_fail_errno(b->err, errno, "choose a name");
	(void)snprintf(b->ref, sizeof b->ref, "cell-%016" PRIx64, number);
	b->piece.max = PIECE_BYTES;
	return ctd_begin(b->d, "content.v1.Content/Write", b->err);
}

/* r: how it went until now. Nothing is left of one that is not whole. */
static int finish(struct blob *b, int r)
{
	auto_buf struct buf request = BUF_INIT(200);
	struct cell_error why;

	if (r == 0 && b->sent + b->piece.len != b->size)
		r = -EFBIG;
	if (r == -EFBIG)
		r = cell_error_hint(b->err,
			cell_fail(b->err, CELL_EPROTOCOL, 0,
				"what came as sha256:%.12s... has not the size it should have",
				b->hex),
			"it was damaged on its way or at its source; nothing of it was kept. Try "
			"again");
	if (r == 0)
		r = send_piece(b, COMMIT);
	int end = ctd_end(b->d, "keep a part of the image", &why);
	buf_done(&b->piece);
	if (r == 0 && end < 0 && end != -EEXIST) { /* another may have brought it meanwhile */
		r = end;
		if (b->err)
			*b->err = why;
	}
	if (r < 0 && pb_add_str(&request, 1, b->ref) == 0)
		(void)ctd_call(b->d, "content.v1.Content/Abort", &request, NULL, "forget a part",
			NULL);
	return r;
}

int ctd_put_text(struct ctd *d, const char *hex, const struct buf *text,
	const struct ctd_label *labels, struct cell_error *err)
{
	struct blob b = {.d = d, .hex = hex, .size = text->len, .labels = labels, .err = err};

	if (ctd_has_content(d, hex))
		return 0;
	int r = begin(&b);
	return r < 0 ? r : finish(&b, take(&b, text->data, text->len));
}

static int fetch(struct ctd *d, struct registry *from, const struct oci_blob *want,
	struct cell_error *err)
{
	struct blob b = {.d = d, .hex = want->hex, .size = want->size, .err = err};

	if (ctd_has_content(d, want->hex))
		return 0;
	int r = begin(&b);
	return r < 0 ? r : finish(&b, registry_blob(from, want->hex, take, &b, err));
}

/* ---- manifests ---- */

static int fetch_text(struct registry *from, const char *which, const char *want, struct buf *text,
	char hex[DIGEST_HEX + 1], struct cell_error *err)
{
	struct digest sum;

	buf_reset(text);
	int r = registry_manifest(from, which, text, err);
	if (r < 0)
		return r;
	digest_init(&sum);
	digest_add(&sum, text->data, text->len);
	digest_hex(&sum, hex);
	if (*want && strcmp(want, hex) != 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EPROTOCOL, 0,
				"the registry gave sha256:%.12s... for sha256:%.12s...", hex, want),
			"what it has is not what was asked for: do not use it");
	return 0;
}

/* The manifest names its configuration and layers; containerd is told with labels. */
static int keep_manifest(struct ctd *d, struct registry *from, const char *hex,
	const struct buf *text, struct cell_error *err)
{
	__attribute__((cleanup(oci_manifest_done))) struct oci_manifest m = {0};
	int r = oci_manifest_parse(buf_str(text), text->len, &m, err);

	if (r < 0)
		return r;
	struct part {
		char key[48], value[CTD_DIGEST];
	};
	auto_free struct part *parts = calloc(m.n_layers + 1, sizeof *parts);
	auto_free struct ctd_label *labels = calloc(m.n_layers + 2, sizeof *labels);
	if (!parts || !labels)
		return cell_fail_errno(err, ENOMEM, "keep the image");
	for (size_t k = 0; r == 0 && k <= m.n_layers; k++) {
		const struct oci_blob *b = k < m.n_layers ? &m.layers[k] : &m.config;

		(void)snprintf(parts[k].key, sizeof parts[k].key,
			"containerd.io/gc.ref.content.%zu", k);
		(void)snprintf(parts[k].value, sizeof parts[k].value, "sha256:%s", b->hex);
		labels[k] = (struct ctd_label){parts[k].key, parts[k].value};
		r = fetch(d, from, b, err);
	}
	return r < 0 ? r : ctd_put_text(d, hex, text, labels, err);
}

static bool is_index_text(const struct buf *text)
{
	json_t *root = json_loadb((const char *)text->data, text->len, 0, NULL);
	bool has_list = json_is_array(json_object_get(root, "manifests"));

	json_decref(root);
	return has_list;
}

/* Of an index only what is for this machine comes along. */
static int keep_tree(struct ctd *d, struct registry *from, const char *hex, const struct buf *text,
	int depth, struct cell_error *err)
{
	auto_buf struct buf below = BUF_INIT(OCI_MAX_JSON + 1);
	char which[CTD_DIGEST], have[DIGEST_HEX + 1];
	struct oci_blob b;
	bool is_index;

	if (!is_index_text(text))
		return keep_manifest(d, from, hex, text, err);
	if (depth == MAX_INDEX_DEPTH)
		return cell_fail(err, CELL_EINVAL, 0, "its indexes lie too deep in each other");
	int r = oci_index_parse(buf_str(text), text->len, &b, &is_index, err);
	if (r < 0)
		return r;
	(void)snprintf(which, sizeof which, "sha256:%s", b.hex);
	r = fetch_text(from, which, b.hex, &below, have, err);
	if (r == 0)
		r = keep_tree(d, from, have, &below, depth + 1, err);
	const struct ctd_label labels[] = {{"containerd.io/gc.ref.content.m.0", which}, {0}};
	return r < 0 ? r : ctd_put_text(d, hex, text, labels, err);
}

int ctd_name_image(struct ctd *d, const char *name, const struct ctd_label *labels, const char *hex,
	size_t size, bool is_index, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(8192), image = BUF_INIT(4096),
			    descriptor = BUF_INIT(1024);
	char digest[CTD_DIGEST];

	(void)snprintf(digest, sizeof digest, "sha256:%s", hex);
	if (pb_add_str(&descriptor, 1, is_index ? INDEX_TYPE : MANIFEST_TYPE) < 0 ||
		pb_add_str(&descriptor, 2, digest) < 0 || pb_add_uint(&descriptor, 3, size) < 0 ||
		pb_add_str(&image, 1, name) < 0 || ctd_add_labels(&image, 2, labels) < 0 ||
		pb_add_message(&image, 3, &descriptor) < 0 ||
		pb_add_message(&request, 1, &image) < 0)
		return cell_fail_errno(err, ENOMEM, "name the image");
	int r = ctd_try(d, "images.v1.Images/Create", &request, NULL, "name the image", -EEXIST,
		err);
	if (r == -EEXIST) /* it stands for this one from now on */
		r = ctd_call(d, "images.v1.Images/Update", &request, NULL, "name the image", err);
	return r;
}

int ctd_pull(struct ctd *d, const struct reference *ref, const char *name, struct cell_error *err)
{
	const struct registry_options o = {0};
	auto_buf struct buf text = BUF_INIT(OCI_MAX_JSON + 1);
	char which[CTD_DIGEST + 64], hex[DIGEST_HEX + 1];
	struct registry *from = NULL;
	int r = registry_open(ref, &o, &from, err);

	if (r < 0)
		return r;
	(void)snprintf(which, sizeof which, "%s%s", *ref->digest ? "sha256:" : "",
		*ref->digest ? ref->digest : ref->tag);
	r = fetch_text(from, which, ref->digest, &text, hex, err);
	if (r == 0)
		r = keep_tree(d, from, hex, &text, 0, err);
	if (r == 0)
		r = ctd_name_image(d, name, NULL, hex, text.len, is_index_text(&text), err);
	registry_free(from);
	return r;
}
