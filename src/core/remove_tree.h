/* SPDX-License-Identifier: Apache-2.0 */
/* remove_tree.h: removing a directory tree that somebody hostile may have written. */
#pragma once
#include "base/error.h"

/* Remove `name`, an entry of dir_fd, and everything below it. Follows no symbolic link, enters no other mount
 * (-EXDEV), copes with any depth and with directories without permissions. A tree that is gone is
 * success. */
int cell_remove_tree(int dir_fd, const char *name, struct cell_error *err);
