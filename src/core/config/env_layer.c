/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env_layer.c: CELL_* variables as a layer. CELL_LIMITS_MEMORY=512m sets limits.memory. Lists are
 * separated by commas, or written as YAML: CELL_ENV='{A: "x,y"}'.
 */
#include <string.h>

#include "core/config/config.h"
#include "core/config/yaml.h"
#include "core/nearest.h"

#define PREFIX "CELL_"

static const char *spelling_of(const char *variable, size_t len)
{
	char buf[SCHEMA_PATH_MAX];

	for (size_t i = 0; i < config_keys_count; i++) {
		schema_variable(config_keys[i].path, buf);
		if (strlen(buf) == len && !strncmp(buf, variable, len))
			return config_keys[i].path;
	}
	for (const struct config_alias *a = config_aliases; a->spelling; a++) {
		schema_variable(a->spelling, buf);
		if (strlen(buf) == len && !strncmp(buf, variable, len))
			return a->spelling;
	}
	return NULL;
}

/* Variables that begin with CELL_ and are not keys are none of our business, unless one looks like
 * a slip. */
static int refuse_slip(const char *name, struct cell_error *err)
{
	static const char *const others[] = {"CELL_CONFIG_", "CELL_STATE_", "CELL_TEST_",
		"CELL_UPDATE_", "CELL_FAULT_", "CELL_TRACE_", "CELL_LOG"};
	size_t distance = 2; /* one letter */
	char variable[SCHEMA_PATH_MAX], near[SCHEMA_PATH_MAX] = "";

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (!strncmp(name, others[i], strlen(others[i])))
			return 0;
	for (size_t i = 0; i < config_keys_count; i++) {
		schema_variable(config_keys[i].path, variable);
		if (cell_nearest(name, variable, NULL, &distance))
			memcpy(near, variable, sizeof near);
	}
	if (!*near)
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "%.80s: no key belongs to this variable", name),
		"did you mean '%s'?", near);
}

/* "null" in a variable is the word; nobody writes CELL_BACKEND=null to unset it. */
static struct node *word(const char *text, size_t n, const struct source *source)
{
	struct node *w = node_new_scalar(text, n, false, source);

	if (w && w->kind == NODE_NULL)
		w->kind = NODE_STRING;
	return w;
}

static struct node *split(const char *text, const struct source *source)
{
	auto_node struct node *list = node_new(NODE_LIST, source);

	if (!list)
		return NULL;
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, ",");
		if (n && node_add(list, word(p, n, source)) < 0)
			return NULL;
		p += n + (p[n] == ',');
	}
	return steal_ptr(list);
}

static int read_value(const char *spelling, const char *text, const struct source *source,
	struct node **ret, struct cell_error *err)
{
	const struct config_alias *alias;
	enum key_type type = config_keys[schema_find(spelling, &alias)].type;
	bool is_list =
		type == KEY_STRINGS || type == KEY_ENUMS || type == KEY_PAIRS || type == KEY_MOUNTS;

	if (type == KEY_RECORDS || type == KEY_TABLE || (is_list && (*text == '[' || *text == '{')))
		return yaml_parse(text, strlen(text), source, ret, err);
	*ret = is_list ? split(text, source) : word(text, strlen(text), source);
	return *ret ? 0 : config_no_memory(err);
}

static int add_to_document(struct node *document, const char *spelling, struct node *value)
{
	auto_free char *copy = strdup(spelling);
	struct node *map = document;

	if (!copy) {
		node_free(value);
		return -ENOMEM;
	}
	char *part = copy;
	for (char *dot; (dot = strchr(part, '.')); part = dot + 1) {
		*dot = '\0';
		struct node *inner = node_get(map, part);
		if (!inner || inner->kind != NODE_MAP) {
			inner = node_new(NODE_MAP, value->source);
			if (node_add_key(map, part, inner) < 0) {
				node_free(value);
				return -ENOMEM;
			}
		}
		map = inner;
	}
	return node_add_key(map, part, value);
}

static int add_variable(struct cell_config *cfg, struct node *document, const char *variable,
	struct cell_error *err)
{
	const char *equals = strchr(variable, '=');
	struct node *value = NULL;

	if (!equals || !equals[1])
		return 0; /* empty is as good as absent */
	auto_free char *name = strndup(variable, (size_t)(equals - variable));
	if (!name)
		return config_no_memory(err);
	const char *spelling = spelling_of(name, strlen(name));
	if (!spelling)
		return refuse_slip(name, err);
	auto_free char *cwd = getcwd(NULL, 0);
	struct source *source = config_source(cfg, SOURCE_ENV, name, cwd);
	if (!source)
		return config_no_memory(err);
	int r = read_value(spelling, equals + 1, source, &value, err);
	if (r < 0 || !value)
		return r;
	return add_to_document(document, spelling, value) < 0 ? config_no_memory(err) : 0;
}

int config_read_variables(struct cell_config *cfg, char *const *variables, struct cell_error *err)
{
	auto_node struct node *document = node_new(NODE_MAP, NULL);

	if (!document)
		return config_no_memory(err);
	for (; variables && *variables; variables++) {
		int r = 0;
		if (!strncmp(*variables, PREFIX, sizeof PREFIX - 1))
			r = add_variable(cfg, document, *variables, err);
		if (r < 0)
			return r;
	}
	return document->n_items ? config_apply(cfg, document, err) : 0;
}
