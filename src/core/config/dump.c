/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.c: the merged configuration as YAML, which loads again to the same, or as JSON for other
 * programs. Secrets are shown as "***".
 */
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "core/config/config.h"

#define DUMP_MAX (16u * 1024 * 1024)
#define HIDDEN	 "***"

/* Variables and flags may hold any bytes; documents may not. */
static char *clean(const char *text)
{
	auto_buf struct buf out = BUF_INIT(DUMP_MAX);

	for (size_t n = strlen(text), taken; n; text += taken, n -= taken) {
		int len = utf8_next(text, n);
		taken = len > 0 ? (size_t)len : 1;
		if (len > 0 ? buf_add(&out, text, taken) : buf_addz(&out, "\xef\xbf\xbd"))
			return NULL;
	}
	return buf_steal(&out);
}

/* Needs no quotes in YAML, wherever it stands. */
static bool is_plain(const char *s)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_./-:@+=";
	size_t n = strspn(s, safe);

	return n && !s[n] && !strchr("-:@=", *s) && s[n - 1] != ':' &&
	       scalar_kind(s) == NODE_STRING;
}

static int add_quoted(struct buf *out, const char *text)
{
	int r = buf_addc(out, '"');

	for (int len; r == 0 && *text; text += len) {
		len = utf8_next(text, strlen(text));
		unsigned c = len > 0 ? utf8_number(text, len) : 0xfffe; /* in no text */
		len = len > 0 ? len : 1;
		if (c == '"' || c == '\\')
			r = buf_addf(out, "\\%c", (char)c);
		else if (c == '\n')
			r = buf_addz(out, "\\n");
		else if (utf8_is_hidden(c) || c == 0xfffe || c == 0xffff)
			r = buf_addf(out, c > 0xffff ? "\\U%08X" : "\\u%04X", c);
		else
			r = buf_add(out, text, (size_t)len);
	}
	return r < 0 ? r : buf_addc(out, '"');
}

static int add_text(struct buf *out, const char *text)
{
	auto_free char *copy = clean(text);

	if (!copy)
		return -ENOMEM;
	return is_plain(copy) ? buf_addz(out, copy) : add_quoted(out, copy);
}

struct writer {
	struct buf out;
	bool with_origin;
	char section[SCHEMA_PATH_MAX]; /* the one being written, with its dot */
};

static int add_indent(struct writer *w, size_t depth)
{
	return buf_addf(&w->out, "%*s", (int)depth * 2, "");
}

static int end_line(struct writer *w, const struct node *n)
{
	if (!w->with_origin)
		return buf_addc(&w->out, '\n');
	auto_free char *where = clean(WHERE(n));
	return where ? buf_addf(&w->out, "  # %s\n", where) : -ENOMEM;
}

/* "a.b." opens "a:" and "b:" unless they are open. Returns the depth below it. */
static int open_section(struct writer *w, const char *path, size_t len)
{
	int depth = 0;

	for (size_t at = 0; at < len;) {
		size_t next = at + strcspn(path + at, ".") + 1;
		if (strncmp(w->section, path, next) != 0 &&
			(add_indent(w, (size_t)depth) < 0 ||
				buf_addf(&w->out, "%.*s:\n", (int)(next - at - 1), path + at) < 0))
			return -ENOMEM;
		at = next;
		depth++;
	}
	(void)snprintf(w->section, sizeof w->section, "%.*s", (int)len, path);
	return depth;
}

static bool is_number(const struct config_key *key)
{
	return key->type == KEY_BOOL || key->type == KEY_INT || key->type == KEY_BYTES ||
	       key->type == KEY_DURATION || key->type == KEY_CPUS || key->type == KEY_PRICE;
}

static char *mount_text(const struct node *mount)
{
	char *text = NULL;
	const char *source = node_get(mount, "source")->text;
	const char *target = node_get(mount, "target")->text;

	if (strchr(source, ':') || strchr(target, ':'))
		return NULL;
	return asprintf(&text, "%s:%s%s", source, target,
		       node_get(mount, "read_only")->number ? ":ro" : "") < 0
		       ? NULL
		       : text;
}

static int write_item(struct writer *w, const struct node *item)
{
	if (node_is_scalar(item))
		return add_text(&w->out, item->text);
	auto_free char *text = mount_text(item);
	if (text)
		return add_text(&w->out, text);
	int r = buf_addz(&w->out, "{source: ");
	if (r == 0)
		r = add_quoted(&w->out, node_get(item, "source")->text);
	if (r == 0)
		r = buf_addz(&w->out, ", target: ");
	if (r == 0)
		r = add_quoted(&w->out, node_get(item, "target")->text);
	return r < 0 ? r
		     : buf_addf(&w->out, ", read_only: %s}",
			       node_get(item, "read_only")->number ? "true" : "false");
}

