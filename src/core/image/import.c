/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.c: see import.h.
 *
 * A layer is unpacked in tmp/, hashed on both sides of the decompression while that happens, and
 * renamed to its place only when both digests are right. Who comes second with the same layer finds
 * the place taken and drops his own.
 */
#include "core/image/import.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "base/untar.h"
#include "core/image/layer.h"
#include "core/image/oci.h"
#include "core/image/stream.h"
#include "core/image/tree_hash.h"
#include "core/remove_tree.h"

#define DEFAULT_MAX_BYTES   (32ull << 30)
#define DEFAULT_MAX_ENTRIES 2000000u
#define HEADER_ROOM	    (4ull << 30) /* of a tar besides the files' data */
#define MAX_INDEX_DEPTH	    3

struct import {
	struct image_store *s;
	struct layer_limits limits;
	uint64_t bytes_left; /* of the whole image */
	struct cell_error *err;
};

/* Where a layer comes from: the digest its file must have, or "" when none is promised. */
struct origin {
	int fd;
	char packed[DIGEST_HEX + 1];
};

static void remove_tmp(struct image_store *s, const char *name)
{
	(void)cell_remove_tree(s->tmp_fd, name, NULL);
}

static bool has_entry(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool import_is_layout(int dir_fd)
{
	bool has_root =
		has_entry(dir_fd, "usr") || has_entry(dir_fd, "bin") || has_entry(dir_fd, "etc");

	return (has_entry(dir_fd, "oci-layout") && has_entry(dir_fd, "index.json")) ||
	       (has_entry(dir_fd, "manifest.json") && !has_root);
}

static int check_digests(struct import *im, const struct origin *o, const char *want,
	const char *packed, const char *plain)
{
	if (o->packed[0] && strcmp(o->packed, packed) != 0)
		return cell_fail(im->err, CELL_EINVAL, 0,
			"a layer is damaged: its digest is sha256:%.12s..., not sha256:%.12s...",
			packed, o->packed);
	if (strcmp(want, plain) != 0)
		return cell_fail(im->err, CELL_EINVAL, 0,
			"a layer is not what the image says: sha256:%.12s..., not sha256:%.12s...",
			plain, want);
	return 0;
}

/* Into the directory at fs_fd; the digests are checked. */
static int unpack_layer(struct import *im, const struct origin *o, const char *want, int fs_fd,
	struct layer_result *res)
{
	char packed[DIGEST_HEX + 1], plain[DIGEST_HEX + 1];
	struct stream *in = NULL;

	im->limits.max_bytes = im->bytes_left;
	int r = stream_open(&in, o->fd, im->bytes_left + HEADER_ROOM, im->err);
	if (r < 0)
		return r;
	struct tar_reader tar = TAR_READER_INIT(stream_read, in);
	struct cell_error local = {0};
	r = layer_unpack(&tar, fs_fd, &im->limits, res, &local);
	if (r < 0 && local.code == CELL_OK)
		r = stream_fail(in, r, im->err);
	else if (r < 0 && im->err)
		*im->err = local;
	tar_reader_done(&tar);
	if (r == 0)
		r = stream_finish(in, packed, plain, im->err);
	stream_free(in);
	return r < 0 ? r : check_digests(im, o, want, packed, plain);
}

static int write_info(struct import *im, const char *hex, int fs_fd, const struct layer_result *res)
{
	char tree[DIGEST_HEX + 1], name[DIGEST_HEX + 8];

	int r = tree_hash(fs_fd, hex, tree, NULL, im->err);
	if (r < 0)
		return r;
	json_t *o = json_pack("{s:s, s:I, s:I, s:I}", "tree", tree, "bytes", (json_int_t)res->bytes,
		"entries", (json_int_t)res->entries, "skipped", (json_int_t)res->skipped);
	auto_free char *text = o ? json_dumps(o, 0) : NULL;
	json_decref(o);
	if (!text)
		return cell_fail_errno(im->err, ENOMEM, "import an image");
	(void)snprintf(name, sizeof name, "%s.json", hex);
	return image_store_write(im->s, im->s->layers_fd, name, text, strlen(text), im->err);
}

static int place_layer(struct import *im, const char *hex, int tmp_fd, int fs_fd,
	const struct layer_result *res)
{
	int r = write_info(im, hex, fs_fd, res);

	if (r < 0)
		return r;
	if (syncfs(tmp_fd) < 0)
		return cell_fail_errno(im->err, errno, "write a layer to disk");
	if (renameat(tmp_fd, "fs", im->s->layers_fd, hex) < 0 && errno != EEXIST &&
		errno != ENOTEMPTY)
		return cell_fail_errno(im->err, errno, "keep layer %.12s", hex);
	if (fsync(im->s->layers_fd) < 0)
		return cell_fail_errno(im->err, errno, "write a layer to disk");
	return 0;
}

static int add_layer(struct import *im, const struct origin *o, const char *hex)
{
	struct layer_result res = {0};
	char tmp[64];

	auto_fd int tmp_fd = image_store_tmp(im->s, tmp, im->err);
	if (tmp_fd < 0)
		return tmp_fd;
	int r = 0;
	if (mkdirat(tmp_fd, "fs", 0755) < 0)
		r = cell_fail_errno(im->err, errno, "unpack a layer");
	auto_fd int fs_fd =
		r < 0 ? -1 : openat(tmp_fd, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && fs_fd < 0)
		r = cell_fail_errno(im->err, errno, "unpack a layer");
	if (r == 0)
		r = unpack_layer(im, o, hex, fs_fd, &res);
	if (r == 0)
		r = place_layer(im, hex, tmp_fd, fs_fd, &res);
	if (r == 0)
		im->bytes_left -= res.bytes;
	remove_tmp(im->s, tmp);
	return r;
}

/* A file of a layout, found without leaving it. It is checked by whoever reads it. */
static int open_file(struct import *im, int dir_fd, const char *path)
{
	struct stat st;
	auto_fd int fd = beneath_open(dir_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return cell_fail_errno(im->err, -fd, "open '%.200s' of the image", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return cell_fail(im->err, CELL_EINVAL, 0, "'%.200s' of the image is no file", path);
	return steal_fd(fd);
}

/* A JSON file; `hex` (may be NULL) is the digest it must have. */
static int read_json(struct import *im, int dir_fd, const char *path, const char *hex,
	struct buf *ret)
{
	char have[DIGEST_HEX + 1];
	struct digest d;
	ssize_t n;

	auto_fd int fd = open_file(im, dir_fd, path);
	if (fd < 0)
		return fd;
	buf_reset(ret);
	do {
		int r = buf_reserve(ret, 65536 + 1);
		if (r < 0)
			return cell_fail(im->err, CELL_ELIMIT, -r, "read '%.200s' of the image",
				path);
		n = read(fd, ret->data + ret->len, 65536);
		if (n < 0)
			return cell_fail_errno(im->err, errno, "read '%.200s' of the image", path);
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
	} while (n != 0);
	if (!hex)
		return 0;
	digest_init(&d);
	digest_add(&d, ret->data, ret->len);
	digest_hex(&d, have);
	if (strcmp(have, hex) != 0)
		return cell_fail(im->err, CELL_EINVAL, 0,
			"'%.200s' of the image is damaged: its digest is sha256:%.12s...", path,
			have);
	return 0;
}

static int read_blob(struct import *im, int dir_fd, const char *hex, struct buf *ret)
{
	char path[DIGEST_HEX + 16];

	(void)snprintf(path, sizeof path, "blobs/sha256/%s", hex);
	return read_json(im, dir_fd, path, hex, ret);
}

static void hex_of(const void *p, size_t n, char hex[DIGEST_HEX + 1])
{
	struct digest d;

	digest_init(&d);
	digest_add(&d, p, n);
	digest_hex(&d, hex);
}

/* A layer that comes twice counts where it is on top, and nothing counts below one that hides all:
 * overlay takes no directory twice and does not look at the marks of its roots. */
static void tidy_layers(struct import *im, struct oci_config *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_layers; i++) {
		bool is_again = false;
		for (size_t k = i + 1; k < c->n_layers; k++)
			is_again |= strcmp(c->layers[i], c->layers[k]) == 0;
		if (is_again)
			continue;
		auto_fd int fd = openat(im->s->layers_fd, c->layers[i], O_PATH | O_CLOEXEC);
		if (fd >= 0 && layer_is_opaque(fd))
			n = 0;
		memmove(c->layers[n++], c->layers[i], DIGEST_HEX + 1);
	}
	c->n_layers = n;
}

static int write_record(struct import *im, struct oci_config *c, const char *hex)
{
	char *text = NULL;

	/* Not written anew: somebody may hold the lock of the one that is there. */
	if (has_entry(im->s->images_fd, hex))
		return 0;
	tidy_layers(im, c);
	c->is_user_xattr = !layer_has_trusted(im->s->tmp_fd);
	int r = image_record_write(c, &text, im->err);
	if (r == 0)
		r = image_store_write(im->s, im->s->images_fd, hex, text, strlen(text), im->err);
	free(text);
	return r;
}

static int find_manifest(struct import *im, int dir_fd, struct oci_manifest *ret)
{
	auto_buf struct buf text = BUF_INIT(OCI_MAX_JSON + 2 * 65536);
	struct oci_blob b;
	bool is_index = true;

	int r = read_json(im, dir_fd, "index.json", NULL, &text);
	for (int depth = 0; r == 0 && is_index; depth++) {
		if (depth == MAX_INDEX_DEPTH)
			return cell_fail(im->err, CELL_EINVAL, 0,
				"read the image: its indexes lie too deep in each other");
		r = oci_index_parse(buf_str(&text), text.len, &b, &is_index, im->err);
		if (r == 0)
			r = read_blob(im, dir_fd, b.hex, &text);
	}
	return r < 0 ? r : oci_manifest_parse(buf_str(&text), text.len, ret, im->err);
}

static int import_oci(struct import *im, int dir_fd, char hex_ret[DIGEST_HEX + 1])
{
	__attribute__((cleanup(oci_manifest_done))) struct oci_manifest m = {0};
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};
	auto_buf struct buf text = BUF_INIT(OCI_MAX_JSON + 2 * 65536);

	int r = find_manifest(im, dir_fd, &m);
	if (r == 0)
		r = read_blob(im, dir_fd, m.config.hex, &text);
	if (r == 0)
		r = oci_config_parse(buf_str(&text), text.len, &c, im->err);
	if (r < 0)
		return r;
	if (c.n_layers != m.n_layers)
		return cell_fail(im->err, CELL_EINVAL, 0,
			"read the image: its manifest has %zu layers, its configuration %zu",
			m.n_layers, c.n_layers);
	for (size_t i = 0; i < m.n_layers; i++) {
		char path[DIGEST_HEX + 16];
		struct origin o;
		if (has_entry(im->s->layers_fd, c.layers[i]))
			continue;
		(void)snprintf(path, sizeof path, "blobs/sha256/%s", m.layers[i].hex);
		auto_fd int fd = open_file(im, dir_fd, path);
		if (fd < 0)
			return fd;
		o.fd = fd;
		memcpy(o.packed, m.layers[i].hex, sizeof o.packed);
		r = add_layer(im, &o, c.layers[i]);
		if (r < 0)
			return cell_error_prefix(im->err, r, "layer %zu of %zu", i + 1, m.n_layers);
	}
	memcpy(hex_ret, m.config.hex, DIGEST_HEX + 1);
	return write_record(im, &c, hex_ret);
}

/* The configuration's name is its digest, where it has such a name. */
static int check_config_name(struct import *im, const char *path, const char *hex)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (strspn(name, "0123456789abcdef") != DIGEST_HEX || strncmp(name, hex, DIGEST_HEX) == 0)
		return 0;
	return cell_fail(im->err, CELL_EINVAL, 0,
		"'%.100s' of the image is damaged: its digest is sha256:%.12s...", path, hex);
}

