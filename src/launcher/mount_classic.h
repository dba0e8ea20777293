/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount_classic.h: mount.h by mount(2) alone, for Linux before 5.12 and for containers whose filter
 * does not know open_tree and its like.
 *
 * Mount(2) knows no detached mounts. Here such a mount is attached at a place of its own below a
 * directory of ours, the pool, that nobody else can name; an fd of it is then as good as one of a
 * detached one, and MS_MOVE through /proc/self/fd takes it where it belongs. Every path given to
 * mount(2) is a /proc/self/fd/N, or one inside of the launcher's own root: none is ever looked up
 * through files that somebody else can change.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Make the pool on a directory of ours; `path` is what a child finds it by. */
int classic_pool(int dir_fd, const char *name, const char *path);
/* In a child with a mount namespace of its own: use its copy of the pool. */
int classic_born(void);
/* Before it is born: places for so many trees, which it could not make. */
int classic_reserve(unsigned n);

int classic_new(const char *type, const char *const *options, unsigned attr);
/* The same at a place of the caller's, for whoever has no pool yet. */
int classic_new_at(const char *place, const char *type, const char *const *options, unsigned attr);
int classic_clone(int fd, const char *path, unsigned attr, bool is_recursive);
/* A copy of what is in fd's place, which the parent made, for MS_MOVE: the parent's is locked. */
int classic_inherit(int fd);
int classic_move(int tree_fd, int dir_fd, const char *path);
int classic_cover(const char *source, int dir_fd, const char *name);
int classic_attr(int tree_fd, unsigned attr, bool is_recursive);
/* fd is going to be closed: detach what is still in its place. */
void classic_drop(int fd);
