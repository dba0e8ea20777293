/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h: how much a tenant may. Sessions hold cells, CPU, memory and storage, saved ones storage and
 * their number; holds are in the database, so that a server that starts knows them. Execs a minute are a bucket that fills
 * steadily; streams are counted in memory.
 *
 *	server:
 *	  quotas: {cells: 50, cpus: 16, memory: 32g, storage: 100g, snapshots: 20,
 *	  execs_per_minute: 600, streams: 200} # each tenant
 *	  tenants:
 *	    acme: {cells: 500} # over that
 *
 * What is not set is not limited. Thread-safe.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "server/db.h"

struct cell_config;
extern const struct db_module quota_module;

enum quota_kind {
	QUOTA_CELLS,
	QUOTA_CPU_MILLIS,
	QUOTA_MEMORY_BYTES,
	QUOTA_STORAGE_BYTES,
	QUOTA_SNAPSHOTS,
	QUOTA_STREAMS,
	QUOTA_EXECS_PER_MINUTE,
	QUOTA_COUNT,
	QUOTA_HELD = QUOTA_STREAMS, /* those below are held by sessions and snapshots */
};
extern const char *const quota_names[QUOTA_COUNT]; /* "cells", "cpus" ... as in the configuration */

struct quota_limits {
	uint64_t of[QUOTA_COUNT]; /* UINT64_MAX: none */
};

/* Why not, and when to come back. */
struct quota_verdict {
	bool is_allowed;
	enum quota_kind kind;
	uint64_t limit, used, asked;
	uint64_t retry_after_ms; /* 0: when something is freed */
};
/* The verdict as an error: CELL_ELIMIT, with what would help. Returns negative. */
int quota_fail(const struct quota_verdict *v, const char *tenant, struct cell_error *err);

struct quota;
/* Reads the limits, makes its table and counts what is held. cfg may be NULL: no limits. db is
 * borrowed. */
int quota_new(struct cell_config *cfg, struct db *db, struct quota **ret, struct cell_error *err);
void quota_free(struct quota *q);
/* Other limits from now on. */
int quota_reload(struct quota *q, struct cell_config *cfg, struct cell_error *err);

/* A session takes all of it or nothing. amounts: QUOTA_CELLS .. QUOTA_SNAPSHOTS. The same id
 * again changes what it holds. 0 also when refused: look at the verdict. */
int quota_hold(struct quota *q, const char *id, const char *tenant,
	const uint64_t amounts[QUOTA_HELD], struct quota_verdict *ret, struct cell_error *err);
/* The session is gone; nothing to do when it holds nothing. */
int quota_release(struct quota *q, const char *id, struct cell_error *err);
/* Ids that hold something: for reconciling with the sessions there are. */
typedef int (*quota_hold_fn)(const char *id, const char *tenant, void *user);
int quota_each(struct quota *q, quota_hold_fn fn, void *user, struct cell_error *err);

/* One exec more. */
struct quota_verdict quota_exec(struct quota *q, const char *tenant, int64_t monotonic_ns);
/* A stream opens and closes. */
struct quota_verdict quota_stream_open(struct quota *q, const char *tenant);
void quota_stream_close(struct quota *q, const char *tenant);

void quota_used(struct quota *q, const char *tenant, struct quota_limits *ret_limits,
	uint64_t ret_used[QUOTA_COUNT]);
