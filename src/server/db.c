/* SPDX-License-Identifier: Apache-2.0 */
/* db.c: see db.h. */
#include "server/db.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>

#include "server/table.h"

#define BUSY_MS	       5000
#define STATEMENTS_MAX 256 /* kept; our texts are constants, so there are never that many */

struct statement {
	UT_hash_handle hh;
	sqlite3_stmt *stmt;
	bool is_running; /* a row function that asks the same again gets one of its own */
	char sql[];
};

struct db {
	sqlite3 *handle;
	pthread_mutex_t lock; /* recursive */
	bool is_in_transaction;
	struct statement *statements;
	char path[];
};

struct db_row {
	sqlite3_stmt *stmt;
};

static int fail_damaged(struct db *db, struct cell_error *err, const char *what, const char *why)
{
	return cell_error_hint(err,
		cell_fail(err, CELL_EINTERNAL, EUCLEAN, "%s '%.200s': the file is damaged: %.120s",
			what, db->path, why),
		"stop the server, keep a copy, then try `sqlite3 '%.60s' .recover` into a new "
		"file, "
		"or move it away to begin anew: cells are found again in the state directory, "
		"tokens "
		"and usage are not",
		db->path);
}

static int fail(struct db *db, int rc, const char *what, struct cell_error *err)
{
	const char *why = sqlite3_errmsg(db->handle);
	int extended = sqlite3_extended_errcode(db->handle);

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "%s", what);
	case SQLITE_FULL:
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOSPACE, ENOSPC, "%s '%.200s'", what, db->path),
			"free some space on that file system; nothing of this call was kept");
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, EROFS, "%s '%.200s': %.120s", what, db->path,
				why),
			"the file and its directory must be writable by this user");
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return cell_error_hint(err,
			cell_fail(err, CELL_EBUSY, EBUSY, "%s '%.200s'", what, db->path),
			"another process held the database for more than %d s", BUSY_MS / 1000);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return fail_damaged(db, err, what, why);
	case SQLITE_CONSTRAINT:
		if (extended == SQLITE_CONSTRAINT_PRIMARYKEY ||
			extended == SQLITE_CONSTRAINT_UNIQUE)
			return cell_fail(err, CELL_EEXISTS, EEXIST, "%s: %.120s", what, why);
		return cell_fail(err, CELL_EINVAL, EINVAL, "%s: %.120s", what, why);
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return cell_fail(err, CELL_EBACKEND, EIO, "%s '%.200s': %.120s", what, db->path,
			why);
	default:
		return cell_fail(err, CELL_EINTERNAL, EPROTO, "%s: %.200s", what, why);
	}
}

static void lock(struct db *db)
{
	(void)pthread_mutex_lock(&db->lock);
}

static void unlock(struct db *db)
{
	(void)pthread_mutex_unlock(&db->lock);
}

static void drop_statements(struct db *db)
{
	struct statement *s, *next;

	for (s = db->statements; s; s = next) {
		next = s->hh.next;
		HASH_DEL(db->statements, s);
		(void)sqlite3_finalize(s->stmt);
		free(s);
	}
}

void db_free(struct db *db)
{
	if (!db)
		return;
	drop_statements(db);
	(void)sqlite3_close(db->handle);
	(void)pthread_mutex_destroy(&db->lock);
	free(db);
}

void db_freep(struct db **db)
{
	db_free(*db);
}

static int db_new(const char *path, struct db **ret)
{
	size_t n = strlen(path) + 1;
	struct db *db = calloc(1, sizeof *db + n);
	pthread_mutexattr_t how;

	if (!db)
		return -ENOMEM;
	memcpy(db->path, path, n);
	(void)pthread_mutexattr_init(&how);
	(void)pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE);
	(void)pthread_mutex_init(&db->lock, &how);
	(void)pthread_mutexattr_destroy(&how);
	*ret = db;
	return 0;
}

int db_script(struct db *db, const char *sql, struct cell_error *err)
{
	lock(db);
	int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
	int r = rc == SQLITE_OK ? 0 : fail(db, rc, "changing the database", err);
	unlock(db);
	return r;
}

static int open_handle(struct db *db, struct cell_error *err)
{
	int rc = sqlite3_open_v2(db->path, &db->handle,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
			(strcmp(db->path, ":memory:") ? 0 : SQLITE_OPEN_CREATE),
		NULL);

	if (!db->handle)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "opening the database");
	(void)sqlite3_extended_result_codes(db->handle, 1);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db->handle, BUSY_MS);
	return rc == SQLITE_OK ? 0 : fail(db, rc, "opening the database", err);
}

static int check_row(const struct db_row *row, void *user)
{
	const char *text = db_text(row, 0);

	if (text && !strcmp(text, "ok"))
		return 0;
	(void)snprintf(user, 120, "%s", text ? text : "?");
	return 1;
}

/* SQLite's quick check looks at every page but not at every index entry: fast enough for each
 * start. */
