/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: finding, listing, removing and checking images; see image.h. */
#include "core/image/image.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/image/image_store.h"
#include "core/image/import.h"
#include "core/image/oci.h"
#include "core/image/tree_hash.h"
#include "core/remove_tree.h"

static void free_words(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

void cell_image_done(struct cell_image *image)
{
	if (!image)
		return;
	free_words(image->layers);
	free_words(image->env);
	free_words(image->entrypoint);
	free_words(image->cmd);
	free(image->cwd);
	free(image->user);
	if (image->hold_fd >= 0)
		close(image->hold_fd);
	*image = (struct cell_image)CELL_IMAGE_INIT;
}

static bool is_path(const char *ref)
{
	return ref[0] == '/' || ref[0] == '.';
}

/* The digest a name stands for. */
static int find_name(struct image_store *s, const char *name, char hex[DIGEST_HEX + 1],
	char **file_ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(65536);
	auto_free char *file = NULL;

	int r = image_name_encode(name, &file, err);
	if (r < 0)
		return r;
	r = image_store_read(s->names_fd, file, 8192, &b, err);
	if (r == -ENOENT || (r == 0 && !digest_is_hex(buf_str(&b)))) {
		r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no image '%s'", name);
		if (access(name, F_OK) == 0)
			return cell_error_hint(err, r, "for the file of that name write ./%s",
				name);
		return cell_error_hint(err, r,
			"`cell image pull %s` fetches it, `cell image ls` shows what is here; a "
			"path "
			"begins with / or .",
			name);
	}
	if (r < 0)
		return r;
	memcpy(hex, b.data, DIGEST_HEX + 1);
	if (file_ret)
		*file_ret = steal_ptr(file);
	return 0;
}

static int find_ref(struct image_store *s, const char *ref, char hex[DIGEST_HEX + 1],
	char **file_ret, struct cell_error *err)
{
	const char *given = digest_parse(ref);

	if (!given)
		return find_name(s, ref, hex, file_ret, err);
	memcpy(hex, given, DIGEST_HEX + 1);
	return 0;
}

/* The record, and (may be NULL) an fd on it with a shared lock. */
static int load_record(struct image_store *s, const char *hex, struct oci_config *ret, int *fd_ret,
	struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(OCI_MAX_JSON + 65536);
	auto_fd int fd = openat(s->images_fd, hex, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return cell_fail(err, CELL_ENOTFOUND, 0, "there is no image sha256:%s", hex);
	if (fd < 0)
		return cell_fail_errno(err, errno, "open the record of image sha256:%s", hex);
	if (fd_ret && flock(fd, LOCK_SH | LOCK_NB) < 0)
		return cell_fail(err, CELL_EBUSY, errno, "image sha256:%.12s is being removed",
			hex);
	int r = image_store_read(s->images_fd, hex, OCI_MAX_JSON, &b, err);
	if (r == 0)
		r = image_record_parse(buf_str(&b), b.len, ret, err);
	if (r < 0)
		return cell_error_prefix(err, r, "the record of image sha256:%.12s", hex);
	if (fd_ret)
		*fd_ret = steal_fd(fd);
	return 0;
}

static int fill_layers(struct image_store *s, const struct oci_config *c, struct cell_image *ret,
	struct cell_error *err)
{
	ret->layers = calloc(c->n_layers + 1, sizeof *ret->layers);
	if (!ret->layers)
		return cell_fail_errno(err, ENOMEM, "find an image");
	for (size_t i = 0; i < c->n_layers; i++) {
		if (asprintf(&ret->layers[i], "%s/layers/%s", s->path, c->layers[i]) < 0) {
			ret->layers[i] = NULL;
			return cell_fail_errno(err, ENOMEM, "find an image");
		}
		ret->n_layers++;
		if (access(ret->layers[i], F_OK) < 0) {
			int r = cell_fail_errno(err, errno, "layer '%s' of the image",
				ret->layers[i]);
			return cell_error_hint(err, r, "remove the image and import it again");
		}
	}
	return 0;
}

static int open_image(struct image_store *s, const char *hex, struct cell_image *ret,
	struct cell_error *err)
{
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};

	int r = load_record(s, hex, &c, &ret->hold_fd, err);
	if (r == 0)
		r = fill_layers(s, &c, ret, err);
	if (r < 0)
		return r;
	(void)snprintf(ret->digest, sizeof ret->digest, "sha256:%s", hex);
	ret->env = steal_ptr(c.env);
	ret->entrypoint = steal_ptr(c.entrypoint);
	ret->cmd = steal_ptr(c.cmd);
	ret->cwd = steal_ptr(c.cwd);
	ret->user = steal_ptr(c.user);
	ret->is_user_xattr = c.is_user_xattr;
	return 0;
}

/* 1: it is a plain directory, and *ret is filled. */
static int use_directory(const char *path, struct cell_image *ret, struct cell_error *err)
{
	struct stat st;
	auto_fd int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "open the image '%s'", path);
	if (!S_ISDIR(st.st_mode) || import_is_layout(fd))
		return 0;
	ret->layers = calloc(2, sizeof *ret->layers);
	if (ret->layers)
		ret->layers[0] = realpath(path, NULL);
	if (!ret->layers || !ret->layers[0])
		return cell_fail_errno(err, ret->layers ? errno : ENOMEM, "use the directory '%s'",
			path);
	ret->n_layers = 1;
	return 1;
}

