/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h: saved cells. A snapshot holds a cell's files as they were: its image with all changes, its home, and its
 * workspace where that is not a directory of the host. Processes, /tmp, environment and secrets are not in it. A cell begins
 * with one by spec.from, on the same back end, and can be saved again: snapshots stack.
 */
#ifndef CELL_SNAPSHOT_H
#define CELL_SNAPSHOT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell_error;

/* Save the named cell `cell` as snapshot `name` (a name like a cell's, or OWNER/NAME). It goes on running; what is written
 * meanwhile may be in it or not. CELL_EEXISTS; CELL_EBUSY when it is paused; CELL_ENOTSUP where the back end does
 * not promise CELL_CAP_SNAPSHOT; CELL_ELIMIT when home or workspace have files of more than 64 GiB, holes counted; CELL_ENOSPACE
 * before the disk is full. A failure leaves nothing. */
int cell_snapshot(const char *cell, const char *name, struct cell_error *err);
/* The same, and CELL_ELIMIT when it would take more than max_bytes of the state directory's disk (size_bytes below). */
int cell_snapshot_within(const char *cell, const char *name, uint64_t max_bytes,
	struct cell_error *err);

/* Strings are valid during the callback. */
struct cell_snapshot_info {
	const char *name;
	const char *cell; /* it was of */
	const char *from; /* snapshot or image that cell began with; "": nothing of the kind */
	const char *backend;
	uint64_t created_unix_ms;
	uint64_t
		size_bytes; /* taken in the state directory; what the back end keeps elsewhere (an image) is not in it */
};
typedef int (*cell_snapshot_fn)(const struct cell_snapshot_info *info, void *user);
/* All of this user's state directory, by name. A non-zero return of fn stops and is returned. */
int cell_snapshot_list(cell_snapshot_fn fn, void *user, struct cell_error *err);
/* Cells that began with it stay. CELL_ENOTFOUND; CELL_EBUSY while a cell is being made from it. */
int cell_snapshot_remove(const char *name, struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
