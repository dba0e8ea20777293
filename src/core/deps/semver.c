/* SPDX-License-Identifier: Apache-2.0 */
/* semver.c: see semver.h. */
#include "core/deps/semver.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A version of which the last numbers may be missing, or an x. */
struct partial {
	struct semver v;
	int n_given;
};

static bool number(const char **p, uint64_t *ret)
{
	uint64_t n = 0;

	if (!isdigit((unsigned char)**p))
		return false;
	for (; isdigit((unsigned char)**p); ++*p) {
		if (n > UINT64_MAX / 10 - 1)
			return false;
		n = n * 10 + (uint64_t)(**p - '0');
	}
	*ret = n;
	return true;
}

static bool word(const char **p, char *ret, size_t size)
{
	size_t n = 0;

	while (isalnum((unsigned char)**p) || **p == '-' || **p == '.') {
		if (n + 1 >= size)
			return false;
		ret[n++] = *(*p)++;
	}
	ret[n] = '\0';
	return n;
}

static bool take_partial(const char **p, struct partial *ret)
{
	char build[128];

	memset(ret, 0, sizeof *ret);
	*p += **p == 'v' || **p == '=';
	for (int i = 0; i < 3; i++) {
		if (**p == 'x' || **p == 'X' || **p == '*') {
			++*p;
			while (**p == '.' || **p == 'x' || **p == 'X' || **p == '*')
				++*p;
			return true;
		}
		if (!number(p, &ret->v.n[i]))
			return false;
		ret->n_given = i + 1;
		if (**p != '.')
			break;
		if (i == 2)
			return false;
		++*p;
	}
	if (**p == '-') {
		++*p;
		if (ret->n_given != 3 || !word(p, ret->v.pre, sizeof ret->v.pre))
			return false;
	}
	if (**p == '+') {
		++*p;
		return word(p, build, sizeof build);
	}
	return true;
}

bool semver_parse(const char *text, struct semver *ret)
{
	struct partial p;

	text += strspn(text, " \t");
	if (!take_partial(&text, &p) || p.n_given != 3 || text[strspn(text, " \t")])
		return false;
	*ret = p.v;
	return true;
}

static int compare_pre(const char *a, const char *b)
{
	if (!*a || !*b)
		return (*b != '\0') - (*a != '\0');
	while (*a && *b) {
		size_t n = strcspn(a, "."), m = strcspn(b, ".");
		bool x = strspn(a, "0123456789") == n, y = strspn(b, "0123456789") == m;
		int c = 0;
		if (x != y)
			return x ? -1 : 1;
		if (x) {
			const char *i = a, *k = b;
			uint64_t u = 0, v = 0;
			(void)number(&i, &u);
			(void)number(&k, &v);
			c = (u > v) - (u < v);
		} else {
			c = strncmp(a, b, n < m ? n : m);
			c = c ? (c > 0) - (c < 0) : (n > m) - (n < m);
		}
		if (c)
			return c;
		a += n + (a[n] == '.');
		b += m + (b[m] == '.');
	}
	return (*a != '\0') - (*b != '\0');
}

int semver_compare(const struct semver *a, const struct semver *b)
{
	for (int i = 0; i < 3; i++)
		if (a->n[i] != b->n[i])
			return a->n[i] > b->n[i] ? 1 : -1;
	return compare_pre(a->pre, b->pre);
}

static bool is_below(const struct semver *v, const struct semver *base, int place)
{
	struct semver top = {0};

	for (int i = 0; i <= place; i++)
		top.n[i] = base->n[i];
	top.n[place]++;
	return semver_compare(v, &top) < 0;
}

static int caret_place(const struct partial *p)
{
	if (p->v.n[0] || p->n_given == 1)
		return 0;
	return p->v.n[1] || p->n_given == 2 ? 1 : 2;
}

static bool compares(const char *op, const struct partial *p, const struct semver *v)
{
	int c = semver_compare(v, &p->v);

	if (!p->n_given)
		return strcmp(op, "<") != 0 && strcmp(op, ">") != 0;
	if (!strcmp(op, "^"))
		return c >= 0 && is_below(v, &p->v, caret_place(p));
	if (!strcmp(op, "~"))
		return c >= 0 && is_below(v, &p->v, p->n_given == 1 ? 0 : 1);
	if (!strcmp(op, ">="))
		return c >= 0;
	if (!strcmp(op, "<"))
		return c < 0;
	if (!strcmp(op, ">"))
		return p->n_given == 3 ? c > 0 : c >= 0 && !is_below(v, &p->v, p->n_given - 1);
	if (!strcmp(op, "<="))
		return p->n_given == 3 ? c <= 0 : is_below(v, &p->v, p->n_given - 1);
	return p->n_given == 3 ? c == 0 : c >= 0 && is_below(v, &p->v, p->n_given - 1);
}

static const char *take_op(const char **p)
{
	static const char *const ops[] = {"^", "~>", "~", ">=", "<=", ">", "<", "=", NULL};

	for (size_t i = 0; ops[i]; i++)
		if (!strncmp(*p, ops[i], strlen(ops[i]))) {
			*p += strlen(ops[i]);
			*p += strspn(*p, " \t");
			return !strcmp(ops[i], "~>") ? "~" : ops[i];
		}
	return "";
}

/* One alternative, up to || or the end. *ret_ok false: it cannot be read. */
static bool one_allows(const char **p, const struct semver *v, bool *ret_ok)
{
	bool does = true, is_named = !*v->pre, has_any = false;

	*ret_ok = true;
	for (;;) {
		struct partial a, b;
		*p += strspn(*p, " \t,");
		if (!**p || !strncmp(*p, "||", 2))
			break;
		const char *op = take_op(p);
		if (!take_partial(p, &a) || (**p && !strchr(" \t,|", **p))) {
			*ret_ok = false;
			return false;
		}
		has_any = true;
		const char *after = *p + strspn(*p, " \t");
		if (!*op && after[0] == '-' && isspace((unsigned char)after[1])) {
			after += 1 + strspn(after + 1, " \t");
			if (!take_partial(&after, &b)) {
				*ret_ok = false;
				return false;
			}
			*p = after;
			does = does && compares(">=", &a, v) && compares("<=", &b, v);
			is_named |= *b.v.pre && !memcmp(b.v.n, v->n, sizeof v->n);
		} else {
			does = does && compares(op, &a, v);
		}
		is_named |= *a.v.pre && !memcmp(a.v.n, v->n, sizeof v->n);
	}
	(void)has_any; /* an empty one is any version */
	return does && is_named;
}

static bool walk(const char *range, const struct semver *v, bool *ret_ok)
{
	bool does = false;

	for (;;) {
		bool is_ok;
		does |= one_allows(&range, v, &is_ok);
		if (!is_ok) {
			*ret_ok = false;
			return false;
		}
		if (!*range)
			break;
		range += 2;
	}
	*ret_ok = true;
	return does;
}

bool semver_range_is_valid(const char *range)
{
	const struct semver any = {0};
	bool is_ok;

	(void)walk(range, &any, &is_ok);
	return is_ok;
}

bool semver_allows(const char *range, const char *version)
{
	struct semver v;
	bool is_ok;

	return semver_parse(version, &v) && walk(range, &v, &is_ok) && is_ok;
}
