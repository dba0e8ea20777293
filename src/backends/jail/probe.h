/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "core/backend.h"
#include "launcher/request.h"

/* Really makes a cell, all but its last step. Asked once for each process. */
void jail_probe(struct cell_probe *p);
/* What the launcher said when that was found out; only after jail_probe. */
const struct launcher_reply *jail_found(void);

extern const struct cell_backend cell_backend_jail;

/* ---- walls.c ---- */
int jail_walls(const struct cell_backend *self, cell_wall_fn fn, void *user);
