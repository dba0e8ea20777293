/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include "server/db.h"

static const char *const one[] = {"CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, b BLOB)", NULL};
static const char *const two[] = {"CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, b BLOB)",
	"ALTER TABLE t ADD COLUMN x REAL DEFAULT 1.5", NULL};
static const struct db_module first = {"test", one}, second = {"test", two};

static struct db *fresh(void)
{
	struct db *db = NULL;
	struct cell_error err = {0};

	scratch_make();
	CHECK_(db_open(scratch_path("x.db"), &db, &err) == 0, "%s", err.msg);
	CHECK_(db_migrate(db, &first, &err) == 0, "%s", err.msg);
	return db;
}

static int collect(const struct db_row *row, void *user)
{
	size_t len;
	const char *blob = db_blob(row, 2, &len);

	(void)snprintf((char *)user + strlen(user), 200 - strlen(user), "%s=%lld:%.*s;",
		db_text(row, 0), (long long)db_int(row, 1), (int)len, blob ? blob : "");
	return 0;
}

TEST(what_is_written_is_read_back_after_the_file_was_closed)
{
	struct db *db = fresh();
	char text[200] = "";
	struct cell_error err = {0};

	ASSERT_EQ(db_run(db, &err, "INSERT INTO t VALUES (?,?,?)", "sib", "a", INT64_MIN, "xyz",
			  (size_t)3),
		1);
	ASSERT_EQ(db_run(db, &err, "INSERT INTO t VALUES (?,?,?)", "sin", "b", INT64_C(7)), 1);
	db_free(db);
	ASSERT_OK(db_open(scratch_path("x.db"), &db, &err));
	ASSERT_OK(db_each(db, collect, text, &err, "SELECT * FROM t ORDER BY k", ""));
	ASSERT_STR(text, "a=-9223372036854775808:xyz;b=7:;");
	db_free(db);
}

TEST(the_file_is_readable_to_its_owner_only)
{
	struct db *db = fresh();
	struct stat st;
	struct cell_error err = {0};

	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',1,NULL)", ""));
	ASSERT_OK(stat(scratch_path("x.db"), &st));
	ASSERT_EQ(st.st_mode & 077, 0);
	ASSERT_OK(stat(scratch_path("x.db-wal"), &st));
	ASSERT_EQ(st.st_mode & 077, 0);
	db_free(db);
}

TEST(the_same_key_twice_is_exists_and_bad_sql_is_our_bug)
{
	struct db *db = fresh();
	struct cell_error err = {0};

	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES (?,1,NULL)", "s", "a"));
	ASSERT_ERR(db_run(db, &err, "INSERT INTO t VALUES (?,1,NULL)", "s", "a"), -EEXIST);
	ASSERT_EQ(err.code, CELL_EEXISTS);
	ASSERT(db_run(db, &err, "NONSENSE", "") < 0);
	ASSERT_EQ(err.code, CELL_EINTERNAL);
	db_free(db);
}

TEST(migrations_go_on_from_where_the_file_is_and_never_back)
{
	struct db *db = fresh();
	int64_t n = 0;
	struct cell_error err = {0};

	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',1,NULL)", ""));
	ASSERT_OK(db_migrate(db, &second, &err));
	ASSERT_OK(db_migrate(db, &second, &err)); /* nothing more to do */
	ASSERT_OK(db_number(db, &n, &err, "SELECT x*2 FROM t", ""));
	ASSERT_EQ(n, 3);
	ASSERT(db_migrate(db, &first, &err) < 0);
	ASSERT_EQ(err.code, CELL_ENOTSUP);
	ASSERT_HAS(err.hint, "newer cell");
	db_free(db);
}

TEST(a_migration_that_fails_leaves_nothing)
{
	static const char *const bad[] = {"CREATE TABLE ok (a); CREATE TABLE ok (b);", NULL};
	static const struct db_module module = {"bad", bad};
	struct db *db = fresh();
	int64_t n = 0;
	struct cell_error err = {0};

	ASSERT(db_migrate(db, &module, &err) < 0);
	ASSERT_OK(db_number(db, &n, &err, "SELECT count(*) FROM sqlite_master WHERE name='ok'",
		""));
	ASSERT_EQ(n, 0);
	db_free(db);
}

static int fails(void)
{
	return -EPIPE;
}

TEST(a_transaction_is_all_or_nothing_and_does_not_nest)
{
	struct db *db = fresh();
	int64_t n = 0;
	struct cell_error err = {0};

	ASSERT_OK(db_begin(db, &err));
	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',1,NULL)", ""));
	ASSERT_ERR(db_begin(db, &err), -EDEADLK);
	ASSERT_ERR(db_end(db, fails(), &err), -EPIPE);
	ASSERT_OK(db_number(db, &n, &err, "SELECT count(*) FROM t", ""));
	ASSERT_EQ(n, 0);
	ASSERT_OK(db_begin(db, &err));
	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',1,NULL)", ""));
	ASSERT_OK(db_end(db, 0, &err));
	ASSERT_OK(db_number(db, &n, &err, "SELECT count(*) FROM t", ""));
	ASSERT_EQ(n, 1);
	ASSERT_ERR(db_number(db, &n, &err, "SELECT n FROM t WHERE k='zz'", ""), -ENOENT);
	db_free(db);
}

