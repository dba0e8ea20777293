/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c: laying a document over a configuration: spellings become keys, text becomes values. */
#include <string.h>

#include "core/config/config.h"
#include "core/config/value.h"

struct layer {
	struct cell_config *cfg; /* what is below */
	struct node *values[CONFIG_KEYS_MAX];
	bool only_backends; /* first pass: what units mean depends on them */
	struct cell_error *err;
};

const struct node *config_value(struct node *const *values, const char *path)
{
	int i = schema_index(path);

	return i < 0 ? NULL : values[i];
}

/* Whose units a key is read in: its own part's back end, or the cell's. */
static const char *backend_for(const struct layer *l, const char *path)
{
	static const char *const types[] = {"sandbox.primary.type", "sandbox.secondary.type"};
	const char *type = "backend";

	for (size_t i = 0; i < 2; i++)
		if (!strncmp(path, types[i], strlen(types[i]) - strlen("type")))
			type = types[i];
	const struct node *n = config_value(l->values, type);
	if (!n)
		n = config_value(l->cfg->values, type);
	return n && n->kind == NODE_STRING ? n->text : NULL;
}

static int fail_contradiction(struct layer *l, const struct node *old, const struct node *new)
{
	int r;

	if (node_is_scalar(old) && node_is_scalar(new) && old->text && new->text)
		r = node_fail_key(l->err, new, "'%s' says %s, but '%s' says %s", new->key,
			QUOTE(new->text), old->key, QUOTE(old->text));
	else
		r = node_fail_key(l->err, new, "'%s' and '%s' are the same key and differ",
			new->key, old->key);
	return cell_error_hint(l->err, r, "keep one of them; the other stands at %s", WHERE(old));
}

static int set_value(struct layer *l, int index, const struct config_alias *alias,
	const char *spelling, const struct node *in)
{
	const struct config_key *key = &config_keys[index];
	struct value_context c = {
		.key = key,
		.alias = alias,
		.backend = backend_for(l, key->path),
		.spelling = spelling,
	};
	auto_node struct node *n = NULL;

	if ((key->type == KEY_BACKEND) != l->only_backends)
		return 0;
	int r = value_read(&c, in, &n, l->err);
	if (r < 0)
		return r;
	struct node **slot = &l->values[index];
	if (!*slot || (*slot)->kind == NODE_NULL) {
		node_free(*slot);
		*slot = steal_ptr(n);
		return 0;
	}
	return n->kind == NODE_NULL || node_equal(*slot, n) ? 0 : fail_contradiction(l, *slot, n);
}

static int fail_unknown(struct layer *l, const struct node *n, const char *path)
{
	char buf[SCHEMA_PATH_MAX];
	const char *near = schema_nearest(path, buf);

	int r = node_fail_key(l->err, n, "unknown key %s", QUOTE(n->key));
	if (strchr(n->key, '.'))
		return cell_error_hint(l->err, r, "a dot does not nest here: write a: {b: ...}");
	return near ? cell_error_hint(l->err, r, "did you mean '%s'?", near)
		    : cell_error_hint(l->err, r, "docs/configuration.md lists every key");
}

static int walk(struct layer *l, const struct node *map, const char *prefix)
{
	for (size_t i = 0; i < map->n_items; i++) {
		const struct node *n = map->items[i];
		const struct config_alias *alias;
		char path[SCHEMA_PATH_MAX];
		int r = 0;

		int len = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", n->key);
		bool is_odd = len < 0 || (size_t)len >= sizeof path || strchr(n->key, '.');
		int index = is_odd ? -1 : schema_find(path, &alias);
		bool is_section = !is_odd && schema_is_section(path);
		if (is_section && n->kind == NODE_MAP)
			r = walk(l, n, path);
		else if (index >= 0)
			r = set_value(l, index, alias, path, n);
		else if (is_section && n->kind != NODE_NULL)
			r = node_fail(l->err, n, "'%s' takes a mapping, not %s", path,
				node_kind_name(n->kind));
		else if (!is_section)
			r = l->only_backends ? 0 : fail_unknown(l, n, path);
		if (r < 0)
			return r;
	}
	return 0;
}

static struct node **slot_of(struct node **values, const char *path)
{
	return &values[schema_index(path)];
}

static int imply_allow(struct layer *l)
{
	struct node **mode = slot_of(l->values, "network.mode");
	const struct node *list = config_value(l->values, "network.allow");

	if (*mode || !list || list->kind != NODE_LIST)
		return 0;
	const struct value_context c = {
		.key = &config_keys[schema_index("network.mode")], .spelling = "network.mode"};
	struct node word = {.kind = NODE_STRING, .text = (char[]){"allow"}};
	node_place(&word, list);
	return value_read(&c, &word, mode, l->err);
}

