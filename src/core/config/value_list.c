/* SPDX-License-Identifier: Apache-2.0 */
/* value_list.c: values with parts: lists of words, K=V pairs, mounts. */
#include "core/config/value_list.h"

#include <ctype.h>
#include <string.h>

#include "core/config/units.h"

static struct node *copy_scalar(const struct node *in)
{
	struct node *n = node_new_scalar(in->text, strlen(in->text), in->is_quoted, in->source);

	if (n)
		node_place(n, in);
	return n;
}

static int refuse_item(const struct value_context *c, const struct node *item,
	struct cell_error *err)
{
	return node_fail(err, item, "'%s': an entry of the list is %s; it should be text",
		c->spelling, node_kind_name(item->kind));
}

/* A lone word is a list of one. */
int value_read_list(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err)
{
	auto_node struct node *list = node_new(NODE_LIST, in->source);
	size_t count = in->kind == NODE_LIST ? in->n_items : 1;

	if (!list)
		return config_no_memory(err);
	if (in->kind == NODE_MAP)
		return value_refuse(c, in, err);
	if (count > LIST_MAX)
		return node_fail(err, in, "'%s': more than %u entries", c->spelling, LIST_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct node *item = in->kind == NODE_LIST ? in->items[i] : in;
		if (!node_is_scalar(item) || item->kind == NODE_NULL)
			return refuse_item(c, item, err);
		struct node *n = copy_scalar(item);
		if (!n)
			return config_no_memory(err);
		int r = value_read_scalar(c, n, err);
		if (r < 0) {
			node_free(n);
			return r;
		}
		if (node_add(list, n) < 0)
			return config_no_memory(err);
	}
	*ret = steal_ptr(list);
	return 0;
}

static int check_pair_key(const struct value_context *c, const struct node *at, const char *key,
	struct cell_error *err)
{
	for (const char *p = key; *p; p++)
		if (iscntrl((unsigned char)*p) || *p == ' ' || *p == '=')
			return node_fail(err, at, "'%s': %s cannot be a name", c->spelling,
				QUOTE(key));
	if (!*key)
		return cell_error_hint(err,
			node_fail(err, at, "'%s': a name is missing before '='", c->spelling),
			"write NAME=value");
	return 0;
}

static int add_pair(const struct value_context *c, const struct node *at, const char *key,
	const char *value, struct node *map, struct cell_error *err)
{
	const char *prefix = c->key->prefix;

	int r = check_pair_key(c, at, key, err);
	if (r < 0)
		return r;
	if (map->n_items >= PAIRS_MAX)
		return node_fail(err, at, "'%s': more than %u entries", c->spelling, PAIRS_MAX);
	if (value && prefix && strncmp(value, prefix, strlen(prefix)) != 0)
		return node_fail(err, at, "'%s': %s does not begin with '%s'", c->spelling,
			QUOTE(value), prefix);
	struct node *n = value ? node_new_scalar(value, strlen(value), true, at->source)
			       : node_new(NODE_NULL, at->source);
	if (!n)
		return config_no_memory(err);
	node_place(n, at);
	return node_add_key(map, key, n) < 0 ? config_no_memory(err) : 0;
}

static int read_pair_text(const struct value_context *c, const struct node *item, struct node *map,
	struct cell_error *err)
{
	const char *equals = item->text ? strchr(item->text, '=') : NULL;

	if (!equals)
		return cell_error_hint(err,
			node_fail(err, item, "'%s': an entry of the list has no '='", c->spelling),
			"write NAME=value");
	auto_free char *key = strndup(item->text, (size_t)(equals - item->text));
	if (!key)
		return config_no_memory(err);
	for (size_t i = 0; i < map->n_items; i++)
		if (!strcmp(map->items[i]->key, key)) {
			node_remove(map, i);
			break;
		}
	return add_pair(c, item, key, equals + 1, map, err);
}

int value_read_pairs(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err)
{
	auto_node struct node *map = node_new(NODE_MAP, in->source);
	int r = 0;

	if (!map)
		return config_no_memory(err);
	if (node_is_scalar(in))
		return value_refuse(c, in, err);
	for (size_t i = 0; r == 0 && i < in->n_items; i++) {
		const struct node *item = in->items[i];
		if (!node_is_scalar(item))
			r = node_fail(err, item, "'%s': an entry is %s; it should be text",
				c->spelling, node_kind_name(item->kind));
		else if (in->kind == NODE_LIST)
			r = read_pair_text(c, item, map, err);
		else
			r = add_pair(c, item, item->key,
				item->kind == NODE_NULL ? NULL : item->text, map, err);
	}
	if (r < 0)
		return r;
	*ret = steal_ptr(map);
	return 0;
}

struct mount_parts {
	const struct value_context *c;
	const struct node *at;
	const char *source, *target;
	bool is_read_only;
};

static bool has_dotdot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return true;
	return false;
}

static bool has_control(const char *s)
{
	for (; *s; s++)
		if (iscntrl((unsigned char)*s))
			return true;
	return false;
}