static int import_docker(struct import *im, int dir_fd, char hex_ret[DIGEST_HEX + 1])
{
	__attribute__((cleanup(docker_manifest_done))) struct docker_manifest m = {0};
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};
	auto_buf struct buf text = BUF_INIT(OCI_MAX_JSON + 2 * 65536);

	int r = read_json(im, dir_fd, "manifest.json", NULL, &text);
	if (r == 0)
		r = docker_manifest_parse(buf_str(&text), text.len, &m, im->err);
	if (r == 0 && m.config)
		r = read_json(im, dir_fd, m.config, NULL, &text);
	if (r < 0 || !m.config)
		return r;
	hex_of(text.data, text.len, hex_ret);
	r = check_config_name(im, m.config, hex_ret);
	if (r < 0)
		return r;
	r = oci_config_parse(buf_str(&text), text.len, &c, im->err);
	if (r < 0)
		return r;
	if (c.n_layers != m.n_layers)
		return cell_fail(im->err, CELL_EINVAL, 0,
			"read the image: manifest.json has %zu layers, the configuration %zu",
			m.n_layers, c.n_layers);
	for (size_t i = 0; i < m.n_layers; i++) {
		struct origin o = {.packed = ""};
		if (has_entry(im->s->layers_fd, c.layers[i]))
			continue;
		auto_fd int fd = open_file(im, dir_fd, m.layers[i]);
		if (fd < 0)
			return fd;
		o.fd = fd;
		r = add_layer(im, &o, c.layers[i]);
		if (r < 0)
			return cell_error_prefix(im->err, r, "layer %zu of %zu", i + 1, m.n_layers);
	}
	return write_record(im, &c, hex_ret);
}

