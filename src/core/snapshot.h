/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h: beginning with a snapshot, and cleaning up; for cell.c and cells.c. What users call is in cell/snapshot.h. */
#pragma once
#include "core/handle.h"

/* One that a cell begins with: as long as it is held nobody removes it. */
struct snapshot_held {
	int fd; /* -1: none */
	char id[40];
	char backend[256]; /* that made it, with its wrappers */
	unsigned apart;
};
#define SNAPSHOT_HELD_INIT \
	{                  \
		.fd = -1   \
	}
void snapshot_release(struct snapshot_held *h);
#define auto_snapshot __attribute__((cleanup(snapshot_release)))

/* The one that spec->from names, and the spec that the back end is to see; nothing to do when it names none. `ret` must outlive
 * the spec. */
int snapshot_hold(struct cell_spec *spec, struct snapshot_held *ret, struct cell_error *err);
/* Into the cell, which is connected: what its back end does not bring. has_workspace: it is the host's, and left alone. */
int snapshot_restore(struct cell *c, const struct snapshot_held *h, bool has_workspace,
	struct cell_error *err);
/* Does one have this id, or is one being saved under it? Also when that cannot be told. */
bool snapshot_is_known(const struct cell_store *s, const char *id);
/* Remove what those left who died while they saved a cell. */
void snapshot_sweep(struct cell_store *s);
/* The same for this user's state directory. is_thorough: with what an engine went on to save for them, as cell_prune() does. */
void snapshot_tidy(bool is_thorough);
