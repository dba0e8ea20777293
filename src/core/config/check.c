/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c: values that are each right and wrong together. What one machine can or cannot enforce is
 * not asked here.
 */
#include <string.h>

#include "core/config/config.h"
#include "core/config/value.h"

/* Two values that cannot both be. A NULL word stands for any value. */
static const struct conflict {
	const char *path, *word;
	const char *other, *other_word;
	const char *why;
} conflicts[] = {
	{"network.allow", NULL, "network.mode", "none", "without a network nothing can be allowed"},
	{"network.allow", NULL, "network.mode", "open", "an open network needs no list"},
	{"network.private", NULL, "network.mode", "none", "without a network nothing is reached"},
	{"network.private", NULL, "network.mode", "allow",
		"name them in network.allow, or open the network"},
	{"network.dns", NULL, "network.mode", "none", "without a network no resolver is reached"},
	{"network.dns", NULL, "network.mode", "allow", "names are looked up outside of the cell"},
	{"auth_token", NULL, "auth_disabled", "true",
		"a token is of no use without authentication"},
	{"sandbox.capabilities", "networking", "network.mode", "none",
		"networking needs a network"},
};

/* A number that may not exceed another. */
static const struct order {
	const char *less, *more;
} orders[] = {
	{"auto_scaling.min_tasks", "auto_scaling.max_tasks"},
	{"limits.process_memory", "limits.memory"},
};

/* What memory AWS Fargate sells with what CPU. */
static const struct fargate_size {
	uint64_t cpu_millis, min_mib, max_mib;
} fargate_sizes[] = {
	{250, 512, 2048},
	{500, 1024, 4096},
	{1000, 2048, 8192},
	{2000, 4096, 16384},
	{4000, 8192, 30720},
	{8000, 16384, 61440},
	{16000, 32768, 122880},
};

static bool is_set(const struct node *n)
{
	return n && n->kind != NODE_NULL && !(n->kind == NODE_LIST && !n->n_items);
}

static bool has_word(const struct node *n, const char *word)
{
	if (!is_set(n))
		return false;
	if (!word)
		return true;
	if (n->kind != NODE_LIST)
		return n->text && !strcmp(n->text, word);
	for (size_t i = 0; i < n->n_items; i++)
		if (!strcmp(n->items[i]->text, word))
			return true;
	return false;
}

static int check_conflicts(struct node *const *values, struct cell_error *err)
{
	for (size_t i = 0; i < sizeof conflicts / sizeof conflicts[0]; i++) {
		const struct conflict *c = &conflicts[i];
		const struct node *a = config_value(values, c->path);
		const struct node *b = config_value(values, c->other);
		if (has_word(a, c->word) && has_word(b, c->other_word))
			return cell_error_hint(err,
				node_fail_key(err, a, "'%s' contradicts '%s: %s': %s", a->key,
					b->key, c->other_word, c->why),
				"drop one of them; '%s' stands at %s", b->key, WHERE(b));
	}
	return 0;
}

static int check_orders(struct node *const *values, struct cell_error *err)
{
	for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
		const struct node *less = config_value(values, orders[i].less);
		const struct node *more = config_value(values, orders[i].more);
		if (!is_set(less) || !is_set(more) || less->number <= more->number)
			continue;
		return node_fail(err, less, "'%s' is %s, more than '%s', which is %s", less->key,
			less->text, more->key, more->text);
	}
	return 0;
}

static int check_rule(const struct backend_rule *rule, const struct config_key *key,
	const struct node *n, struct cell_error *err)
{
	char min[VALUE_TEXT_MAX], max[VALUE_TEXT_MAX];

	if (n->number >= rule->min && n->number <= rule->max)
		return 0;
	int r = node_fail(err, n, "'%s' is %s; for %s it goes from %s to %s", n->key, n->text,
		rule->backend, value_number_text(key->type, rule->min, min),
		value_number_text(key->type, rule->max, max));
	return cell_error_hint(err, r, "%s", rule->why);
}

static int check_fargate(const struct node *cpu, const struct node *memory, struct cell_error *err)
{
	const struct fargate_size *size = NULL;

	if (!is_set(cpu))
		return 0;
	for (size_t i = 0; i < sizeof fargate_sizes / sizeof fargate_sizes[0]; i++)
		if (fargate_sizes[i].cpu_millis == cpu->number)
			size = &fargate_sizes[i];
	if (!size)
		return cell_error_hint(err,
			node_fail(err, cpu, "'%s' is %s CPUs, which AWS Fargate does not offer",
				cpu->key, cpu->text),
			"CPUs: 0.25, 0.5, 1, 2, 4, 8 or 16; in 1024ths: 256 to 16384");
	if (!is_set(memory) ||
		(memory->number >= size->min_mib << 20 && memory->number <= size->max_mib << 20))
		return 0;
	return cell_error_hint(err,
		node_fail(err, memory,
			"'%s' is %s; with %s CPUs AWS Fargate offers %llu to %llu MiB", memory->key,
			memory->text, cpu->text, (unsigned long long)size->min_mib,
			(unsigned long long)size->max_mib),
		"change the memory or the CPUs");
}

