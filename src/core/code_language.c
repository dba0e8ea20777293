/* SPDX-License-Identifier: Apache-2.0 */
/* code_language.c: see code_language.h. */
#include "core/code_language.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct language {
	const char *name;
	const char *aliases;  /* words between blanks */
	const char *suffixes; /* of files */
	const char *programs; /* of #! lines; a version may follow */
};

static const struct language languages[] = {
	{"python", " python py python3 ipython ", " py pyw ipy ", " python python3 pypy pypy3 "},
	{"javascript", " javascript js node nodejs ", " js mjs cjs ", " node nodejs "},
	{"shell", " shell sh bash ", " sh bash ", " sh bash dash "},
	{"sql", " sql sqlite sqlite3 ", " sql ", " sqlite3 "},
};
#define N_LANGUAGES (sizeof languages / sizeof languages[0])

static bool has_word(const char *words, const char *word, size_t n)
{
	for (const char *p = words; n && (p = strchr(p, ' ')); p++)
		if (!strncasecmp(p + 1, word, n) && p[n + 1] == ' ')
			return true;
	return false;
}

const char *code_language(const char *word)
{
	for (size_t i = 0; i < N_LANGUAGES; i++)
		if (has_word(languages[i].aliases, word, strlen(word)))
			return languages[i].name;
	return word;
}

/* The program of "#!/usr/bin/env -S python3.11 -u", without its directory and minor version. */
static const char *shebang(const char *text, size_t n, size_t *ret_len)
{
	const char *end, *p = text + 2;

	if (n < 3 || text[0] != '#' || text[1] != '!')
		return NULL;
	end = memchr(text, '\n', n);
	end = end ? end : text + n;
	for (;;) {
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		const char *word = p;
		while (p < end && *p != ' ' && *p != '\t' && *p != '\r')
			p++;
		for (const char *q = word; q < p; q++)
			if (*q == '/')
				word = q + 1;
		if (word == p)
			return NULL;
		if (*word != '-' && !(p - word == 3 && !strncmp(word, "env", 3))) {
			const char *dot = memchr(word, '.', (size_t)(p - word));
			*ret_len = (size_t)((dot ? dot : p) - word);
			return word;
		}
	}
}

const char *code_language_guess(const char *path, const char *text, size_t n)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *base = slash ? slash + 1 : path, *dot = base ? strrchr(base, '.') : NULL;
	size_t len = 0;
	const char *program = shebang(text, n, &len);

	for (size_t i = 0; i < N_LANGUAGES; i++)
		if (dot && has_word(languages[i].suffixes, dot + 1, strlen(dot + 1)))
			return languages[i].name;
	for (size_t i = 0; i < N_LANGUAGES; i++)
		if (program && has_word(languages[i].programs, program, len))
			return languages[i].name;
	return NULL;
}
