/* SPDX-License-Identifier: Apache-2.0 */
/* policy_read.c: from the configuration to rules. Keys and words are checked already
 * (core/config); what only matching needs is checked here: patterns, times, zones. */
#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "server/policy_rules.h"
#include "server/settings.h"

const char *const policy_roles[3] = {"admin", "user", "read-only"};

static void globs_done(struct policy_globs *g)
{
	for (size_t i = 0; i < g->n; i++)
		globmatch_free(g->list[i]);
	free(g->list);
}

static void rule_done(struct policy_rule *r)
{
	struct policy_globs *all[] = {
		&r->tenant, &r->backend, &r->action, &r->command, &r->path, &r->language};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		globs_done(all[i]);
	for (size_t i = 0; i < r->n_expressions; i++)
		ere_free(r->expressions[i]);
	for (size_t i = 0; i < r->n_labels; i++) {
		free(r->labels[i].name);
		free(r->labels[i].value);
	}
	free(r->expressions);
	free(r->labels);
	free(r->reason);
	zone_free(r->zone);
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		rule_done(&p->rules[i]);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}

static void freep(struct policy **p)
{
	policy_free(*p);
}

/* In a command a slash is a byte like any other: * becomes **. */
static int widen(const char *pattern, struct buf *out)
{
	int r = 0;

	for (const char *p = pattern; r == 0 && *p; p++) {
		if (*p == '\\' && p[1]) {
			r = buf_add(out, p++, 2);
		} else if (*p == '*') {
			while (p[1] == '*')
				p++;
			r = buf_addz(out, "**");
		} else {
			r = buf_addc(out, *p);
		}
	}
	return r;
}

static int read_glob(const struct node *n, bool is_wide, struct globmatch **ret,
	struct cell_error *err)
{
	auto_buf struct buf wide = BUF_INIT(2 * GLOBMATCH_MAX_PATTERN);

	int r = is_wide ? widen(n->text, &wide) : 0;
	if (r == 0)
		r = globmatch_new(is_wide ? buf_str(&wide) : n->text, ret);
	if (r == -ENOMEM)
		return config_no_memory(err);
	if (r < 0)
		return cell_error_hint(err, node_fail(err, n, "%s is no pattern", QUOTE(n->text)),
			"* ? [a-z] {a,b}");
	return 0;
}

static int read_globs(const struct node *map, const char *name, struct policy_globs *g,
	struct cell_error *err)
{
	const struct node *list = node_get(map, name);