static int resolve(const char *ref, struct cell_image *ret, struct cell_error *err)
{
	auto_image_store struct image_store s = IMAGE_STORE_INIT;
	char hex[DIGEST_HEX + 1];
	int r = is_path(ref) ? use_directory(ref, ret, err) : 0;

	if (r != 0)
		return r < 0 ? r : 0;
	r = image_store_open(&s, IMAGE_LOCK_SHARED, err);
	if (r == 0)
		r = is_path(ref) ? import_path(&s, ref, NULL, hex, err)
				 : find_ref(&s, ref, hex, NULL, err);
	return r < 0 ? r : open_image(&s, hex, ret, err);
}

int cell_image_resolve(const char *ref, struct cell_image *ret, struct cell_error *err)
{
	struct cell_image image = CELL_IMAGE_INIT;

	int r = resolve(ref, &image, err);
	if (r < 0)
		cell_image_done(&image);
	else
		*ret = image;
	return r;
}

int cell_image_import(const char *path, const char *name, const struct cell_image_limits *limits,
	char *digest_ret, struct cell_error *err)
{
	auto_image_store struct image_store s = IMAGE_STORE_INIT;
	auto_free char *file = NULL;
	char hex[DIGEST_HEX + 1];

	int r = name ? image_name_encode(name, &file, err) : 0;
	if (r == 0)
		r = image_store_open(&s, IMAGE_LOCK_SHARED, err);
	if (r == 0)
		r = import_path(&s, path, limits, hex, err);
	if (r == 0 && file)
		r = image_store_write(&s, s.names_fd, file, hex, DIGEST_HEX, err);
	if (r == 0 && digest_ret)
		(void)snprintf(digest_ret, CELL_IMAGE_DIGEST_CAP, "sha256:%s", hex);
	return r;
}

struct listing {
	struct image_store *s;
	struct cell_image_info *list;
	size_t n;
	struct cell_error *err;
};

static uint64_t layer_bytes(struct image_store *s, const char *hex)
{
	auto_buf struct buf b = BUF_INIT(65536);
	char name[DIGEST_HEX + 8];

	(void)snprintf(name, sizeof name, "%s.json", hex);
	if (image_store_read(s->layers_fd, name, 8192, &b, NULL) < 0)
		return 0;
	json_t *o = json_loadb(buf_str(&b), b.len, 0, NULL);
	json_int_t n = json_integer_value(json_object_get(o, "bytes"));
	json_decref(o);
	return n > 0 ? (uint64_t)n : 0;
}

static int list_image(const char *hex, void *user)
{
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};
	struct listing *l = user;

	if (!digest_is_hex(hex))
		return 0;
	int r = load_record(l->s, hex, &c, NULL, l->err);
	if (r < 0)
		return r;
	struct cell_image_info *more = realloc(l->list, (l->n + 1) * sizeof *more);
	if (!more)
		return cell_fail_errno(l->err, ENOMEM, "list images");
	l->list = more;
	struct cell_image_info *info = &more[l->n++];
	*info = (struct cell_image_info){.n_layers = c.n_layers};
	(void)snprintf(info->digest, sizeof info->digest, "sha256:%s", hex);
	for (size_t i = 0; i < c.n_layers; i++)
		info->bytes += layer_bytes(l->s, c.layers[i]);
	return 0;
}

static int add_name(struct cell_image_info *info, const char *file)
{
	size_t n = 0, at = 0;
	char *name = image_name_decode(file);

	while (info->names && info->names[n])
		n++;
	char **more = name ? realloc(info->names, (n + 2) * sizeof *more) : NULL;
	if (!more) {
		free(name);
		return -ENOMEM;
	}
	while (at < n && strcmp(more[at], name) < 0)
		at++;
	memmove(&more[at + 1], &more[at], (n - at) * sizeof *more);
	more[at] = name;
	more[n + 1] = NULL;
	info->names = more;
	return 0;
}