TEST(a_killed_writer_loses_what_it_did_not_commit_and_nothing_else)
{
	struct db *db = fresh();
	int64_t n = 0;
	struct cell_error err = {0};

	db_free(db);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		if (db_open(scratch_path("x.db"), &db, &err) < 0)
			_exit(1);
		for (int i = 0; i < 100; i++)
			if (db_run(db, &err, "INSERT INTO t VALUES (?,1,NULL)", "s",
				    (char[]){(char)('!' + i), 0}) < 0)
				_exit(2);
		if (db_begin(db, &err) < 0 || db_run(db, &err, "DELETE FROM t", "") < 0)
			_exit(3);
		(void)raise(SIGKILL);
	}
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFSIGNALED(status));
	ASSERT_OK(db_open(scratch_path("x.db"), &db, &err));
	ASSERT_OK(db_number(db, &n, &err, "SELECT count(*) FROM t", ""));
	ASSERT_EQ(n, 100);
	db_free(db);
}

TEST(a_full_disk_is_no_space_and_it_goes_on_afterwards)
{
	struct db *db = fresh();
	struct cell_error err = {0};
	static char big[65536];
	int r = 0;

	ASSERT_OK(db_script(db, "PRAGMA max_page_count=20", &err));
	for (int i = 0; i < 10 && r >= 0; i++)
		r = db_run(db, &err, "INSERT INTO t VALUES (?,1,?)", "sb",
			(char[]){(char)('a' + i), 0}, big, sizeof big);
	ASSERT_ERR(r, -ENOSPC);
	ASSERT_EQ(err.code, CELL_ENOSPACE);
	ASSERT_OK(db_script(db, "PRAGMA max_page_count=2000", &err));
	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('z',1,?)", "b", big, sizeof big));
	db_free(db);
}

TEST(a_damaged_file_is_refused_with_what_to_do)
{
	struct db *db = fresh();
	struct cell_error err = {0};
	static char junk[4096];

	for (int i = 0; i < 2000; i++) {
		char k[16];
		(void)snprintf(k, sizeof k, "key%d", i);
		ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES (?,1,NULL)", "s", k));
	}
	db_free(db);
	memset(junk, 0x5a, sizeof junk);
	int fd = open(scratch_path("x.db"), O_WRONLY);
	ASSERT(pwrite(fd, junk, sizeof junk, 8192) == sizeof junk);
	close(fd);
	ASSERT(db_open(scratch_path("x.db"), &db, &err) < 0);
	ASSERT_EQ(err.code, CELL_EINTERNAL);
	ASSERT_HAS(err.msg, "damaged");
	ASSERT_HAS(err.hint, ".recover");
	scratch_write(scratch_path("y.db"),
		"this is no database, however long it may be, and it is long");
	ASSERT(db_open(scratch_path("y.db"), &db, &err) < 0);
	ASSERT_HAS(err.msg, "damaged");
}

TEST(a_reader_beside_the_writer_sees_and_changes_nothing)
{
	struct db *db = fresh(), *reader = NULL;
	int64_t n = 0;
	struct cell_error err = {0};

	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',1,NULL)", ""));
	ASSERT_OK(db_open_readonly(scratch_path("x.db"), &reader, &err));
	ASSERT_OK(db_number(reader, &n, &err, "SELECT count(*) FROM t", ""));
	ASSERT_EQ(n, 1);
	ASSERT(db_run(reader, &err, "DELETE FROM t", "") < 0);
	ASSERT_EQ(err.code, CELL_EDENIED);
	db_free(reader);
	ASSERT(db_open_readonly(scratch_path("none.db"), &reader, &err) < 0);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
	db_free(db);
}

static int again(const struct db_row *row, void *user)
{
	int64_t n = 0;
	struct cell_error err = {0};

	(void)row;
	/* The same text while it is being walked over. */
	ASSERT_OK(db_number(user, &n, &err, "SELECT n FROM t", ""));
	return 0;
}

TEST(a_row_function_may_ask_the_same_again)
{
	struct db *db = fresh();
	struct cell_error err = {0};

	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',1,NULL)", ""));
	ASSERT_OK(db_each(db, again, db, &err, "SELECT n FROM t", ""));
	db_free(db);
}

#include <pthread.h>
static void *hammer(void *user)
{
	struct cell_error err = {0};

	for (int i = 0; i < 200; i++)
		if (db_run(user, &err, "UPDATE t SET n=n+1 WHERE k='a'", "") != 1)
			return user;
	return NULL;
}

TEST(threads_take_turns)
{
	struct db *db = fresh();
	pthread_t threads[4];
	int64_t n = 0;
	struct cell_error err = {0};

	ASSERT_OK(db_run(db, &err, "INSERT INTO t VALUES ('a',0,NULL)", ""));
	for (int i = 0; i < 4; i++)
		ASSERT(pthread_create(&threads[i], NULL, hammer, db) == 0);
	for (int i = 0; i < 4; i++) {
		void *bad;
		ASSERT(pthread_join(threads[i], &bad) == 0 && !bad);
	}
	ASSERT_OK(db_number(db, &n, &err, "SELECT n FROM t", ""));
	ASSERT_EQ(n, 800);
	db_free(db);
}
