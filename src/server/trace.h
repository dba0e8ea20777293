/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h: W3C trace context, spans, and their export as OTLP/HTTP JSON. A span is memory of its
 * owner until it ends; ended spans wait in a bounded queue and are dropped, and counted, when
 * nobody takes them.
 *
 *	server:
 *	  tracing: {endpoint: "http://127.0.0.1:4318/v1/traces", service: cell, sample: 100}
 *
 * Thread-safe.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define TRACEPARENT_MAX	    56 /* "00-<32>-<16>-<2>" and NUL */
#define TRACE_NAME_MAX	    64
#define TRACE_ATTRIBUTES    12
#define TRACE_KEY_MAX	    48
#define TRACE_VALUE_MAX	    160
#define TRACE_QUEUE_DEFAULT 2048
#define TRACE_BATCH	    512
#define TRACE_BODY_MAX	    (8u * 1024 * 1024)

struct trace_context {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	bool is_sampled;
};
/* Strict: version 00 exactly, a later version by its beginning, ff never; lower case hex, ids not
 * all zero. -EINVAL. */
int trace_parse(const char *text, size_t len, struct trace_context *ret);
const char *trace_format(const struct trace_context *c, char out[TRACEPARENT_MAX]);
/* The trace id in hex. */
const char *trace_id_text(const struct trace_context *c, char out[33]);

enum trace_kind { /* OTLP's numbers */
	TRACE_INTERNAL = 1,
	TRACE_SERVER = 2,
	TRACE_CLIENT = 3,
};

struct trace_attribute {
	char key[TRACE_KEY_MAX];
	char value[TRACE_VALUE_MAX]; /* cut when longer */
	int64_t number;
	bool is_number;
};
struct trace_span {
	struct trace_context context;
	uint8_t parent_id[8]; /* all zero: none */
	enum trace_kind kind;
	char name[TRACE_NAME_MAX];
	int64_t start_ns, end_ns;
	bool is_error;
	struct trace_attribute attributes[TRACE_ATTRIBUTES];
	unsigned n_attributes, n_dropped; /* attributes that found no room */
};

struct tracer;
/* queue 0: TRACE_QUEUE_DEFAULT. sample: thousandths of new traces that are kept. -ENOMEM. */
int tracer_new(const char *service, unsigned sample, size_t queue, struct tracer **ret);
void tracer_free(struct tracer *t);

/* Begin: within `parent`, or a new trace when NULL. t may be NULL: ids are made, nothing is kept.
 * */
void trace_begin(struct tracer *t, const struct trace_context *parent, enum trace_kind kind,
	const char *name, struct trace_span *ret);
void trace_set(struct trace_span *s, const char *key, const char *value); /* NULL value: nothing */
void trace_set_number(struct trace_span *s, const char *key, int64_t value);
/* Ends it and queues a copy when it is sampled. */
void trace_end(struct tracer *t, struct trace_span *s, bool is_error);

struct trace_counts {
	uint64_t queued, sent, dropped;
};
void tracer_counts(struct tracer *t, struct trace_counts *ret);

/* Take up to TRACE_BATCH spans out of the queue as the body of a POST. How many; 0: nothing to
 * send. The batch is the caller's to send: tell how it went with tracer_sent(). */
int tracer_take(struct tracer *t, struct buf *ret_body);
void tracer_sent(struct tracer *t, unsigned n, bool is_ok);
/* Send it as application/json; 0, or negative when it was not taken. */
typedef int (*trace_send_fn)(const char *body, size_t len, void *user);
/* Everything there is, batch by batch, until one fails. */
int tracer_export(struct tracer *t, trace_send_fn send, void *user);
