/* SPDX-License-Identifier: Apache-2.0 */
/* port_cookie.c: see port_cookie.h. */
#include "server/port_cookie.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "net/text.h"

#define BLANKS " \t"

/* A piece of a value, without the blanks around it. */
struct piece {
	const char *p;
	size_t n;
};

static struct piece trim(const char *p, size_t n)
{
	while (n && strchr(BLANKS, *p)) {
		p++;
		n--;
	}
	while (n && strchr(BLANKS, p[n - 1]))
		n--;
	return (struct piece){p, n};
}

/* What stands before the next ';'. */
static bool next_piece(const char **at, struct piece *ret)
{
	if (!*at || !**at)
		return false;
	size_t n = strcspn(*at, ";");
	*ret = trim(*at, n);
	*at += n + ((*at)[n] == ';');
	return true;
}

/* "name=value": the name, and where the value begins; without '=' that is NULL. */
static struct piece name_of(struct piece pair, struct piece *ret_value)
{
	const char *eq = pair.n ? memchr(pair.p, '=', pair.n) : NULL;

	*ret_value = (struct piece){0};
	if (!eq)
		return pair;
	*ret_value = trim(eq + 1, pair.n - (size_t)(eq + 1 - pair.p));
	return trim(pair.p, (size_t)(eq - pair.p));
}

static bool is_word(struct piece p, const char *word)
{
	return p.n == strlen(word) && !strncasecmp(p.p, word, p.n);
}

/* Those that change neither who gets it nor what it is taken for. */
static bool is_harmless(struct piece name)
{
	static const char *const names[] = {
		"expires", "max-age", "secure", "httponly", "samesite", "partitioned"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (is_word(name, names[i]))
			return true;
	return false;
}

int port_cookie_out(const char *value, const char *prefix, struct buf *ret)
{
	struct piece pair, text, attribute;
	bool has_path = false;

	if (strpbrk(prefix, ";, \t\"") || !next_piece(&value, &pair))
		return 1;
	struct piece name = name_of(pair, &text);
	if (!text.p || !net_is_token(name.p, name.n))
		return 1;
	int r = buf_addf(ret, PORT_COOKIE "%.*s=%.*s", (int)name.n, name.p, (int)text.n, text.p);
	while (r == 0 && next_piece(&value, &attribute)) {
		struct piece word = name_of(attribute, &text);
		if (is_harmless(word)) {
			r = buf_addf(ret, "; %.*s", (int)attribute.n, attribute.p);
		} else if (is_word(word, "path") && text.n && *text.p == '/' && !has_path) {
			has_path = true;
			r = buf_addf(ret, "; Path=%s%.*s", prefix, (int)text.n, text.p);
		}
	}
	/* without one a client would take the request's directory: below the prefix as well, but let it be said */
	if (r == 0 && !has_path)
		r = buf_addf(ret, "; Path=%s/", prefix);
	return r;
}

int port_cookie_in(const char *value, struct buf *ret)
{
	struct piece pair, text;
	int r = 0;

	while (r == 0 && next_piece(&value, &pair)) {
		struct piece name = name_of(pair, &text);
		size_t n = strlen(PORT_COOKIE);
		if (!text.p || name.n <= n || strncmp(name.p, PORT_COOKIE, n) != 0)
			continue;
		r = buf_addf(ret, "%s%.*s=%.*s", ret->len ? "; " : "", (int)(name.n - n),
			name.p + n, (int)text.n, text.p);
	}
	return r;
}
