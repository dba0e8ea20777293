/* SPDX-License-Identifier: Apache-2.0 */
/* session_json.c: a session as the API shows it. */
#include <string.h>

#include "base/cleanup.h"
#include "core/env.h"
#include "server/clock.h"
#include "server/redact.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/session.h"

static json_t *time_json(int64_t ns)
{
	char text[CLOCK_TEXT_MAX];

	return ns ? json_string(clock_text(ns, text)) : json_null();
}

/* What was asked for, without the values of secrets: who may look at a session need not know them. */
static json_t *shown_spec(const struct session *s)
{
	json_t *spec = json_copy(s->spec), *env = json_deep_copy(json_object_get(spec, "env")), *v;
	const char *key;
	size_t i;

	if (!env)
		return spec;
	if (json_is_object(env)) {
		json_object_foreach (env, key, v)
			if (cell_env_is_secret(key))
				(void)json_object_set_new(env, key, json_string(REDACTED));
	} else {
		json_array_foreach (env, i, v) {
			const char *text = json_string_value(v);
			size_t n = text ? strcspn(text, "=") : 0;
			auto_free char *name = text && text[n] ? strndup(text, n) : NULL;
			if (name && cell_env_is_secret(name))
				(void)json_array_set_new(env, i,
					json_sprintf("%s=" REDACTED, name));
		}
	}
	(void)redact_json(s->srv->redact, env);
	(void)json_object_set_new(spec, "env", env);
	return spec;
}

json_t *session_json(const struct session *s)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:o, s:O, s:o, s:o, s:o, s:f, s:I}",
		"id", s->id, "tenant", s->tenant, "state", session_shown_state(s), "lifecycle",
		s->lifecycle, "backend", s->backend, "labels", s->labels, "spec", shown_spec(s),
		"degraded", s->degraded, "created_at", time_json(s->created_ns), "last_used_at",
		time_json(s->last_used_ns), "expires_at", time_json(s->expires_ns),
		"idle_timeout_s", (double)s->times.idle_ms / 1000.0, "execs_running",
		(json_int_t)s->n_execs);

	if (s->schedule)
		(void)json_object_set_new(o, "schedule", schedule_json(s));
	if (s->error.code)
		(void)json_object_set_new(o, "error",
			json_pack("{s:s, s:s, s:s}", "code", cell_code_name(s->error.code),
				"message", s->error.msg, "hint", s->error.hint));
	return o;
}
