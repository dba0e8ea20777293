/* SPDX-License-Identifier: Apache-2.0 */
#include "config_helper.h"
#include "scratch.h"
#include "server/clock.h"
#include "server/ledger.h"

#define HOUR_NS (3600 * NS_PER_S)

static struct db *db_make(void)
{
	struct db *db = NULL;
	struct cell_error err = {0};

	CHECK_(db_open(scratch_path("x.db"), &db, &err) == 0, "%s", err.msg);
	return db;
}

static struct usage *usage_make(struct db *db)
{
	struct usage *u = NULL;
	struct cell_error err = {0};

	CHECK_(usage_new(db, &u, &err) == 0, "%s", err.msg);
	return u;
}

static void add(struct usage *u, const char *tenant, const char *session, const char *operation,
	int64_t ns, struct usage_sample s)
{
	struct usage_key key = {tenant, session, "jail", operation};
	struct cell_error err = {0};

	ASSERT_OK(usage_add(u, &key, &s, ns, 0, &err));
}

struct lines {
	char text[2000];
	struct usage_total last;
	struct histogram latency;
	uint64_t cost;
};

static int take(const struct usage_line *line, void *user)
{
	struct lines *l = user;

	(void)snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%s:%llu/%llu;",
		line->name, (unsigned long long)line->total.count,
		(unsigned long long)line->total.errors);
	l->last = line->total;
	l->latency = line->latency;
	l->cost = line->cost;
	return 0;
}

static struct lines read_by(struct db *db, struct usage_query q, const struct prices *prices)
{
	struct lines l = {0};
	struct cell_error err = {0};

	CHECK_(usage_read(db, &q, prices, take, &l, &err) == 0, "%s", err.msg);
	return l;
}

TEST(usage_adds_up_by_session_tenant_and_operation)
{
	scratch_make();
	struct db *db = db_make();
	struct usage *u = usage_make(db);
	struct cell_error err = {0};

	add(u, "acme", "s1", "exec", 5 * HOUR_NS,
		(struct usage_sample){.wall_us = 10, .cpu_us = 5});
	add(u, "acme", "s1", "exec", 5 * HOUR_NS,
		(struct usage_sample){.wall_us = 30, .is_error = true});
	add(u, "acme", "s2", "file.read", 6 * HOUR_NS, (struct usage_sample){.bytes_out = 7});
	add(u, "beta", "s3", "exec", 7 * HOUR_NS, (struct usage_sample){.wall_us = 1000});
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_SESSION}, NULL).text, "");
	ASSERT_OK(usage_flush(u, &err));
	ASSERT_OK(usage_flush(u, &err)); /* nothing twice */
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_SESSION}, NULL).text,
		"s1:2/1;s2:1/0;s3:1/0;");
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_TENANT}, NULL).text,
		"acme:3/1;beta:1/0;");
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_OPERATION}, NULL).text,
		"exec:3/1;file.read:1/0;");
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_TENANT, .since_ns = 6 * HOUR_NS},
			   NULL)
			   .text,
		"acme:1/0;beta:1/0;");
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_ALL, .until_ns = 6 * HOUR_NS},
			   NULL)
			   .text,
		":2/1;");
	ASSERT_STR(read_by(db, (struct usage_query){.by = USAGE_BY_ALL, .tenant = "b*"}, NULL).text,
		"");
	struct lines l =
		read_by(db, (struct usage_query){.by = USAGE_BY_ALL, .tenant = "acme"}, NULL);
	ASSERT_EQ(l.last.wall_us, 40);
	ASSERT_EQ(l.last.cpu_us, 5);
	ASSERT_EQ(l.latency.count, 3);
	ASSERT_EQ(l.latency.max_us, 30);
	usage_free(u);
	db_free(db);
}

TEST(a_session_that_ends_is_written_at_once_and_priced)
{
	scratch_make();
	struct db *db = db_make();
	struct usage *u = usage_make(db);
	struct cell_config *cfg =
		config_of("server: {prices: {jail: {session: 2, cpu_second: 1}}}");
	struct prices *p = NULL;
	struct cell_error err = {0};

	add(u, "acme", "s1", "session.create", HOUR_NS, (struct usage_sample){.cpu_us = 500000});
	add(u, "acme", "s1", "session.delete", HOUR_NS, (struct usage_sample){0});
	ASSERT_OK(prices_new(cfg, &p, &err));
	struct lines l = read_by(db, (struct usage_query){.by = USAGE_BY_SESSION}, p);
	ASSERT_STR(l.text, "s1:2/0;");
	ASSERT_EQ(l.cost, 2500000000);
	ASSERT_EQ(usage_forget(db, 3 * HOUR_NS, &err), 2);
	prices_free(p);
	cell_config_free(cfg);
	usage_free(u);
	db_free(db);
}