static int check_file(struct db *db, struct cell_error *err)
{
	char why[120] = "";
	int r = db_each(db, check_row, why, err, "PRAGMA quick_check(1)", "");

	return r > 0 ? fail_damaged(db, err, "checking the database", why) : r;
}

int db_open(const char *path, struct db **ret, struct cell_error *err)
{
	auto_db struct db *db = NULL;

	if (strcmp(path, ":memory:") != 0) {
		/* SQLite would make it readable to everybody. */
		auto_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return cell_fail_errno(err, errno, "opening the database '%s'", path);
	}
	int r = db_new(path, &db);
	if (r < 0)
		return cell_fail(err, CELL_ENOSPACE, -r, "opening the database");
	r = open_handle(db, err);
	if (r == 0)
		r = db_script(db,
			"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA "
			"foreign_keys=ON;"
			"PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF;",
			err);
	if (r == 0)
		r = check_file(db, err);
	if (r == 0)
		r = db_script(db,
			"CREATE TABLE IF NOT EXISTS schema_version "
			"(module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
			err);
	if (r == 0)
		*ret = steal_ptr(db);
	return r;
}

int db_open_readonly(const char *path, struct db **ret, struct cell_error *err)
{
	auto_db struct db *db = NULL;

	if (access(path, F_OK) < 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0, "there is no database at '%s'", path),
			"`cell serve` makes it; --state-dir says where to look");
	int r = db_new(path, &db);
	if (r < 0)
		return cell_fail(err, CELL_ENOSPACE, -r, "opening the database");
	/* Not SQLITE_OPEN_READONLY: the write-ahead log of a server that was killed could not be
	 * read then. */
	r = open_handle(db, err);
	if (r == 0)
		r = db_script(db, "PRAGMA query_only=ON; PRAGMA trusted_schema=OFF;", err);
	if (r == 0)
		*ret = steal_ptr(db);
	return r;
}

/* A statement ready to be bound; *ret_kept is NULL when it is the caller's to finalize. */
static int prepare(struct db *db, const char *sql, sqlite3_stmt **ret, struct statement **ret_kept)
{
	struct statement *s = NULL;
	size_t n = strlen(sql);

	HASH_FIND(hh, db->statements, sql, n, s);
	*ret_kept = NULL;
	if (s && !s->is_running) {
		*ret = s->stmt;
		*ret_kept = s;
		return SQLITE_OK;
	}
	bool is_kept = !s && HASH_COUNT(db->statements) < STATEMENTS_MAX;
	int rc = sqlite3_prepare_v3(db->handle, sql, (int)n + 1,
		is_kept ? SQLITE_PREPARE_PERSISTENT : 0, ret, NULL);
	if (rc != SQLITE_OK || !is_kept)
		return rc;
	s = calloc(1, sizeof *s + n + 1);
	if (!s)
		return SQLITE_OK; /* works without being kept */
	memcpy(s->sql, sql, n + 1);
	s->stmt = *ret;
	HASH_ADD(hh, db->statements, sql[0], (unsigned)n, s);
	if (table_has(s))
		*ret_kept = s;
	else
		free(s);
	return SQLITE_OK;
}

static int bind(sqlite3_stmt *stmt, const char *types, va_list ap)
{
	int rc = SQLITE_OK;

	for (int i = 1; rc == SQLITE_OK && types[i - 1]; i++) {
		const void *blob;
		const char *text;

		switch (types[i - 1]) {
		case 's':
			text = va_arg(ap, const char *);
			rc = text ? sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC)
				  : sqlite3_bind_null(stmt, i);
			break;
		case 'i':
			rc = sqlite3_bind_int64(stmt, i, va_arg(ap, int64_t));
			break;
		case 'd':
			rc = sqlite3_bind_double(stmt, i, va_arg(ap, double));
			break;
		case 'b':
			blob = va_arg(ap, const void *);
			rc = sqlite3_bind_blob64(stmt, i, blob, va_arg(ap, size_t), SQLITE_STATIC);
			break;
		case 'n':
			rc = sqlite3_bind_null(stmt, i);
			break;
		default:
			return SQLITE_MISUSE;
		}
	}
	return rc;
}

static int step(struct db *db, sqlite3_stmt *stmt, db_row_fn fn, void *user, struct cell_error *err)
{
	struct db_row row = {.stmt = stmt};
	int rc;

	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		int r = fn ? fn(&row, user) : 0;
		if (r != 0)
			return r;
	}
	return rc == SQLITE_DONE ? 0 : fail(db, rc, "using the database", err);
}

