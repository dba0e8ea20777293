/* SPDX-License-Identifier: Apache-2.0 */
/* node.c: values with places; see node.h. */
#include "core/config/node.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct node *node_new(enum node_kind kind, const struct source *source)
{
	struct node *n = calloc(1, sizeof *n);

	if (n) {
		n->kind = kind;
		n->source = source;
	}
	return n;
}

struct node *node_new_scalar(const char *text, size_t len, bool is_quoted,
	const struct source *source)
{
	auto_node struct node *n = node_new(NODE_STRING, source);

	if (!n)
		return NULL;
	n->text = malloc(len + 1);
	if (!n->text)
		return NULL;
	memcpy(n->text, text, len);
	n->text[len] = '\0';
	n->is_quoted = is_quoted;
	if (!is_quoted)
		n->kind = scalar_kind(n->text);
	return steal_ptr(n);
}

void node_free(struct node *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n_items; i++)
		node_free(n->items[i]);
	free(n->items);
	free(n->key);
	free(n->text);
	free(n);
}

void node_freep(struct node **n)
{
	node_free(*n);
}

int node_add(struct node *parent, struct node *child)
{
	if (!child)
		return -ENOMEM;
	if (parent->n_items == parent->cap_items) {
		size_t cap = parent->cap_items ? parent->cap_items * 2 : 4;
		struct node **items = reallocarray(parent->items, cap, sizeof(struct node *));
		if (!items) {
			node_free(child);
			return -ENOMEM;
		}
		parent->items = items;
		parent->cap_items = cap;
	}
	parent->items[parent->n_items++] = child;
	return 0;
}

int node_add_key(struct node *parent, const char *key, struct node *child)
{
	if (!child)
		return -ENOMEM;
	char *copy = strdup(key);
	if (!copy) {
		node_free(child);
		return -ENOMEM;
	}
	free(child->key);
	child->key = copy;
	return node_add(parent, child);
}

struct node *node_get(const struct node *map, const char *key)
{
	for (size_t i = 0; i < map->n_items; i++)
		if (map->items[i]->key && !strcmp(map->items[i]->key, key))
			return map->items[i];
	return NULL;
}

void node_remove(struct node *parent, size_t index)
{
	node_free(parent->items[index]);
	parent->n_items--;
	memmove(parent->items + index, parent->items + index + 1,
		(parent->n_items - index) * sizeof(struct node *));
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool node_equal(const struct node *a, const struct node *b)
{
	if (a->kind != b->kind || a->number != b->number || a->n_items != b->n_items ||
		!same_text(a->text, b->text))
		return false;
	for (size_t i = 0; i < a->n_items; i++)
		if (!node_equal(a->items[i], b->items[i]) ||
			(a->kind == NODE_MAP && !same_text(a->items[i]->key, b->items[i]->key)))
			return false;
	return true;
}

const char *node_kind_name(enum node_kind kind)
{
	static const char *const names[] = {
		[NODE_NULL] = "nothing",
		[NODE_BOOL] = "true or false",
		[NODE_INT] = "a number",
		[NODE_REAL] = "a number",
		[NODE_STRING] = "text",
		[NODE_LIST] = "a list",
		[NODE_MAP] = "a mapping",
	};
	return names[kind];
}

void node_place(struct node *n, const struct node *from)
{
	n->source = from->source;
	n->line = from->line;
	n->column = from->column;
	n->key_line = from->key_line;
	n->key_column = from->key_column;
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(text, *words))
			return true;
	return false;
}

static bool is_int(const char *s)
{
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'o')) {
		const char *digits = s[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567";
		return s[2] && !s[2 + strspn(s + 2, digits)];
	}
	s += *s == '-' || *s == '+';
	return *s && !s[strspn(s, "0123456789")];
}

static bool is_real(const char *s)
{
	static const char *const special[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL};
	size_t whole, part = 0;

	s += *s == '-' || *s == '+';
	if (is_one_of(s, special))
		return true;
	whole = strspn(s, "0123456789");
	s += whole;
	if (*s == '.') {
		part = strspn(++s, "0123456789");
		s += part;
	}
	if (!whole && !part)
		return false;
	if (*s == 'e' || *s == 'E') {
		s++;
		s += *s == '-' || *s == '+';
		size_t exponent = strspn(s, "0123456789");
		if (!exponent)
			return false;
		s += exponent;
	}
	return !*s;
}

enum node_kind scalar_kind(const char *text)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const bools[] = {
		"true", "True", "TRUE", "false", "False", "FALSE", NULL};

	if (is_one_of(text, nulls))
		return NODE_NULL;
	if (is_one_of(text, bools))
		return NODE_BOOL;
	if (is_int(text))
		return NODE_INT;
	return is_real(text) ? NODE_REAL : NODE_STRING;
}

const char *quote_text(const char *s, char buf[QUOTE_MAX])
{
	size_t n = 0;

	buf[n++] = '\'';
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (n > QUOTE_MAX - 10) {
			memcpy(buf + n, "...", 3);
			n += 3;
			break;
		}
		if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] < 0xa0))
			n += (size_t)snprintf(buf + n, QUOTE_MAX - n, "\\x%02x", c);
		else
			buf[n++] = *s;
	}
	buf[n++] = '\'';
	buf[n] = '\0';
	return buf;
}

static const char *where(const struct source *source, unsigned line, unsigned column,
	char buf[WHERE_MAX])
{
	const char *name = source ? source->name : "configuration";
	size_t n = strlen(name);
	const char *dots = "";

	if (n > WHERE_MAX - 40) {
		name += n - (WHERE_MAX - 40);
		dots = "...";
	}
	if (line)
		(void)snprintf(buf, WHERE_MAX, "%s%s:%u:%u", dots, name, line, column);
	else
		(void)snprintf(buf, WHERE_MAX, "%s%s", dots, name);
	for (char *p = buf; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	return buf;
}

const char *node_where(const struct node *n, char buf[WHERE_MAX])
{
	return where(n->source, n->line, n->column, buf);
}

static int fail(struct cell_error *err, const char *place, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
static int fail(struct cell_error *err, const char *place, const char *fmt, va_list ap)
{
	if (err) {
		char msg[sizeof err->msg];
		(void)vsnprintf(msg, sizeof msg, fmt, ap);
		return cell_fail(err, CELL_EINVAL, 0, "%s: %s", place, msg);
	}
	return -EINVAL;
}

int node_fail(struct cell_error *err, const struct node *n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = fail(err, WHERE(n), fmt, ap);
	va_end(ap);
	return r;
}

int node_fail_key(struct cell_error *err, const struct node *n, const char *fmt, ...)
{
	char place[WHERE_MAX];
	va_list ap;

	if (n->key_line)
		where(n->source, n->key_line, n->key_column, place);
	else
		node_where(n, place);
	va_start(ap, fmt);
	int r = fail(err, place, fmt, ap);
	va_end(ap);
	return r;
}

int config_no_memory(struct cell_error *err)
{
	return cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading the configuration");
}
