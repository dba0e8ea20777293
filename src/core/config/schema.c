/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c: looking things up in the tables of keys.c; see schema.h. */
#include "core/config/schema.h"

#include <ctype.h>
#include <string.h>

#include "core/nearest.h"

#define SANDBOX	    "sandbox."
#define SANDBOX_LEN (sizeof SANDBOX - 1)

int schema_index(const char *path)
{
	for (size_t i = 0; i < config_keys_count; i++)
		if (!strcmp(config_keys[i].path, path))
			return (int)i;
	return -1;
}

static int find_exact(const char *spelling, const struct config_alias **ret_alias)
{
	*ret_alias = NULL;
	int i = schema_index(spelling);
	if (i >= 0)
		return i;
	for (const struct config_alias *a = config_aliases; a->spelling; a++)
		if (!strcmp(a->spelling, spelling)) {
			*ret_alias = a;
			return schema_index(a->path);
		}
	return -1;
}

int schema_find(const char *spelling, const struct config_alias **ret_alias)
{
	int i = find_exact(spelling, ret_alias);

	if (i < 0 && !strncmp(spelling, SANDBOX, SANDBOX_LEN) &&
		strncmp(spelling + SANDBOX_LEN, SANDBOX, SANDBOX_LEN) != 0)
		i = find_exact(spelling + SANDBOX_LEN, ret_alias);
	return i;
}

static bool begins_section(const char *key, const char *path, size_t n)
{
	return !strncmp(key, path, n) && key[n] == '.';
}

static bool is_section(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < config_keys_count; i++)
		if (begins_section(config_keys[i].path, path, n))
			return true;
	return false;
}

bool schema_is_section(const char *path)
{
	return is_section(path) || (!strncmp(path, SANDBOX, SANDBOX_LEN) &&
					   strcmp(path + SANDBOX_LEN, "sandbox") != 0 &&
					   is_section(path + SANDBOX_LEN));
}

struct search {
	const char *word;    /* the last part of what was written */
	const char *section; /* what stands before it, with its dot */
	size_t section_len;
	const char *best;
	size_t distance;
	char *buf;
};

/* Offer the part of `path` that stands directly in the section. */
static void offer(struct search *s, const char *path)
{
	char word[SCHEMA_PATH_MAX];

	if (strncmp(path, s->section, s->section_len) != 0)
		return;
	const char *part = path + s->section_len;
	size_t n = strcspn(part, ".");
	if (n >= sizeof word)
		return;
	memcpy(word, part, n);
	word[n] = '\0';
	size_t before = s->distance;
	if (cell_nearest(s->word, word, NULL, &s->distance) && s->distance < before) {
		(void)snprintf(s->buf, SCHEMA_PATH_MAX, "%s", word);
		s->best = s->buf;
	}
}

static void offer_all(struct search *s)
{
	for (size_t i = 0; i < config_keys_count; i++)
		offer(s, config_keys[i].path);
	for (const struct config_alias *a = config_aliases; a->spelling; a++)
		offer(s, a->spelling);
}

const char *schema_nearest(const char *spelling, char buf[SCHEMA_PATH_MAX])
{
	const char *dot = strrchr(spelling, '.');
	struct search s = {
		.word = dot ? dot + 1 : spelling,
		.section = spelling,
		.section_len = dot ? (size_t)(dot + 1 - spelling) : 0,
		.distance = NEAREST_START,
		.buf = buf,
	};

	offer_all(&s);
	if (!s.best && !strncmp(spelling, SANDBOX, SANDBOX_LEN)) {
		s.section += SANDBOX_LEN;
		s.section_len -= SANDBOX_LEN;
		offer_all(&s);
	}
	/* Right word, wrong place: "pids" at the top is "limits.pids". */
	for (size_t i = 0; !s.best && i < config_keys_count; i++) {
		const char *leaf = strrchr(config_keys[i].path, '.');
		if (leaf && !strcmp(leaf + 1, s.word))
			return config_keys[i].path;
	}
	return s.best;
}

const char *schema_variable(const char *path, char buf[SCHEMA_PATH_MAX])
{
	int n = snprintf(buf, SCHEMA_PATH_MAX, "CELL_%s", path);

	for (int i = 0; i < n && i < SCHEMA_PATH_MAX - 1; i++)
		buf[i] = buf[i] == '.' ? '_' : (char)toupper((unsigned char)buf[i]);
	return buf;
}

static bool is_same_word(const char *a, size_t n, const char *b)
{
	for (size_t i = 0; i < n; i++) {
		char x = a[i] == '-' ? '_' : (char)tolower((unsigned char)a[i]);
		char y = b[i] == '-' ? '_' : (char)tolower((unsigned char)b[i]);
		if (x != y)
			return false;
	}
	return !b[n];
}

int enum_find(const char *values, const char *word)
{
	int place = *values == '|' ? -1 : 0; /* tables made by a macro begin with a bar */

	for (const char *p = values;;) {
		size_t n = strcspn(p, "=|");
		if (n && is_same_word(p, n, word))
			return place;
		if (!p[n])
			return -1;
		place += p[n] == '|';
		p += n + 1;
	}
}

const char *enum_word(const char *values, int place, char buf[QUOTE_MAX])
{
	values += *values == '|';
	for (; place > 0; place--) {
		values = strchr(values, '|');
		if (!values)
			return NULL;
		values++;
	}
	(void)snprintf(buf, QUOTE_MAX, "%.*s", (int)strcspn(values, "=|"), values);
	return buf;
}

const char *enum_nearest(const char *values, const char *word, char buf[QUOTE_MAX])
{
	size_t distance = NEAREST_START;
	int best = -1;
	char one[QUOTE_MAX];

	for (int i = 0; enum_word(values, i, one); i++) {
		size_t before = distance;
		if (cell_nearest(word, one, NULL, &distance) && distance < before)
			best = i;
	}
	return best < 0 ? NULL : enum_word(values, best, buf);
}

bool is_in_words(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; *p;) {
		size_t len = strcspn(p, " ");
		if (len == n && !strncmp(p, word, n))
			return true;
		p += len;
		p += strspn(p, " ");
	}
	return false;
}
