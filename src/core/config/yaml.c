/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.c: libyaml's events to nodes; see yaml.h for what is refused. */
#include "core/config/yaml.h"

#include <string.h>
#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	const struct source *source;
	struct node *root;
	struct node *stack[YAML_MAX_DEPTH]; /* open containers, borrowed from root */
	unsigned depth;
	unsigned n_nodes;
	char *key; /* read, its value still to come */
	yaml_mark_t key_mark;
	struct cell_error *err;
};

static int fail_at(struct reader *r, yaml_mark_t mark, const char *what, const char *hint)
{
	struct node at = {
		.source = r->source,
		.line = (unsigned)mark.line + 1,
		.column = (unsigned)mark.column + 1,
	};
	int ret = node_fail(r->err, &at, "%s", what);
	return hint ? cell_error_hint(r->err, ret, "%s", hint) : ret;
}

static yaml_mark_t mark_of_offset(const char *text, size_t len, size_t offset)
{
	yaml_mark_t mark = {.index = offset};

	for (size_t i = 0; i < offset && i < len; i++) {
		if (text[i] == '\n') {
			mark.line++;
			mark.column = 0;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
			mark.column++;
		}
	}
	return mark;
}

static int fail_parser(struct reader *r, const char *text, size_t len)
{
	const yaml_parser_t *p = &r->parser;
	char what[200];

	switch (p->error) {
	case YAML_MEMORY_ERROR:
		return config_no_memory(r->err);
	case YAML_READER_ERROR:
		(void)snprintf(what, sizeof what, "not UTF-8 text: %s", p->problem);
		return fail_at(r, mark_of_offset(text, len, p->problem_offset), what,
			"save the file as UTF-8");
	default:
		(void)snprintf(what, sizeof what, "not YAML: %s%s%s",
			p->problem ? p->problem : "cannot be parsed", p->context ? ", " : "",
			p->context ? p->context : "");
		return fail_at(r, p->problem_mark, what, NULL);
	}
}

/* Put a node where it belongs; takes it over. */
static int place(struct reader *r, struct node *n, yaml_mark_t mark)
{
	if (!n)
		return config_no_memory(r->err);
	n->line = (unsigned)mark.line + 1;
	n->column = (unsigned)mark.column + 1;
	if (++r->n_nodes > YAML_MAX_NODES) {
		node_free(n);
		return fail_at(r, mark, "too many values: 50000 is the limit", NULL);
	}
	if (!r->depth) {
		r->root = n;
		return 0;
	}
	if (r->stack[r->depth - 1]->kind == NODE_MAP) {
		n->key = steal_ptr(r->key);
		n->key_line = (unsigned)r->key_mark.line + 1;
		n->key_column = (unsigned)r->key_mark.column + 1;
	}
	return node_add(r->stack[r->depth - 1], n) < 0 ? config_no_memory(r->err) : 0;
}

static bool wants_key(const struct reader *r)
{
	return r->depth && r->stack[r->depth - 1]->kind == NODE_MAP && !r->key;
}

static int refuse_properties(struct reader *r, const yaml_char_t *anchor, const yaml_char_t *tag,
	yaml_mark_t mark)
{
	if (anchor)
		return fail_at(r, mark, "anchors (&name) are not supported",
			"write the value out where it is needed");
	if (tag)
		return fail_at(r, mark, "tags (!name) are not supported",
			"remove the tag; quote the value to make it text");
	return 0;
}

static int on_scalar(struct reader *r, const yaml_event_t *e)
{
	const char *text = (const char *)e->data.scalar.value;
	size_t len = e->data.scalar.length;
	bool is_quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;

	int ret = refuse_properties(r, e->data.scalar.anchor, e->data.scalar.tag, e->start_mark);
	if (ret < 0)
		return ret;
	if (memchr(text, '\0', len))
		return fail_at(r, e->start_mark, "text with a NUL character in it", NULL);
	if (wants_key(r)) {
		if (!len)
			return fail_at(r, e->start_mark, "an empty key", NULL);
		r->key = strdup(text);
		r->key_mark = e->start_mark;
		return r->key ? 0 : config_no_memory(r->err);
	}
	return place(r, node_new_scalar(text, len, is_quoted, r->source), e->start_mark);
}

