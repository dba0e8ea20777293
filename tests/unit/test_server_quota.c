/* SPDX-License-Identifier: Apache-2.0 */
#include "config_helper.h"
#include "scratch.h"
#include "server/clock.h"
#include "server/quota.h"

static const char text[] =
	"server:\n"
	"  quotas: {cells: 2, cpus: 4, memory: 1g, streams: 2, execs_per_minute: 60}\n"
	"  tenants: {acme: {cells: 3, execs_per_minute: 120}}\n";

static struct quota *make(struct db *db)
{
	struct cell_config *cfg = config_of(text);
	struct quota *q = NULL;
	struct cell_error err = {0};

	CHECK_(quota_new(cfg, db, &q, &err) == 0, "%s", err.msg);
	cell_config_free(cfg);
	return q;
}

static struct quota_verdict hold(struct quota *q, const char *id, const char *tenant, uint64_t cpus,
	uint64_t mib)
{
	uint64_t amounts[QUOTA_HELD] = {1, cpus * 1000, mib << 20, 0};
	struct quota_verdict v;
	struct cell_error err = {0};

	CHECK_(quota_hold(q, id, tenant, amounts, &v, &err) == 0, "%s", err.msg);
	return v;
}

TEST(a_tenant_holds_as_much_as_it_may_and_no_more)
{
	struct db *db = NULL;
	struct cell_error err = {0};

	ASSERT_OK(db_open(":memory:", &db, &err));
	struct quota *q = make(db);
	ASSERT(hold(q, "a", "beta", 1, 100).is_allowed);
	ASSERT(hold(q, "b", "beta", 1, 100).is_allowed);
	struct quota_verdict v = hold(q, "c", "beta", 1, 100);
	ASSERT(!v.is_allowed);
	ASSERT_EQ(v.kind, QUOTA_CELLS);
	ASSERT_EQ(v.limit, 2);
	ASSERT_EQ(v.used, 2);
	ASSERT(quota_fail(&v, "beta", &err) < 0);
	ASSERT_EQ(err.code, CELL_ELIMIT);
	ASSERT_HAS(err.hint, "server.tenants.beta.cells");
	ASSERT(hold(q, "c", "acme", 1, 100).is_allowed); /* another's is another's */
	ASSERT_OK(quota_release(q, "a", &err));
	ASSERT_OK(quota_release(q, "a", &err));
	ASSERT_EQ(hold(q, "d", "beta", 4, 1).kind, QUOTA_CPU_MILLIS);
	ASSERT(!hold(q, "d", "beta", 1, 1000).is_allowed);
	ASSERT(hold(q, "d", "beta", 3, 900).is_allowed);
	/* The same session again changes what it holds. */
	ASSERT(hold(q, "d", "beta", 2, 800).is_allowed);
	ASSERT(!hold(q, "d", "beta", 2, 1000).is_allowed);
	quota_free(q);
	db_free(db);
}

TEST(holds_outlive_the_server)
{
	struct db *db = NULL;
	struct cell_error err = {0};
	struct quota_limits limits;
	uint64_t used[QUOTA_COUNT];

	scratch_make();
	ASSERT_OK(db_open(scratch_path("q.db"), &db, &err));
	struct quota *q = make(db);
	ASSERT(hold(q, "a", "acme", 1, 100).is_allowed);
	ASSERT(hold(q, "b", "acme", 2, 200).is_allowed);
	quota_free(q);
	q = make(db);
	quota_used(q, "acme", &limits, used);
	ASSERT_EQ(used[QUOTA_CELLS], 2);
	ASSERT_EQ(used[QUOTA_CPU_MILLIS], 3000);
	ASSERT_EQ(limits.of[QUOTA_CELLS], 3);
	ASSERT(limits.of[QUOTA_STORAGE_BYTES] == UINT64_MAX);
	ASSERT(hold(q, "c", "acme", 1, 1).is_allowed);
	ASSERT(!hold(q, "d", "acme", 1, 1).is_allowed);
	quota_free(q);
	db_free(db);
}

TEST(limits_that_come_down_let_nobody_grow_but_everybody_shrink)
{
	struct db *db = NULL;
	struct cell_error err = {0};

	ASSERT_OK(db_open(":memory:", &db, &err));
	struct quota *q = make(db);
	ASSERT(hold(q, "a", "x", 4, 1).is_allowed);
	struct cell_config *cfg = config_of("server: {quotas: {cpus: 1}}");
	ASSERT_OK(quota_reload(q, cfg, &err));
	ASSERT(hold(q, "a", "x", 3, 1).is_allowed);
	ASSERT(!hold(q, "a", "x", 4, 1).is_allowed);
	ASSERT(!hold(q, "b", "x", 1, 1).is_allowed);
	cell_config_free(cfg);
	quota_free(q);
	db_free(db);
}