static int import_layout(struct import *im, int dir_fd, char hex_ret[DIGEST_HEX + 1])
{
	if (has_entry(dir_fd, "oci-layout") && has_entry(dir_fd, "index.json"))
		return import_oci(im, dir_fd, hex_ret);
	if (has_entry(dir_fd, "manifest.json"))
		return import_docker(im, dir_fd, hex_ret);
	return cell_fail(im->err, CELL_EINVAL, 0,
		"read the image: it is no OCI layout and no `docker save` archive");
}

/* What a tarball is, by the names at its top, and the digest of the tar in it. */
struct survey {
	bool has_oci_layout, has_index, has_manifest, has_root;
	char plain[DIGEST_HEX + 1];
};

static void look_at(struct survey *v, const char *name)
{
	while (strncmp(name, "./", 2) == 0 || name[0] == '/')
		name += name[0] == '/' ? 1 : 2;
	size_t len = strcspn(name, "/");
	v->has_oci_layout |= strcmp(name, "oci-layout") == 0;
	v->has_index |= strcmp(name, "index.json") == 0;
	v->has_manifest |= strcmp(name, "manifest.json") == 0;
	v->has_root |= len == 3 && (memcmp(name, "usr", 3) == 0 || memcmp(name, "bin", 3) == 0 ||
					   memcmp(name, "etc", 3) == 0);
}

