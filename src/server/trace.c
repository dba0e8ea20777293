/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c: contexts, spans and the queue; see trace.h. The body that is sent is trace_export.c's.
 * */
#include "server/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/clock.h"
#include "server/hash.h"
#include "server/trace_queue.h"

static int hex_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_hex(const char *p, size_t n, uint8_t *out)
{
	uint8_t any = 0;

	for (size_t i = 0; i < n; i++) {
		int high = hex_of(p[2 * i]), low = hex_of(p[2 * i + 1]);
		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
		any |= out[i];
	}
	return any ? 0 : -ENOENT; /* all zero */
}

int trace_parse(const char *text, size_t len, struct trace_context *ret)
{
	struct trace_context c;
	uint8_t version, flags;

	if (len < TRACEPARENT_MAX - 1 || text[2] != '-' || text[35] != '-' || text[52] != '-')
		return -EINVAL;
	int r = read_hex(text, 1, &version);
	if (r == -EINVAL || version == 0xff || read_hex(text + 3, 16, c.trace_id) < 0 ||
		read_hex(text + 36, 8, c.span_id) < 0 || read_hex(text + 53, 1, &flags) == -EINVAL)
		return -EINVAL;
	/* Version 00 ends here; a later one may go on behind a dash. */
	if (len > TRACEPARENT_MAX - 1 && (version == 0 || text[55] != '-'))
		return -EINVAL;
	c.is_sampled = flags & 1;
	*ret = c;
	return 0;
}

const char *trace_id_text(const struct trace_context *c, char out[33])
{
	hash_hex(c->trace_id, 16, out);
	return out;
}

const char *trace_format(const struct trace_context *c, char out[TRACEPARENT_MAX])
{
	char trace[33], span[17];

	hash_hex(c->trace_id, 16, trace);
	hash_hex(c->span_id, 8, span);
	(void)snprintf(out, TRACEPARENT_MAX, "00-%s-%s-%02x", trace, span, (unsigned)c->is_sampled);
	return out;
}

int tracer_new(const char *service, unsigned sample, size_t queue, struct tracer **ret)
{
	struct tracer *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->cap = queue ? queue : TRACE_QUEUE_DEFAULT;
	t->sample = sample;
	(void)snprintf(t->service, sizeof t->service, "%s", service);
	(void)pthread_mutex_init(&t->lock, NULL);
	*ret = t;
	return 0;
}

void tracer_free(struct tracer *t)
{
	if (!t)
		return;
	while (t->first) {
		struct queued *next = t->first->next;
		free(t->first);
		t->first = next;
	}
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

/* Random and never all zero. */
static void make_id(uint8_t *out, size_t n)
{
	if (hash_random(out, n) < 0) {
		int64_t now = clock_unix_ns(); /* unique enough: no secret depends on it */
		memcpy(out, &now, n < sizeof now ? n : sizeof now);
	}
	out[n - 1] |= 1;
}

static bool is_chosen(const struct tracer *t, const uint8_t id[16])
{
	/* By the trace id, so that every server that sees it decides alike. */
	return t && ((unsigned)id[0] << 8 | id[1]) % 1000 < t->sample;
}

void trace_begin(struct tracer *t, const struct trace_context *parent, enum trace_kind kind,
	const char *name, struct trace_span *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->kind = kind;
	ret->start_ns = clock_unix_ns();
	(void)snprintf(ret->name, sizeof ret->name, "%s", name);
	if (parent) {
		ret->context = *parent;
		memcpy(ret->parent_id, parent->span_id, sizeof ret->parent_id);
	} else {
		make_id(ret->context.trace_id, sizeof ret->context.trace_id);
		ret->context.is_sampled = is_chosen(t, ret->context.trace_id);
	}
	make_id(ret->context.span_id, sizeof ret->context.span_id);
}

static struct trace_attribute *attribute(struct trace_span *s, const char *key)
{
	struct trace_attribute *a = NULL;

	for (unsigned i = 0; i < s->n_attributes; i++)
		if (!strncmp(s->attributes[i].key, key, TRACE_KEY_MAX - 1))
			a = &s->attributes[i];
	if (!a && s->n_attributes == TRACE_ATTRIBUTES) {
		s->n_dropped++;
		return NULL;
	}
	if (!a)
		a = &s->attributes[s->n_attributes++];
	memset(a, 0, sizeof *a);
	(void)snprintf(a->key, sizeof a->key, "%s", key);
	return a;
}

void trace_set(struct trace_span *s, const char *key, const char *value)
{
	struct trace_attribute *a = value ? attribute(s, key) : NULL;

	if (a)
		(void)snprintf(a->value, sizeof a->value, "%s", value);
}

void trace_set_number(struct trace_span *s, const char *key, int64_t value)
{
	struct trace_attribute *a = attribute(s, key);

	if (a) {
		a->is_number = true;
		a->number = value;
	}
}

void trace_end(struct tracer *t, struct trace_span *s, bool is_error)
{
	s->end_ns = clock_unix_ns();
	if (s->end_ns < s->start_ns)
		s->end_ns = s->start_ns; /* the clock was set back */
	s->is_error = is_error;
	if (!t || !s->context.is_sampled)
		return;
	struct queued *q = malloc(sizeof *q);
	if (q) {
		q->span = *s;
		q->next = NULL;
	}
	(void)pthread_mutex_lock(&t->lock);
	if (!q || t->n == t->cap) {
		t->counts.dropped++;
		free(q);
	} else {
		*(t->first ? &t->last->next : &t->first) = q;
		t->last = q;
		t->n++;
	}
	(void)pthread_mutex_unlock(&t->lock);
}

void tracer_counts(struct tracer *t, struct trace_counts *ret)
{
	(void)pthread_mutex_lock(&t->lock);
	*ret = t->counts;
	ret->queued = t->n;
	(void)pthread_mutex_unlock(&t->lock);
}

void tracer_sent(struct tracer *t, unsigned n, bool is_ok)
{
	(void)pthread_mutex_lock(&t->lock);
	*(is_ok ? &t->counts.sent : &t->counts.dropped) += n;
	(void)pthread_mutex_unlock(&t->lock);
}