static const struct config_key *field_key(const struct config_key *key, const char *name)
{
	for (const struct config_key *f = key->fields; f->path; f++)
		if (!strcmp(f->path, name))
			return f;
	return key;
}

static int write_flow(struct writer *w, const struct config_key *key, const struct node *n);

/* {a: x, b: [y, z]} */
static int write_flow_items(struct writer *w, const struct config_key *key, const struct node *n)
{
	bool is_map = n->kind == NODE_MAP;
	int r = buf_addc(&w->out, is_map ? '{' : '[');

	for (size_t i = 0; r == 0 && i < n->n_items; i++) {
		const struct node *item = n->items[i];
		r = i ? buf_addz(&w->out, ", ") : 0;
		if (r == 0 && is_map)
			r = add_text(&w->out, item->key);
		if (r == 0 && is_map)
			r = buf_addz(&w->out, ": ");
		if (r == 0)
			r = write_flow(w, is_map && key->fields ? field_key(key, item->key) : key,
				item);
	}
	return r < 0 ? r : buf_addc(&w->out, is_map ? '}' : ']');
}

static int write_flow(struct writer *w, const struct config_key *key, const struct node *n)
{
	if (!node_is_scalar(n))
		return write_flow_items(w, key, n);
	if (key->is_secret)
		return add_text(&w->out, HIDDEN);
	return is_number(key) ? buf_addz(&w->out, n->text) : add_text(&w->out, n->text);
}

static int write_items(struct writer *w, const struct config_key *key, const struct node *n,
	size_t depth)
{
	int r = n->n_items ? buf_addc(&w->out, '\n')
			   : buf_addz(&w->out, n->kind == NODE_MAP ? " {}\n" : " []\n");

	for (size_t i = 0; r == 0 && i < n->n_items; i++) {
		const struct node *item = n->items[i];
		r = add_indent(w, depth + 1);
		if (r == 0 && n->kind == NODE_MAP) {
			bool is_hidden = config_is_secret(key, item->key);
			r = add_text(&w->out, item->key);
			if (r == 0)
				r = buf_addz(&w->out, ": ");
			if (r == 0)
				r = key->fields
					    ? write_flow(w, key, item)
					    : add_text(&w->out, is_hidden ? HIDDEN : item->text);
		} else if (r == 0) {
			r = buf_addz(&w->out, "- ");
			if (r == 0)
				r = key->fields ? write_flow(w, key, item) : write_item(w, item);
		}
		if (r == 0)
			r = end_line(w, item);
	}
	return r;
}

static int write_key(struct writer *w, const struct config_key *key, const struct node *n)
{
	const char *dot = strrchr(key->path, '.');
	const char *leaf = dot ? dot + 1 : key->path;
	int depth = open_section(w, key->path, (size_t)(leaf - key->path));

	int r = depth < 0 ? depth : add_indent(w, (size_t)depth);
	if (r == 0)
		r = buf_addf(&w->out, "%s:", leaf);
	if (r < 0 || !node_is_scalar(n))
		return r < 0 ? r : write_items(w, key, n, (size_t)depth);
	r = buf_addc(&w->out, ' ');
	if (r == 0)
		r = is_number(key) ? buf_addz(&w->out, n->text)
				   : add_text(&w->out, key->is_secret ? HIDDEN : n->text);
	return r < 0 ? r : end_line(w, n);
}

static int dump_yaml(struct cell_config *cfg, bool with_origin, char **ret)
{
	struct writer w = {.out = BUF_INIT(DUMP_MAX), .with_origin = with_origin};
	int r = 0;

	for (size_t i = 0; r == 0 && i < config_keys_count; i++)
		if (cfg->values[i])
			r = write_key(&w, &config_keys[i], cfg->values[i]);
	if (r == 0) {
		*ret = buf_steal(&w.out);
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&w.out);
	return r;
}

static json_t *json_text(const char *text)
{
	auto_free char *copy = clean(text);

	return copy ? json_string(copy) : NULL;
}

static json_t *json_item(const struct node *item)
{
	if (node_is_scalar(item))
		return json_text(item->text);
	auto_free char *text = mount_text(item);
	if (text)
		return json_text(text);
	return json_pack("{s:o, s:o, s:b}", "source", json_text(node_get(item, "source")->text),
		"target", json_text(node_get(item, "target")->text), "read_only",
		(int)node_get(item, "read_only")->number);
}

static json_t *json_scalar(const struct config_key *key, const struct node *n)
{
	if (key->is_secret)
		return json_string(HIDDEN);
	switch (key->type) {
	case KEY_BOOL:
		return json_boolean(n->number);
	case KEY_INT:
		return json_integer((json_int_t)n->number);
	case KEY_CPUS:
		return n->number % 1000 ? json_real((double)n->number / 1000)
					: json_integer((json_int_t)(n->number / 1000));
	default:
		return json_text(n->text);
	}
}

