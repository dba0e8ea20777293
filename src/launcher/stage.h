/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h: names in the launcher's own root, which every cell's first process starts in. */
#pragma once
#include "launcher/fail.h"

#define STAGE_HOST    "host"	/* the template */
#define STAGE_CELL    "cell"	/* where a cell's root is put before it becomes its / */
#define STAGE_SCRATCH "scratch" /* where its private file system is */
#define STAGE_LOWER   "lower"	/* where an image is, below an overlay */
#define STAGE_EMPTY   "empty"	/* covers directories of /proc */
#define STAGE_NOTHING "nothing" /* covers files of /proc */
/* where there are only classic mounts */
#define STAGE_POOL  "pool"  /* what is not yet where it belongs: mount_classic.h */
#define STAGE_OUTER "outer" /* all the clients see: mount(2) copies within one namespace only */

/* Between these two calls clients' fds can be copied as mounts. */
int stage_enter_outer(struct failure *f);
int stage_leave_outer(struct failure *f);
