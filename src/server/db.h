/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db.h: the server's SQLite file. Write-ahead log, synchronous=NORMAL: a killed server loses
 * nothing that was committed, a machine that loses power may lose the last moments but never the
 * order.
 *
 * One handle and one lock for all threads: a call takes the lock, runs one prepared statement and
 * gives it back. The lock is recursive, so a transaction holds it from db_begin to its end and
 * calls go on inside. A statement is prepared once for each SQL text and kept. Texts and blobs of
 * a row live until the row function returns.
 *
 * Bindings are named by letters, one for each ?:
 *	s  const char * (NULL is null)		i  int64_t
 *	b  const void *, size_t			d  double
 *	n  nothing: null
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct db;
struct db_row; /* valid within a row function only */

/* A module's tables: each text of SQL takes them from one version to the next. Texts are only
 * ever added. */
struct db_module {
	const char *name;
	const char *const *migrations; /* NULL-terminated */
};

/* Open or make the file (mode 0600), check it, set it up. A damaged file is CELL_EINTERNAL with a
 * hint that says how to go on. `path` ":memory:" is for tests. */
int db_open(const char *path, struct db **ret, struct cell_error *err);
/* For looking only, beside a server that runs: CELL_ENOTFOUND when there is none. */
int db_open_readonly(const char *path, struct db **ret, struct cell_error *err);
void db_free(struct db *db);
void db_freep(struct db **db);
#define auto_db auto_(db_freep)

/* Bring a module's tables up to date, in one transaction. A file that a newer version has written
 * is CELL_ENOTSUP. */
int db_migrate(struct db *db, const struct db_module *module, struct cell_error *err);

/* One statement without rows. How many rows it changed. A row that is there already is
 * CELL_EEXISTS. */
int db_run(struct db *db, struct cell_error *err, const char *sql, const char *types, ...);

/* A function for each row; it returns 0 to go on, anything else ends the walk and is returned. It
 * may call the database, but not change what it is walking over. */
typedef int (*db_row_fn)(const struct db_row *row, void *user);
int db_each(struct db *db, db_row_fn fn, void *user, struct cell_error *err, const char *sql,
	const char *types, ...);
/* The one number a statement gives; -ENOENT (err untouched) when it gives no row. */
int db_number(struct db *db, int64_t *ret, struct cell_error *err, const char *sql,
	const char *types, ...);

int64_t db_int(const struct db_row *row, int column);
double db_real(const struct db_row *row, int column);
bool db_is_null(const struct db_row *row, int column);
const char *db_text(const struct db_row *row, int column); /* NULL when null */
const void *db_blob(const struct db_row *row, int column, size_t *ret_len);

/* All or nothing. db_begin takes the write lock at once and holds the handle's lock until
 * db_commit or db_rollback. db_end commits when r >= 0, else rolls back, and returns r or what
 * the commit said:
 *	int r = db_begin(db, err);
 *	if (r == 0)
 *		r = db_end(db, work(db, err), err);
 * Transactions do not nest (-EDEADLK). */
int db_begin(struct db *db, struct cell_error *err);
int db_commit(struct db *db, struct cell_error *err);
void db_rollback(struct db *db);
int db_end(struct db *db, int r, struct cell_error *err);

/* Many statements in one text, without bindings: for migrations and tests. */
int db_script(struct db *db, const char *sql, struct cell_error *err);
