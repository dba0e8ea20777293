/* SPDX-License-Identifier: Apache-2.0 */
/* version.c: see version.h. */
#include "core/deps/version.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SPEC_MAX 128

static bool number(const char **p, uint64_t *ret)
{
	const char *s = *p;
	uint64_t n = 0;

	if (!isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s); s++) {
		if (n > UINT64_MAX / 10 - 1)
			return false;
		n = n * 10 + (uint64_t)(*s - '0');
	}
	*p = s;
	*ret = n;
	return true;
}

static bool separator(char c)
{
	return c == '.' || c == '-' || c == '_';
}

/* One of the words, after a separator or not; moves on. */
static bool word(const char **p, const char *const *words, size_t *ret)
{
	const char *s = *p + separator(**p);

	for (size_t i = 0; words[i]; i++) {
		size_t n = strlen(words[i]);
		if (!strncmp(s, words[i], n) && !isalpha((unsigned char)s[n])) {
			*p = s + n;
			*ret = i;
			return true;
		}
	}
	return false;
}

/* The number that may follow a word: 0 when there is none. */
static bool word_number(const char **p, uint64_t *ret)
{
	const char *s = *p + separator(**p);

	*ret = 0;
	if (!isdigit((unsigned char)*s))
		return true;
	*p = s;
	return number(p, ret);
}

static bool take_local(const char **p, struct version *v)
{
	size_t n = 0;

	if (**p != '+')
		return true;
	for (++*p; **p; ++*p) {
		char c = **p;
		if (n + 1 >= sizeof v->local)
			return false;
		if (separator(c)) {
			if (!n || v->local[n - 1] == '.')
				return false;
			c = '.';
		} else if (!isalnum((unsigned char)c)) {
			return false;
		}
		v->local[n++] = c;
	}
	v->local[n] = '\0';
	return n && v->local[n - 1] != '.';
}

bool version_parse(const char *text, struct version *ret)
{
	static const char *const pres[] = {
		"alpha", "a", "beta", "b", "preview", "pre", "rc", "c", NULL};
	static const char *const posts[] = {"post", "rev", "r", NULL};
	static const char *const devs[] = {"dev", NULL};
	char lower[VERSION_TEXT_MAX];
	const char *p = lower;
	size_t n = 0, which;

	memset(ret, 0, sizeof *ret);
	while (isspace((unsigned char)*text))
		text++;
	for (; text[n] && n + 1 < sizeof lower; n++)
		lower[n] = (char)tolower((unsigned char)text[n]);
	if (text[n])
		return false;
	while (n && isspace((unsigned char)lower[n - 1]))
		n--;
	lower[n] = '\0';
	if (*p == 'v')
		p++;
	uint64_t first;
	if (!number(&p, &first))
		return false;
	if (*p == '!') {
		ret->epoch = first;
		p++;
		if (!number(&p, &first))
			return false;
	}
	ret->release[ret->n_release++] = first;
	while (*p == '.' && isdigit((unsigned char)p[1])) {
		p++;
		if (ret->n_release == VERSION_PARTS_MAX ||
			!number(&p, &ret->release[ret->n_release]))
			return false;
		ret->n_release++;
	}
	if (word(&p, pres, &which)) {
		ret->pre = which < 2 ? 'a' : which < 4 ? 'b' : 'c';
		if (!word_number(&p, &ret->pre_n))
			return false;
	}
	if (*p == '-' && isdigit((unsigned char)p[1])) { /* 1.0-1 is 1.0.post1 */
		p++;
		ret->has_post = true;
		if (!number(&p, &ret->post_n))
			return false;
	} else if (word(&p, posts, &which)) {
		ret->has_post = true;
		if (!word_number(&p, &ret->post_n))
			return false;
	}
	if (word(&p, devs, &which)) {
		ret->has_dev = true;
		if (!word_number(&p, &ret->dev_n))
			return false;
	}
	return take_local(&p, ret) && !*p;
}

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static uint64_t part(const struct version *v, size_t i)
{
	return i < v->n_release ? v->release[i] : 0;
}

