/* SPDX-License-Identifier: Apache-2.0 */
/* host_path.h: where on the host a copy goes. */
#pragma once
#include <sys/types.h>

#include "base/error.h"

/* The last component of a path without trailing slashes; NULL when it names nothing of its own. Caller frees. */
char *host_last_name(const char *path);
/* mkdir -p; mode is the last one's. */
int host_make_dirs(const char *path, mode_t mode);
/* The directory that gets the file when `path` of a cell is copied to host_path, made when it is not there, as an O_PATH descriptor; *ret_name
 * is the file's name in it (caller frees). */
int host_open_target(const char *path, const char *host_path, char **ret_name,
	struct cell_error *err);