TEST(execs_come_in_a_burst_and_then_steadily)
{
	struct db *db = NULL;
	struct cell_error err = {0};
	int64_t now = 500 * NS_PER_S;
	int n = 0;

	ASSERT_OK(db_open(":memory:", &db, &err));
	struct quota *q = make(db);
	while (quota_exec(q, "x", now).is_allowed)
		n++;
	ASSERT_EQ(n, 60);
	struct quota_verdict v = quota_exec(q, "x", now);
	ASSERT_EQ(v.retry_after_ms, 1000);
	ASSERT(quota_fail(&v, "x", &err) < 0);
	ASSERT_STR(err.hint, "try again in 1000 ms");
	ASSERT(!quota_exec(q, "x", now + 999 * NS_PER_MS).is_allowed);
	ASSERT(quota_exec(q, "x", now + 1000 * NS_PER_MS).is_allowed);
	ASSERT(!quota_exec(q, "x", now + 1000 * NS_PER_MS).is_allowed);
	/* A long rest fills it, not more. */
	now += 1000 * NS_PER_S;
	for (n = 0; quota_exec(q, "x", now).is_allowed;)
		n++;
	ASSERT_EQ(n, 60);
	for (n = 0; quota_exec(q, "acme", now).is_allowed;)
		n++;
	ASSERT_EQ(n, 120);
	quota_free(q);
	db_free(db);
}

TEST(streams_are_counted_and_given_back)
{
	struct db *db = NULL;
	struct cell_error err = {0};

	ASSERT_OK(db_open(":memory:", &db, &err));
	struct quota *q = make(db);
	ASSERT(quota_stream_open(q, "x").is_allowed);
	ASSERT(quota_stream_open(q, "x").is_allowed);
	ASSERT(!quota_stream_open(q, "x").is_allowed);
	quota_stream_close(q, "x");
	ASSERT(quota_stream_open(q, "x").is_allowed);
	quota_stream_close(q, "nobody");
	quota_free(q);
	db_free(db);
}

TEST(without_a_configuration_nothing_is_limited)
{
	struct db *db = NULL;
	struct quota *q = NULL;
	struct cell_error err = {0};

	ASSERT_OK(db_open(":memory:", &db, &err));
	ASSERT_OK(quota_new(NULL, db, &q, &err));
	for (int i = 0; i < 1000; i++)
		ASSERT(quota_exec(q, "x", 0).is_allowed && quota_stream_open(q, "x").is_allowed);
	ASSERT(hold(q, "a", "x", 100000, 100000).is_allowed);
	quota_free(q);
	db_free(db);
}

TEST(snapshots_are_held_beside_sessions_and_share_their_storage)
{
	struct cell_config *cfg = config_of("server: {quotas: {snapshots: 2, storage: 10m}}\n");
	const uint64_t session[QUOTA_HELD] = {[QUOTA_CELLS] = 1, [QUOTA_STORAGE_BYTES] = 6 << 20};
	uint64_t saved[QUOTA_HELD] = {[QUOTA_SNAPSHOTS] = 2, [QUOTA_STORAGE_BYTES] = 4 << 20};
	struct quota_verdict v;
	struct cell_error err = {0};
	struct quota *q = NULL;
	struct db *db = NULL;

	ASSERT_OK(db_open(":memory:", &db, &err));
	ASSERT_OK(quota_new(cfg, db, &q, &err));
	ASSERT_OK(quota_hold(q, "s1", "acme", session, &v, &err));
	ASSERT_OK(quota_hold(q, "snapshots/acme", "acme", saved, &v, &err));
	ASSERT(v.is_allowed);
	saved[QUOTA_SNAPSHOTS] = 3;
	ASSERT_OK(quota_hold(q, "snapshots/acme", "acme", saved, &v, &err));
	ASSERT(!v.is_allowed && v.kind == QUOTA_SNAPSHOTS);
	ASSERT(quota_fail(&v, "acme", &err) < 0);
	ASSERT_HAS(err.hint, "remove a snapshot first, or raise server.tenants.acme.snapshots");
	saved[QUOTA_SNAPSHOTS] = 2;
	saved[QUOTA_STORAGE_BYTES] = 5 << 20;
	ASSERT_OK(quota_hold(q, "snapshots/acme", "acme", saved, &v, &err));
	ASSERT(!v.is_allowed && v.kind == QUOTA_STORAGE_BYTES);
	quota_free(q);
	/* the next server knows it */
	struct quota_limits limits;
	uint64_t used[QUOTA_COUNT];
	ASSERT_OK(quota_new(cfg, db, &q, &err));
	quota_used(q, "acme", &limits, used);
	ASSERT_EQ(used[QUOTA_SNAPSHOTS], 2);
	ASSERT_EQ(used[QUOTA_STORAGE_BYTES], 10 << 20);
	quota_free(q);
	cell_config_free(cfg);
	db_free(db);
}

TEST(holds_of_a_database_from_before_snapshots_are_taken_over)
{
	const struct db_module before = {.name = "quota",
		.migrations = (const char *const[]){quota_module.migrations[0], NULL}};
	struct cell_error err = {0};
	struct quota_limits limits;
	uint64_t used[QUOTA_COUNT];
	struct quota *q = NULL;
	struct db *db = NULL;

	ASSERT_OK(db_open(":memory:", &db, &err));
	ASSERT_OK(db_migrate(db, &before, &err));
	ASSERT(db_run(db, &err, "INSERT INTO quota_holds VALUES ('s1','acme',1,2,3,4)", "") >= 0);
	ASSERT_OK(quota_new(NULL, db, &q, &err));
	quota_used(q, "acme", &limits, used);
	ASSERT_EQ(used[QUOTA_CELLS], 1);
	ASSERT_EQ(used[QUOTA_STORAGE_BYTES], 4);
	ASSERT_EQ(used[QUOTA_SNAPSHOTS], 0);
	quota_free(q);
	db_free(db);
}
