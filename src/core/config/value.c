/* SPDX-License-Identifier: Apache-2.0 */
/* value.c: reading values by type; see value.h. Lists, pairs and mounts are in value_list.c. */
#include "core/config/value.h"

#include <ctype.h>
#include <string.h>

#include "cell/cell.h"

#include "core/config/units.h"
#include "core/config/value_list.h"
#include "core/destination.h"

#define CPUS_MAX UINT64_C(1000000000000) /* far beyond any key's range, far from overflow */

const char *value_number_text(enum key_type type, uint64_t number, char buf[VALUE_TEXT_MAX])
{
	switch (type) {
	case KEY_BYTES:
		return format_bytes(number, buf);
	case KEY_DURATION:
		return format_duration(number, buf);
	case KEY_CPUS:
		return format_cpus(number, buf);
	case KEY_BOOL:
		return number ? "true" : "false";
	case KEY_PRICE:
		return format_price(number, buf);
	default:
		(void)snprintf(buf, VALUE_TEXT_MAX, "%llu", (unsigned long long)number);
		return buf;
	}
}

int value_refuse(const struct value_context *c, const struct node *in, struct cell_error *err)
{
	const struct key_type_info *t = &key_types[c->key->type];
	int r;

	if (!node_is_scalar(in))
		r = node_fail(err, in, "'%s' takes %s, not %s", c->spelling, t->noun,
			node_kind_name(in->kind));
	else if (c->key->is_secret)
		r = node_fail(err, in, "'%s' takes %s", c->spelling, t->noun);
	else
		r = node_fail(err, in, "'%s' takes %s, not %s", c->spelling, t->noun,
			QUOTE(in->text ? in->text : ""));
	return cell_error_hint(err, r, "for example: %s", t->example);
}

static bool is_label(const char *s, size_t max)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return n && n <= max && !s[n] && s[0] != '-' && s[n - 1] != '-';
}

static bool is_cell_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	return n && n < CELL_NAME_MAX && !s[n] && isalnum((unsigned char)s[0]);
}

/* example.org, *.example.org, 192.0.2.1, each with :port or without. */
static bool is_domain(const char *s)
{
	if (!strncmp(s, "*.", 2))
		s += 2;
	size_t n = strcspn(s, ":");
	uint64_t port;
	if (s[n] && (parse_uint(s + n + 1, &port) < 0 || !port || port > 65535))
		return false;
	if (!n || n > 253)
		return false;
	for (size_t i = 0, label = 0; i <= n; i++) {
		if (i == n || s[i] == '.') {
			if (!label || label > 63 || s[i - 1] == '-' || s[i - label] == '-')
				return false;
			label = 0;
		} else if (isalnum((unsigned char)s[i]) || s[i] == '-' || s[i] == '_') {
			label++;
		} else {
			return false;
		}
	}
	return true;
}

static bool is_repo(const char *s)
{
	const char *slash = strchr(s, '/');

	if (strpbrk(s, " \t"))
		return false;
	return strstr(s, "://") || !strncmp(s, "git@", 4) ||
	       (slash && slash != s && slash[1] && !strchr(slash + 1, '/'));
}

static const char *form_problem(enum text_form form, const char *s)
{
	switch (form) {
	case TEXT_CELL_NAME:
		return is_cell_name(s)
			       ? NULL
			       : "a name of a-z 0-9 . _ -, beginning with a letter or digit, "
				 "at most 63 long";
	case TEXT_LABEL:
		return is_label(s, 63) ? NULL : "a name of a-z 0-9 -, at most 63 long";
	case TEXT_DOMAIN:
		return is_domain(s) ? NULL
				    : "a domain such as example.org, *.example.org or host:443";
	case TEXT_REPO:
		return is_repo(s) ? NULL : "owner/name or a URL";
	case TEXT_DESTINATION: {
		struct cell_destination d;
		return cell_destination_parse(s, &d) == 0
			       ? NULL
			       : "an address or range such as 10.1.2.0/24, 10.1.2.3:5432 or "
				 "[fd00::1]:443";
	}
	case TEXT_ADDRESS:
		return cell_destination_is_address(s)
			       ? NULL
			       : "an address such as 192.0.2.1 or 2001:db8::1";
	case TEXT_ANY:
	case TEXT_PATH:
	case TEXT_PATH_OR_URL:
		break;
	}
	return NULL;
}