static int list_name(const char *file, void *user)
{
	auto_buf struct buf b = BUF_INIT(65536);
	struct listing *l = user;

	if (image_store_read(l->s->names_fd, file, 8192, &b, NULL) < 0)
		return 0;
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->list[i].digest + 7, buf_str(&b)) == 0 &&
			add_name(&l->list[i], file) < 0)
			return cell_fail_errno(l->err, ENOMEM, "list images");
	}
	return 0;
}

static int by_digest(const void *a, const void *b)
{
	const struct cell_image_info *x = a, *y = b;

	return strcmp(x->digest, y->digest);
}

static int list_store(struct image_store *s, struct listing *l)
{
	l->s = s;
	int r = image_store_each(s->images_fd, list_image, l, l->err);
	if (r == 0)
		r = image_store_each(s->names_fd, list_name, l, l->err);
	if (r == 0 && l->n > 0)
		qsort(l->list, l->n, sizeof *l->list, by_digest);
	return r;
}

int cell_image_list(struct cell_image_info **ret, size_t *n_ret, struct cell_error *err)
{
	auto_image_store struct image_store s = IMAGE_STORE_INIT;
	struct listing l = {.err = err};

	int r = image_store_open(&s, IMAGE_LOCK_SHARED, err);
	if (r == 0)
		r = list_store(&s, &l);
	if (r < 0) {
		cell_image_list_free(l.list, l.n);
		return r;
	}
	*ret = l.list;
	*n_ret = l.n;
	return 0;
}

void cell_image_list_free(struct cell_image_info *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free_words(list[i].names);
	free(list);
}

/* The image and the names it has. */
static int remove_image(struct image_store *s, const char *hex, struct cell_image_info *info,
	struct cell_error *err)
{
	auto_fd int fd = openat(s->images_fd, hex, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return cell_fail_errno(err, errno, "open the record of image sha256:%s", hex);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return cell_fail(err, CELL_EBUSY, 0, "image sha256:%.12s is in use", hex);
	for (char **name = info->names; name && *name; name++) {
		auto_free char *file = NULL;
		int r = image_name_encode(*name, &file, err);
		if (r < 0)
			return r;
		if (unlinkat(s->names_fd, file, 0) < 0 && errno != ENOENT)
			return cell_fail_errno(err, errno, "remove the name '%s'", *name);
	}
	if (unlinkat(s->images_fd, hex, 0) < 0)
		return cell_fail_errno(err, errno, "remove image sha256:%s", hex);
	return 0;
}

static int remove_ref(struct image_store *s, const char *ref, const char *hex, const char *file,
	struct cell_error *err)
{
	struct listing l = {.err = err};
	struct cell_image_info *info = NULL;

	int r = list_store(s, &l);
	for (size_t i = 0; i < l.n; i++) {
		if (strcmp(l.list[i].digest + 7, hex) == 0)
			info = &l.list[i];
	}
	bool has_others = info && info->names && info->names[0] && info->names[1];
	if (r == 0 && file && (has_others || !info))
		r = unlinkat(s->names_fd, file, 0) < 0
			    ? cell_fail_errno(err, errno, "remove the name '%s'", ref)
			    : 0;
	else if (r == 0 && !info)
		r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no image '%s'", ref);
	else if (r == 0)
		r = remove_image(s, hex, info, err);
	cell_image_list_free(l.list, l.n);
	return r;
}

int cell_image_remove(const char *ref, struct cell_error *err)
{
	auto_image_store struct image_store s = IMAGE_STORE_INIT;
	auto_free char *file = NULL;
	char hex[DIGEST_HEX + 1];

	int r = image_store_open(&s, IMAGE_LOCK_EXCLUSIVE, err);
	if (r == 0)
		r = find_ref(&s, ref, hex, &file, err);
	return r < 0 ? r : remove_ref(&s, ref, hex, file, err);
}

struct pruning {
	struct image_store *s;
	char (*used)[DIGEST_HEX + 1];
	size_t n_used;
	uint64_t bytes;
	struct cell_error *err;
};

static int note_layers(const char *hex, void *user)
{
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};
	struct pruning *p = user;

