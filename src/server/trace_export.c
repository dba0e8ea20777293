/* SPDX-License-Identifier: Apache-2.0 */
/* trace_export.c: spans as the JSON of OTLP/HTTP (opentelemetry-proto, trace service): ids are
 * hex, 64-bit numbers are texts. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/hash.h"
#include "server/text_json.h"
#include "server/trace_queue.h"

static json_t *hex(const uint8_t *p, size_t n)
{
	char text[33];

	hash_hex(p, n, text);
	return json_string(text);
}

static json_t *number(int64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof text, "%lld", (long long)n);
	return json_string(text);
}

static json_t *attributes_of(const struct trace_span *s)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < s->n_attributes; i++) {
		const struct trace_attribute *a = &s->attributes[i];
		json_t *value = a->is_number
					? json_pack("{s:o}", "intValue", number(a->number))
					: json_pack("{s:o}", "stringValue", text_json(a->value));
		if (json_array_append_new(list, json_pack("{s:o, s:o}", "key", text_json(a->key),
							"value", value)) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *span_json(const struct trace_span *s)
{
	static const uint8_t none[8];
	json_t *j = json_pack("{s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:{s:i}}", "traceId",
		hex(s->context.trace_id, 16), "spanId", hex(s->context.span_id, 8), "name",
		text_json(s->name), "kind", (int)s->kind, "startTimeUnixNano", number(s->start_ns),
		"endTimeUnixNano", number(s->end_ns), "attributes", attributes_of(s),
		"droppedAttributesCount", (int)s->n_dropped, "status", "code", s->is_error ? 2 : 0);

	if (j && memcmp(s->parent_id, none, sizeof none) != 0 &&
		json_object_set_new(j, "parentSpanId", hex(s->parent_id, 8)) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static int add(const char *p, size_t n, void *user)
{
	return buf_add(user, p, n) < 0 ? -1 : 0;
}

/* Takes the list of spans over. */
static int write_body(const char *service, json_t *spans, struct buf *out)
{
	json_t *body =
		json_pack("{s:[{s:{s:[{s:s, s:{s:s}}, {s:s, s:{s:s}}]}, s:[{s:{s:s, s:s}, s:o}]}]}",
			"resourceSpans", "resource", "attributes", "key", "service.name", "value",
			"stringValue", service, "key", "service.version", "value", "stringValue",
			CELL_VERSION, "scopeSpans", "scope", "name", "cell", "version",
			CELL_VERSION, "spans", spans);
	size_t before = out->len;
	int r = body && json_dump_callback(body, add, out, JSON_COMPACT) == 0 ? 0 : -ENOMEM;

	json_decref(body);
	if (r == 0 && out->len == before)
		r = -ENOMEM;
	return r;
}

int tracer_take(struct tracer *t, struct buf *ret_body)
{
	unsigned n = 0, lost = 0;
	struct queued *list;

	(void)pthread_mutex_lock(&t->lock);
	list = t->first;
	for (struct queued *q = list; q && n < TRACE_BATCH; q = q->next, n++)
		t->first = q->next;
	t->n -= n;
	(void)pthread_mutex_unlock(&t->lock);
	json_t *spans = json_array();
	for (unsigned i = 0; i < n; i++) {
		struct queued *next = list->next;
		if (json_array_append_new(spans, span_json(&list->span)) < 0)
			lost++;
		free(list);
		list = next;
	}
	if (n == lost || write_body(t->service, spans, ret_body) < 0) {
		if (n == lost)
			json_decref(spans);
		tracer_sent(t, n, false);
		return n ? -ENOMEM : 0;
	}
	tracer_sent(t, lost, false);
	return (int)(n - lost);
}

int tracer_export(struct tracer *t, trace_send_fn send, void *user)
{
	auto_buf struct buf body = BUF_INIT(TRACE_BODY_MAX);
	int n;

	while ((n = tracer_take(t, &body)) > 0) {
		int r = send(buf_str(&body), body.len, user);
		tracer_sent(t, (unsigned)n, r == 0);
		if (r < 0)
			return r;
		buf_reset(&body);
	}
	return n;
}
