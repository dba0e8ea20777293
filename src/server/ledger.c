/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c: see ledger.h. */
#include "server/ledger.h"

#include <pthread.h>

#include "server/clock.h"

const struct metrics_family ledger_families[LEDGER_METRIC_COUNT] = {
	[LEDGER_METRIC_OPERATIONS] = {METRICS_COUNTER, "cell_operations_total",
		"Operations that ended.", {"tenant", "backend", "operation", "result"}},
	[LEDGER_METRIC_LATENCY] = {METRICS_SECONDS, "cell_operation_seconds",
		"How long operations took.", {"backend", "operation"}},
	[LEDGER_METRIC_CPU] = {METRICS_COUNTER_SECONDS, "cell_cpu_seconds_total",
		"CPU time of what ran in cells.", {"tenant", "backend"}},
	[LEDGER_METRIC_BYTES] = {METRICS_COUNTER, "cell_bytes_total",
		"Bytes into cells and out of them.", {"tenant", "backend", "direction"}},
};

/* Between writing a result and counting it nothing else may be counted: the database remembers
 * the last record that is. One for all ledgers; there is one to a process. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

int ledger_intent(struct ledger *l, struct audit_event *event, struct cell_error *err)
{
	event->kind = AUDIT_INTENT;
	return audit_write(l->audit, event, NULL, err);
}

static void measure(struct ledger *l, const struct audit_event *e, const char *operation)
{
	const struct usage_sample *u = e->usage;

	metrics_add(l->metrics, LEDGER_METRIC_OPERATIONS,
		(const char *[]){e->tenant, e->backend, operation, u->is_error ? "error" : "ok"},
		1);
	metrics_observe(l->metrics, LEDGER_METRIC_LATENCY, (const char *[]){e->backend, operation},
		u->wall_us);
	if (u->cpu_us)
		metrics_add(l->metrics, LEDGER_METRIC_CPU, (const char *[]){e->tenant, e->backend},
			u->cpu_us);
	if (u->bytes_in)
		metrics_add(l->metrics, LEDGER_METRIC_BYTES,
			(const char *[]){e->tenant, e->backend, "in"}, u->bytes_in);
	if (u->bytes_out)
		metrics_add(l->metrics, LEDGER_METRIC_BYTES,
			(const char *[]){e->tenant, e->backend, "out"}, u->bytes_out);
}

int ledger_result(struct ledger *l, struct audit_event *event, struct cell_error *err)
{
	const char *operation = event->operation ? event->operation : event->action;
	struct usage_key key = {event->tenant, event->session, event->backend, operation};
	uint64_t seq = 0;

	event->kind = AUDIT_RESULT;
	(void)pthread_mutex_lock(&order);
	int r = audit_write(l->audit, event, &seq, err);
	if (l->usage && event->usage) {
		/* Counted even when it could not be recorded: what was used was used. */
		int counted = usage_add(l->usage, &key, event->usage, clock_unix_ns(), seq,
			r < 0 ? NULL : err);
		r = r < 0 ? r : counted;
	}
	(void)pthread_mutex_unlock(&order);
	if (l->metrics && event->usage)
		measure(l, event, operation);
	return r;
}
