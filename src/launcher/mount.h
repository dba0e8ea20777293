/* SPDX-License-Identifier: Apache-2.0 */
/* mount.h: mounting through file descriptors. All give 0 or an fd, or -1 with errno. */
#pragma once
#include <stdbool.h>

/* A new file system as a detached mount. options: key, value, ..., NULL; value NULL is a flag. */
int mount_new(const char *type, const char *const *options, unsigned attr);
/* A detached copy of what is at path under fd, with all below it. */
int mount_clone(int fd, const char *path, unsigned attr);
/* Attach a detached mount at `path` under `root_fd`. The path is walked inside that root: no link in
 * it leads out of it, and the last component must not be one. Closes nothing. */
int mount_at(int tree_fd, int root_fd, const char *path);
/* Add attributes to a whole detached tree. */
int mount_attr(int tree_fd, unsigned attr, int idmap_fd, bool is_recursive);
/* Open a directory or file under root_fd the way mount_at does, O_PATH. */
int mount_open(int root_fd, const char *path);
/* Make every directory of `path` under root_fd; is_file: the last one is an empty file. What exists
 * stays. */
int mount_make_target(int root_fd, const char *path, bool is_file);
