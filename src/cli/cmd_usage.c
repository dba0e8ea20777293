/* SPDX-License-Identifier: Apache-2.0 */
/* cell usage: who used how much, what it cost and how long it took. Reads the server's database. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/ledger.h"
#include "cli/output.h"
#include "cli/spec.h"
#include "cli/units.h"
#include "server/usage.h"

static const char *const by_words[] = {"session", "tenant", "backend", "operation", "all"};

struct listing {
	const struct cli *cli;
	const char *by;
	const char *currency;
	struct cli_table table;
	json_t *list;
};

static void add_json(struct listing *l, const struct usage_line *u)
{
	char cost[PRICE_TEXT_MAX];
	const struct usage_total *t = &u->total;
	json_t *o = json_object();

	if (strcmp(l->by, "all") != 0)
		cli_json_string(o, l->by, u->name);
	json_object_set_new(o, "count", json_integer((json_int_t)t->count));
	json_object_set_new(o, "errors", json_integer((json_int_t)t->errors));
	json_object_set_new(o, "sessions", json_integer((json_int_t)t->sessions));
	json_object_set_new(o, "wall_seconds", json_real((double)t->wall_us / 1e6));
	json_object_set_new(o, "cpu_seconds", json_real((double)t->cpu_us / 1e6));
	json_object_set_new(o, "gib_seconds", json_real((double)t->mib_ms / 1024e3));
	json_object_set_new(o, "bytes_in", json_integer((json_int_t)t->bytes_in));
	json_object_set_new(o, "bytes_out", json_integer((json_int_t)t->bytes_out));
	json_object_set_new(o, "latency_ms",
		json_pack("{s:f, s:f, s:f, s:f}", "p50",
			(double)histogram_quantile(&u->latency, 500) / 1e3, "p95",
			(double)histogram_quantile(&u->latency, 950) / 1e3, "p99",
			(double)histogram_quantile(&u->latency, 990) / 1e3, "max",
			(double)u->latency.max_us / 1e3));
	cli_json_string(o, "cost", price_text(u->cost, cost));
	json_array_append_new(l->list, o);
}

static void add_latency(struct listing *l, const struct usage_line *u, unsigned thousandths)
{
	uint64_t us = histogram_quantile(&u->latency, thousandths);

	if (us < 10000)
		cli_table_addf(&l->table, "%.2fms", (double)us / 1e3);
	else if (us < 10000000)
		cli_table_addf(&l->table, "%.0fms", (double)us / 1e3);
	else
		cli_table_addf(&l->table, "%.0fs", (double)us / 1e6);
}

static int add(const struct usage_line *u, void *user)
{
	struct listing *l = user;
	char text[CLI_UNIT_MAX], cost[PRICE_TEXT_MAX];

	if (l->cli->is_json) {
		add_json(l, u);
		return 0;
	}
	cli_table_add(&l->table, strcmp(l->by, "all") ? (*u->name ? u->name : "-") : "all");
	cli_table_addf(&l->table, "%" PRIu64, u->total.count);
	cli_table_addf(&l->table, "%" PRIu64, u->total.errors);
	cli_table_addf(&l->table, "%.2f", (double)u->total.cpu_us / 1e6);
	cli_table_addf(&l->table, "%.2f", (double)u->total.mib_ms / 1024e3);
	cli_table_add(&l->table, cli_format_size(text, u->total.bytes_in));
	cli_table_add(&l->table, cli_format_size(text, u->total.bytes_out));
	add_latency(l, u, 500);
	add_latency(l, u, 950);
	add_latency(l, u, 990);
	cli_table_addf(&l->table, "%s %s", price_text(u->cost, cost), l->currency);
	return 0;
}

static int read_query(const struct cli_args *args, struct usage_query *q, struct cell_error *err)
{
	const char *by = cli_args_value(args, "by");

	q->by = USAGE_BY_TENANT;
	for (size_t i = 0; by && i < sizeof by_words / sizeof by_words[0]; i++)
		if (!strcmp(by_words[i], by)) {
			q->by = (enum usage_by)i;
			by = NULL;
		}
	if (by)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "--by: not by '%.40s'", by),
			"session, tenant, backend, operation or all");
	q->tenant = cli_args_value(args, "tenant");
	q->session = cli_args_value(args, "session");
	q->backend = cli_args_value(args, "backend");
	q->operation = cli_args_value(args, "operation");
	int r = cli_time_option(args, "since", &q->since_ns, err);
	return r < 0 ? r : cli_time_option(args, "until", &q->until_ns, err);
}

static void prices_freep(struct prices **p)
{
	prices_free(*p);
}

static int usage(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {"NAME", "COUNT", "ERRORS", "CPU-S", "GIB-S", "IN",
		"OUT", "P50", "P95", "P99", "COST", NULL};
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	auto_place struct place place = {0};
	auto_(prices_freep) struct prices *prices = NULL;
	auto_db struct db *db = NULL;
	struct usage_query q = {0};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 || read_query(args, &q, &err) < 0 ||
		cli_place_find(cli, false, &cfg, &place, &err) < 0 ||
		prices_new(cfg, &prices, &err) < 0 || db_open_readonly(place.db, &db, &err) < 0)
		return cli_fail(cli, &err);
	struct listing l = {.cli = cli,
		.by = by_words[q.by],
		.currency = prices_currency(prices),
		.list = json_array()};
	cli_table_init(&l.table, titles);
	if (usage_read(db, &q, prices, add, &l, &err) < 0) {
		cli_table_done(&l.table);
		json_decref(l.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:s, s:s, s:o}", "by", l.by, "currency",
						   l.currency, "usage", l.list));
	json_decref(l.list);
	cli_table_print(&l.table, cli);
	return cli_flush(cli);
}

static const struct cli_option options[] = {
	{"by", 0, "WHAT",
		"one line for each session, tenant (default), backend or operation, or for all",
		.kind = CLI_CHOICE, .choices = "session tenant backend operation all"},
	{"since", 0, "TIME", "from then on: 24h, 7d, 2026-01-31 (whole hours)"},
	{"until", 0, "TIME", "up to then"},
	{"tenant", 0, "NAME", "only of this tenant"},
	{"session", 0, "ID", "only of this session"},
	{"backend", 0, "NAME", "only of this back end", .kind = CLI_BACKEND},
	{"operation", 0, "NAME", "only of this operation"},
	{0},
};

const struct cli_verb cli_verb_usage = {
	.name = "usage",
	.usage = "[OPTION...]",
	.summary = "what was used, what it cost, how long it took",
	.about = "Adds up what the server has counted: operations and errors, CPU seconds, "
		 "GiB-seconds of "
		 "memory, bytes into cells and out of them, and how long operations took (half, 95 "
		 "and 99 "
		 "percent were not slower). The price table of the configuration (server.prices) "
		 "makes cost of "
		 "it. A running server is at most a few seconds ahead of what is shown.",
	.examples = "cell usage --since 7d\n"
		    "cell usage --by session --tenant acme --json\n"
		    "cell usage --by operation",
	.groups = {options},
	.head = CLI_NO_COMMAND,
	.run = usage,
};