int value_check_text(const struct value_context *c, const struct node *in, struct cell_error *err)
{
	const char *problem = form_problem(c->key->form, in->text);

	if (!*in->text)
		return cell_error_hint(err, node_fail(err, in, "'%s' is empty", c->spelling),
			"leave it out, or write null, to unset it");
	for (const char *p = in->text; *p; p++)
		if (iscntrl((unsigned char)*p))
			return node_fail(err, in, "'%s' has a control character in it",
				c->spelling);
	if (problem)
		return node_fail(err, in, "'%s' takes %s, not %s", c->spelling, problem,
			QUOTE(in->text));
	if (c->key->prefix && strncmp(in->text, c->key->prefix, strlen(c->key->prefix)) != 0)
		return node_fail(err, in, "'%s' takes ids that begin with '%s', not %s",
			c->spelling, c->key->prefix, QUOTE(in->text));
	return 0;
}

static int set_text(struct node *n, const char *text, struct cell_error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return config_no_memory(err);
	free(n->text);
	n->text = copy;
	return 0;
}

int value_resolve_path(const struct source *source, const char *path, char **ret)
{
	const char *home = getenv("HOME");
	const char *base = source->directory;

	if (*path == '/') {
		*ret = strdup(path);
		return *ret ? 0 : -ENOMEM;
	}
	if (*path == '~' && (!path[1] || path[1] == '/')) {
		base = home && *home == '/' ? home : NULL;
		path += path[1] ? 2 : 1;
	}
	if (!base)
		return -ENOENT;
	while (path[0] == '.' && (path[1] == '/' || !path[1])) {
		path += path[1] ? 2 : 1;
		path += strspn(path, "/");
	}
	size_t n = strlen(base) + strlen(path) + 2;
	char *full = malloc(n);
	if (!full)
		return -ENOMEM;
	(void)snprintf(full, n, "%s%s%s", base, *path && strcmp(base, "/") != 0 ? "/" : "", path);
	*ret = full;
	return 0;
}

static int read_path(const struct value_context *c, struct node *n, struct cell_error *err)
{
	auto_free char *full = NULL;

	int r = value_check_text(c, n, err);
	if (r < 0)
		return r;
	int word = c->key->values ? enum_find(c->key->values, n->text) : -1;
	if (word >= 0) {
		char buf[QUOTE_MAX];
		return set_text(n, enum_word(c->key->values, word, buf), err);
	}
	if (c->key->form == TEXT_PATH_OR_URL &&
		(!strncmp(n->text, "http://", 7) || !strncmp(n->text, "https://", 8)))
		return 0;
	r = value_resolve_path(n->source, n->text, &full);
	if (r == -ENOMEM)
		return config_no_memory(err);
	if (r < 0)
		return node_fail(err, n, "'%s': %s is relative to a directory that is not known",
			c->spelling, QUOTE(n->text));
	free(n->text);
	n->text = steal_ptr(full);
	return 0;
}

int value_read_enum(const struct value_context *c, const char *values, struct node *n,
	struct cell_error *err)
{
	char buf[QUOTE_MAX];
	int place = enum_find(values, n->text);

	if (place < 0) {
		const char *near = enum_nearest(values, n->text, buf);
		char all[240] = "";
		size_t len = 0;
		char word[QUOTE_MAX];
		int r = node_fail(err, n, "'%s' has no value %s", c->spelling, QUOTE(n->text));
		if (near)
			return cell_error_hint(err, r, "did you mean '%s'?", near);
		for (int i = 0; enum_word(values, i, word) && len < sizeof all - 1; i++)
			len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i ? ", " : "",
				word);
		return cell_error_hint(err, r, "one of: %s", all);
	}
	n->number = (uint64_t)place + (uint64_t)c->key->base;
	n->kind = NODE_STRING;
	return set_text(n, enum_word(values, place, buf), err);
}

