/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stdbool.h>

#include "launcher/fail.h"

/* Give a cell's root its /etc/resolv.conf: in an image, which takes changes, in place of its own; over
 * the host's programs by a file of the cell's private file system. */
int resolv_place(int root_fd, int scratch_fd, const char *text, bool is_image, struct failure *f);
