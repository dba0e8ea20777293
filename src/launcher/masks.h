/* SPDX-License-Identifier: Apache-2.0 */
/* masks.h: files of /proc that tell of the machine instead of the cell, covered by nothing. */
#pragma once
#include "launcher/fail.h"

/* Which of them this kernel has. Once, while /proc of the host is in sight. */
void masks_find(void);
/* Cover them in a cell's /proc; the stage is still the root. */
int masks_cover(int proc_fd, struct failure *f);
