/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h: images: what a cell's root file system is made of.
 *
 * An image is a stack of read-only directories and a little configuration. It comes from a
 * directory (used in place), a tarball of a root file system, an OCI image layout (directory or
 * tarball) or a `docker save` archive; tarballs may be gzip or zstd. All but the first are unpacked
 * once into a store, every digest checked, and found there again. Nothing is fetched from anywhere.
 *
 *	$CELL_IMAGE_DIR, or <state>/images:
 *	lock            shared while importing, exclusive while removing
 *	layers/<hex>/   one unpacked layer, by the SHA-256 of its tar: overlay whiteouts, no set-id
 *	                bits, no devices; owners as in the tar when root unpacked it, else ours
 *	layers/<hex>.json  what the layer was when it was unpacked, for verifying
 *	images/<hex>    a record: layers, configuration; locked (shared) while in use
 *	names/<name>    the digest it stands for
 *	paths/<hex>     which image a tarball was, by its path, inode and times
 *	tmp/            work in progress, locked; what a crash left goes with the next import
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

#define CELL_IMAGE_MAX_LAYERS 256u
#define CELL_IMAGE_DIGEST_CAP 72 /* "sha256:" and 64 hex digits */
#define CELL_IMAGE_NAME_MAX   200

struct cell_image {
	char **layers; /* absolute paths, lowest first; ends with NULL */
	size_t n_layers;
	char **env, **entrypoint, **cmd;    /* NULL-terminated; NULL when the image says nothing */
	char *cwd, *user;		    /* likewise */
	char digest[CELL_IMAGE_DIGEST_CAP]; /* "" for a directory used in place */
	bool is_user_xattr; /* whiteouts were made without root: mount overlay with userxattr */
	int hold_fd; /* while it is open (here or in who inherits it) the image is not removed */
};

#define CELL_IMAGE_INIT       \
	{                     \
		.hold_fd = -1 \
	}
void cell_image_done(struct cell_image *image);
/* For cell_take_image(). */
#define CELL_IMAGE_FACTS(image)                                                                \
	{                                                                                      \
		.id = (image)->digest, .env = (image)->env, .entrypoint = (image)->entrypoint, \
		.cmd = (image)->cmd, .cwd = (image)->cwd, .user = (image)->user                \
	}

/* What may be unpacked at most; 0 means the default. */
struct cell_image_limits {
	uint64_t max_bytes;   /* of one image unpacked: 32 GiB */
	uint64_t max_entries; /* of one layer: 2,000,000 */
};

/* `ref` is a path when it begins with '/' or '.', else "sha256:...", else a name given to
 * cell_image_import, with ":latest" understood. A path that is no plain directory is imported when
 * that has not been done yet. */
int cell_image_resolve(const char *ref, struct cell_image *ret, struct cell_error *err);

/* Unpack `path` and call it `name` (may be NULL). An older image of that name loses it. digest_ret
 * (may be NULL) takes CELL_IMAGE_DIGEST_CAP bytes. */
int cell_image_import(const char *path, const char *name, const struct cell_image_limits *limits,
	char *digest_ret, struct cell_error *err);

struct cell_image_info {
	char digest[CELL_IMAGE_DIGEST_CAP];
	char **names; /* NULL-terminated, sorted */
	size_t n_layers;
	uint64_t bytes; /* of its layers, unpacked */
};

/* Sorted by digest. Free with cell_image_list_free. */
int cell_image_list(struct cell_image_info **ret, size_t *n_ret, struct cell_error *err);
void cell_image_list_free(struct cell_image_info *list, size_t n);

/* A name: takes the name away, and the image when it has no other. A digest: the image with all its
 * names. CELL_EBUSY while something holds it. Layers stay until cell_image_prune. */
int cell_image_remove(const char *ref, struct cell_error *err);

/* Remove layers no image needs, and what crashes left. bytes_ret (may be NULL): how much that was. */
int cell_image_prune(uint64_t *bytes_ret, struct cell_error *err);

/* Are the layers still what was unpacked? CELL_EBACKEND names the first that is not. */
int cell_image_verify(const char *ref, struct cell_error *err);
