/* SPDX-License-Identifier: Apache-2.0 */
/* cell usage: who used how much, what it cost and how long it took. Reads the server's database, or with
 * --server asks it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/ledger.h"
#include "cli/output.h"
#include "cli/remote/ledger.h"
#include "cli/remote/remote.h"
#include "cli/spec.h"
#include "cli/units.h"
#include "server/usage.h"

static const char *const by_words[] = {"session", "tenant", "backend", "operation", "all"};

struct listing {
	const struct cli *cli;
	const char *by;
	char currency[64];
	struct cli_table table;
	json_t *list;
};

/* One line, of our own database or of a server's answer. */
struct line {
	const char *name, *cost;
	uint64_t count, errors, sessions, bytes_in, bytes_out;
	double wall_s, cpu_s, gib_s;
	double p50_ms, p95_ms, p99_ms, max_ms;
};

static void add_json(struct listing *l, const struct line *u)
{
	json_t *o = json_object();

	if (strcmp(l->by, "all") != 0)
		cli_json_string(o, l->by, u->name);
	json_object_set_new(o, "count", json_integer((json_int_t)u->count));
	json_object_set_new(o, "errors", json_integer((json_int_t)u->errors));
	json_object_set_new(o, "sessions", json_integer((json_int_t)u->sessions));
	json_object_set_new(o, "wall_seconds", json_real(u->wall_s));
	json_object_set_new(o, "cpu_seconds", json_real(u->cpu_s));
	json_object_set_new(o, "gib_seconds", json_real(u->gib_s));
	json_object_set_new(o, "bytes_in", json_integer((json_int_t)u->bytes_in));
	json_object_set_new(o, "bytes_out", json_integer((json_int_t)u->bytes_out));
	json_object_set_new(o, "latency_ms",
		json_pack("{s:f, s:f, s:f, s:f}", "p50", u->p50_ms, "p95", u->p95_ms, "p99",
			u->p99_ms, "max", u->max_ms));
	cli_json_string(o, "cost", u->cost);
	json_array_append_new(l->list, o);
}

static void add_latency(struct listing *l, double ms)
{
	if (ms < 10)
		cli_table_addf(&l->table, "%.2fms", ms);
	else if (ms < 10000)
		cli_table_addf(&l->table, "%.0fms", ms);
	else
		cli_table_addf(&l->table, "%.0fs", ms / 1e3);
}

static void add_line(struct listing *l, const struct line *u)
{
	char text[CLI_UNIT_MAX];

	if (l->cli->is_json) {
		add_json(l, u);
		return;
	}
	cli_table_add(&l->table, strcmp(l->by, "all") ? (*u->name ? u->name : "-") : "all");
	cli_table_addf(&l->table, "%" PRIu64, u->count);
	cli_table_addf(&l->table, "%" PRIu64, u->errors);
	cli_table_addf(&l->table, "%.2f", u->cpu_s);
	cli_table_addf(&l->table, "%.2f", u->gib_s);
	cli_table_add(&l->table, cli_format_size(text, u->bytes_in));
	cli_table_add(&l->table, cli_format_size(text, u->bytes_out));
	add_latency(l, u->p50_ms);
	add_latency(l, u->p95_ms);
	add_latency(l, u->p99_ms);
	cli_table_addf(&l->table, "%s %s", u->cost, l->currency);
}

static int add(const struct usage_line *u, void *user)
{
	const struct usage_total *t = &u->total;
	char cost[PRICE_TEXT_MAX];
	struct line line = {.name = u->name,
		.cost = price_text(u->cost, cost),
		.count = t->count,
		.errors = t->errors,
		.sessions = t->sessions,
		.bytes_in = t->bytes_in,
		.bytes_out = t->bytes_out,
		.wall_s = (double)t->wall_us / 1e6,
		.cpu_s = (double)t->cpu_us / 1e6,
		.gib_s = (double)t->mib_ms / 1024e3,
		.p50_ms = (double)histogram_quantile(&u->latency, 500) / 1e3,
		.p95_ms = (double)histogram_quantile(&u->latency, 950) / 1e3,
		.p99_ms = (double)histogram_quantile(&u->latency, 990) / 1e3,
		.max_ms = (double)u->latency.max_us / 1e3};

	add_line(user, &line);
	return 0;
}

static void add_remote(struct listing *l, const json_t *o)
{
	const json_t *latency = json_object_get(o, "latency_ms");
	struct line line = {.name = remote_text(o, "name"),
		.cost = remote_text(o, "cost_text"),
		.count = (uint64_t)remote_int(o, "operations"),
		.errors = (uint64_t)remote_int(o, "errors"),
		.sessions = (uint64_t)remote_int(o, "sessions"),
		.bytes_in = (uint64_t)remote_int(o, "bytes_in"),
		.bytes_out = (uint64_t)remote_int(o, "bytes_out"),
		.wall_s = json_number_value(json_object_get(o, "wall_seconds")),
		.cpu_s = json_number_value(json_object_get(o, "cpu_seconds")),
		.gib_s = json_number_value(json_object_get(o, "gib_seconds")),
		.p50_ms = json_number_value(json_object_get(latency, "p50")),
		.p95_ms = json_number_value(json_object_get(latency, "p95")),
		.p99_ms = json_number_value(json_object_get(latency, "p99")),
		.max_ms = json_number_value(json_object_get(latency, "max"))};

	add_line(l, &line);
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

/* From the database of this machine. */
static int read_here(const struct cli *cli, const struct usage_query *q, struct listing *l,
	struct cell_error *err)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	auto_place struct place place = {0};
	auto_(prices_freep) struct prices *prices = NULL;
	auto_db struct db *db = NULL;
	int r = cli_place_find(cli, false, &cfg, &place, err);

	if (r == 0)
		r = prices_new(cfg, &prices, err);
	if (r == 0)
		r = db_open_readonly(place.db, &db, err);
	if (r == 0) {
		(void)snprintf(l->currency, sizeof l->currency, "%s", prices_currency(prices));
		r = usage_read(db, q, prices, add, l, err);
	}
	return r;
}

static int read_there(const struct cli_args *args, struct listing *l, struct cell_error *err)
{
	json_t *o = NULL, *line;
	size_t i;
	int r = remote_usage(l->by, cli_args_value(args, "since"), cli_args_value(args, "until"),
		cli_args_value(args, "tenant"), cli_args_value(args, "session"),
		cli_args_value(args, "backend"), cli_args_value(args, "operation"), &o, err);

	(void)snprintf(l->currency, sizeof l->currency, "%s", remote_text(o, "currency"));
	json_array_foreach (json_object_get(o, "usage"), i, line)
		add_remote(l, line);
	json_decref(o);
	return r;
}

static int usage(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {"NAME", "COUNT", "ERRORS", "CPU-S", "GIB-S", "IN",
		"OUT", "P50", "P95", "P99", "COST", NULL};
	struct usage_query q = {0};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 || read_query(args, &q, &err) < 0)
		return cli_fail(cli, &err);
	struct listing l = {.cli = cli, .by = by_words[q.by], .list = json_array()};
	cli_table_init(&l.table, titles);
	int r = cells->server ? read_there(args, &l, &err) : read_here(cli, &q, &l, &err);
	if (r < 0) {
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