static int on_open(struct reader *r, const yaml_event_t *e, enum node_kind kind)
{
	const yaml_char_t *anchor =
		kind == NODE_MAP ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
	const yaml_char_t *tag =
		kind == NODE_MAP ? e->data.mapping_start.tag : e->data.sequence_start.tag;

	int ret = refuse_properties(r, anchor, tag, e->start_mark);
	if (ret < 0)
		return ret;
	if (wants_key(r))
		return fail_at(r, e->start_mark, "a key must be text, not a list or a mapping",
			"quote it if it begins with [ or {");
	if (r->depth == YAML_MAX_DEPTH)
		return fail_at(r, e->start_mark, "nested too deep: 32 levels is the limit", NULL);
	struct node *n = node_new(kind, r->source);
	ret = place(r, n, e->start_mark);
	if (ret < 0)
		return ret;
	r->stack[r->depth++] = n;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
	int c = strcmp(x->key, y->key);

	if (c)
		return c;
	if (x->key_line != y->key_line)
		return x->key_line < y->key_line ? -1 : 1;
	return (x->key_column > y->key_column) - (x->key_column < y->key_column);
}

/* Sorted, so that a large mapping costs n log n. */
static int refuse_duplicates(struct reader *r, const struct node *map)
{
	if (map->n_items < 2)
		return 0;
	auto_free struct node **sorted = calloc(map->n_items, sizeof(struct node *));
	if (!sorted)
		return config_no_memory(r->err);
	memcpy(sorted, map->items, map->n_items * sizeof(struct node *));
	qsort(sorted, map->n_items, sizeof(struct node *), by_key);
	for (size_t i = 1; i < map->n_items; i++)
		if (!strcmp(sorted[i - 1]->key, sorted[i]->key))
			return cell_error_hint(r->err,
				node_fail_key(r->err, sorted[i], "duplicate key %s",
					QUOTE(sorted[i]->key)),
				"it is already set in line %u", sorted[i - 1]->key_line);
	return 0;
}

static int on_event(struct reader *r, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (r->root)
			return fail_at(r, e->start_mark, "a second document",
				"keep one document in a file");
		return 0;
	case YAML_ALIAS_EVENT:
		return fail_at(r, e->start_mark, "aliases (*name) are not supported",
			"write the value out where it is needed");
	case YAML_SCALAR_EVENT:
		return on_scalar(r, e);
	case YAML_SEQUENCE_START_EVENT:
		return on_open(r, e, NODE_LIST);
	case YAML_MAPPING_START_EVENT:
		return on_open(r, e, NODE_MAP);
	case YAML_MAPPING_END_EVENT:
		return refuse_duplicates(r, r->stack[--r->depth]);
	case YAML_SEQUENCE_END_EVENT:
		r->depth--;
		return 0;
	default:
		return 0;
	}
}

static int read_events(struct reader *r, const char *text, size_t len)
{
	for (bool is_end = false; !is_end;) {
		yaml_event_t e;
		if (!yaml_parser_parse(&r->parser, &e))
			return fail_parser(r, text, len);
		int ret = on_event(r, &e);
		is_end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int yaml_parse(const char *text, size_t len, const struct source *source, struct node **ret,
	struct cell_error *err)
{
	struct reader r = {.source = source, .err = err};

	if (len > YAML_MAX_BYTES)
		return cell_fail(err, CELL_EINVAL, 0, "%s: larger than 1 MiB", source->name);
	const char *nul = memchr(text, '\0', len);
	if (nul)
		return fail_at(&r, mark_of_offset(text, len, (size_t)(nul - text)),
			"a NUL byte: this is not a text file", NULL);
	if (len >= 3 &&
		memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* what some editors begin a file with */
		text += 3;
		len -= 3;
	}
	if (!yaml_parser_initialize(&r.parser))
		return config_no_memory(err);
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	int out = read_events(&r, text, len);
	yaml_parser_delete(&r.parser);
	free(r.key);
	if (out < 0 || (r.root && r.root->kind == NODE_NULL)) {
		node_free(r.root);
		r.root = NULL;
	}
	if (out == 0)
		*ret = r.root;
	return out;
}