static int check_mount(const struct mount_parts *m, const struct node *list, struct cell_error *err)
{
	const char *key = m->c->spelling;

	if (!*m->source || has_control(m->source) || has_control(m->target))
		return node_fail(err, m->at, "'%s': the source of a mount is empty or not text",
			key);
	if (!strchr("/.~", *m->source))
		return cell_error_hint(err,
			node_fail(err, m->at, "'%s': %s is a named volume, and there are none", key,
				QUOTE(m->source)),
			"for a directory write './%.60s'", m->source);
	if (*m->target != '/' || has_dotdot(m->target))
		return cell_error_hint(err,
			node_fail(err, m->at, "'%s': %s is not an absolute path in the cell", key,
				QUOTE(m->target)),
			"write source:/target, source:/target:ro, or a mapping with source and "
			"target");
	if (list->n_items >= MOUNTS_MAX)
		return node_fail(err, m->at, "'%s': more than %u mounts", key, MOUNTS_MAX);
	for (size_t i = 0; i < list->n_items; i++)
		if (!strcmp(node_get(list->items[i], "target")->text, m->target))
			return node_fail(err, m->at, "'%s': two mounts at %s", key,
				QUOTE(m->target));
	return 0;
}

static int add_mount(const struct mount_parts *m, struct node *list, struct cell_error *err)
{
	auto_free char *source = NULL;

	int r = check_mount(m, list, err);
	if (r < 0)
		return r;
	r = value_resolve_path(m->at->source, m->source, &source);
	if (r == -ENOENT)
		return node_fail(err, m->at,
			"'%s': %s is relative to a directory that is not known", m->c->spelling,
			QUOTE(m->source));
	struct node *map = r == 0 ? node_new(NODE_MAP, m->at->source) : NULL;
	if (!map)
		return config_no_memory(err);
	node_place(map, m->at);
	const char *flag = m->is_read_only ? "true" : "false";
	struct node *read_only = node_new_scalar(flag, strlen(flag), false, m->at->source);
	if (read_only)
		read_only->number = m->is_read_only;
	if (node_add_key(map, "source",
		    node_new_scalar(source, strlen(source), true, m->at->source)) < 0 ||
		node_add_key(map, "target",
			node_new_scalar(m->target, strlen(m->target), true, m->at->source)) < 0) {
		node_free(read_only);
		node_free(map);
		return config_no_memory(err);
	}
	if (node_add_key(map, "read_only", read_only) < 0) {
		node_free(map);
		return config_no_memory(err);
	}
	return node_add(list, map) < 0 ? config_no_memory(err) : 0;
}

/* source:target[:ro|rw]; copy is cut into its parts. */
static int split_mount(const struct value_context *c, const struct node *item, char *copy,
	struct node *list, struct cell_error *err)
{
	struct mount_parts m = {.c = c, .at = item};
	char *target = strchr(copy, ':');
	char *mode = target ? strchr(target + 1, ':') : NULL;

	if (!target)
		return cell_error_hint(err,
			node_fail(err, item, "'%s': %s has no target", c->spelling, QUOTE(copy)),
			"write source:/target or source:/target:ro");
	*target = '\0';
	if (mode) {
		*mode++ = '\0';
		if (strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0)
			return cell_error_hint(err,
				node_fail(err, item, "'%s': a mount is 'ro' or 'rw', not %s",
					c->spelling, QUOTE(mode)),
				"for a path with a colon in it write a mapping: {source: ..., "
				"target: ...}");
		m.is_read_only = !strcmp(mode, "ro");
	}
	m.source = copy;
	m.target = target + 1;
	return add_mount(&m, list, err);
}

static int read_mount_text(const struct value_context *c, const struct node *item,
	struct node *list, struct cell_error *err)
{
	char *copy = strdup(item->text);

	int r = copy ? split_mount(c, item, copy, list, err) : config_no_memory(err);
	free(copy);
	return r;
}

static int read_mount_map(const struct value_context *c, const struct node *item, struct node *list,
	struct cell_error *err)
{
	static const char words[] = "source=src|target=dst=destination|read_only=readonly=ro";
	struct mount_parts m = {.c = c, .at = item};
	char buf[QUOTE_MAX];

	for (size_t i = 0; i < item->n_items; i++) {
		const struct node *n = item->items[i];
		int word = enum_find(words, n->key);
		if (word < 0) {
			const char *near = enum_nearest(words, n->key, buf);
			int r = node_fail_key(err, n, "unknown key %s", QUOTE(n->key));
			return near ? cell_error_hint(err, r, "did you mean '%s'?", near)
				    : cell_error_hint(err, r,
					      "a mount has source, target, read_only");
		}
		if (!node_is_scalar(n) || n->kind == NODE_NULL)
			return node_fail(err, n, "'%s': '%s' of a mount is %s", c->spelling, n->key,
				node_kind_name(n->kind));
		if (word == 0)
			m.source = n->text;
		else if (word == 1)
			m.target = n->text;
		else if (parse_bool(n->text, &m.is_read_only) < 0)
			return node_fail(err, n, "'%s': 'read_only' takes true or false, not %s",
				c->spelling, QUOTE(n->text));
	}
	if (!m.source || !m.target)
		return node_fail(err, item, "'%s': a mount needs a source and a target",
			c->spelling);
	return add_mount(&m, list, err);
}

int value_read_mounts(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err)
{
	auto_node struct node *list = node_new(NODE_LIST, in->source);
	size_t count = in->kind == NODE_LIST ? in->n_items : 1;
	int r = 0;

	if (!list)
		return config_no_memory(err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct node *item = in->kind == NODE_LIST ? in->items[i] : in;
		if (item->kind == NODE_MAP)
			r = read_mount_map(c, item, list, err);
		else if (node_is_scalar(item) && item->kind != NODE_NULL)
			r = read_mount_text(c, item, list, err);
		else
			r = refuse_item(c, item, err);
	}
	if (r < 0)
		return r;
	*ret = steal_ptr(list);
	return 0;
}
