/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c: deciding; see policy.h. Rules are read by policy_read.c. */
#include "server/policy.h"

#include <string.h>

#include "base/buf.h"
#include "server/clock.h"
#include "server/policy_rules.h"

#define COMMAND_MAX (8u * 1024 * 1024)
#define DAY_S	    86400

const char *policy_effect_name(enum policy_effect effect)
{
	static const char *const names[] = {"allow", "deny", "ask"};

	return effect >= 0 && effect <= POLICY_ASK ? names[effect] : "deny";
}

/* A command in the two forms rules look at. */
struct command {
	struct buf whole, short_name;
	bool is_there;
};

static void command_done(struct command *c)
{
	buf_done(&c->whole);
	buf_done(&c->short_name);
}

static int join(const char *const *argv, struct command *c)
{
	const char *slash = strrchr(argv[0], '/');
	int r = buf_addz(&c->whole, argv[0]);

	if (r == 0)
		r = buf_addz(&c->short_name, slash && slash[1] ? slash + 1 : argv[0]);
	for (size_t i = 1; r == 0 && argv[i]; i++) {
		r = buf_addf(&c->whole, " %s", argv[i]);
		if (r == 0)
			r = buf_addf(&c->short_name, " %s", argv[i]);
	}
	return r;
}

static int command_of(const struct policy_request *q, struct command *c)
{
	c->is_there = q->shell || (q->argv && q->argv[0]);
	if (q->shell) {
		int r = buf_addz(&c->whole, q->shell);
		return r < 0 ? r : buf_addz(&c->short_name, q->shell);
	}
	return c->is_there ? join(q->argv, c) : 0;
}

/* One of the patterns; a rule without any takes everything. */
static bool has_glob(const struct policy_globs *g, const char *text)
{
	if (!g->n)
		return true;
	for (size_t i = 0; text && i < g->n; i++)
		if (globmatch_test(g->list[i], text))
			return true;
	return false;
}

static bool has_expression(const struct policy_rule *rule, const struct buf *text)
{
	for (size_t i = 0; i < rule->n_expressions; i++) {
		ere_begin(rule->expressions[i]);
		if (ere_feed(rule->expressions[i], text->data, text->len) ||
			ere_end(rule->expressions[i]))
			return true;
	}
	return false;
}

static bool is_command(const struct policy_rule *rule, const struct command *c)
{
	if (!rule->command.n && !rule->n_expressions)
		return true;
	if (!c->is_there)
		return false;
	return (rule->command.n && (has_glob(&rule->command, buf_str(&c->whole)) ||
					   has_glob(&rule->command, buf_str(&c->short_name)))) ||
	       has_expression(rule, &c->whole) || has_expression(rule, &c->short_name);
}

static bool is_role(const struct policy_rule *rule, const char *role)
{
	if (!rule->roles)
		return true;
	for (unsigned i = 0; role && i < 3; i++)
		if (rule->roles >> i & 1 && !strcmp(role, policy_roles[i]))
			return true;
	return false;
}

/* Every label of the rule, with its value or with any. */
static bool has_labels(const struct policy_rule *rule, const char *const *labels)
{
	for (size_t i = 0; i < rule->n_labels; i++) {
		const struct policy_label *want = &rule->labels[i];
		size_t n = strlen(want->name);
		bool is_there = false;
		for (const char *const *l = labels; l && *l && !is_there; l++)
			is_there = !strncmp(*l, want->name, n) && (*l)[n] == '=' &&
				   (!strcmp(want->value, "*") || !strcmp(*l + n + 1, want->value));
		if (!is_there)
			return false;
	}
	return true;
}

static bool is_now(const struct policy_rule *rule, int64_t unix_ns)
{
	struct clock_date d;

	if (!rule->has_time && !rule->weekdays)
		return true;
	int64_t s = unix_ns / NS_PER_S;
	clock_split(s + (rule->zone ? zone_offset(rule->zone, s) : 0), &d);
	int minute = d.hour * 60 + d.minute;
	if (rule->weekdays && !(rule->weekdays >> d.weekday & 1))
		return false;
	if (!rule->has_time)
		return true;
	return rule->from_minute < rule->to_minute
		       ? minute >= rule->from_minute && minute < rule->to_minute
		       : minute >= rule->from_minute || minute < rule->to_minute;
}

static bool matches(const struct policy_rule *rule, const struct policy_request *q,
	const struct command *c, int64_t unix_ns)
{
	return has_glob(&rule->tenant, q->tenant) && is_role(rule, q->role) &&
	       has_glob(&rule->backend, q->backend) && has_glob(&rule->action, q->action) &&
	       has_glob(&rule->path, q->path) && has_glob(&rule->language, q->language) &&
	       has_labels(rule, q->labels) && is_now(rule, unix_ns) && is_command(rule, c);
}

static void decide(struct policy_decision *d, enum policy_effect effect, const char *rule,
	const char *reason)
{
	d->effect = effect;
	(void)snprintf(d->rule, sizeof d->rule, "%s", rule);
	(void)snprintf(d->reason, sizeof d->reason, "%s", reason ? reason : "");
}

void policy_decide(struct policy *p, const struct policy_request *request,
	struct policy_decision *ret)
{
	auto_(command_done) struct command c = {
		BUF_INIT(COMMAND_MAX), BUF_INIT(COMMAND_MAX), false};
	int64_t unix_ns = request->unix_ns ? request->unix_ns : clock_unix_ns();

	if (!p) {
		decide(ret, POLICY_ALLOW, "default", NULL);
		return;
	}
	/* What cannot be looked at cannot be allowed. */
	if (p->n && command_of(request, &c) < 0) {
		decide(ret, POLICY_DENY, "error", "the command is too long to be judged");
		return;
	}
	(void)pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n; i++) {
		const struct policy_rule *rule = &p->rules[i];
		if (!matches(rule, request, &c, unix_ns))
			continue;
		decide(ret, rule->effect, rule->name, rule->reason);
		(void)pthread_mutex_unlock(&p->lock);
		return;
	}
	(void)pthread_mutex_unlock(&p->lock);
	decide(ret, p->otherwise, "default", NULL);
}

int policy_fail(const struct policy_decision *d, struct cell_error *err)
{
	bool is_ask = d->effect == POLICY_ASK;
	int r = cell_fail(err, CELL_EDENIED, 0, "%s by policy '%s'%s%s",
		is_ask ? "it needs approval" : "it is denied", d->rule, *d->reason ? ": " : "",
		d->reason);

	return cell_error_hint(err, r, "%s",
		is_ask ? "no guard is there to approve it (server.guard.url)"
		       : "the rules are in server.policy of the configuration");
}
