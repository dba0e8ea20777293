/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: see guard.h. */
#include "server/guard.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "server/settings.h"

#define BODY_MAX	   (8u * 1024 * 1024)
#define DEFAULT_TIMEOUT_MS 2000

void guard_settings_free(struct guard_settings *g)
{
	if (!g)
		return;
	if (g->token)
		explicit_bzero(g->token, strlen(g->token));
	free(g->url);
	free(g->token);
	free(g);
}

static void freep(struct guard_settings **g)
{
	guard_settings_free(*g);
}

int guard_settings_new(struct cell_config *cfg, struct guard_settings **ret, struct cell_error *err)
{
	const struct node *url = setting(cfg, "server.guard.url");
	const char *token = setting_text(cfg, "server.guard.token", NULL);
	auto_(freep) struct guard_settings *g = NULL;

	*ret = NULL;
	if (!url)
		return 0;
	if (strncasecmp(url->text, "http://", 7) != 0 && strncasecmp(url->text, "https://", 8) != 0)
		return cell_error_hint(err,
			node_fail(err, url, "'server.guard.url' takes a URL, not %s",
				QUOTE(url->text)),
			"it begins with http:// or https://");
	g = calloc(1, sizeof *g);
	if (!g)
		return config_no_memory(err);
	g->url = strdup(url->text);
	g->token = token ? strdup(token) : NULL;
	if (!g->url || (token && !g->token))
		return config_no_memory(err);
	g->timeout_ms = setting_number(cfg, "server.guard.timeout", DEFAULT_TIMEOUT_MS);
	if (!g->timeout_ms)
		g->timeout_ms = DEFAULT_TIMEOUT_MS; /* to wait for ever is not to fail closed */
	g->asks_all = setting_number(cfg, "server.guard.on", 0) == 1;
	*ret = steal_ptr(g);
	return 0;
}

bool guard_is_asked(const struct guard_settings *g, const struct policy_decision *d)
{
	return g && (d->effect == POLICY_ASK || (d->effect == POLICY_ALLOW && g->asks_all));
}

static int set(json_t *o, const char *name, const char *text)
{
	return text && json_object_set_new(o, name, json_string(text)) < 0 ? -EINVAL : 0;
}

static int set_list(json_t *o, const char *name, const char *const *list)
{
	if (!list)
		return 0;
	json_t *a = json_array();
	if (json_object_set_new(o, name, a) < 0)
		return -ENOMEM;
	for (; *list; list++)
		if (json_array_append_new(a, json_string(*list)) < 0)
			return -EINVAL;
	return 0;
}

static int add(const char *p, size_t n, void *user)
{
	return buf_add(user, p, n) < 0 ? -1 : 0;
}

int guard_body(const struct policy_request *q, struct policy_decision *d, struct buf *ret)
{
	ret->max = BODY_MAX;
	json_t *o = json_object();
	int r = set(o, "action", q->action);

	r = r < 0 ? r : set(o, "tenant", q->tenant);
	r = r < 0 ? r : set(o, "role", q->role);
	r = r < 0 ? r : set(o, "actor", q->actor);
	r = r < 0 ? r : set(o, "session", q->session);
	r = r < 0 ? r : set(o, "backend", q->backend);
	r = r < 0 ? r : set(o, "request_id", q->request_id);
	r = r < 0 ? r : set_list(o, "argv", q->argv);
	r = r < 0 ? r : set(o, "shell", q->shell);
	r = r < 0 ? r : set(o, "path", q->path);
	r = r < 0 ? r : set(o, "language", q->language);
	r = r < 0 ? r : set(o, "code", q->code);
	r = r < 0 ? r : set_list(o, "labels", q->labels);
	r = r < 0 ? r : set(o, "rule", d->rule);
	r = r < 0 ? r : set(o, "reason", *d->reason ? d->reason : NULL);
	if (r == 0 && json_dump_callback(o, add, ret, JSON_COMPACT) < 0)
		r = -ENOMEM;
	json_decref(o);
	if (r < 0)
		guard_refuse(d, "the request cannot be put before the guard: %s",
			r == -EINVAL ? "it is not text" : "no memory");
	return r;
}

void guard_refuse(struct policy_decision *d, const char *fmt, ...)
{
	va_list ap;

	d->effect = POLICY_DENY;
	(void)snprintf(d->rule, sizeof d->rule, "guard");
	va_start(ap, fmt);
	(void)vsnprintf(d->reason, sizeof d->reason, fmt, ap);
	va_end(ap);
}

/* Only what can stand in a message: no control bytes. */
static void set_reason(struct policy_decision *d, const char *reason)
{
	(void)snprintf(d->reason, sizeof d->reason, "%s", reason ? reason : "");
	for (char *p = d->reason; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

void guard_judge(int status, const char *body, size_t len, struct policy_decision *d)
{
	const char *word = NULL, *reason = NULL;

	if (status == 0) {
		guard_refuse(d, "the guard could not be asked: %.*s", (int)(len < 150 ? len : 150),
			body);
		return;
	}
	if (status != 200) {
		guard_refuse(d, "the guard answered with status %d", status);
		return;
	}
	json_t *o = len <= GUARD_ANSWER_MAX ? json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL)
					    : NULL;
	if (!json_is_object(o) ||
		json_unpack(o, "{s:s, s?s}", "decision", &word, "reason", &reason) < 0) {
		guard_refuse(d, "the guard's answer is not understood");
	} else if (!strcmp(word, "allow")) {
		d->effect = POLICY_ALLOW;
		(void)snprintf(d->rule, sizeof d->rule, "guard");
		set_reason(d, reason);
	} else if (!strcmp(word, "deny")) {
		guard_refuse(d, "%s", "");
		set_reason(d, reason ? reason : "the guard says no");
	} else {
		guard_refuse(d, "the guard's decision is neither allow nor deny");
	}
	json_decref(o);
}

void guard_ask(const struct guard_settings *g, const struct buf *body, guard_call_fn call,
	void *user, struct policy_decision *d)
{
	auto_buf struct buf answer = BUF_INIT(GUARD_ANSWER_MAX);
	struct cell_error err = {0};
	int status = 0;

	if (call(g, buf_str(body), body->len, &status, &answer, user, &err) < 0)
		guard_judge(0, err.msg, strlen(err.msg), d);
	else
		guard_judge(status, buf_str(&answer), answer.len, d);
}