static int compare_release(const struct version *a, const struct version *b)
{
	int c = order(a->epoch, b->epoch);

	for (size_t i = 0; !c && i < VERSION_PARTS_MAX; i++)
		c = order(part(a, i), part(b, i));
	return c;
}

/* A development version of a final one comes before its alphas. */
static int pre_rank(const struct version *v)
{
	if (v->pre)
		return v->pre;
	return !v->has_post && v->has_dev ? 0 : 'z';
}

/* Piece by piece: numbers above words, longer above shorter. */
static int compare_local(const char *a, const char *b)
{
	while (*a && *b) {
		size_t n = strcspn(a, "."), m = strcspn(b, ".");
		bool is_number = strspn(a, "0123456789") == n,
		     is_other = strspn(b, "0123456789") == m;
		int c;

		if (is_number != is_other)
			return is_number ? 1 : -1;
		if (is_number) {
			const char *x = a, *y = b;
			uint64_t i = 0, k = 0;
			(void)number(&x, &i);
			(void)number(&y, &k);
			c = order(i, k);
		} else {
			c = strncmp(a, b, n < m ? n : m);
			c = c ? (c > 0) - (c < 0) : order(n, m);
		}
		if (c)
			return c;
		a += n + (a[n] == '.');
		b += m + (b[m] == '.');
	}
	return (*a != '\0') - (*b != '\0');
}

static int compare_public(const struct version *a, const struct version *b)
{
	int c = compare_release(a, b);

	if (!c)
		c = (pre_rank(a) > pre_rank(b)) - (pre_rank(a) < pre_rank(b));
	if (!c && a->pre)
		c = order(a->pre_n, b->pre_n);
	if (!c)
		c = (int)a->has_post - (int)b->has_post;
	if (!c && a->has_post)
		c = order(a->post_n, b->post_n);
	if (!c)
		c = (int)b->has_dev - (int)a->has_dev;
	if (!c && a->has_dev)
		c = order(a->dev_n, b->dev_n);
	return c;
}

int version_compare(const struct version *a, const struct version *b)
{
	int c = compare_public(a, b);

	return c ? c : compare_local(a->local, b->local);
}

bool version_is_pre(const struct version *v)
{
	return v->pre || v->has_dev;
}

const char *version_text(const struct version *v, char ret[VERSION_TEXT_MAX])
{
	size_t n = 0;
#define PUT(...)                                                                    \
	do {                                                                        \
		int k_ = snprintf(ret + n, VERSION_TEXT_MAX - n, __VA_ARGS__);      \
		n += k_ > 0 && (size_t)k_ < VERSION_TEXT_MAX - n ? (size_t)k_ : 0u; \
	} while (0)

	ret[0] = '\0';
	if (v->epoch)
		PUT("%" PRIu64 "!", v->epoch);
	for (size_t i = 0; i < v->n_release; i++)
		PUT("%s%" PRIu64, i ? "." : "", v->release[i]);
	if (v->pre)
		PUT("%s%" PRIu64, v->pre == 'c' ? "rc" : v->pre == 'b' ? "b" : "a", v->pre_n);
	if (v->has_post)
		PUT(".post%" PRIu64, v->post_n);
	if (v->has_dev)
		PUT(".dev%" PRIu64, v->dev_n);
	if (*v->local)
		PUT("+%s", v->local);
#undef PUT
	return ret;
}

/* ---- specifiers ---- */

struct specifier {
	char op[4];
	char text[SPEC_MAX];
	bool is_prefix; /* ==1.2.* */
	struct version v;
};

