/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage_read.c: adding up what the database holds. Rows come sorted by the name asked for and,
 * within it, by back end, because prices are a back end's.
 */
#include <string.h>

#include "server/clock.h"
#include "server/usage.h"

#define HOUR_S 3600

struct reading {
	const struct prices *prices;
	usage_line_fn fn;
	void *user;
	bool has_line, is_bad;
	char name[64], backend[64];
	struct usage_line line;
	struct usage_total part; /* of this back end, to be priced */
};

static void add(struct usage_total *into, const struct usage_total *from)
{
	into->count += from->count;
	into->errors += from->errors;
	into->sessions += from->sessions;
	into->wall_us += from->wall_us;
	into->cpu_us += from->cpu_us;
	into->mib_ms += from->mib_ms;
	into->bytes_in += from->bytes_in;
	into->bytes_out += from->bytes_out;
}

static void end_part(struct reading *g)
{
	struct price price = prices_of(g->prices, g->backend);
	uint64_t cost = price_cost(&price, &g->part);

	g->line.cost = cost > UINT64_MAX - g->line.cost ? UINT64_MAX : g->line.cost + cost;
	add(&g->line.total, &g->part);
	g->part = (struct usage_total){0};
}

static int end_line(struct reading *g)
{
	if (!g->has_line)
		return 0;
	end_part(g);
	g->line.name = g->name;
	int r = g->fn(&g->line, g->user);
	g->line = (struct usage_line){0};
	g->has_line = false;
	return r;
}

static int take_row(const struct db_row *row, void *user)
{
	struct reading *g = user;
	const char *name = db_text(row, 0), *backend = db_text(row, 1);
	struct histogram h;
	size_t n;
	int r = 0;

	if (!name || !backend)
		return -ENOMEM;
	if (g->has_line && strcmp(name, g->name) != 0)
		r = end_line(g);
	else if (g->has_line && strcmp(backend, g->backend) != 0)
		end_part(g);
	if (r != 0)
		return r;
	(void)snprintf(g->name, sizeof g->name, "%s", name);
	(void)snprintf(g->backend, sizeof g->backend, "%s", backend);
	g->has_line = true;
	add(&g->part, &(struct usage_total){.count = (uint64_t)db_int(row, 2),
			      .errors = (uint64_t)db_int(row, 3),
			      .sessions = (uint64_t)db_int(row, 4),
			      .wall_us = (uint64_t)db_int(row, 5),
			      .cpu_us = (uint64_t)db_int(row, 6),
			      .mib_ms = (uint64_t)db_int(row, 7),
			      .bytes_in = (uint64_t)db_int(row, 8),
			      .bytes_out = (uint64_t)db_int(row, 9)});
	const void *blob = db_blob(row, 10, &n);
	if (histogram_unpack(&h, blob, n) == 0)
		histogram_merge(&g->line.latency, &h);
	return 0;
}

#define COLUMNS                                                                             \
	"count, errors, sessions, wall_us, cpu_us, mib_ms, bytes_in, bytes_out, latency "   \
	"FROM usage WHERE hour >= ? AND hour < ? AND tenant GLOB ? AND session GLOB ? AND " \
	"backend GLOB ? AND operation GLOB ? ORDER BY "

static const char *const selects[] = {
	[USAGE_BY_SESSION] = "SELECT session, backend, " COLUMNS "session, backend",
	[USAGE_BY_TENANT] = "SELECT tenant, backend, " COLUMNS "tenant, backend",
	[USAGE_BY_BACKEND] = "SELECT backend, backend, " COLUMNS "backend, backend",
	[USAGE_BY_OPERATION] = "SELECT operation, backend, " COLUMNS "operation, backend",
	[USAGE_BY_ALL] = "SELECT '', backend, " COLUMNS "backend",
};

/* A name is matched as it is, no name at all as anything. */
static const char *glob(const char *name, char out[512])
{
	size_t n = 0;

	if (!name)
		return "*";
	for (; *name && n < 500; name++) {
		bool is_special = strchr("*?[", *name) != NULL;
		if (is_special)
			out[n++] = '[';
		out[n++] = *name;
		if (is_special)
			out[n++] = ']';
	}
	out[n] = '\0';
	return out;
}

int usage_read(struct db *db, const struct usage_query *query, const struct prices *prices,
	usage_line_fn fn, void *user, struct cell_error *err)
{
	struct reading g = {.prices = prices, .fn = fn, .user = user};
	char tenant[512], session[512], backend[512], operation[512];
	int64_t since = query->since_ns / NS_PER_S / HOUR_S;
	int64_t until =
		query->until_ns ? (query->until_ns / NS_PER_S + HOUR_S - 1) / HOUR_S : INT64_MAX;

	int64_t has_table = 0;
	int r = db_number(db, &has_table, err,
		"SELECT count(*) FROM sqlite_master WHERE type='table' AND name='usage'", "");
	if (r < 0 || !has_table) /* nothing has been counted here yet */
		return r;
	r = db_each(db, take_row, &g, err, selects[query->by], "iissss", since, until,
		glob(query->tenant, tenant), glob(query->session, session),
		glob(query->backend, backend), glob(query->operation, operation));
	if (r == -ENOMEM)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading usage");
	return r != 0 ? r : end_line(&g);
}

int usage_forget(struct db *db, int64_t before_ns, struct cell_error *err)
{
	return db_run(db, err, "DELETE FROM usage WHERE hour < ?", "i",
		before_ns / NS_PER_S / HOUR_S);
}