/* A record, or a part of one. */
static json_t *json_flow(const struct config_key *key, const struct node *n)
{
	if (node_is_scalar(n))
		return json_scalar(key, n);
	bool is_map = n->kind == NODE_MAP;
	json_t *out = is_map ? json_object() : json_array();
	for (size_t i = 0; out && i < n->n_items; i++) {
		const struct node *item = n->items[i];
		auto_free char *name = is_map ? clean(item->key) : NULL;
		json_t *value =
			json_flow(is_map && key->fields ? field_key(key, item->key) : key, item);
		int r = is_map ? json_object_set_new(out, name ? name : "", value)
			       : json_array_append_new(out, value);
		if (r < 0 || (is_map && !name)) {
			json_decref(out);
			return NULL;
		}
	}
	return out;
}

static json_t *json_pair(const struct config_key *key, const struct node *pair)
{
	if (key->fields)
		return json_flow(key, pair);
	return config_is_secret(key, pair->key) ? json_string(HIDDEN) : json_text(pair->text);
}

static json_t *json_value(const struct config_key *key, const struct node *n)
{
	if (node_is_scalar(n))
		return json_scalar(key, n);
	json_t *out = n->kind == NODE_MAP ? json_object() : json_array();
	for (size_t i = 0; out && i < n->n_items; i++) {
		const struct node *item = n->items[i];
		auto_free char *name = n->kind == NODE_MAP ? clean(item->key) : NULL;
		int r = n->kind == NODE_MAP
				? json_object_set_new(out, name ? name : "", json_pair(key, item))
				: json_array_append_new(out,
					  key->fields ? json_flow(key, item) : json_item(item));
		if (r < 0 || (n->kind == NODE_MAP && !name)) {
			json_decref(out);
			return NULL;
		}
	}
	return out;
}

/* Takes value over. */
static int put_nested(json_t *root, const char *path, json_t *value)
{
	char part[SCHEMA_PATH_MAX];
	json_t *at = root;

	for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
		(void)snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
		json_t *inner = json_object_get(at, part);
		if (!inner) {
			inner = json_object();
			if (json_object_set_new(at, part, inner) < 0) {
				json_decref(value);
				return -ENOMEM;
			}
		}
		at = inner;
	}
	return json_object_set_new(at, path, value) < 0 ? -ENOMEM : 0;
}

static int put_with_origin(json_t *root, const char *path, json_t *value, const struct node *n)
{
	json_t *entry = json_pack("{s:o, s:o}", "value", value, "origin", json_text(WHERE(n)));

	return json_object_set_new(root, path, entry) < 0 ? -ENOMEM : 0;
}

static int put_key(json_t *root, const struct config_key *key, const struct node *n,
	bool with_origin)
{
	if (!with_origin)
		return put_nested(root, key->path, json_value(key, n));
	if (n->kind != NODE_MAP)
		return put_with_origin(root, key->path, json_value(key, n), n);
	for (size_t i = 0; i < n->n_items; i++) {
		auto_free char *name = clean(n->items[i]->key);
		auto_free char *path = NULL;
		if (!name || asprintf(&path, "%s.%s", key->path, name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		int r = put_with_origin(root, path, json_pair(key, n->items[i]), n->items[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

struct sink {
	struct buf out;
	int error; /* jansson 2.14 forgets some of the failures a callback reports */
};

static int add_json(const char *p, size_t n, void *user)
{
	struct sink *s = user;

	if (s->error == 0)
		s->error = buf_add(&s->out, p, n);
	return s->error;
}

static int dump_json(struct cell_config *cfg, bool with_origin, char **ret)
{
	struct sink sink = {.out = BUF_INIT(DUMP_MAX)};
	json_t *root = json_object();
	int r = root ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < config_keys_count; i++)
		if (cfg->values[i])
			r = put_key(root, &config_keys[i], cfg->values[i], with_origin);
	if (r == 0) {
		if (json_dump_callback(root, add_json, &sink,
			    JSON_INDENT(2) | JSON_REAL_PRECISION(12)))
			r = sink.error ? sink.error : -ENOMEM;
		else
			r = sink.error;
	}
	if (r == 0) {
		*ret = buf_steal(&sink.out);
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&sink.out);
	json_decref(root);
	return r;
}

int cell_config_dump(struct cell_config *cfg, enum cell_config_format format, bool with_origin,
	char **ret, struct cell_error *err)
{
	int r = format == CELL_CONFIG_JSON ? dump_json(cfg, with_origin, ret)
					   : dump_yaml(cfg, with_origin, ret);

	return r < 0 ? cell_fail(err, CELL_ENOSPACE, -r, "writing out the configuration") : 0;
}