/* "trace:fault:local": wrappers stay as they are, the last name becomes canonical. */
static int read_backend(const struct value_context *c, struct node *n, struct cell_error *err)
{
	char *last = strrchr(n->text, ':');
	const char *name = last ? last + 1 : n->text;

	for (char *p = n->text, *end; last && p < last; p = end + 1) {
		end = strchr(p, ':');
		*end = '\0';
		bool is_known = backend_is_wrapper(p);
		*end = ':';
		if (!is_known)
			return cell_error_hint(err,
				node_fail(err, n, "'%s' has no value %s", c->spelling,
					QUOTE(n->text)),
				"before the colon stands a wrapper: trace:local");
	}
	const char *canonical = backend_canonical(name);
	if (!canonical) {
		const char *near = backend_nearest(name);
		int r = node_fail(err, n, "'%s': no back end is called %s", c->spelling,
			QUOTE(n->text));
		return near ? cell_error_hint(err, r, "did you mean '%s'?", near)
			    : cell_error_hint(err, r, "`cell backends` lists them");
	}
	size_t prefix = last ? (size_t)(last + 1 - n->text) : 0;
	size_t size = prefix + strlen(canonical) + 1;
	char *full = malloc(size);
	if (!full)
		return config_no_memory(err);
	(void)snprintf(full, size, "%.*s%s", (int)prefix, n->text, canonical);
	free(n->text);
	n->text = full;
	n->kind = NODE_STRING;
	return 0;
}

static bool is_plain_number(const char *text)
{
	enum node_kind kind = scalar_kind(text);

	return kind == NODE_INT || kind == NODE_REAL;
}

static int parse_number(const struct value_context *c, const struct node *n, uint64_t *ret)
{
	enum alias_how how = c->alias ? c->alias->how : ALIAS_SAME;
	const struct backend_rule *rule = how == ALIAS_VENDOR_UNIT || c->key->is_vendor_unit
						  ? backend_rule(c->backend, c->key->path)
						  : NULL;
	bool is_vendor = rule && rule->bare_unit && is_plain_number(n->text);
	bool flag = false;
	int r;

	switch (c->key->type) {
	case KEY_BYTES:
		return parse_bytes(n->text, is_vendor ? rule->bare_unit : 1, ret);
	case KEY_DURATION:
		return parse_duration(n->text, ret);
	case KEY_PRICE:
		return parse_price(n->text, ret);
	case KEY_CPUS:
		r = parse_cpus(n->text, ret);
		if (r == 0 && *ret > CPUS_MAX)
			return -ERANGE;
		if (r == 0 && how == ALIAS_CPU_QUOTA && *ret >= 1000 * 1000)
			*ret = (*ret + 99999) / 100000;
		if (r == 0 && is_vendor)
			*ret = (*ret * rule->bare_unit / rule->bare_per + 999) / 1000;
		return r;
	case KEY_BOOL:
		r = n->is_quoted ? -EINVAL : parse_bool(n->text, &flag);
		*ret = flag;
		return r;
	default:
		return n->is_quoted ? -EINVAL : parse_uint(n->text, ret);
	}
}

static int fail_range(const struct value_context *c, const struct node *n, struct cell_error *err)
{
	const struct config_key *k = c->key;
	char min[VALUE_TEXT_MAX], max[VALUE_TEXT_MAX];
	int r;

	if (k->max)
		r = node_fail(err, n, "'%s' is %s; it goes from %s to %s", c->spelling,
			QUOTE(n->text), value_number_text(k->type, k->min, min),
			value_number_text(k->type, k->max, max));
	else if (n->number < k->min)
		r = node_fail(err, n, "'%s' is %s; the least is %s", c->spelling, QUOTE(n->text),
			value_number_text(k->type, k->min, min));
	else
		r = node_fail(err, n, "'%s' is %s, which is too large", c->spelling,
			QUOTE(n->text));
	if (k->type == KEY_BYTES && n->number < k->min && is_plain_number(n->text))
		return cell_error_hint(err, r, "a plain number is bytes: write '%.20sm' for MiB",
			n->text);
	return r;
}

