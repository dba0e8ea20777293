/* SPDX-License-Identifier: Apache-2.0 */
/* skeleton.h: what of a root is not the host's: directories, a minimal /etc, /dev's links. All work
 * under a directory fd and give 0, or -1 with errno. */
#pragma once
#include <stddef.h>
#include <sys/sysmacros.h>

struct skeleton_device {
	const char *name;
	unsigned major, minor;
};
extern const struct skeleton_device skeleton_devices[]; /* ends with a NULL name */
#define makedev_of(d) makedev((d)->major, (d)->minor)

/* Directories of the host's /etc that programs cannot do without and that hold no secret. */
extern const char *const skeleton_etc_bound[];

int skeleton_root(int root_fd);
/* Writes our own files and copies those of the host that say how the machine is set up. */
int skeleton_etc(int root_fd);
/* Directories and links of /dev; devices are the caller's. */
int skeleton_dev(int dev_fd);
