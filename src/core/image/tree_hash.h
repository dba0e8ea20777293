/* SPDX-License-Identifier: Apache-2.0 */
/* tree_hash.h: one digest of a directory tree: names, types, modes, owners, sizes, contents, link
 * targets, overlay marks. Not times. */
#pragma once
#include "base/error.h"
#include "core/image/digest.h"

/* `path` is for messages. bytes_ret (may be NULL): of the regular files, each inode counted once per name. */
int tree_hash(int dir_fd, const char *path, char ret[DIGEST_HEX + 1], uint64_t *bytes_ret,
	struct cell_error *err);
