/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h: audit, usage and metrics in one call, so that they agree. Before an operation
 * ledger_intent(); after it ledger_result() with what it took. An intent that cannot be written
 * must stop the operation: nothing happens that is not on record.
 */
#pragma once
#include "server/audit.h"
#include "server/metrics.h"
#include "server/usage.h"

struct ledger {
	struct audit *audit; /* all borrowed; usage and metrics may be NULL */
	struct usage *usage;
	struct metrics *metrics;
};

/* The families of operations; put them at the beginning of the table given to metrics_new(). */
enum {
	LEDGER_METRIC_OPERATIONS,
	LEDGER_METRIC_LATENCY,
	LEDGER_METRIC_CPU,
	LEDGER_METRIC_BYTES,
	LEDGER_METRIC_COUNT,
};
extern const struct metrics_family ledger_families[LEDGER_METRIC_COUNT];

int ledger_intent(struct ledger *l, struct audit_event *event, struct cell_error *err);
/* event->usage is what the operation took. */
int ledger_result(struct ledger *l, struct audit_event *event, struct cell_error *err);