static int run(struct db *db, db_row_fn fn, void *user, struct cell_error *err, const char *sql,
	const char *types, va_list ap)
{
	sqlite3_stmt *stmt = NULL;
	struct statement *kept = NULL;

	int rc = prepare(db, sql, &stmt, &kept);
	if (rc == SQLITE_OK)
		rc = bind(stmt, types, ap);
	if (kept)
		kept->is_running = true;
	int r = rc == SQLITE_OK ? step(db, stmt, fn, user, err)
				: fail(db, rc, "asking the database", err);
	if (kept) {
		kept->is_running = false;
		(void)sqlite3_reset(stmt);
		(void)sqlite3_clear_bindings(stmt);
	} else {
		(void)sqlite3_finalize(stmt);
	}
	return r;
}

int db_each(struct db *db, db_row_fn fn, void *user, struct cell_error *err, const char *sql,
	const char *types, ...)
{
	va_list ap;

	lock(db);
	va_start(ap, types);
	int r = run(db, fn, user, err, sql, types, ap);
	va_end(ap);
	unlock(db);
	return r;
}

int db_run(struct db *db, struct cell_error *err, const char *sql, const char *types, ...)
{
	va_list ap;

	lock(db);
	va_start(ap, types);
	int r = run(db, NULL, NULL, err, sql, types, ap);
	va_end(ap);
	if (r == 0)
		r = sqlite3_changes(db->handle);
	unlock(db);
	return r;
}

struct number {
	int64_t value;
	bool is_there;
};

static int take_number(const struct db_row *row, void *user)
{
	*(struct number *)user = (struct number){.value = db_int(row, 0), .is_there = true};
	return 0;
}

int db_number(struct db *db, int64_t *ret, struct cell_error *err, const char *sql,
	const char *types, ...)
{
	struct number n = {0};
	va_list ap;

	lock(db);
	va_start(ap, types);
	int r = run(db, take_number, &n, err, sql, types, ap);
	va_end(ap);
	unlock(db);
	if (r == 0 && !n.is_there)
		return -ENOENT;
	if (r == 0)
		*ret = n.value;
	return r;
}

int64_t db_int(const struct db_row *row, int column)
{
	return sqlite3_column_int64(row->stmt, column);
}

double db_real(const struct db_row *row, int column)
{
	return sqlite3_column_double(row->stmt, column);
}

bool db_is_null(const struct db_row *row, int column)
{
	return sqlite3_column_type(row->stmt, column) == SQLITE_NULL;
}

const char *db_text(const struct db_row *row, int column)
{
	return (const char *)sqlite3_column_text(row->stmt, column);
}

const void *db_blob(const struct db_row *row, int column, size_t *ret_len)
{
	const void *p = sqlite3_column_blob(row->stmt, column);

	*ret_len = (size_t)sqlite3_column_bytes(row->stmt, column);
	return p;
}

int db_begin(struct db *db, struct cell_error *err)
{
	lock(db);
	int r = db->is_in_transaction ? cell_fail(err, CELL_EINTERNAL, EDEADLK,
						"a transaction within a transaction")
				      : db_run(db, err, "BEGIN IMMEDIATE", "");
	if (r < 0) {
		unlock(db);
		return r;
	}
	db->is_in_transaction = true;
	return 0;
}

void db_rollback(struct db *db)
{
	/* Some errors have rolled back already; then this says so, which is as well. */
	if (!sqlite3_get_autocommit(db->handle))
		(void)db_run(db, NULL, "ROLLBACK", "");
	db->is_in_transaction = false;
	unlock(db);
}

int db_commit(struct db *db, struct cell_error *err)
{
	int r = db_run(db, err, "COMMIT", "");

	if (r < 0) {
		db_rollback(db);
		return r;
	}
	db->is_in_transaction = false;
	unlock(db);
	return 0;
}

int db_end(struct db *db, int r, struct cell_error *err)
{
	if (r < 0) {
		db_rollback(db);
		return r;
	}
	int committed = db_commit(db, err);
	return committed < 0 ? committed : r;
}

static int migrate(struct db *db, const struct db_module *module, struct cell_error *err)
{
	int64_t version = 0, known = 0;

	while (module->migrations[known])
		known++;
	int r = db_number(db, &version, err, "SELECT version FROM schema_version WHERE module = ?",
		"s", module->name);
	if (r < 0 && r != -ENOENT)
		return r;
	if (version > known)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTSUP, 0,
				"the database has version %lld of '%s'; this program knows %lld",
				(long long)version, module->name, (long long)known),
			"a newer cell has used this state directory: use that one, or another "
			"directory");
	for (r = 0; r == 0 && version < known; version++)
		r = db_script(db, module->migrations[version], err);
	if (r == 0)
		r = db_run(db, err, "INSERT OR REPLACE INTO schema_version VALUES (?, ?)", "si",
			module->name, known);
	return r < 0 ? r : 0;
}

int db_migrate(struct db *db, const struct db_module *module, struct cell_error *err)
{
	int r = db_begin(db, err);

	if (r == 0)
		r = db_end(db, migrate(db, module, err), err);
	return r < 0 ? cell_error_prefix(err, r, "preparing the tables of '%s'", module->name) : 0;
}
