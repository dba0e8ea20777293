/* SPDX-License-Identifier: Apache-2.0 */
/* disk.h: scratch space on disk, the client's half. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cell/error.h"

/* Can images be made here, by root? Else `ret` (200 bytes) says what is missing. */
bool jail_disk_has_images(char *ret_reason);
/* A formatted ext4 image without a name, on the disk that dir_fd is on. inodes 0: as many as is usual.
 * Its whole size is reserved. The fd is the caller's. */
int jail_disk_make_image(int dir_fd, uint64_t bytes, uint64_t inodes, struct cell_error *err);
/* An empty directory of this name in dir_fd, as an fd the caller owns. */
int jail_disk_make_directory(int dir_fd, const char *name, struct cell_error *err);
