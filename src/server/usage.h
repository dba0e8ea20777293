/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h: who used how much. Counted in memory by hour, tenant, session, back end and operation,
 * added to the database by usage_flush() (each second, say) and at once for a session that ends.
 *
 * Exact across a kill -9 when samples come with the audit record they belong to
 * (server/ledger.h): the database knows up to which record it has counted, and usage_recover()
 * counts the rest from the log.
 *
 * Thread-safe.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "server/audit.h"
#include "server/db.h"
#include "server/histogram.h"
#include "server/price.h"

#define USAGE_PENDING_MAX 4096 /* rows in memory before a flush is forced */

struct usage;
/* Makes its tables. db is borrowed. */
int usage_new(struct db *db, struct usage **ret, struct cell_error *err);
void usage_free(struct usage *u); /* flushes nothing */

struct usage_key {
	const char *tenant, *session, *backend, *operation; /* NULL: "" */
};
/* audit_seq: the record it stands in; 0 when it stands in none. -ENOMEM leaves it uncounted. */
int usage_add(struct usage *u, const struct usage_key *key, const struct usage_sample *sample,
	int64_t unix_ns, uint64_t audit_seq, struct cell_error *err);
int usage_flush(struct usage *u, struct cell_error *err);
/* Count the result records behind the last one counted. How many. */
int usage_recover(struct usage *u, const char *audit_dir, struct cell_error *err);

struct usage_total {
	uint64_t count, errors;
	uint64_t sessions; /* operations session.create that went well */
	uint64_t wall_us, cpu_us, mib_ms, bytes_in, bytes_out;
};
enum usage_by {
	USAGE_BY_SESSION,
	USAGE_BY_TENANT,
	USAGE_BY_BACKEND,
	USAGE_BY_OPERATION,
	USAGE_BY_ALL, /* one line */
};
struct usage_query {
	enum usage_by by;
	int64_t since_ns, until_ns;			    /* 0: open; hours are whole */
	const char *tenant, *session, *backend, *operation; /* NULL: any */
};
struct usage_line {
	const char *name; /* of the session, tenant ...; "" for USAGE_BY_ALL */
	struct usage_total total;
	struct histogram latency;
	uint64_t cost; /* billionths; 0 without prices */
};
typedef int (*usage_line_fn)(const struct usage_line *line, void *user);
/* What is in the database, by name. prices may be NULL. */
int usage_read(struct db *db, const struct usage_query *query, const struct prices *prices,
	usage_line_fn fn, void *user, struct cell_error *err);
/* Drop hours before this time. */
int usage_forget(struct db *db, int64_t before_ns, struct cell_error *err);
