/* SPDX-License-Identifier: Apache-2.0 */
/* image_maker.h: tarballs, OCI layouts and `docker save` archives for tests, right or wrong on purpose. */
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/tar.h"
#include "core/image/digest.h"
#include "core/image/image.h"
#include "core/remove_tree.h"
#include "test.h"

#define MAKER_MAX (64u * 1024 * 1024)
#if defined(__x86_64__)
#define MAKER_ARCH "amd64"
#else
#define MAKER_ARCH "arm64"
#endif

/* What a test made stays reachable until it ends, whoever freed it meanwhile. */
static const void *kept[65536];

static inline void keep(const struct buf *b)
{
	static size_t n;

	ASSERT(n < sizeof kept / sizeof *kept);
	kept[n++] = b->data;
}

static int to_buf(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

struct maker {
	struct buf out;
	struct tar_writer w;
};

static inline void maker_init(struct maker *m)
{
	*m = (struct maker){.out = BUF_INIT(MAKER_MAX), .w = {.fn = to_buf}};
	m->w.user = &m->out;
}

static inline void put_entry(struct maker *m, char type, const char *name, const char *link,
	unsigned mode, const char *data)
{
	struct tar_entry e = {.type = type,
		.name = name,
		.link = link ? link : "",
		.mode = mode,
		.size = data ? strlen(data) : 0,
		.mtime_ns = 1000000000};

	ASSERT_OK(tar_write_entry(&m->w, &e));
	if (data)
		ASSERT_OK(tar_write_data(&m->w, data, strlen(data)));
}

static inline void put_file(struct maker *m, const char *name, const char *data)
{
	put_entry(m, TAR_FILE, name, NULL, 0644, data);
}

static inline void put_blob(struct maker *m, const char *name, const struct buf *data)
{
	struct tar_entry e = {
		.type = TAR_FILE, .name = name, .link = "", .mode = 0644, .size = data->len};

	ASSERT_OK(tar_write_entry(&m->w, &e));
	ASSERT_OK(tar_write_data(&m->w, data->data, data->len));
}

static inline void put_end(struct maker *m)
{
	ASSERT_OK(tar_write_end(&m->w));
	keep(&m->out);
}

static inline struct buf gzipped(const struct buf *in)
{
	struct buf out = BUF_INIT(MAKER_MAX);
	z_stream z = {0};

	ASSERT(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	ASSERT_OK(buf_reserve(&out, deflateBound(&z, in->len)));
	z.next_in = in->data;
	z.avail_in = (uInt)in->len;
	z.next_out = out.data;
	z.avail_out = (uInt)out.cap;
	ASSERT(deflate(&z, Z_FINISH) == Z_STREAM_END);
	out.len = z.total_out;
	deflateEnd(&z);
	keep(&out);
	return out;
}

static inline struct buf zstandard(const struct buf *in)
{
	struct buf out = BUF_INIT(MAKER_MAX);

	ASSERT_OK(buf_reserve(&out, ZSTD_compressBound(in->len)));
	out.len = ZSTD_compress(out.data, out.cap, in->data, in->len, 3);
	ASSERT(!ZSTD_isError(out.len));
	keep(&out);
	return out;
}

static inline void hex_of_buf(const struct buf *b, char hex[DIGEST_HEX + 1])
{
	struct digest d;

	digest_init(&d);
	digest_add(&d, b->data, b->len);
	digest_hex(&d, hex);
}

static inline void write_file(const char *path, const struct buf *b)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK_(fd >= 0, "open %s", path);
	ASSERT_OK(fd_write_all(fd, b->data, b->len));
	close(fd);
}

/* An image of up to 8 layers; each field may be spoiled before it is put together. */
struct image_parts {
	struct buf tars[8], blobs[8]; /* plain and as stored */
	size_t n;
	const char *config; /* "config" object; NULL: {} */
	const char *arch;
	bool has_wrong_diff_id, has_wrong_blob_digest; /* one digit differs */
	struct buf made_config, made_manifest;
	char config_hex[DIGEST_HEX + 1], manifest_hex[DIGEST_HEX + 1];
};

static inline void parts_add(struct image_parts *p, struct maker *layer, char how)
{
	put_end(layer);
	p->tars[p->n] = layer->out;
	p->blobs[p->n] = how == 'g'   ? gzipped(&layer->out)
			 : how == 'z' ? zstandard(&layer->out)
				      : layer->out;
	p->n++;
}

static inline void parts_finish(struct image_parts *p)
{
	char hex[DIGEST_HEX + 1];

	p->made_config = (struct buf)BUF_INIT(MAKER_MAX);
	p->made_manifest = (struct buf)BUF_INIT(MAKER_MAX);
	ASSERT_OK(buf_addf(&p->made_config,
		"{\"os\": \"linux\", \"architecture\": \"%s\", \"config\": %s, \"rootfs\": "
		"{\"type\": "
		"\"layers\", \"diff_ids\": [",
		p->arch ? p->arch : MAKER_ARCH, p->config ? p->config : "{}"));
	for (size_t i = 0; i < p->n; i++) {
		hex_of_buf(&p->tars[i], hex);
		if (p->has_wrong_diff_id)
			hex[0] = hex[0] == '0' ? '1' : '0';
		ASSERT_OK(buf_addf(&p->made_config, "%s\"sha256:%s\"", i ? ", " : "", hex));
	}
	ASSERT_OK(buf_addz(&p->made_config, "]}}"));
	hex_of_buf(&p->made_config, p->config_hex);
	ASSERT_OK(buf_addf(&p->made_manifest,
		"{\"schemaVersion\": 2, \"config\": {\"digest\": \"sha256:%s\", \"size\": %zu}, "
		"\"layers\": [",
		p->config_hex, p->made_config.len));
	for (size_t i = 0; i < p->n; i++) {
		hex_of_buf(&p->blobs[i], hex);
		if (p->has_wrong_blob_digest)
			hex[0] = hex[0] == '0' ? '1' : '0';
		ASSERT_OK(buf_addf(&p->made_manifest,
			"%s{\"digest\": \"sha256:%s\", \"size\": %zu}", i ? ", " : "", hex,
			p->blobs[i].len));
	}
	ASSERT_OK(buf_addz(&p->made_manifest, "]}"));
	hex_of_buf(&p->made_manifest, p->manifest_hex);
	keep(&p->made_config);
	keep(&p->made_manifest);
}

static inline void put_oci_blob(struct maker *m, const struct buf *b, bool is_wrong)
{
	char hex[DIGEST_HEX + 1], name[128];

	hex_of_buf(b, hex);
	if (is_wrong)
		hex[0] = hex[0] == '0' ? '1' : '0';
	(void)snprintf(name, sizeof name, "blobs/sha256/%s", hex);
	put_blob(m, name, b);
}

/* The tar of an OCI layout; `index` (may be NULL) replaces index.json. */
static inline struct buf make_oci(struct image_parts *p, const char *index)
{
	auto_buf struct buf text = BUF_INIT(65536);
	struct maker m;

	parts_finish(p);
	maker_init(&m);
	put_file(&m, "oci-layout", "{\"imageLayoutVersion\": \"1.0.0\"}");
	ASSERT_OK(buf_addf(&text,
		"{\"schemaVersion\": 2, \"manifests\": [{\"mediaType\": "
		"\"application/vnd.oci.image.manifest.v1+json\", \"digest\": \"sha256:%s\", "
		"\"size\": %zu, "
		"\"platform\": {\"os\": \"linux\", \"architecture\": \"" MAKER_ARCH "\"}}, "
		"{\"digest\": \"sha256:%064d\", \"size\": 1, \"platform\": {\"os\": \"unknown\", "
		"\"architecture\": \"unknown\"}}]}",
		p->manifest_hex, p->made_manifest.len, 0));
	put_file(&m, "index.json", index ? index : buf_str(&text));
	put_oci_blob(&m, &p->made_manifest, false);
	put_oci_blob(&m, &p->made_config, false);
	for (size_t i = 0; i < p->n; i++)
		put_oci_blob(&m, &p->blobs[i], p->has_wrong_blob_digest);
	put_end(&m);
	return m.out;
}

/* The tar `docker save` made before version 25. */
static inline struct buf make_docker(struct image_parts *p)
{
	auto_buf struct buf text = BUF_INIT(65536);
	struct maker m;

	parts_finish(p);
	maker_init(&m);
	ASSERT_OK(buf_addf(&text,
		"[{\"Config\": \"%s.json\", \"RepoTags\": [\"a:b\"], \"Layers\": [",
		p->config_hex));
	for (size_t i = 0; i < p->n; i++) {
		char name[64];
		(void)snprintf(name, sizeof name, "%zu/layer.tar", i);
		ASSERT_OK(buf_addf(&text, "%s\"%s\"", i ? ", " : "", name));
		put_blob(&m, name, &p->blobs[i]);
	}
	ASSERT_OK(buf_addz(&text, "]}]"));
	char config[80];
	(void)snprintf(config, sizeof config, "%s.json", p->config_hex);
	put_blob(&m, config, &p->made_config);
	put_file(&m, "manifest.json", buf_str(&text));
	put_end(&m);
	return m.out;
}

/* A directory of the test's own with a store in it; removed at the end of the process. */
static char work_dir[64];
static pid_t work_owner;

static void leave_work(void)
{
	auto_fd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (work_owner == getpid())
		(void)cell_remove_tree(tmp, work_dir + strlen("/tmp/"), NULL);
}

static inline void enter_work(void)
{
	(void)snprintf(work_dir, sizeof work_dir, "/tmp/cell-image-XXXXXX");
	ASSERT(mkdtemp(work_dir));
	work_owner = getpid();
	atexit(leave_work);
	ASSERT(chdir(work_dir) == 0);
	ASSERT(mkdir("store", 0700) == 0);
	char store[80];
	(void)snprintf(store, sizeof store, "%s/store", work_dir);
	ASSERT(setenv("CELL_IMAGE_DIR", store, 1) == 0);
}
