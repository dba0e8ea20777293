/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_server_alloc.c: every allocation of the ledger, the rules and the tokens fails in its
 * turn. Each time the call says so, nothing is left behind, the log still verifies and nobody is
 * let in.
 */
#include "server/clock.h"
#include "server/cron.h"
#include "server/guard.h"
#include "server/ledger.h"
#include "server/outbox.h"
#include "server/quota.h"
#include "server/settings.h"
#include "server/token.h"
#include "server/trace.h"
#include "torture/alloc.h"
#include "unit/config_helper.h"
#include "unit/scratch.h"

static const char text[] =
	"server:\n"
	"  quotas: {cells: 5}\n"
	"  tenants: {acme: {cells: 7}, beta: {memory: 1g}}\n"
	"  policy:\n"
	"    rules:\n"
	"      - {name: a, effect: deny, tenant: [x, y], labels: {k: v}, command: ['curl *'],\n"
	"         command_regex: '^rm', time: '22:00-06:00', zone: Europe/Berlin, reason: no}\n"
	"  guard: {url: 'http://g', token: secret}\n"
	"  audit: {redact: ['a+']}\n"
	"  prices: {jail: {cpu_second: 0.000010}}\n";

static int rules(struct cell_error *err)
{
	struct cell_config *cfg = NULL;
	struct policy *p = NULL;
	struct guard_settings *g = NULL;
	struct prices *prices = NULL;
	struct redact *redact = NULL;
	char *out = NULL;

	int r = cell_config_load_text("f", text, sizeof text - 1, &cfg, err);
	if (r == 0)
		r = policy_new(cfg, &p, err);
	if (r == 0)
		r = guard_settings_new(cfg, &g, err);
	if (r == 0)
		r = prices_new(cfg, &prices, err);
	if (r == 0)
		r = audit_redact_read(cfg, &redact, err);
	for (int i = 0; r == 0 && i < 4; i++) {
		r = cell_config_dump(cfg, i & 1 ? CELL_CONFIG_JSON : CELL_CONFIG_YAML, i & 2, &out,
			err);
		if (r == 0)
			free(out);
	}
	redact_free(redact);
	prices_free(prices);
	guard_settings_free(g);
	policy_free(p);
	cell_config_free(cfg);
	return r;
}

TEST(reading_the_rules_fails_cleanly)
{
	struct cell_error err = {0};

	torture_arm(0, false);
	int r = rules(&err);
	unsigned long count = torture_disarm();
	CHECK_(r == 0, "%s", err.msg);
	CHECK_(count > 200, "only %lu allocations", count);
	for (unsigned long n = 1; n <= count; n++) {
		memset(&err, 0, sizeof err);
		torture_arm(n, false);
		r = rules(&err);
		(void)torture_disarm();
		CHECK_(r == -ENOMEM, "allocation %lu: %d, %s", n, r, err.msg);
		ASSERT_NUM(err.code, CELL_ENOSPACE);
	}
}

struct office {
	struct db *db;
	struct audit *audit;
	struct usage *usage;
	struct quota *quota;
	struct metrics *metrics;
	struct tracer *tracer;
};

static int open_office(struct office *o, struct cell_error *err)
{
	struct audit_settings s = {.dir = scratch_path("audit"),
		.key_path = scratch_path("key"),
		.sync = AUDIT_SYNC_NEVER};
	static struct metrics_family families[LEDGER_METRIC_COUNT + 1];

	memcpy(families, ledger_families, sizeof ledger_families);
	int r = db_open(scratch_path("x.db"), &o->db, err);
	if (r == 0)
		r = db_migrate(o->db, &tenant_module, err);
	if (r == 0)
		r = db_migrate(o->db, &token_module, err);
	if (r == 0)
		r = db_migrate(o->db, &outbox_module, err);
	if (r == 0)
		r = audit_open(&s, &o->audit, err);
	if (r == 0)
		r = usage_new(o->db, &o->usage, err);
	if (r == 0)
		r = quota_new(NULL, o->db, &o->quota, err);
	if (r == 0 && (metrics_new(families, &o->metrics) < 0 ||
			      tracer_new("x", 1000, 0, &o->tracer) < 0))
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "making metrics");
	return r;
}

