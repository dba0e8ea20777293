/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value_records.c: values that are records: a list of mappings, or a mapping of names to
 * mappings. What a record may hold is a table of keys like that of the whole configuration; each
 * field is read as a key of its type.
 */
#include <ctype.h>
#include <string.h>

#include "core/config/value_list.h"
#include "core/nearest.h"

static const struct config_key *field_of(const struct config_key *key, const char *name)
{
	for (const struct config_key *f = key->fields; f->path; f++)
		if (!strcmp(f->path, name))
			return f;
	return NULL;
}

static int fail_unknown(const struct value_context *c, const struct node *n, struct cell_error *err)
{
	size_t distance = NEAREST_START;
	const char *best = NULL;

	for (const struct config_key *f = c->key->fields; f->path; f++)
		best = cell_nearest(n->key, f->path, best, &distance);
	int r = node_fail_key(err, n, "'%s' has no field %s", c->spelling, QUOTE(n->key));
	return best ? cell_error_hint(err, r, "did you mean '%s'?", best)
		    : cell_error_hint(err, r, "docs/configuration.md lists every field");
}

static int read_record(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err)
{
	auto_node struct node *map = node_new(NODE_MAP, in->source);

	if (!map)
		return config_no_memory(err);
	if (in->kind != NODE_MAP)
		return cell_error_hint(err,
			node_fail(err, in, "'%s': an entry is %s; it should be a mapping",
				c->spelling, node_kind_name(in->kind)),
			"for example: %s", key_types[c->key->type].example);
	node_place(map, in);
	for (size_t i = 0; i < in->n_items; i++) {
		const struct node *item = in->items[i];
		const struct config_key *field = field_of(c->key, item->key);
		struct node *n = NULL;
		if (!field)
			return fail_unknown(c, item, err);
		if (item->kind == NODE_NULL)
			continue;
		const struct value_context inner = {.key = field, .spelling = field->path};
		int r = value_read(&inner, item, &n, err);
		if (r < 0)
			return r;
		if (node_add(map, n) < 0)
			return config_no_memory(err);
	}
	*ret = steal_ptr(map);
	return 0;
}

static int check_name(const struct value_context *c, const struct node *item,
	struct cell_error *err)
{
	for (const char *p = item->key; *p; p++)
		if (iscntrl((unsigned char)*p) || *p == ' ')
			return node_fail_key(err, item, "'%s': %s cannot be a name", c->spelling,
				QUOTE(item->key));
	return *item->key ? 0 : node_fail_key(err, item, "'%s': a name is empty", c->spelling);
}

int value_read_records(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err)
{
	bool is_table = c->key->type == KEY_TABLE;
	auto_node struct node *all = node_new(is_table ? NODE_MAP : NODE_LIST, in->source);

	if (!all)
		return config_no_memory(err);
	if (in->kind != all->kind)
		return value_refuse(c, in, err);
	if (in->n_items > LIST_MAX)
		return node_fail(err, in, "'%s': more than %u entries", c->spelling, LIST_MAX);
	for (size_t i = 0; i < in->n_items; i++) {
		const struct node *item = in->items[i];
		struct node *n = NULL;
		int r = is_table ? check_name(c, item, err) : 0;
		if (r == 0 && is_table && item->kind == NODE_NULL) {
			n = node_new(NODE_NULL, item->source); /* takes it away */
			r = n ? 0 : config_no_memory(err);
		} else if (r == 0) {
			r = read_record(c, item, &n, err);
		}
		if (r < 0)
			return r;
		if ((is_table ? node_add_key(all, item->key, n) : node_add(all, n)) < 0)
			return config_no_memory(err);
	}
	*ret = steal_ptr(all);
	return 0;
}