	int r = load_record(p->s, hex, &c, NULL, p->err);
	if (r < 0 || c.n_layers == 0)
		return r;
	void *more = realloc(p->used, (p->n_used + c.n_layers) * sizeof *p->used);
	if (!more)
		return cell_fail_errno(p->err, ENOMEM, "prune images");
	p->used = more;
	memcpy(p->used[p->n_used], c.layers, c.n_layers * sizeof *p->used);
	p->n_used += c.n_layers;
	return 0;
}

/* A layer goes before its description, so that none is ever without. */
static int prune_layer(const char *name, void *user)
{
	struct pruning *p = user;
	char hex[DIGEST_HEX + 1], info[DIGEST_HEX + 8];

	(void)snprintf(hex, sizeof hex, "%s", name);
	for (size_t i = 0; i < p->n_used; i++) {
		if (strcmp(p->used[i], hex) == 0)
			return 0;
	}
	int r = cell_remove_tree(p->s->tmp_fd, hex, p->err);
	if (r < 0)
		return r;
	if (renameat(p->s->layers_fd, hex, p->s->tmp_fd, hex) == 0)
		p->bytes += layer_bytes(p->s, hex);
	else if (errno != ENOENT)
		return cell_fail_errno(p->err, errno, "remove layer %.12s", hex);
	r = cell_remove_tree(p->s->tmp_fd, hex, p->err);
	(void)snprintf(info, sizeof info, "%s.json", hex);
	if (r == 0 && strlen(name) != DIGEST_HEX)
		(void)unlinkat(p->s->layers_fd, info, 0);
	return r;
}

/* A note on a path leads nowhere once its image is gone. */
static int prune_path(const char *name, void *user)
{
	auto_buf struct buf b = BUF_INIT(65536);
	struct pruning *p = user;
	struct stat st;

	if (image_store_read(p->s->paths_fd, name, 8192, &b, NULL) < 0 || b.len < DIGEST_HEX ||
		fstatat(p->s->images_fd, buf_str(&b) + b.len - DIGEST_HEX, &st, 0) < 0)
		(void)unlinkat(p->s->paths_fd, name, 0);
	return 0;
}

int cell_image_prune(uint64_t *bytes_ret, struct cell_error *err)
{
	auto_image_store struct image_store s = IMAGE_STORE_INIT;
	struct pruning p = {.s = &s, .err = err};

	int r = image_store_open(&s, IMAGE_LOCK_EXCLUSIVE, err);
	if (r < 0)
		return r;
	r = image_store_each(s.images_fd, note_layers, &p, err);
	if (r == 0)
		r = image_store_each(s.layers_fd, prune_layer, &p, err);
	if (r == 0)
		r = image_store_each(s.paths_fd, prune_path, &p, err);
	free(p.used);
	image_store_sweep(&s);
	if (r == 0 && bytes_ret)
		*bytes_ret = p.bytes;
	return r;
}

static int verify_layer(struct image_store *s, const char *hex, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(65536);
	char name[DIGEST_HEX + 8], tree[DIGEST_HEX + 1];

	(void)snprintf(name, sizeof name, "%s.json", hex);
	int r = image_store_read(s->layers_fd, name, 8192, &b, err);
	if (r == -ENOENT)
		return cell_fail(err, CELL_EBACKEND, 0, "layer %.12s has no description", hex);
	auto_fd int fd =
		r < 0 ? -1
		      : openat(s->layers_fd, hex, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = cell_fail(err, CELL_EBACKEND, errno, "open layer %.12s", hex);
	if (r == 0)
		r = tree_hash(fd, hex, tree, NULL, err);
	if (r < 0)
		return r;
	json_t *o = json_loadb(buf_str(&b), b.len, 0, NULL);
	const char *want = json_string_value(json_object_get(o, "tree"));
	if (!want || strcmp(want, tree) != 0) {
		r = cell_fail(err, CELL_EBACKEND, 0,
			"layer '%s/layers/%s' is not what was unpacked", s->path, hex);
		r = cell_error_hint(err, r, "remove the image, prune, and import it again");
	}
	json_decref(o);
	return r;
}

int cell_image_verify(const char *ref, struct cell_error *err)
{
	auto_image_store struct image_store s = IMAGE_STORE_INIT;
	__attribute__((cleanup(oci_config_done))) struct oci_config c = {0};
	char hex[DIGEST_HEX + 1];

	int r = image_store_open(&s, IMAGE_LOCK_SHARED, err);
	if (r == 0)
		r = find_ref(&s, ref, hex, NULL, err);
	if (r == 0)
		r = load_record(&s, hex, &c, NULL, err);
	for (size_t i = 0; r == 0 && i < c.n_layers; i++)
		r = verify_layer(&s, c.layers[i], err);
	return r;
}
