/* SPDX-License-Identifier: Apache-2.0 */
/* mount.h: mounting through file descriptors. All give 0 or an fd, or -1 with errno. */
#pragma once
#include <stdbool.h>

/* By which calls. Classic: by mount(2), see mount_classic.h. Chosen once, by trying, with the stage's own
 * file system (stage.c); new ones until then. */
bool mount_is_classic(void);
void mount_be_classic(void);
/* Do the new calls all work? tree_fd: a mount of theirs in our namespace, nothing mounted below it. */
bool mount_probe(int tree_fd);

/* A new file system as a detached mount. options: key, value, ..., NULL; value NULL is a flag. */
int mount_new(const char *type, const char *const *options, unsigned attr);
/* A detached copy of what is at path under fd, with all below it. The path is one of ours: links in it
 * are followed. */
int mount_clone(int fd, const char *path, unsigned attr);
/* The same without what is mounted below. */
int mount_clone_one(int fd, const char *path, unsigned attr);
/* Attach a detached mount at a name of ours or of the kernel's: links in it are followed. */
int mount_move(int tree_fd, int dir_fd, const char *path);
/* Attach a detached mount at `path` under `root_fd`. The path is walked inside that root: no link in
 * it leads out of it, and the last component must not be one. Closes nothing. */
int mount_at(int tree_fd, int root_fd, const char *path);
/* Put what is at `source`, a path of ours, on top of `name` in dir_fd. */
int mount_cover(const char *source, int dir_fd, const char *name);
/* Add attributes to a whole detached tree. */
int mount_attr(int tree_fd, unsigned attr, int idmap_fd, bool is_recursive);
/* Close a detached mount that was not attached, or whose fd is no longer needed. */
void mount_drop(int *tree_fd);
/* Open a directory or file under root_fd the way mount_at does, O_PATH. */
int mount_open(int root_fd, const char *path);
/* The same, name by name: a link on the way is refused, not followed inside the root. */
int mount_walk(int root_fd, const char *path);
/* Make every directory of `path` under root_fd; is_file: the last one is an empty file. What exists
 * stays. */
int mount_make_target(int root_fd, const char *path, bool is_file);