static int survey(struct import *im, int fd, struct survey *v)
{
	char packed[DIGEST_HEX + 1];
	struct stream *in = NULL;
	struct tar_entry e;
	uint64_t n = 0;

	*v = (struct survey){0};
	int r = stream_open(&in, fd, im->bytes_left + HEADER_ROOM, im->err);
	if (r < 0)
		return r;
	struct tar_reader tar = TAR_READER_INIT(stream_read, in);
	while ((r = tar_read_entry(&tar, &e)) > 0 && n++ < im->limits.max_entries)
		look_at(v, e.name);
	if (r < 0 && tar.why)
		r = cell_fail(im->err, CELL_EINVAL, 0, "read the archive: %s", tar.why);
	else if (r < 0)
		r = stream_fail(in, r, im->err);
	else if (r > 0)
		r = cell_fail(im->err, CELL_ELIMIT, 0, "the archive has more than %llu entries",
			(unsigned long long)im->limits.max_entries);
	tar_reader_done(&tar);
	if (r == 0)
		r = stream_finish(in, packed, v->plain, im->err);
	stream_free(in);
	return r;
}

/* An archive of a layout is taken apart first, in tmp/, by the unpacker that trusts nobody. */
static int import_packed_layout(struct import *im, int fd, char hex_ret[DIGEST_HEX + 1])
{
	struct stream *in = NULL;
	char tmp[64];

	auto_fd int dir_fd = image_store_tmp(im->s, tmp, im->err);
	if (dir_fd < 0)
		return dir_fd;
	int r = stream_open(&in, fd, im->bytes_left + HEADER_ROOM, im->err);
	if (r == 0) {
		struct tar_reader tar = TAR_READER_INIT(stream_read, in);
		r = untar(&tar, dir_fd, UNTAR_FILES, im->limits.max_entries, NULL, im->err);
		tar_reader_done(&tar);
		stream_free(in);
	}
	if (r == 0)
		r = import_layout(im, dir_fd, hex_ret);
	remove_tmp(im->s, tmp);
	return r;
}

