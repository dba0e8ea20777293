/* SPDX-License-Identifier: Apache-2.0 */
/* config.c: the public calls of cell/config.h. */
#include "core/config/config.h"

#include <string.h>

#include "core/config/yaml.h"
#include "core/env.h"

struct source *config_source(struct cell_config *cfg, enum source_kind kind, const char *name,
	const char *directory)
{
	struct source *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->kind = kind;
	s->name = strdup(name);
	s->directory = directory ? strdup(directory) : NULL;
	if (!s->name || (directory && !s->directory)) {
		free(s->name);
		free(s->directory);
		free(s);
		return NULL;
	}
	s->next = cfg->sources;
	cfg->sources = s;
	return s;
}

void cell_config_free(struct cell_config *cfg)
{
	if (!cfg)
		return;
	spec_store_free(cfg->spec);
	for (size_t i = 0; i < config_keys_count; i++)
		node_free(cfg->values[i]);
	for (struct source *s = cfg->sources, *next; s; s = next) {
		next = s->next;
		free(s->name);
		free(s->directory);
		free(s);
	}
	for (size_t i = 0; i < cfg->n_files; i++)
		free(cfg->files[i]);
	free(cfg->files);
	free(cfg);
}

static void config_freep(struct cell_config **cfg)
{
	cell_config_free(*cfg);
}

static struct cell_config *config_new(void)
{
	struct cell_config *cfg = calloc(1, sizeof *cfg);

	if (!cfg)
		return NULL;
	cfg->files = calloc(1, sizeof(char *));
	if (!cfg->files) {
		free(cfg);
		return NULL;
	}
	return cfg;
}

int cell_config_load(const struct cell_config_args *args, struct cell_config **ret,
	struct cell_error *err)
{
	static const struct cell_config_args defaults = {0};
	auto_(config_freep) struct cell_config *cfg = config_new();

	if (!cfg)
		return config_no_memory(err);
	if (!args)
		args = &defaults;
	int r = config_read_layers(cfg, args, err);
	if (r == 0 && !args->no_env)
		r = config_read_variables(cfg, environ, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(cfg);
	return 0;
}

int cell_config_load_text(const char *name, const char *text, size_t len, struct cell_config **ret,
	struct cell_error *err)
{
	auto_(config_freep) struct cell_config *cfg = config_new();
	auto_node struct node *document = NULL;
	auto_free char *cwd = getcwd(NULL, 0);

	struct source *source = cfg ? config_source(cfg, SOURCE_FILE, name, cwd) : NULL;
	if (!source)
		return config_no_memory(err);
	int r = yaml_parse(text, len, source, &document, err);
	if (r == 0 && document)
		r = config_apply(cfg, document, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(cfg);
	return 0;
}

/* A flag adds one entry to a list, as it stands: no commas are looked for. */
static struct node *node_of_flag(const char *key, const char *value, const struct source *source)
{
	const struct config_alias *alias;
	int index = schema_find(key, &alias);
	enum key_type type = index < 0 ? KEY_STRING : config_keys[index].type;
	auto_node struct node *n = node_new_scalar(value, strlen(value), false, source);

	if (n && n->kind == NODE_NULL)
		n->kind = NODE_STRING;
	if (!n || (type != KEY_STRINGS && type != KEY_ENUMS && type != KEY_PAIRS &&
			  type != KEY_MOUNTS))
		return steal_ptr(n);
	struct node *list = node_new(NODE_LIST, source);
	if (list && node_add(list, steal_ptr(n)) < 0) {
		node_free(list);
		return NULL;
	}
	return list;
}

int cell_config_set(struct cell_config *cfg, const char *key, const char *value, const char *origin,
	struct cell_error *err)
{
	auto_free char *cwd = getcwd(NULL, 0);
	struct source *source = config_source(cfg, SOURCE_SET, origin ? origin : key, cwd);
	auto_node struct node *n = source ? node_of_flag(key, value, source) : NULL;

	spec_store_free(cfg->spec);
	cfg->spec = NULL;
	return n ? config_apply_one(cfg, key, n, err) : config_no_memory(err);
}

int cell_config_spec(struct cell_config *cfg, const struct cell_spec **ret, struct cell_error *err)
{
	int r = 0;

	if (!cfg->spec)
		r = config_check(cfg->values, false, err);
	if (r == 0 && !cfg->spec)
		r = spec_build(cfg->values, &cfg->spec, err);
	if (r == 0)
		*ret = spec_of(cfg->spec);
	return r;
}

const char *const *cell_config_files(const struct cell_config *cfg)
{
	return (const char *const *)cfg->files;
}

bool config_is_secret(const struct config_key *key, const char *pair_name)
{
	return key->is_secret ||
	       (pair_name && key->type == KEY_PAIRS && cell_env_is_secret(pair_name));
}