static bool is_backend(const struct node *n, const char *name)
{
	return n && n->kind == NODE_STRING && !strcmp(n->text, name);
}

/* What one back end makes of the keys below a prefix ("" or "sandbox.primary."). */
static int check_backend(struct node *const *values, const char *prefix, const struct node *backend,
	struct cell_error *err)
{
	bool is_part = *prefix;
	char cpu[SCHEMA_PATH_MAX], memory[SCHEMA_PATH_MAX];

	if (!backend || backend->kind != NODE_STRING)
		return 0;
	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];
		const char *path = key->path;
		bool is_of_part = !strncmp(path, "sandbox.primary.", 16) ||
				  !strncmp(path, "sandbox.secondary.", 18);
		if (!is_set(values[i]) || strncmp(path, prefix, strlen(prefix)) != 0 ||
			is_of_part != is_part)
			continue;
		const struct backend_rule *rule = backend_rule(backend->text, path);
		int r = rule ? check_rule(rule, key, values[i], err) : 0;
		if (r < 0)
			return r;
	}
	if (!is_backend(backend, "ecs_fargate"))
		return 0;
	(void)snprintf(cpu, sizeof cpu, "%s%scpus", prefix, is_part ? "" : "limits.");
	(void)snprintf(memory, sizeof memory, "%s%smemory", prefix, is_part ? "" : "limits.");
	return check_fargate(config_value(values, cpu), config_value(values, memory), err);
}

/* In one document: a key that only other back ends take is a mistake. */
static int check_foreign_keys(struct node *const *values, struct cell_error *err)
{
	const struct node *backend = config_value(values, "backend");

	if (!is_set(backend))
		return 0;
	const char *name = strrchr(backend->text, ':');
	name = name ? name + 1 : backend->text;
	for (size_t i = 0; i < config_keys_count; i++) {
		const char *takers = config_keys[i].backends;
		if (!takers || !is_set(values[i]) || is_in_words(takers, name))
			continue;
		return cell_error_hint(err,
			node_fail_key(err, values[i], "'%s' is not a key of the back end '%s'",
				values[i]->key, name),
			"it belongs to: %s", takers);
	}
	return 0;
}

static int check_hybrid(struct node *const *values, bool is_layer, struct cell_error *err)
{
	const struct node *backend = config_value(values, "backend");
	const struct node *primary = config_value(values, "sandbox.primary.use_for");
	const struct node *secondary = config_value(values, "sandbox.secondary.use_for");

	for (size_t i = 0; primary && secondary && i < primary->n_items; i++)
		if (has_word(secondary, primary->items[i]->text))
			return cell_error_hint(err,
				node_fail(err, primary->items[i],
					"'%s' is given to both sandbox.primary and "
					"sandbox.secondary",
					primary->items[i]->text),
				"one of them serves it");
	if (is_layer || !is_backend(backend, "hybrid_aws"))
		return 0;
	if (!is_set(config_value(values, "sandbox.primary.type")) ||
		!is_set(config_value(values, "sandbox.secondary.type")))
		return cell_error_hint(err,
			node_fail(err, backend, "'%s' is hybrid_aws, but of what?", backend->key),
			"set sandbox.primary.type and sandbox.secondary.type");
	return 0;
}

static int check_allow_list(struct node *const *values, struct cell_error *err)
{
	const struct node *mode = config_value(values, "network.mode");

	if (!has_word(mode, "allow") || is_set(config_value(values, "network.allow")))
		return 0;
	return cell_error_hint(err,
		node_fail(err, mode, "'%s' is allow, but network.allow names nobody", mode->key),
		"list domains in network.allow, or choose none");
}

/* They are exceptions to an open network: nobody gets one by naming them. */
static int check_open_network(struct node *const *values, struct cell_error *err)
{
	const struct node *n = config_value(values, "network.private");

	if (!is_set(n))
		n = config_value(values, "network.dns");
	if (!is_set(n) || has_word(config_value(values, "network.mode"), "open"))
		return 0;
	return cell_error_hint(err,
		node_fail(err, n, "'%s' is of use with an open network only", n->key),
		"set network.mode: open (--network open)");
}

int config_check(struct node *const *values, bool is_layer, struct cell_error *err)
{
	int r = check_conflicts(values, err);

	if (r == 0)
		r = check_orders(values, err);
	if (r == 0 && is_layer)
		r = check_foreign_keys(values, err);
	if (r == 0 && !is_layer)
		r = check_allow_list(values, err);
	if (r == 0 && !is_layer)
		r = check_open_network(values, err);
	if (r == 0)
		r = check_backend(values, "", config_value(values, "backend"), err);
	if (r == 0)
		r = check_backend(values, "sandbox.primary.",
			config_value(values, "sandbox.primary.type"), err);
	if (r == 0)
		r = check_backend(values, "sandbox.secondary.",
			config_value(values, "sandbox.secondary.type"), err);
	return r < 0 ? r : check_hybrid(values, is_layer, err);
}
