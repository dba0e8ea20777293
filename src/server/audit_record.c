/* SPDX-License-Identifier: Apache-2.0 */
/* audit_record.c: see audit_record.h. */
#include "server/audit_record.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "server/audit_file.h"
#include "server/clock.h"
#include "server/text_json.h"

static int set(json_t *o, const char *name, const char *text)
{
	return text && json_object_set_new(o, name, text_json(text)) < 0 ? -ENOMEM : 0;
}

static int set_names(json_t *o, const struct audit_event *e)
{
	const struct {
		const char *name, *text;
	} names[] = {
		{"kind", e->kind == AUDIT_INTENT ? "intent" : "result"},
		{"action", e->action},
		{"tenant", e->tenant},
		{"actor", e->actor},
		{"session", e->session},
		{"backend", e->backend},
		{"exec", e->exec},
		{"request_id", e->request_id},
		{"trace", e->trace},
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (set(o, names[i].name, names[i].text) < 0)
			return -ENOMEM;
	if (!e->effect && !e->rule)
		return 0;
	json_t *decision = json_object();
	if (json_object_set_new(o, "decision", decision) < 0 ||
		set(decision, "effect", e->effect) < 0 || set(decision, "rule", e->rule) < 0)
		return -ENOMEM;
	return 0;
}

/* A copy without secrets. */
static int set_object(json_t *o, const char *name, json_t *value, struct redact *redact)
{
	if (!value)
		return 0;
	json_t *copy = json_deep_copy(value);
	if (!copy || redact_json(redact, copy) < 0) {
		json_decref(copy);
		return -ENOMEM;
	}
	return json_object_set_new(o, name, copy) < 0 ? -ENOMEM : 0;
}

static int set_usage(json_t *o, const struct audit_event *e)
{
	const struct usage_sample *u = e->usage;

	if (!u)
		return 0;
	json_t *j = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:s*}", "error", (int)u->is_error,
		"wall_us", (json_int_t)u->wall_us, "cpu_us", (json_int_t)u->cpu_us, "mib_ms",
		(json_int_t)u->mib_ms, "bytes_in", (json_int_t)u->bytes_in, "bytes_out",
		(json_int_t)u->bytes_out, "operation", e->operation);
	return json_object_set_new(o, "usage", j) < 0 ? -ENOMEM : 0;
}

struct sink {
	struct buf *out;
	int error;
};

static int add(const char *p, size_t n, void *user)
{
	struct sink *s = user;

	if (s->error == 0)
		s->error = buf_add(s->out, p, n);
	return s->error;
}

static int dump(json_t *o, struct buf *out)
{
	struct sink sink = {.out = out};

	if (json_dump_callback(o, add, &sink, JSON_COMPACT) < 0 && sink.error == 0)
		return -ENOMEM;
	return sink.error;
}

static int fill(json_t *o, const struct audit_event *e, struct redact *redact, bool is_cut)
{
	int r = set_names(o, e);

	if (r == 0)
		r = is_cut ? json_object_set_new(o, "cut", json_true())
			   : set_object(o, "details", e->details, redact);
	if (r == 0 && !is_cut)
		r = set_object(o, "outcome", e->outcome, redact);
	return r < 0 ? -ENOMEM : set_usage(o, e);
}

static int body(const struct audit_event *e, struct redact *redact, bool is_cut, struct buf *out)
{
	json_t *o = json_object();
	int r = o ? fill(o, e, redact, is_cut) : -ENOMEM;

	if (r == 0)
		r = dump(o, out);
	json_decref(o);
	return r;
}

int audit_record_write(const struct audit_event *event, struct redact *redact, uint64_t seq,
	int64_t unix_ns, char hash[AUDIT_HASH_TEXT], struct buf *out)
{
	auto_buf struct buf text = BUF_INIT(AUDIT_RECORD_MAX - 512);
	char when[CLOCK_TEXT_MAX], next[AUDIT_HASH_TEXT];
	size_t start = out->len;

	int r = body(event, redact, false, &text);
	if (r == -ENOBUFS) { /* who and what stay; only the long part goes */
		buf_reset(&text);
		r = body(event, redact, true, &text);
	}
	if (r == 0)
		r = buf_addf(out, "{\"seq\":%" PRIu64 ",\"time\":\"%s\",", seq,
			clock_text(unix_ns, when));
	if (r == 0) /* without its braces */
		r = buf_add(out, text.data + 1, text.len - 2);
	if (r == 0)
		r = buf_addf(out, ",\"prev\":\"%s\"", hash);
	if (r < 0)
		return r;
	audit_hash(out->data + start, out->len - start, next);
	r = buf_addf(out, ",\"hash\":\"%s\"}\n", next);
	if (r == 0)
		memcpy(hash, next, AUDIT_HASH_TEXT);
	return r;
}