static int read_number(const struct value_context *c, struct node *n, struct cell_error *err)
{
	int r = parse_number(c, n, &n->number);

	if (r == -EINVAL) {
		r = value_refuse(c, n, err);
		return n->is_quoted && (c->key->type == KEY_BOOL || c->key->type == KEY_INT)
			       ? cell_error_hint(err, r, "remove the quotes")
			       : r;
	}
	if (r == -ERANGE)
		n->number = UINT64_MAX;
	if (r < 0 || n->number < c->key->min || (c->key->max && n->number > c->key->max))
		return fail_range(c, n, err);
	n->kind = c->key->type == KEY_BOOL ? NODE_BOOL : NODE_INT;
	char buf[VALUE_TEXT_MAX];
	return set_text(n, value_number_text(c->key->type, n->number, buf), err);
}

static int read_switch(const struct value_context *c, struct node *n, struct cell_error *err)
{
	bool flag;
	char word[QUOTE_MAX];

	if (n->is_quoted || parse_bool(n->text, &flag) < 0)
		return cell_error_hint(err,
			node_fail(err, n, "'%s' takes true or false, not %s", c->spelling,
				QUOTE(n->text)),
			"the other spelling is '%s'", c->key->path);
	int r = set_text(n, enum_word(c->alias->values, flag, word), err);
	return r < 0 ? r : value_read_enum(c, c->key->values, n, err);
}

int value_read_scalar(const struct value_context *c, struct node *n, struct cell_error *err)
{
	switch (c->key->type) {
	case KEY_STRING:
	case KEY_STRINGS:
		if (n->kind == NODE_BOOL)
			return cell_error_hint(err, value_refuse(c, n, err),
				"quote it if text is meant: \"%s\"", n->text);
		n->kind = NODE_STRING;
		return c->key->form == TEXT_PATH ? read_path(c, n, err)
						 : value_check_text(c, n, err);
	case KEY_PATH:
		n->kind = NODE_STRING;
		return read_path(c, n, err);
	case KEY_ENUM:
	case KEY_ENUMS:
		if (c->alias && c->alias->how == ALIAS_SWITCH)
			return read_switch(c, n, err);
		return value_read_enum(c, c->key->values, n, err);
	case KEY_BACKEND:
		return read_backend(c, n, err);
	default:
		return read_number(c, n, err);
	}
}

int value_read(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err)
{
	auto_node struct node *n = NULL;
	enum key_type type = c->key->type;
	int r;

	if (in->kind == NODE_NULL) {
		n = node_new(NODE_NULL, in->source);
		r = n ? 0 : config_no_memory(err);
	} else if (type == KEY_STRINGS || type == KEY_ENUMS) {
		r = value_read_list(c, in, &n, err);
	} else if (type == KEY_PAIRS) {
		r = value_read_pairs(c, in, &n, err);
	} else if (type == KEY_RECORDS || type == KEY_TABLE) {
		r = value_read_records(c, in, &n, err);
	} else if (type == KEY_MOUNTS) {
		r = value_read_mounts(c, in, &n, err);
	} else if (!node_is_scalar(in)) {
		r = value_refuse(c, in, err);
	} else {
		n = node_new_scalar(in->text, strlen(in->text), in->is_quoted, in->source);
		if (!n)
			return config_no_memory(err);
		node_place(n, in);
		r = value_read_scalar(c, n, err);
	}
	if (r < 0 || !n)
		return r;
	node_place(n, in);
	free(n->key);
	n->key = strdup(c->spelling);
	if (!n->key)
		return config_no_memory(err);
	*ret = steal_ptr(n);
	return 0;
}