static int use_office(struct office *o, struct cell_error *err)
{
	struct ledger l = {o->audit, o->usage, o->metrics};
	struct usage_sample sample = {.wall_us = 5, .cpu_us = 6, .bytes_in = 7};
	json_t *details = json_pack("{s:[s,s], s:s}", "argv", "ls", "--token=x", "password", "y");
	struct audit_event e = {.action = "exec.start",
		.tenant = "acme",
		.session = "s1",
		.backend = "jail",
		.details = details,
		.usage = &sample};
	struct token_spec spec = {.tenant = "acme"};
	struct token t;
	char token[TOKEN_TEXT_MAX];
	uint64_t amounts[QUOTA_HELD] = {1, 2, 3, 4};
	struct quota_verdict v;
	struct trace_span span;

	int r = details ? ledger_result(&l, &e, err)
			: cell_fail(err, CELL_ENOSPACE, ENOMEM, "details");
	/* Reading JSON is left out: with one allocation failing in it, json_loads() of jansson was
	 * seen to write outside its memory (in lex_scan). So outbox_drain, usage_recover and the
	 * guard's answer are not covered here. */
	if (r == 0)
		r = outbox_put(o->db, &e, err);
	if (r == 0)
		r = usage_flush(o->usage, err);
	if (r == 0)
		r = token_create(o->db, &spec, clock_unix_ns(), &t, token, err);
	if (r == 0)
		r = token_check(o->db, token, NULL, clock_unix_ns(), &t, err);
	if (r == 0)
		r = quota_hold(o->quota, t.id, "acme", amounts, &v, err);
	trace_begin(o->tracer, NULL, TRACE_SERVER, "x", &span);
	trace_set(&span, "a", "b");
	trace_end(o->tracer, &span, false);
	struct buf body = BUF_INIT(1 << 20);
	int taken = tracer_take(o->tracer, &body);
	if (r == 0 && taken < 0)
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "spans");
	buf_done(&body);
	json_decref(details);
	return r;
}

static void close_office(struct office *o)
{
	audit_free(o->audit);
	usage_free(o->usage);
	quota_free(o->quota);
	metrics_free(o->metrics);
	tracer_free(o->tracer);
	db_free(o->db);
}

static void log_is_whole(unsigned long n)
{
	struct audit_verdict v;
	struct cell_error err = {0};

	if (access(scratch_path("key"), F_OK) < 0)
		return;
	CHECK_(audit_verify(scratch_path("audit"), scratch_path("key"), false, &v, &err) == 0, "%s",
		err.msg);
	CHECK_(!*v.reason, "after allocation %lu: %s", n, v.reason);
}

TEST_SLOW(the_ledger_and_the_tokens_cope_or_say_so, 600)
{
	struct cell_error err = {0};
	unsigned long count = 0, failed = 0;

	scratch_make();
	for (unsigned long n = 0; n == 0 || n <= count; n += n > 400 ? 7 : 1) {
		struct office o = {0};
		memset(&err, 0, sizeof err);
		torture_arm(n, false);
		int r = open_office(&o, &err);
		if (r == 0)
			r = use_office(&o, &err);
		unsigned long made = torture_disarm();
		count = n == 0 ? made : count;
		close_office(&o);
		CHECK_(n > 0 || r == 0, "%s", err.msg);
		if (r < 0) {
			failed++;
			CHECK_(err.code == CELL_ENOSPACE, "allocation %lu: %d %s (%s)", n, err.code,
				err.msg, cell_code_name(err.code));
		}
		log_is_whole(n);
	}
	CHECK_(count > 100 && failed > 50, "%lu allocations, %lu failures", count, failed);
}

/* No memory must never look like the right token. */
TEST(a_wrong_token_stays_wrong_whatever_fails)
{
	struct office o = {0};
	struct cell_error err = {0};
	struct token t;
	static const char wrong[] =
		"cell_aaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

	scratch_make();
	ASSERT_OK(open_office(&o, &err));
	for (unsigned long n = 1; n < 40; n++) {
		torture_arm(n, true);
		int r = token_check(o.db, wrong, "the-configured-one", clock_unix_ns(), &t, &err);
		(void)torture_disarm();
		ASSERT(r < 0);
	}
	close_office(&o);
}

static int zones(struct cell_error *err)
{
	auto_zone struct zone *z = NULL;
	struct buf out = BUF_INIT(1000);
	json_t *o = json_pack("{s:s, s:[s,s]}", "password", "x", "argv", "--token", "y");
	int r = zone_open("Europe/Berlin", &z, err);

	if (r == 0 && (!o || redact_json(NULL, o) < 0 || redact_text(NULL, "password=x", &out) < 0))
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "redacting");
	json_decref(o);
	buf_done(&out);
	return r;
}

TEST(zones_and_redaction_fail_cleanly)
{
	struct cell_error err = {0};

	torture_arm(0, false);
	ASSERT_OK(zones(&err));
	unsigned long count = torture_disarm();
	for (unsigned long n = 1; n <= count; n++) {
		memset(&err, 0, sizeof err);
		torture_arm(n, false);
		int r = zones(&err);
		(void)torture_disarm();
		CHECK_(r < 0 && err.code == CELL_ENOSPACE, "allocation %lu: %d %s", n, r, err.msg);
	}
}
