/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h: a root tree given as a tar archive, taken out into a directory of the cell. */
#pragma once

struct cell_error;

/* Into dir_fd, which is empty. An archive with anything unsafe in it is refused as a whole, a
 * compressed one by name; what was taken out before stays for the caller to remove. */
int chroot_unpack(const char *archive, int dir_fd, struct cell_error *err);
