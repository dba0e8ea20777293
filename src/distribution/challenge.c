/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution/challenge.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *skip(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == ',')
		p++;
	return p;
}

static size_t token_length(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || (p[n] && strchr("!#$%&'*+-.^_`|~", p[n])))
		n++;
	return n;
}

/* The value behind '=', quoted or not, into out (cut values are refused: they would mean something else). */
static const char *take_value(const char *p, char *out, size_t size)
{
	size_t n = 0;
	bool is_quoted = *p == '"';

	for (p += is_quoted;
		*p && (is_quoted ? *p != '"' : token_length(p) > 0 || strchr(":/?", *p)); p++) {
		if (is_quoted && *p == '\\' && p[1])
			p++;
		if (out && n + 1 >= size)
			return NULL;
		if (out)
			out[n++] = *p;
	}
	if (is_quoted && *p != '"')
		return NULL;
	if (out)
		out[n] = '\0';
	return p + is_quoted;
}

static bool is_word(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && !strncasecmp(p, word, n);
}

static const char *take_parameter(const char *p, size_t n, struct challenge *c)
{
	if (is_word(p, n, "realm"))
		return take_value(p + n + 1, c->realm, sizeof c->realm);
	if (is_word(p, n, "service"))
		return take_value(p + n + 1, c->service, sizeof c->service);
	if (is_word(p, n, "scope"))
		return take_value(p + n + 1, c->scope, sizeof c->scope);
	return take_value(p + n + 1, NULL, 0);
}

bool challenge_parse(const char *header, struct challenge *ret)
{
	const char *p = skip(header);
	bool is_found = false;

	while (p && *p) {
		size_t n = token_length(p);

		if (!n)
			break;
		if (p[n] == '=') { /* a parameter of the scheme before it */
			p = is_found ? take_parameter(p, n, ret) : take_value(p + n + 1, NULL, 0);
			p = p ? skip(p) : NULL;
			continue;
		}
		if (is_found)
			break;
		is_found = is_word(p, n, "Bearer") || is_word(p, n, "Basic");
		*ret = (struct challenge){.is_bearer = is_word(p, n, "Bearer")};
		p = skip(p + n);
	}
	return p && is_found && (!ret->is_bearer || ret->realm[0]);
}
