/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_spare.h: directories of ended ephemeral cells, kept for the next ones. A process that makes and
 * ends cells all day would otherwise make and remove some inodes for each, which on some file systems costs
 * more than the cell itself (ext4 without a journal looks for one that was not freed lately).
 *
 *	<state>/cells/.next-*   kept by a living process, which has its lock; else swept
 *
 * A process that makes a few cells keeps none. What is kept is removed when the process ends.
 */
#pragma once
#include <stdbool.h>

#include "core/store.h"

#define CELL_SPARE_PREFIX ".next-"

/* Free the name of an ended cell and keep its directory. false: it was not, and is still there. On success
 * slot's fds belong to the spares. */
bool cell_spare_keep(struct cell_store *s, const char *name, struct cell_slot *slot);

/* Keep none of those this process has. */
void cell_spare_remove_all(void);

/* A kept directory, its lock held, still under its hidden name. false: there is none. */
bool cell_spare_take(struct cell_store *s, struct cell_slot *ret);
/* Give it the name of a cell. On failure it is removed, and slot is empty. */
int cell_spare_reveal(struct cell_store *s, const char *name, struct cell_slot *slot);