static int merge_pairs(struct node *below, struct node *above)
{
	for (size_t i = 0; i < above->n_items; i++) {
		struct node *n = above->items[i];
		size_t at = 0;
		while (at < below->n_items && strcmp(below->items[at]->key, n->key) != 0)
			at++;
		if (at < below->n_items)
			node_remove(below, at);
		if (n->kind == NODE_NULL)
			continue;
		above->items[i] = NULL;
		if (node_add(below, n) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void drop_nulls(struct node *map)
{
	for (size_t i = map->n_items; i > 0; i--)
		if (map->items[i - 1]->kind == NODE_NULL)
			node_remove(map, i - 1);
}

static int append_items(struct node *below, struct node *above, struct cell_error *err)
{
	while (above->n_items) {
		struct node *item = above->items[0];
		const struct node *target = node_get(item, "target");
		for (size_t i = 0; target && i < below->n_items; i++)
			if (!strcmp(node_get(below->items[i], "target")->text, target->text)) {
				node_remove(below, i);
				break;
			}
		above->n_items--;
		memmove(above->items, above->items + 1, above->n_items * sizeof(struct node *));
		if (node_add(below, item) < 0)
			return config_no_memory(err);
	}
	return 0;
}

/* The list of a weaker layer says nothing any more once a stronger one chose another mode than that
 * which it belongs to. */
static void forget_list(struct cell_config *cfg, const struct layer *l, const char *list,
	const char *word)
{
	const struct node *mode = config_value(l->values, "network.mode");
	struct node **below = slot_of(cfg->values, list);

	if (!mode || config_value(l->values, list) || !*below)
		return;
	if (mode->kind == NODE_STRING && !strcmp(mode->text, word))
		return;
	/* Two flags that contradict each other are for check.c to refuse. */
	if (mode->source->kind == SOURCE_SET && (*below)->source->kind == SOURCE_SET)
		return;
	node_free(*below);
	*below = NULL;
}

static int merge(struct cell_config *cfg, struct layer *l, bool is_additive)
{
	forget_list(cfg, l, "network.allow", "allow");
	forget_list(cfg, l, "network.private", "open");
	forget_list(cfg, l, "network.dns", "open");
	for (size_t i = 0; i < config_keys_count; i++) {
		struct node *above = l->values[i], **below = &cfg->values[i];
		enum key_type type = config_keys[i].type;
		int r = 0;

		if (!above)
			continue;
		if (*below && (type == KEY_PAIRS || type == KEY_TABLE) && above->kind == NODE_MAP) {
			r = merge_pairs(*below, above) < 0 ? config_no_memory(l->err) : 0;
		} else if (*below && is_additive && above->kind == NODE_LIST) {
			(*below)->source = above->source;
			r = append_items(*below, above, l->err);
		} else {
			node_free(*below);
			*below = steal_ptr(l->values[i]);
			if ((*below)->kind == NODE_MAP)
				drop_nulls(*below);
			if ((*below)->kind == NODE_NULL) {
				node_free(*below);
				*below = NULL;
			}
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static void layer_done(struct layer *l)
{
	for (size_t i = 0; i < config_keys_count; i++)
		node_free(l->values[i]);
}

int config_apply(struct cell_config *cfg, const struct node *document, struct cell_error *err)
{
	auto_(layer_done) struct layer l = {.cfg = cfg, .only_backends = true, .err = err};

	if (document->kind != NODE_MAP)
		return cell_error_hint(err,
			node_fail(err, document, "the document is %s; it should be a mapping",
				node_kind_name(document->kind)),
			"for example: backend: local");
	int r = walk(&l, document, "");
	l.only_backends = false;
	if (r == 0)
		r = walk(&l, document, "");
	if (r == 0)
		r = imply_allow(&l);
	if (r == 0)
		r = config_check(l.values, true, err);
	return r < 0 ? r : merge(cfg, &l, false);
}

int config_apply_one(struct cell_config *cfg, const char *spelling, const struct node *value,
	struct cell_error *err)
{
	auto_(layer_done) struct layer l = {.cfg = cfg, .err = err};
	const struct config_alias *alias;
	char buf[SCHEMA_PATH_MAX];

	int index = schema_find(spelling, &alias);
	if (index < 0) {
		const char *near = schema_nearest(spelling, buf);
		int r = node_fail(err, value, "unknown key %s", QUOTE(spelling));
		return near ? cell_error_hint(err, r, "did you mean '%s'?", near)
			    : cell_error_hint(err, r, "docs/configuration.md lists every key");
	}
	l.only_backends = config_keys[index].type == KEY_BACKEND;
	int r = set_value(&l, index, alias, spelling, value);
	const struct node *mode = config_value(cfg->values, "network.mode");
	if (r == 0 && !(mode && mode->source->kind == SOURCE_SET))
		r = imply_allow(&l);
	return r < 0 ? r : merge(cfg, &l, true);
}
