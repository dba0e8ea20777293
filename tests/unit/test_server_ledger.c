/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include "server/ledger.h"

TEST(one_call_writes_counts_and_measures)
{
	struct audit *a = NULL;
	struct db *db = NULL;
	struct usage *u = NULL;
	struct metrics *m = NULL;
	struct metrics_family families[LEDGER_METRIC_COUNT + 1] = {0};
	struct cell_error err = {0};
	struct buf text = BUF_INIT(METRICS_TEXT_MAX);
	int64_t n = 0;

	scratch_make();
	memcpy(families, ledger_families, sizeof ledger_families);
	struct audit_settings s = {.dir = scratch_path("audit"), .key_path = scratch_path("key")};
	ASSERT_OK(audit_open(&s, &a, &err));
	ASSERT_OK(db_open(":memory:", &db, &err));
	ASSERT_OK(usage_new(db, &u, &err));
	ASSERT_OK(metrics_new(families, &m));
	struct ledger l = {a, u, m};
	struct usage_sample sample = {
		.wall_us = 1500, .cpu_us = 700, .bytes_in = 1, .bytes_out = 2};
	struct audit_event e = {.action = "exec.start",
		.tenant = "acme",
		.backend = "jail",
		.session = "s1",
		.usage = &sample,
		.operation = "exec"};
	struct audit_event first = e;
	first.usage = NULL;
	ASSERT_OK(ledger_intent(&l, &first, &err));
	ASSERT_OK(ledger_result(&l, &e, &err));
	ASSERT_EQ(audit_last_seq(a), 2);
	ASSERT_OK(usage_flush(u, &err));
	ASSERT_OK(db_number(db, &n, &err, "SELECT wall_us FROM usage WHERE operation='exec'", ""));
	ASSERT_EQ(n, 1500);
	ASSERT_OK(db_number(db, &n, &err, "SELECT audit_seq FROM usage_counted", ""));
	ASSERT_EQ(n, 2);
	ASSERT_OK(metrics_text(m, &text));
	ASSERT_HAS(buf_str(&text), "cell_operations_total{tenant=\"acme\",backend=\"jail\","
				   "operation=\"exec\",result=\"ok\"} 1");
	ASSERT_HAS(buf_str(&text),
		"cell_cpu_seconds_total{tenant=\"acme\",backend=\"jail\"} 0.000700");
	ASSERT_HAS(buf_str(&text), "direction=\"out\"} 2");
	buf_done(&text);
	metrics_free(m);
	usage_free(u);
	db_free(db);
	audit_free(a);
}
