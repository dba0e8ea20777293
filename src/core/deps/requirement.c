/* SPDX-License-Identifier: Apache-2.0 */
/* requirement.c: see requirement.h. */
#include "core/deps/requirement.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/deps/version.h"

#define DEPTH_MAX 32
#define VALUE_MAX 256

bool package_normalize(const char *name, size_t len, char ret[REQUIREMENT_NAME_MAX])
{
	size_t n = 0;

	if (!len || len >= REQUIREMENT_NAME_MAX || !isalnum((unsigned char)name[0]) ||
		!isalnum((unsigned char)name[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		bool is_dash = c == '-' || c == '_' || c == '.';
		if (!is_dash && !isalnum(c))
			return false;
		if (!is_dash)
			ret[n++] = (char)tolower(c);
		else if (ret[n - 1] != '-')
			ret[n++] = '-';
	}
	ret[n] = '\0';
	return true;
}

bool is_in_list(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; *p;) {
		size_t len = strcspn(p, ",");
		if (len == n && !strncmp(p, word, n))
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}

static const char *skip(const char *p)
{
	return p + strspn(p, " \t");
}

static int bad(struct cell_error *err, const char *text, const char *why)
{
	return cell_fail(err, CELL_EINVAL, 0, "requirement '%.200s': %s", text, why);
}

static int copy_trimmed(char *ret, size_t size, const char *p, size_t n)
{
	while (n && isspace((unsigned char)p[n - 1]))
		n--;
	if (n >= size)
		return -1;
	memcpy(ret, p, n);
	ret[n] = '\0';
	return 0;
}

static int take_extras(const char **p, struct requirement *ret, const char *text,
	struct cell_error *err)
{
	size_t n = 0;

	if (**p != '[')
		return 0;
	*p = skip(*p + 1);
	while (**p && **p != ']') {
		size_t len = strcspn(*p, ",] \t");
		char extra[REQUIREMENT_NAME_MAX];
		if (!package_normalize(*p, len, extra))
			return bad(err, text, "an extra has no proper name");
		int k = snprintf(ret->extras + n, sizeof ret->extras - n, "%s%s", n ? "," : "",
			extra);
		if (k < 0 || (size_t)k >= sizeof ret->extras - n)
			return bad(err, text, "it has too many extras");
		n += (size_t)k;
		*p = skip(*p + len);
		if (**p == ',')
			*p = skip(*p + 1);
		else if (**p != ']')
			break;
	}
	if (**p != ']')
		return bad(err, text, "']' is missing");
	*p = skip(*p + 1);
	return 0;
}

int requirement_parse(const char *text, struct requirement *ret, struct cell_error *err)
{
	const char *p = skip(text);
	int r;

	memset(ret, 0, sizeof *ret);
	if (strlen(text) >= REQUIREMENT_TEXT_MAX)
		return bad(err, text, "it is too long");
	size_t len = strcspn(p, " \t[]()<>=!~;@,");
	while (len && p[len - 1] == '.') /* never part of a name */
		len--;
	if (!package_normalize(p, len, ret->name))
		return cell_error_hint(err,
			bad(err, text, "it does not begin with the name of a package"),
			"write name, name==1.2, name[extra]>=1.0, or the path of a .whl file");
	p = skip(p + len);
	r = take_extras(&p, ret, text, err);
	if (r < 0)
		return r;
	if (*p == '@')
		return cell_error_hint(err, bad(err, text, "packages by URL are not taken"),
			"put the wheel into a directory of deps.find_links, or add the file "
			"itself");
	const char *end = strchrnul(p, ';');
	len = (size_t)(end - p);
	if (*p == '(') {
		const char *close = memchr(p, ')', len);
		if (!close || *skip(close + 1) != *end || skip(close + 1) != end)
			return bad(err, text, "')' is missing");
		p++;
		len = (size_t)(close - p);
	}
	if (copy_trimmed(ret->specifiers, sizeof ret->specifiers, p, len) < 0)
		return bad(err, text, "it is too long");
	if (!specifiers_are_valid(ret->specifiers))
		return cell_error_hint(err, bad(err, text, "its versions cannot be read"),
			"write ==1.2, >=1.2,<2, ~=1.4.2 or !=1.5.*");
	if (*end && copy_trimmed(ret->marker, sizeof ret->marker, skip(end + 1),
			    strlen(skip(end + 1))) < 0)
		return bad(err, text, "it is too long");
	return 0;
}

/* ---- markers ---- */

struct reader {
	const char *p, *all;
	const struct marker_env *env;
	const char *extras;
	int depth;
	struct cell_error *err;
};

struct value {
	char text[VALUE_MAX];
	bool is_version; /* a variable that is compared as a version */
	bool is_extra;
};

static int fail(struct reader *r, const char *why)
{
	return cell_fail(r->err, CELL_EINVAL, 0, "marker '%.200s': %s", r->all, why);
}

static int take_variable(struct reader *r, struct value *ret)
{
	const struct marker_env *e = r->env;
	const struct {
		const char *name, *value;
		bool is_version;
	} table[] = {
		{"python_version", e->python_version, true},
		{"python_full_version", e->python_full_version, true},
		{"implementation_version", e->implementation_version, true},
		{"implementation_name", e->implementation_name, false},
		{"platform_python_implementation", e->platform_python_implementation, false},
		{"python_implementation", e->platform_python_implementation, false},
		{"os_name", e->os_name, false},
		{"os.name", e->os_name, false},
		{"sys_platform", e->sys_platform, false},
		{"sys.platform", e->sys_platform, false},
		{"platform_system", e->platform_system, false},
		{"platform_machine", e->platform_machine, false},
		{"platform.machine", e->platform_machine, false},
		{"platform_release", e->platform_release, false},
		{"platform_version", e->platform_version, false},
		{"extra", "", false},
	};
	size_t n = strspn(r->p, "abcdefghijklmnopqrstuvwxyz_.");

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (strlen(table[i].name) != n || strncmp(table[i].name, r->p, n) != 0)
			continue;
		(void)snprintf(ret->text, sizeof ret->text, "%s",
			table[i].value ? table[i].value : "");
		ret->is_version = table[i].is_version;
		ret->is_extra = !strcmp(table[i].name, "extra");
		r->p = skip(r->p + n);
		return 0;
	}
	return fail(r, "it asks for something unknown");
}

static int take_value(struct reader *r, struct value *ret)
{
	char quote = *r->p;

	memset(ret, 0, sizeof *ret);
	if (quote != '"' && quote != '\'')
		return take_variable(r, ret);
	const char *end = strchr(r->p + 1, quote);
	if (!end || (size_t)(end - r->p) > sizeof ret->text)
		return fail(r, "a text has no end");
	memcpy(ret->text, r->p + 1, (size_t)(end - r->p - 1));
	r->p = skip(end + 1);
	return 0;
}

static int take_op(struct reader *r, char ret[8])
{
	static const char *const ops[] = {"===", "==", "!=", "<=", ">=", "~=", "<", ">", NULL};

	for (size_t i = 0; ops[i]; i++)
		if (!strncmp(r->p, ops[i], strlen(ops[i]))) {
			(void)snprintf(ret, 8, "%s", ops[i]);
			r->p = skip(r->p + strlen(ops[i]));
			return 0;
		}
	if (!strncmp(r->p, "in", 2) && !isalnum((unsigned char)r->p[2])) {
		(void)snprintf(ret, 8, "in");
		r->p = skip(r->p + 2);
		return 0;
	}
	if (!strncmp(r->p, "not", 3) && isspace((unsigned char)r->p[3])) {
		const char *p = skip(r->p + 3);
		if (!strncmp(p, "in", 2) && !isalnum((unsigned char)p[2])) {
			(void)snprintf(ret, 8, "not in");
			r->p = skip(p + 2);
			return 0;
		}
	}
	return fail(r, "a comparison is missing");
}

static bool compare_extra(const struct reader *r, const char *name, const char *op)
{
	char normal[REQUIREMENT_NAME_MAX];
	bool is_there =
		package_normalize(name, strlen(name), normal) && is_in_list(r->extras, normal);

	return !strcmp(op, "!=") ? !is_there : is_there;
}

static int compare(struct reader *r, const struct value *a, const char *op, const struct value *b,
	bool *ret)
{
	char spec[VALUE_MAX + 8];

	if (!strcmp(op, "in") || !strcmp(op, "not in")) {
		*ret = (strstr(b->text, a->text) != NULL) == !strcmp(op, "in");
		return 0;
	}
	if (a->is_extra || b->is_extra) {
		*ret = compare_extra(r, a->is_extra ? b->text : a->text, op);
		return 0;
	}
	if (a->is_version || b->is_version) {
		static const char *const turned[][2] = {
			{"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}};
		const char *version = a->is_version ? a->text : b->text;

		for (size_t i = 0; !a->is_version && i < 4; i++)
			if (!strcmp(op, turned[i][0])) {
				op = turned[i][1];
				break;
			}
		(void)snprintf(spec, sizeof spec, "%s%s", op, a->is_version ? b->text : a->text);
		if (specifiers_are_valid(spec)) {
			*ret = specifiers_allow(spec, version);
			return 0;
		}
	}
	int c = strcmp(a->text, b->text);
	if (!strcmp(op, "==") || !strcmp(op, "==="))
		*ret = c == 0;
	else if (!strcmp(op, "!="))
		*ret = c != 0;
	else if (!strcmp(op, "<"))
		*ret = c < 0;
	else if (!strcmp(op, "<="))
		*ret = c <= 0;
	else if (!strcmp(op, ">"))
		*ret = c > 0;
	else if (!strcmp(op, ">="))
		*ret = c >= 0;
	else
		return fail(r, "~= compares versions only");
	return 0;
}

static int either(struct reader *r, bool *ret);

static int one(struct reader *r, bool *ret)
{
	struct value a, b;
	char op[8];

	if (*r->p == '(') {
		if (++r->depth > DEPTH_MAX)
			return fail(r, "it is nested too deeply");
		r->p = skip(r->p + 1);
		int k = either(r, ret);
		if (k < 0)
			return k;
		if (*r->p != ')')
			return fail(r, "')' is missing");
		r->p = skip(r->p + 1);
		r->depth--;
		return 0;
	}
	int k = take_value(r, &a);
	if (k == 0)
		k = take_op(r, op);
	if (k == 0)
		k = take_value(r, &b);
	return k < 0 ? k : compare(r, &a, op, &b, ret);
}

static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(r->p, word, n) != 0 || isalnum((unsigned char)r->p[n]) || r->p[n] == '_')
		return false;
	r->p = skip(r->p + n);
	return true;
}

static int both(struct reader *r, bool *ret)
{
	int k = one(r, ret);

	while (k == 0 && take_word(r, "and")) {
		bool other = false;
		k = one(r, &other);
		*ret = *ret && other;
	}
	return k;
}

static int either(struct reader *r, bool *ret)
{
	int k = both(r, ret);

	while (k == 0 && take_word(r, "or")) {
		bool other = false;
		k = both(r, &other);
		*ret = *ret || other;
	}
	return k;
}

int marker_holds(const char *marker, const struct marker_env *env, const char *extras, bool *ret,
	struct cell_error *err)
{
	struct reader r = {.p = skip(marker),
		.all = marker,
		.env = env,
		.extras = extras ? extras : "",
		.err = err};

	*ret = true;
	if (!*r.p)
		return 0;
	int k = either(&r, ret);
	if (k == 0 && *r.p)
		k = fail(&r, "something follows that does not belong there");
	return k;
}