static int import_rootfs(struct import *im, int fd, const char *hex)
{
	struct oci_config c = {.n_layers = 1};
	struct origin o = {.fd = fd, .packed = ""};
	int r = 0;

	if (!has_entry(im->s->layers_fd, hex))
		r = add_layer(im, &o, hex);
	if (r < 0)
		return r;
	c.layers = calloc(1, sizeof *c.layers);
	if (!c.layers)
		return cell_fail_errno(im->err, ENOMEM, "import an image");
	memcpy(c.layers[0], hex, DIGEST_HEX + 1);
	r = write_record(im, &c, hex);
	oci_config_done(&c);
	return r;
}

/* Who the file is: the path's digest names the note, its content says which file that was. */
static int path_note(const char *path, const struct stat *st, char key[DIGEST_HEX + 1], char **ret)
{
	hex_of(path, strlen(path), key);
	int n = asprintf(ret, "%llu %llu %lld %lld.%09ld %lld.%09ld",
		(unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
		(long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
		(long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
	if (n < 0)
		*ret = NULL;
	return n < 0 ? -ENOMEM : 0;
}

static bool is_noted(struct image_store *s, const char *key, const char *note,
	char hex[DIGEST_HEX + 1])
{
	auto_buf struct buf b = BUF_INIT(65536);
	size_t n = strlen(note);

	if (image_store_read(s->paths_fd, key, 8192, &b, NULL) < 0 || b.len != n + 1 + DIGEST_HEX ||
		memcmp(b.data, note, n) != 0 || b.data[n] != ' ')
		return false;
	memcpy(hex, b.data + n + 1, DIGEST_HEX);
	hex[DIGEST_HEX] = '\0';
	return digest_is_hex(hex) && has_entry(s->images_fd, hex);
}

static int import_file(struct import *im, int fd, const char *path, char hex_ret[DIGEST_HEX + 1])
{
	auto_free char *note = NULL, *text = NULL;
	char key[DIGEST_HEX + 1];
	struct survey v;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cell_fail_errno(im->err, errno, "look at '%s'", path);
	int r = path_note(path, &st, key, &note);
	if (r < 0)
		return cell_fail_errno(im->err, -r, "import '%s'", path);
	if (is_noted(im->s, key, note, hex_ret))
		return 0;
	r = survey(im, fd, &v);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = cell_fail_errno(im->err, errno, "read '%s' again", path);
	if (r < 0)
		return r;
	if ((v.has_oci_layout && v.has_index) || (v.has_manifest && !v.has_root)) {
		r = import_packed_layout(im, fd, hex_ret);
	} else {
		memcpy(hex_ret, v.plain, DIGEST_HEX + 1);
		r = import_rootfs(im, fd, hex_ret);
	}
	if (r < 0)
		return r;
	if (asprintf(&text, "%s %s", note, hex_ret) < 0) {
		text = NULL;
		return cell_fail_errno(im->err, ENOMEM, "import '%s'", path);
	}
	return image_store_write(im->s, im->s->paths_fd, key, text, strlen(text), im->err);
}

int import_path(struct image_store *s, const char *path, const struct cell_image_limits *limits,
	char hex_ret[DIGEST_HEX + 1], struct cell_error *err)
{
	struct import im = {.s = s, .err = err, .bytes_left = DEFAULT_MAX_BYTES};
	auto_free char *real = realpath(path, NULL);
	struct stat st;
	int r;

	im.limits.max_entries = DEFAULT_MAX_ENTRIES;
	if (limits && limits->max_bytes)
		im.bytes_left = limits->max_bytes;
	if (limits && limits->max_entries)
		im.limits.max_entries = limits->max_entries;
	auto_fd int fd = real ? open(real, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "open the image '%s'", path);
	image_store_sweep(s);
	if (S_ISDIR(st.st_mode))
		r = import_layout(&im, fd, hex_ret);
	else if (S_ISREG(st.st_mode))
		r = import_file(&im, fd, real, hex_ret);
	else
		return cell_fail(err, CELL_EINVAL, 0, "'%s' is neither a file nor a directory",
			path);
	return r < 0 ? cell_error_prefix(err, r, "image '%s'", path) : 0;
}
