/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beneath.h: resolve paths strictly below a directory.
 *
 * Whatever the path, the symbolic links on its way and whoever renames things meanwhile: what is
 * opened lies below root_fd, or the call fails. Links with relative targets are followed while they
 * stay below; absolute links, '..' above the root and links that lead out give -EXDEV; the magic
 * links of /proc give -ELOOP. Names are bytes. An empty path is -EINVAL (the root itself is "."), a
 * path of more than BENEATH_PATH_MAX bytes or a name of more than NAME_MAX is -ENAMETOOLONG. libc
 * only.
 */
#pragma once
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define BENEATH_PATH_MAX  4095
#define BENEATH_LINKS_MAX 40

/* How to resolve. Both ways answer alike; the second is for kernels and filters without openat2. */
enum beneath_way {
	BENEATH_AUTO,	 /* openat2, or our own walk where it is missing */
	BENEATH_OPENAT2, /* -ENOSYS where it is missing */
	BENEATH_WALK,	 /* component by component */
};
/* For tests: process-wide. */
void beneath_set_way(enum beneath_way way);

/* Turn a path as a user gave it into one relative to the root: absolute paths are accepted when
 * their leading components are exactly root_path ("/" or absolute without trailing slash), else
 * -EXDEV. *ret points into `path` or is ".". Resolves nothing. */
int beneath_relative(const char *root_path, const char *path, const char **ret);

/* openat() below root_fd: an fd (CLOEXEC) or negative errno. Follows a final link unless
 * O_NOFOLLOW. */
int beneath_open(int root_fd, const char *path, int flags, mode_t mode);

/* The directory that holds the path's last component, O_PATH, and that component's name, which is
 * looked at but not opened. With is_followed a final link is resolved first, so that `name` is not
 * a link, though it need not exist. -EINVAL when the last component is '.' or '..' (the root itself
 * has no name below itself); -ENOTDIR for a trailing slash behind something that is no directory.
 */
int beneath_open_parent(int root_fd, const char *path, bool is_followed, char name[NAME_MAX + 1]);

/* Like mkdir -p: the directory, O_PATH, made with its missing parents (mode less the umask). */
int beneath_mkdirs(int root_fd, const char *path, mode_t mode);