	if (!list || !list->n_items)
		return 0;
	g->list = calloc(list->n_items, sizeof(struct globmatch *));
	if (!g->list)
		return config_no_memory(err);
	for (; g->n < list->n_items; g->n++) {
		int r = read_glob(list->items[g->n], !strcmp(name, "command"), &g->list[g->n], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_expressions(const struct node *map, struct policy_rule *rule,
	struct cell_error *err)
{
	const struct node *list = node_get(map, "command_regex");

	if (!list || !list->n_items)
		return 0;
	rule->expressions = calloc(list->n_items, sizeof(struct ere *));
	if (!rule->expressions)
		return config_no_memory(err);
	for (size_t i = 0; i < list->n_items; i++) {
		const char *why = NULL;
		int r = ere_new(list->items[i]->text, 0, &rule->expressions[i], &why);
		if (r == -ENOMEM)
			return config_no_memory(err);
		if (r < 0)
			return cell_error_hint(err,
				node_fail(err, list->items[i], "%s is no regular expression: %s",
					QUOTE(list->items[i]->text), why),
				"POSIX extended syntax, matched anywhere unless it has ^ and $");
		rule->n_expressions++;
	}
	return 0;
}

static int read_labels(const struct node *map, struct policy_rule *rule, struct cell_error *err)
{
	const struct node *pairs = node_get(map, "labels");

	if (!pairs || !pairs->n_items)
		return 0;
	rule->labels = calloc(pairs->n_items, sizeof *rule->labels);
	if (!rule->labels)
		return config_no_memory(err);
	for (size_t i = 0; i < pairs->n_items; i++) {
		struct policy_label *l = &rule->labels[rule->n_labels++];
		l->name = strdup(pairs->items[i]->key);
		l->value = strdup(pairs->items[i]->text ? pairs->items[i]->text : "*");
		if (!l->name || !l->value)
			return config_no_memory(err);
	}
	return 0;
}

/* "22:00" to minutes; 24:00 is an end like any other. */
static int read_clock(const char **p, int *ret)
{
	int hour = 0, minute = 0, n = 0;

	if (sscanf(*p, "%2d:%2d%n", &hour, &minute, &n) != 2 || n < 4 || hour < 0 || hour > 24 ||
		minute < 0 || minute > 59 || (hour == 24 && minute) || !isdigit((unsigned char)**p))
		return -EINVAL;
	*p += n;
	*ret = hour * 60 + minute;
	return 0;
}

static int read_time(const struct node *map, struct policy_rule *rule, struct cell_error *err)
{
	const struct node *n = node_get(map, "time"), *zone = node_get(map, "zone");
	const struct node *days = node_get(map, "weekdays");

	for (size_t i = 0; days && i < days->n_items; i++)
		rule->weekdays |= 1u << days->items[i]->number;
	if (n) {
		const char *p = n->text;
		bool is_bad = read_clock(&p, &rule->from_minute) < 0 || *p++ != '-' ||
			      read_clock(&p, &rule->to_minute) < 0 || *p ||
			      rule->from_minute == rule->to_minute;
		if (is_bad)
			return cell_error_hint(err,
				node_fail(err, n, "'time' takes a span of the day, not %s",
					QUOTE(n->text)),
				"for example: 08:00-18:00, or 22:00-06:00 over midnight");
		rule->has_time = true;
	}
	if (!zone)
		return 0;
	if (!n && !rule->weekdays)
		return cell_error_hint(err,
			node_fail(err, zone, "'zone' without 'time' or 'weekdays'"),
			"say when the rule counts");
	struct cell_error why = {0};
	int r = zone_open(zone->text, &rule->zone, &why);
	if (r == -ENOMEM)
		return config_no_memory(err);
	return r < 0 ? cell_error_hint(err, node_fail(err, zone, "%.200s", why.msg), "%s", why.hint)
		     : 0;
}

static int read_rule(const struct node *map, size_t place, struct policy_rule *rule,
	struct cell_error *err)
{
	const struct node *name = node_get(map, "name"), *effect = node_get(map, "effect");
	const struct node *reason = node_get(map, "reason"), *roles = node_get(map, "role");
	static const char *const globs[] = {
		"tenant", "backend", "action", "command", "path", "language"};
	struct policy_globs *into[] = {&rule->tenant, &rule->backend, &rule->action, &rule->command,
		&rule->path, &rule->language};
	int r = 0;

	if (!effect)
		return cell_error_hint(err,
			node_fail(err, map, "rule %zu has no effect", place + 1),
			"effect: allow, deny or ask");
	rule->effect = (enum policy_effect)effect->number;
	if (name)
		(void)snprintf(rule->name, sizeof rule->name, "%s", name->text);
	else
		(void)snprintf(rule->name, sizeof rule->name, "rule %zu", place + 1);
	for (size_t i = 0; roles && i < roles->n_items; i++)
		rule->roles |= 1u << roles->items[i]->number;
	if (reason && !(rule->reason = strdup(reason->text)))
		return config_no_memory(err);
	for (size_t i = 0; r == 0 && i < sizeof globs / sizeof globs[0]; i++)
		r = read_globs(map, globs[i], into[i], err);
	if (r == 0)
		r = read_expressions(map, rule, err);
	if (r == 0)
		r = read_labels(map, rule, err);
	return r < 0 ? r : read_time(map, rule, err);
}

int policy_new(struct cell_config *cfg, struct policy **ret, struct cell_error *err)
{
	const struct node *list = setting(cfg, "server.policy.rules");
	size_t count = list ? list->n_items : 0;
	auto_(freep) struct policy *p = calloc(1, sizeof *p + count * sizeof p->rules[0]);

	if (!p)
		return config_no_memory(err);
	(void)pthread_mutex_init(&p->lock, NULL);
	p->otherwise =
		(enum policy_effect)setting_number(cfg, "server.policy.default", POLICY_ALLOW);
	while (p->n < count) {
		size_t place = p->n++;
		int r = read_rule(list->items[place], place, &p->rules[place], err);
		if (r < 0)
			return r;
	}
	*ret = steal_ptr(p);
	return 0;
}
