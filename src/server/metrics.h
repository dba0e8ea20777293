/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h: counters, gauges and histograms since the process began, as Prometheus reads them.
 * Families are given once, as data; series appear with their first value. A family holds at most
 * METRICS_SERIES_MAX series: further label values count under "other", so that a client cannot
 * fill memory with names. Thread-safe.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define METRICS_LABELS_MAX 4
#define METRICS_SERIES_MAX 500
#define METRICS_LABEL_MAX  64 /* bytes of a value; the rest is cut */
#define METRICS_TEXT_MAX   (16u * 1024 * 1024)

enum metrics_type {
	METRICS_COUNTER,
	METRICS_GAUGE,
	METRICS_SECONDS,	 /* a histogram; values are microseconds, shown in seconds */
	METRICS_COUNTER_SECONDS, /* a counter of microseconds, shown in seconds */
};

struct metrics_family {
	enum metrics_type type;
	const char *name, *help;
	const char *labels[METRICS_LABELS_MAX + 1]; /* NULL-terminated */
};

struct metrics;
/* The families stay the caller's; NULL name ends the table. -ENOMEM. */
int metrics_new(const struct metrics_family *families, struct metrics **ret);
void metrics_free(struct metrics *m);

/* values: one for each label, in the family's order; NULL counts as "". `family` is the place in
 * the table. Out of memory, a value is dropped and counted in cell_metrics_dropped_total. */
void metrics_add(struct metrics *m, unsigned family, const char *const *values, uint64_t n);
void metrics_set(struct metrics *m, unsigned family, const char *const *values, int64_t n);
void metrics_observe(struct metrics *m, unsigned family, const char *const *values, uint64_t us);

/* The whole exposition, format 0.0.4: the families, cell_build_info, and process_* of this
 * process. */
int metrics_text(struct metrics *m, struct buf *out);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
