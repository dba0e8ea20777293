/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshots.h: saving sessions within the quotas of their tenant. What a tenant has is counted by looking, since snapshots can be removed
 * behind the server's back (`cell snapshot rm`); the count is held as quota, so that sessions and snapshots share one storage. May block:
 * for threads of a pool.
 */
#pragma once
#include "server/quota.h"

/* `name` is TENANT/NAME. CELL_ELIMIT, with nothing left, when the tenant may not have it. */
int snapshots_save(struct quota *q, const char *tenant, const char *cell, const char *name,
	struct cell_error *err);
int snapshots_remove(struct quota *q, const char *tenant, const char *name, struct cell_error *err);

/* Ids of what is held: snapshots that are there, and those on their way. */
#define SNAPSHOTS_HOLD "snapshots/%s" /* tenant */
#define SAVING_HOLD    "saving/"
/* After a crash, and now and then: remove what was half saved, and count those of all tenants who hold any. */
void snapshots_tidy(struct quota *q, bool is_thorough);
