/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_store.h: the directory images are kept in (image.h shows it): its places, its lock, small
 * files that appear whole or not at all. Knows nothing of what an image is.
 */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "core/image/digest.h"

enum image_lock {
	IMAGE_LOCK_SHARED,   /* reading and importing */
	IMAGE_LOCK_EXCLUSIVE /* removing: nobody imports or looks anything up meanwhile */
};

struct image_store {
	char *path; /* absolute */
	int fd, lock_fd, layers_fd, images_fd, names_fd, paths_fd, tmp_fd;
};

#define IMAGE_STORE_INIT                                                                   \
	{                                                                                  \
		.fd = -1, .lock_fd = -1, .layers_fd = -1, .images_fd = -1, .names_fd = -1, \
		.paths_fd = -1, .tmp_fd = -1                                               \
	}

/* Made where missing, mode 0700. Refuses one that is another user's or open to others. */
int image_store_open(struct image_store *s, enum image_lock lock, struct cell_error *err);
void image_store_done(struct image_store *s);
#define auto_image_store __attribute__((cleanup(image_store_done)))

/* Remove what crashed imports left, unless somebody is importing. Our lock is shared afterwards. */
void image_store_sweep(struct image_store *s);

/* A directory of our own in tmp/, its name in `name`. Returns an fd (O_RDONLY). */
int image_store_tmp(struct image_store *s, char name[64], struct cell_error *err);

/* A small file: -ENOENT (err untouched) when there is none. */
int image_store_read(int dir_fd, const char *name, size_t max, struct buf *ret,
	struct cell_error *err);
int image_store_write(struct image_store *s, int dir_fd, const char *name, const void *p, size_t n,
	struct cell_error *err);

/* Calls fn with the name of each entry that does not begin with '.'; stops when it returns < 0. */
int image_store_each(int dir_fd, int (*fn)(const char *name, void *user), void *user,
	struct cell_error *err);

/* "name" or "name:tag" to a file name in names/ (":latest" is added). CELL_EINVAL for what is no
 * name of an image. */
int image_name_encode(const char *name, char **ret, struct cell_error *err);
/* And back; NULL for a file that is none of ours or no memory. */
char *image_name_decode(const char *file);
