/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h: audit records of programs that are not the server. The log has one writer; `cell
 * token` beside a running server leaves its records in the database, and the server (or whoever
 * opens the log next) writes them down. A crash in between may write one twice, never not at all.
 */
#pragma once
#include "server/audit.h"
#include "server/db.h"

extern const struct db_module outbox_module;

/* Of the event, kind, action, tenant, actor, details and outcome are kept. */
int outbox_put(struct db *db, const struct audit_event *event, struct cell_error *err);
/* Write down what there is. How many. */
int outbox_drain(struct db *db, struct audit *audit, struct cell_error *err);