/* The next one of a list; false at its end or when it cannot be read (*ret_bad). */
static bool next(const char **p, struct specifier *ret, bool *ret_bad)
{
	static const char *const ops[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">", NULL};
	size_t n = 0;

	*ret_bad = false;
	*p += strspn(*p, " \t,");
	if (!**p)
		return false;
	*ret_bad = true;
	memset(ret, 0, sizeof *ret);
	for (size_t i = 0; ops[i] && !*ret->op; i++)
		if (!strncmp(*p, ops[i], strlen(ops[i])))
			(void)snprintf(ret->op, sizeof ret->op, "%s", ops[i]);
	if (!*ret->op)
		return false;
	*p += strlen(ret->op);
	*p += strspn(*p, " \t");
	size_t len = strcspn(*p, ",");
	for (n = len; n && isspace((unsigned char)(*p)[n - 1]); n--)
		;
	if (!n || n >= sizeof ret->text)
		return false;
	memcpy(ret->text, *p, n);
	ret->text[n] = '\0';
	*p += len;
	if (!strcmp(ret->op, "===")) {
		*ret_bad = false;
		return true;
	}
	if (n > 2 && !strcmp(ret->text + n - 2, ".*")) {
		ret->is_prefix = true;
		ret->text[n - 2] = '\0';
		if (strcmp(ret->op, "==") != 0 && strcmp(ret->op, "!=") != 0)
			return false;
	}
	if (!version_parse(ret->text, &ret->v) || (!strcmp(ret->op, "~=") && ret->v.n_release < 2))
		return false;
	*ret_bad = false;
	return true;
}

static bool has_prefix(const struct version *v, const struct version *prefix, size_t n)
{
	if (v->epoch != prefix->epoch)
		return false;
	for (size_t i = 0; i < n; i++)
		if (part(v, i) != part(prefix, i))
			return false;
	return true;
}

static bool equals(const struct specifier *s, const struct version *v)
{
	if (s->is_prefix) {
		if (!has_prefix(v, &s->v, s->v.n_release))
			return false;
		if (s->v.pre && (v->pre != s->v.pre || v->pre_n != s->v.pre_n))
			return false;
		return true;
	}
	return *s->v.local ? !version_compare(v, &s->v) : !compare_public(v, &s->v);
}

static bool allows(const struct specifier *s, const struct version *v, const char *text)
{
	int c = compare_public(v, &s->v);
	bool is_same_base = !compare_release(v, &s->v);

	if (!strcmp(s->op, "==="))
		return !strcasecmp(s->text, text);
	if (!strcmp(s->op, "=="))
		return equals(s, v);
	if (!strcmp(s->op, "!="))
		return !equals(s, v);
	if (!strcmp(s->op, "<="))
		return c <= 0;
	if (!strcmp(s->op, ">="))
		return c >= 0;
	if (!strcmp(s->op, "~="))
		return c >= 0 && has_prefix(v, &s->v, s->v.n_release - 1);
	if (!strcmp(s->op, "<"))
		return c < 0 && (version_is_pre(&s->v) || !version_is_pre(v) || !is_same_base);
	/* neither 1.7.post1 nor 1.7+local is more than 1.7 */
	return c > 0 && (s->v.has_post || !v->has_post || !is_same_base);
}

bool specifiers_are_valid(const char *text)
{
	struct specifier s;
	bool is_bad;

	while (next(&text, &s, &is_bad))
		;
	return !is_bad;
}

bool specifiers_allow(const char *text, const char *version)
{
	struct specifier s;
	struct version v;
	bool is_bad;

	if (!version_parse(version, &v))
		return false;
	while (next(&text, &s, &is_bad))
		if (!allows(&s, &v, version))
			return false;
	return !is_bad;
}

bool specifiers_want_pre(const char *text)
{
	struct specifier s;
	bool is_bad;

	while (next(&text, &s, &is_bad))
		if (strcmp(s.op, "!=") != 0 && strcmp(s.op, "===") != 0 && version_is_pre(&s.v))
			return true;
	return false;
}

bool specifiers_are_exact(const char *text)
{
	struct specifier s;
	bool is_bad;

	if (!next(&text, &s, &is_bad) || strcmp(s.op, "==") != 0 || s.is_prefix)
		return false;
	return !next(&text, &s, &is_bad) && !is_bad;
}
