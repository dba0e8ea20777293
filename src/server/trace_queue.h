/* SPDX-License-Identifier: Apache-2.0 */
/* trace_queue.h: what trace.c and trace_export.c share; nobody else includes it. */
#pragma once
#include <pthread.h>

#include "server/trace.h"

struct queued {
	struct queued *next;
	struct trace_span span;
};

struct tracer {
	pthread_mutex_t lock;
	char service[64];
	unsigned sample;
	struct queued *first, *last;
	size_t n, cap;
	struct trace_counts counts;
};
