/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h: where the server keeps its things: <state>/server/, mode 0700, beside <state>/cells.
 *
 *	server.db   audit.key   audit/   spool/
 */
#pragma once
#include <stdbool.h>

#include "base/cleanup.h"
#include "base/error.h"

struct cell_config;

struct place {
	char *dir, *db, *audit_dir, *audit_key, *spool;
};
/* The paths; with is_made the directory is made. server.audit.dir and server.audit.key of cfg
 * (may be NULL) win. Without is_made, CELL_ENOTFOUND when there never was a server. */
int place_find(struct cell_config *cfg, bool is_made, struct place *ret, struct cell_error *err);
void place_done(struct place *p);
#define auto_place auto_(place_done)
