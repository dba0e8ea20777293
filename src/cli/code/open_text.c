/* SPDX-License-Identifier: Apache-2.0 */
/* open_text.c: see open_text.h. */
#include "cli/code/open_text.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"

struct look {
	const char *language;
	int depth;	       /* of brackets */
	const char *quote;     /* what ends the string we are in; NULL: in none */
	char last;	       /* the last character that is code and no blank */
	bool is_continued;     /* a backslash ends the text */
	unsigned begun, ended; /* shell: words that open and close */
};

static bool is_language(const struct look *l, const char *name)
{
	return !strcmp(l->language, name);
}

static size_t skip_comment(const struct look *l, const char *p, bool is_word_begin)
{
	bool is_hash = is_language(l, "python") || (is_language(l, "shell") && is_word_begin);

	if ((is_hash && *p == '#') || (is_language(l, "javascript") && text_begins(p, "//")) ||
		(is_language(l, "sql") && text_begins(p, "--")))
		return strcspn(p, "\n");
	return 0;
}

/* What ends the string that begins at p; NULL: none begins. */
static const char *quote_at(const struct look *l, const char *p, size_t *ret_len)
{
	*ret_len = 1;
	if (is_language(l, "python") && (text_begins(p, "'''") || text_begins(p, "\"\"\""))) {
		*ret_len = 3;
		return *p == '\'' ? "'''" : "\"\"\"";
	}
	if (is_language(l, "javascript") && text_begins(p, "/*")) {
		*ret_len = 2;
		return "*/";
	}
	if (*p == '\'')
		return "'";
	if (*p == '"')
		return "\"";
	return *p == '`' && is_language(l, "javascript") ? "`" : NULL;
}

/* A string on one line that the line's end leaves open is a mistake for the interpreter to tell of. */
static bool is_one_line(const struct look *l)
{
	return (is_language(l, "python") && strlen(l->quote) == 1) ||
	       (is_language(l, "javascript") && (*l->quote == '"' || *l->quote == '\''));
}

static const char *in_quote(struct look *l, const char *p)
{
	bool is_raw = is_language(l, "sql") || (is_language(l, "shell") && *l->quote == '\'') ||
		      *l->quote == '*';

	if (*p == '\\' && !is_raw && p[1])
		return p + 2;
	if (text_begins(p, l->quote)) {
		p += strlen(l->quote);
		l->quote = NULL;
		l->last = '"';
		return p;
	}
	if (*p == '\n' && is_one_line(l))
		l->quote = NULL;
	return p + 1;
}

static void shell_word(struct look *l, const char *p, size_t n)
{
	static const char *const begin[] = {"if", "case", "do", NULL}, *const end[] = {"fi", "esac",
									       "done", NULL};

	for (int i = 0; begin[i]; i++) {
		l->begun += strlen(begin[i]) == n && !strncmp(p, begin[i], n);
		l->ended += strlen(end[i]) == n && !strncmp(p, end[i], n);
	}
}

static void scan(struct look *l, const char *text)
{
	const char *p = text;

	while (*p) {
		bool is_word_begin = p == text || strchr(" \t\n;&|()", p[-1]);
		size_t n = 0;
		if (l->quote) {
			p = in_quote(l, p);
			continue;
		}
		n = skip_comment(l, p, is_word_begin);
		if (n) {
			p += n;
			continue;
		}
		l->quote = quote_at(l, p, &n);
		if (l->quote) {
			p += n;
			continue;
		}
		if (*p == '\\' && (!p[1] || (p[1] == '\n' && !p[2]))) {
			l->is_continued = true;
			return;
		}
		if (*p == '\\' && is_language(l, "shell")) {
			p += p[1] ? 2 : 1;
			continue;
		}
		bool is_case = is_language(l, "shell") && l->begun > l->ended && *p == ')';
		l->depth += strchr("([{", *p) ? 1 : strchr(")]}", *p) && !is_case ? -1 : 0;
		if (is_language(l, "shell") && is_word_begin && isalpha((unsigned char)*p)) {
			n = strcspn(p, " \t\n;&|()");
			shell_word(l, p, n);
			l->last = p[n - 1];
			p += n;
			continue;
		}
		if (!strchr(" \t\n", *p))
			l->last = *p;
		p++;
	}
}

static const char *last_line(const char *text)
{
	const char *nl = strrchr(text, '\n');

	return nl ? nl + 1 : text;
}

static bool is_blank(const char *p)
{
	return p[strspn(p, " \t")] == 0;
}

/* A block goes on until a line that is empty, or that begins at the left again after one. */
static bool is_in_block(const struct look *l, const char *text)
{
	const char *last = last_line(text);

	if (l->last == ':' && !is_blank(last))
		return true;
	if (*text == '@' && last == text)
		return true; /* a decorator */
	return strchr(text, '\n') && !is_blank(last) && (*last == ' ' || *last == '\t');
}

struct open_text open_text_look(const char *language, const char *text)
{
	struct look l = {.language = language};
	struct open_text r = {0};

	scan(&l, text);
	r.is_open = (l.quote && !is_one_line(&l)) || l.depth > 0 || l.is_continued;
	if (is_language(&l, "python")) {
		bool is_colon = !l.quote && l.last == ':' && !is_blank(last_line(text));
		r.is_open |= is_in_block(&l, text);
		r.n_indent = is_colon && l.depth <= 0 ? 4 : 0;
	} else if (is_language(&l, "shell")) {
		r.is_open |= l.begun > l.ended;
	} else if (is_language(&l, "sql")) {
		/* a statement ends with ; and so does typing, by an empty line */
		r.is_open |= l.last && l.last != ';' && !is_blank(last_line(text));
	}
	if (is_blank(text))
		r.is_open = false;
	return r;
}
