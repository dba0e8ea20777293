/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_part.h: what a back end does not save itself, as one archive of a snapshot: a tar stream that the guest makes of the cell's
 * home or workspace. Neither is trusted, nor need it be true: a file of a petabyte costs a cell nothing.
 */
#pragma once
#include "base/tar.h"
#include "core/cell.h"

/* Bytes of all files in one archive: beyond that nobody saves memory, but plays with holes. */
#define SNAPSHOT_PART_MAX (UINT64_C(64) << 30)

/* The archive that fn gives to the file fd, which is new, blocks of zeros as holes. CELL_ELIMIT as soon as a header tells that it
 * would be larger than SNAPSHOT_PART_MAX, or when it takes more than max_space bytes on disk (UINT64_MAX: as much as it likes);
 * CELL_ENOSPACE before the disk is full. */
int snapshot_part_take(tar_read_fn fn, void *user, int fd, uint64_t max_space,
	struct cell_error *err);

/* Between the guest and the file `name` in dir; from: WIRE_TREE_*. *space (may be NULL) is what may be taken, and what is left of it. */
int snapshot_part_save(struct cell *c, int dir, const char *name, unsigned from, uint64_t *space,
	struct cell_error *err);
int snapshot_part_restore(struct cell *c, int dir, const char *name, unsigned from,
	struct cell_error *err);
/* What a file takes on disk. */
uint64_t snapshot_space(int dir, const char *name);
