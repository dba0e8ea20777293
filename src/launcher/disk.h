/* SPDX-License-Identifier: Apache-2.0 */
/* disk.h: a cell's scratch space on disk. */
#pragma once
#include <stdint.h>

#include "launcher/fail.h"

/* Mount an ext4 image through a loop device that goes away with the mount. The root of it belongs to
 * uid and gid. A detached mount, or -1. To be called in the clients' mount namespace: that is where
 * /dev is. */
int disk_mount(int image_fd, uint32_t uid, uint32_t gid, struct failure *f);
