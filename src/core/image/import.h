/* SPDX-License-Identifier: Apache-2.0 */
/* import.h: from a file or directory somebody has to layers and a record in the store. */
#pragma once
#include "core/image/image.h"
#include "core/image/image_store.h"

/* Is this directory an OCI layout or an unpacked `docker save`, rather than a root file system? */
bool import_is_layout(int dir_fd);

/* The store is open with a shared lock. hex_ret: the image's record in images/. */
int import_path(struct image_store *s, const char *path, const struct cell_image_limits *limits,
	char hex_ret[DIGEST_HEX + 1], struct cell_error *err);