TEST(many_sessions_do_not_fill_memory)
{
	scratch_make();
	struct db *db = db_make();
	struct usage *u = usage_make(db);
	char name[32];

	for (int i = 0; i < USAGE_PENDING_MAX + 5; i++) {
		(void)snprintf(name, sizeof name, "s%d", i);
		add(u, "acme", name, "exec", HOUR_NS, (struct usage_sample){0});
	}
	ASSERT_EQ(read_by(db, (struct usage_query){.by = USAGE_BY_ALL}, NULL).last.count,
		USAGE_PENDING_MAX);
	usage_free(u);
	db_free(db);
}

static struct audit *audit_make(void)
{
	struct audit *a = NULL;
	struct cell_error err = {0};
	struct audit_settings s = {.dir = scratch_path("audit"),
		.key_path = scratch_path("key"),
		.sync = AUDIT_SYNC_NEVER};

	CHECK_(audit_open(&s, &a, &err) == 0, "%s", err.msg);
	return a;
}

static int count_results(json_t *record, const char *line, size_t len, void *user)
{
	(void)record;
	(void)line;
	(void)len;
	++*(uint64_t *)user;
	return 0;
}

/* A server that is killed between a result and the flush counts it when it starts again, and only
 * once. */
TEST(usage_is_exact_when_the_server_is_killed)
{
	scratch_make();
	for (int round = 0; round < 10; round++) {
		int ready[2];
		ASSERT_OK(pipe(ready));
		pid_t pid = fork();
		ASSERT(pid >= 0);
		if (pid == 0) {
			struct db *db = db_make();
			struct audit *a = audit_make();
			struct usage *u = usage_make(db);
			struct ledger l = {.audit = a, .usage = u};
			struct cell_error err = {0};
			ASSERT_OK(usage_recover(u, scratch_path("audit"), &err));
			for (int i = 0;; i++) {
				struct usage_sample s = {.wall_us = 5, .bytes_in = 3};
				struct audit_event e = {.action = "exec.start",
					.operation = "exec",
					.tenant = "acme",
					.session = "s1",
					.backend = "jail",
					.usage = &s};
				ASSERT_OK(ledger_intent(&l, &e, &err));
				ASSERT_OK(ledger_result(&l, &e, &err));
				if (i % 7 == 3)
					ASSERT_OK(usage_flush(u, &err));
				if (i == 20)
					ASSERT(write(ready[1], "x", 1) == 1);
			}
		}
		char byte;
		close(ready[1]);
		ASSERT(read(ready[0], &byte, 1) == 1);
		ASSERT_OK(kill(pid, SIGKILL));
		ASSERT_EQ(waitpid(pid, NULL, 0), pid);
		close(ready[0]);
	}
	struct db *db = db_make();
	struct usage *u = usage_make(db);
	struct audit *a = audit_make();
	struct cell_error err = {0};
	struct audit_filter f = {.kind = "result", .action = "exec.start"};
	ASSERT_OK(usage_recover(u, scratch_path("audit"), &err));
	ASSERT_EQ(usage_recover(u, scratch_path("audit"), &err), 0);
	/* As many as the log has. */
	struct lines l = read_by(db, (struct usage_query){.by = USAGE_BY_ALL}, NULL);
	uint64_t in_log = 0;
	struct audit_verdict v;
	ASSERT_OK(audit_verify(scratch_path("audit"), scratch_path("key"), false, &v, &err));
	ASSERT_STR(v.reason, "");
	ASSERT_OK(audit_query(scratch_path("audit"), &f, count_results, &in_log, &err));
	ASSERT(in_log >= 210);
	ASSERT_EQ(l.last.count, in_log);
	ASSERT_EQ(l.last.bytes_in, 3 * in_log);
	audit_free(a);
	usage_free(u);
	db_free(db);
}
