/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "server/trace.h"
#include "test.h"

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static int parse(const char *text)
{
	struct trace_context c;

	return trace_parse(text, strlen(text), &c);
}

TEST(a_traceparent_is_read_and_written)
{
	struct trace_context c;
	char text[TRACEPARENT_MAX], id[33];

	ASSERT_OK(trace_parse(GOOD, strlen(GOOD), &c));
	ASSERT(c.is_sampled);
	ASSERT_STR(trace_format(&c, text), GOOD);
	ASSERT_STR(trace_id_text(&c, id), "4bf92f3577b34da6a3ce929d0e0e4736");
	ASSERT_OK(parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"));
	/* a version to come */
	ASSERT_OK(parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
	ASSERT_OK(parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what"));
}

TEST(anything_else_is_no_traceparent)
{
	static const char *const bad[] = {"", "00", GOOD "-x", GOOD " ",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-011",
		"0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.x",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-zz"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_(parse(bad[i]) == -EINVAL, "%s", bad[i]);
}

static int keep(const char *body, size_t len, void *user)
{
	json_t **list = user, *one = json_loadb(body, len, 0, NULL);

	ASSERT(one);
	json_array_append_new(*list, one);
	return 0;
}

static int refuse(const char *body, size_t len, void *user)
{
	(void)body;
	(void)len;
	(void)user;
	return -EIO;
}

TEST(spans_are_exported_as_otlp)
{
	struct tracer *t = NULL;
	struct trace_span parent, child;
	json_t *sent = json_array();

	ASSERT_OK(tracer_new("cell", 1000, 0, &t));
	trace_begin(t, NULL, TRACE_SERVER, "POST /v1/sessions", &parent);
	trace_begin(t, &parent.context, TRACE_INTERNAL, "exec", &child);
	ASSERT_MEM(child.context.trace_id, 16, parent.context.trace_id, 16);
	ASSERT_MEM(child.parent_id, 8, parent.context.span_id, 8);
	trace_set(&child, "session", "s1");
	trace_set(&child, "session", "s2"); /* the last one counts */
	trace_set(&child, "bad", "\xff");
	trace_set_number(&child, "exit_code", -3);
	trace_end(t, &child, true);
	trace_end(t, &parent, false);
	ASSERT_OK(tracer_export(t, keep, &sent));
	json_t *spans = NULL;
	const char *service;
	ASSERT_OK(json_unpack(json_array_get(sent, 0), "{s:[{s:{s:[{s:{s:s}}]}, s:[{s:o}]}]}",
		"resourceSpans", "resource", "attributes", "value", "stringValue", &service,
		"scopeSpans", "spans", &spans));
	ASSERT_STR(service, "cell");
	ASSERT_EQ(json_array_size(spans), 2);
	json_t *first = json_array_get(spans, 0);
	ASSERT_EQ(strlen(json_string_value(json_object_get(first, "traceId"))), 32);
	ASSERT_EQ(strlen(json_string_value(json_object_get(first, "parentSpanId"))), 16);
	ASSERT(!json_object_get(json_array_get(spans, 1), "parentSpanId"));
	ASSERT_EQ(json_integer_value(json_object_get(json_object_get(first, "status"), "code")), 2);
	json_t *attributes = json_object_get(first, "attributes");
	ASSERT_EQ(json_array_size(attributes), 3);
	ASSERT_STR(json_string_value(json_object_get(json_object_get(json_array_get(attributes, 0),
							     "value"),
			   "stringValue")),
		"s2");
	ASSERT_STR(json_string_value(json_object_get(json_object_get(json_array_get(attributes, 2),
							     "value"),
			   "intValue")),
		"-3");
	struct trace_counts n;
	tracer_counts(t, &n);
	ASSERT_EQ(n.sent, 2);
	ASSERT_EQ(n.queued + n.dropped, 0);
	json_decref(sent);
	tracer_free(t);
}

TEST(the_queue_and_a_span_are_bounded_and_what_is_lost_is_counted)
{
	struct tracer *t = NULL;
	struct trace_span s;
	struct trace_counts n;
	char key[16];

	ASSERT_OK(tracer_new("cell", 1000, 10, &t));
	for (int i = 0; i < 15; i++) {
		trace_begin(t, NULL, TRACE_SERVER, "x", &s);
		trace_end(t, &s, false);
	}
	tracer_counts(t, &n);
	ASSERT_EQ(n.queued, 10);
	ASSERT_EQ(n.dropped, 5);
	ASSERT_ERR(tracer_export(t, refuse, NULL), -EIO);
	tracer_counts(t, &n);
	ASSERT_EQ(n.queued, 0);
	ASSERT_EQ(n.dropped, 15);
	trace_begin(t, NULL, TRACE_SERVER, "x", &s);
	for (int i = 0; i < 20; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		trace_set(&s, key, "v");
	}
	ASSERT_EQ(s.n_attributes, TRACE_ATTRIBUTES);
	ASSERT_EQ(s.n_dropped, 20 - TRACE_ATTRIBUTES);
	trace_end(t, &s, false);
	tracer_free(t);
}

TEST(what_is_not_sampled_is_not_kept_and_a_big_queue_goes_in_batches)
{
	struct tracer *t = NULL;
	struct trace_span s;
	struct trace_counts n;
	struct trace_context c;
	json_t *sent = json_array();

	ASSERT_OK(tracer_new("cell", 0, 0, &t));
	trace_begin(t, NULL, TRACE_SERVER, "x", &s);
	ASSERT(!s.context.is_sampled);
	trace_end(t, &s, false);
	tracer_counts(t, &n);
	ASSERT_EQ(n.queued, 0);
	/* The caller's decision goes on. */
	ASSERT_OK(trace_parse(GOOD, strlen(GOOD), &c));
	for (int i = 0; i < TRACE_BATCH + 10; i++) {
		trace_begin(t, &c, TRACE_SERVER, "x", &s);
		trace_end(t, &s, false);
	}
	ASSERT_OK(tracer_export(t, keep, &sent));
	ASSERT_EQ(json_array_size(sent), 2);
	trace_begin(NULL, NULL, TRACE_SERVER, "x", &s);
	trace_end(NULL, &s, false);
	json_decref(sent);
	tracer_free(t);
}
