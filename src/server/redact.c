/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redact.c: see redact.h. One pass over the text. At each word: is it a name that says secret,
 * followed by a value? Does it look like a credential by itself? What is recognised is replaced
 * up to where its value ends.
 */
#include "server/redact.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/ere.h"
#include "core/env.h"

#define NAME_MAX_BYTES 80

struct redact {
	pthread_mutex_t lock; /* a pattern's working memory is its own */
	struct ere *patterns[REDACT_RULES];
	size_t n;
};

void redact_free(struct redact *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		ere_free(r->patterns[i]);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}

static void freep(struct redact **r)
{
	redact_free(*r);
}

int redact_new(const char *const *patterns, struct redact **ret, struct cell_error *err)
{
	auto_(freep) struct redact *r = calloc(1, sizeof *r);

	if (!r)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading what is to be redacted");
	(void)pthread_mutex_init(&r->lock, NULL);
	for (; patterns && *patterns; patterns++) {
		const char *why = NULL;
		if (r->n == REDACT_RULES)
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0, "more than %d patterns to redact",
					REDACT_RULES),
				"join some of them with |");
		int x = ere_new(*patterns, 0, &r->patterns[r->n], &why);
		if (x == -ENOMEM)
			return cell_fail(err, CELL_ENOSPACE, ENOMEM,
				"reading what is to be redacted");
		if (x < 0)
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0,
					"'%.60s' is no regular expression: %s", *patterns, why),
				"write a POSIX extended regular expression that matches a word");
		r->n++;
	}
	*ret = steal_ptr(r);
	return 0;
}

static bool is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Headers whose whole value is the secret, blanks and all. */
static bool is_header(const char *name)
{
	static const char *const names[] = {"authorization", "proxy_authorization", "cookie",
		"set_cookie", "x_api_key", "x_auth_token"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (!strcasecmp(names[i], name))
			return true;
	return false;
}

/* --api-key, apiKey and API_KEY are one name. */
static bool is_secret_name(const char *p, size_t n, bool *ret_is_header)
{
	char name[NAME_MAX_BYTES];
	size_t len = 0;

	while (n && *p == '-') {
		p++;
		n--;
	}
	if (!n || n >= sizeof name / 2)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (i && isupper((unsigned char)p[i]) && islower((unsigned char)p[i - 1]))
			name[len++] = '_';
		name[len++] = p[i];
		if (p[i] == '-')
			name[len - 1] = '_';
	}
	name[len] = '\0';
	*ret_is_header = is_header(name);
	return *ret_is_header || cell_env_is_secret(name) || !strcasecmp(name, "pwd") ||
	       !strcasecmp(name, "passcode") || !strcasecmp(name, "otp");
}

/* Where a value that begins at p ends. */
static const char *value_end(const char *p, bool is_header, char outer)
{
	char quote = *p == '"' || *p == '\'' ? *p : 0;

	if (quote) {
		for (p++; *p && *p != quote; p++)
			if (*p == '\\' && p[1])
				p++;
		return p; /* the closing quote stays */
	}
	if (is_header)
		return p +
		       (outer ? strcspn(p, (char[]){outer, '\n', '\r', 0}) : strcspn(p, "\"'\r\n"));
	return p + strcspn(p, " \t\r\n&;,\"')}]|<>");
}

struct scan {
	struct buf *out;
	const char *p;	  /* what comes next */
	const char *text; /* where it began */
	int error;
};

static void put(struct scan *s, const char *p, size_t n)
{
	if (s->error == 0)
		s->error = buf_add(s->out, p, n);
}

static void hide(struct scan *s, const char *from, const char *to)
{
	if (to == from)
		return;
	if (*from == '"' || *from == '\'') {
		put(s, from, 1);
		from++;
	}
	if (to > from)
		put(s, REDACTED, sizeof REDACTED - 1);
}

/* "user:password" after -u: only the password goes. */
static bool take_user(struct scan *s, const char *name, size_t n)
{
	bool is_flag =
		(n == 2 && !strncmp(name, "-u", 2)) || (n == 6 && !strncmp(name, "--user", 6));

	if (!is_flag || (name[n] != ' ' && name[n] != '='))
		return false;
	const char *value = name + n + 1;
	const char *end = value + strcspn(value, " \t\r\n\"'");
	const char *colon = memchr(value, ':', (size_t)(end - value));
	if (!colon || colon + 1 == end)
		return false;
	put(s, name, (size_t)(colon + 1 - name));
	hide(s, colon + 1, end);
	s->p = end;
	return true;
}

/* NAME=value, "name": "value", --name value. */
static bool take_named(struct scan *s)
{
	const char *name = s->p, *end = name;
	bool is_head = false;

	while (is_name_byte(*end))
		end++;
	size_t n = (size_t)(end - name);
	if (take_user(s, name, n))
		return true;
	bool is_flag = *name == '-' && n > 1;
	char outer = name > s->text && (name[-1] == '"' || name[-1] == '\'') ? name[-1] : 0;
	const char *after = end;
	if (outer && *after == outer) {
		after++; /* "name": value */
		outer = 0;
	}
	const char *sep = after + strspn(after, " \t");
	bool has_sep = *sep == ':' || *sep == '=';
	if (!has_sep && !(is_flag && (*end == ' ' || *end == '\t')))
		return false;
	if (!is_secret_name(name, n, &is_head))
		return false;
	const char *value = has_sep ? sep + 1 : end;
	if (!has_sep || *sep == ':' || sep > after)
		value += strspn(value, " \t");
	if (!has_sep && *value == '-')
		return false; /* the next option, not a value */
	put(s, name, (size_t)(value - name));
	const char *stop = value_end(value, is_head && has_sep, outer);
	hide(s, value, stop);
	s->p = stop;
	return true;
}

static size_t run_of(const char *p, const char *more)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || (p[n] && strchr(more, p[n])))
		n++;
	return n;
}

/* Bearer x, Basic x. */
static bool take_scheme(struct scan *s)
{
	static const char *const schemes[] = {"Bearer ", "Basic ", "Digest ", "Negotiate "};

	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
		size_t n = strlen(schemes[i]);
		if (strncasecmp(s->p, schemes[i], n) != 0)
			continue;
		size_t value = run_of(s->p + n, "-._~+/=");
		if (value < 8)
			return false; /* "basic idea" */
		put(s, s->p, n);
		put(s, REDACTED, sizeof REDACTED - 1);
		s->p += n + value;
		return true;
	}
	return false;
}

/* What well-known services begin their keys with, and how long one is at least. */
static const struct {
	const char *begin;
	size_t min;
} forms[] = {
	{"cell_", 5 + 12 + 1 + 52}, {"ghp_", 30}, {"gho_", 30}, {"ghs_", 30}, {"ghu_", 30},
	{"github_pat_", 40}, {"glpat-", 20}, {"sk-", 20}, {"sk_live_", 20}, {"rk_live_", 20},
	{"xoxb-", 20}, {"xoxp-", 20}, {"xoxa-", 20}, {"AKIA", 20}, {"ASIA", 20}, {"AIza", 35},
	{"npm_", 30}, {"hf_", 30}, {"dckr_pat_", 20}, {"pypi-", 40}, {"SG.", 40},
	{"eyJ", 40}, /* a JWT */
};

static bool take_form(struct scan *s)
{
	size_t n = run_of(s->p, "-._");

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
		if (n >= forms[i].min && !strncmp(s->p, forms[i].begin, strlen(forms[i].begin))) {
			put(s, REDACTED, sizeof REDACTED - 1);
			s->p += n;
			return true;
		}
	return false;
}

/* scheme://user:x@host */
static bool take_url(struct scan *s)
{
	if (strncmp(s->p, "://", 3) != 0)
		return false;
	const char *p = s->p + 3;
	size_t n = strcspn(p, "/?# \t\r\n\"'");
	const char *at = memrchr(p, '@', n);
	const char *colon = at ? memchr(p, ':', (size_t)(at - p)) : NULL;
	if (!colon || colon + 1 == at)
		return false;
	put(s, s->p, (size_t)(colon + 1 - s->p));
	put(s, REDACTED, sizeof REDACTED - 1);
	s->p = at;
	return true;
}

static bool take_pem(struct scan *s)
{
	static const char begin[] = "-----BEGIN ", mark[] = "PRIVATE KEY-----";

	if (strncmp(s->p, begin, sizeof begin - 1) != 0)
		return false;
	const char *key = strstr(s->p, mark);
	if (!key || key - s->p > 40)
		return false;
	const char *end = strstr(key + sizeof mark - 1, mark);
	put(s, REDACTED, sizeof REDACTED - 1);
	s->p = end ? end + sizeof mark - 1 : s->p + strlen(s->p);
	return true;
}

static int built_in(const char *text, struct buf *out)
{
	struct scan s = {.out = out, .p = text, .text = text};

	while (*s.p && s.error == 0) {
		bool is_start = s.p == text || !is_name_byte(s.p[-1]);
		if (is_start && (take_pem(&s) || take_scheme(&s) || take_form(&s) ||
					(is_name_byte(*s.p) && take_named(&s))))
			continue;
		if (take_url(&s))
			continue;
		const char *from = s.p++;
		while (*s.p && is_name_byte(*from) && is_name_byte(*s.p))
			s.p++;
		put(&s, from, (size_t)(s.p - from));
	}
	return s.error;
}

static bool matches(struct redact *r, const char *word, size_t n)
{
	for (size_t i = 0; i < r->n; i++) {
		ere_begin(r->patterns[i]);
		if (ere_feed(r->patterns[i], word, n) || ere_end(r->patterns[i]))
			return true;
	}
	return false;
}

static int by_patterns(struct redact *r, const char *text, struct buf *out)
{
	int x = 0;

	(void)pthread_mutex_lock(&r->lock);
	while (*text && x == 0) {
		size_t blanks = strspn(text, " \t\r\n");
		x = buf_add(out, text, blanks);
		text += blanks;
		size_t n = strcspn(text, " \t\r\n");
		if (x == 0 && n)
			x = matches(r, text, n) ? buf_addz(out, REDACTED) : buf_add(out, text, n);
		text += n;
	}
	(void)pthread_mutex_unlock(&r->lock);
	return x;
}

int redact_text(struct redact *r, const char *text, struct buf *out)
{
	if (!r || !r->n)
		return built_in(text, out);
	auto_buf struct buf half = BUF_INIT(out->max);
	int x = by_patterns(r, text, &half);
	return x < 0 ? x : built_in(buf_str(&half), out);
}

static int redact_string(struct redact *r, json_t *value)
{
	const char *text = json_string_value(value);
	auto_buf struct buf out = BUF_INIT(2 * strlen(text) + 64);

	int x = redact_text(r, text, &out);
	if (x == -ENOBUFS) { /* cannot be told apart from a secret any more */
		buf_reset(&out);
		x = buf_addz(&out, REDACTED);
	}
	if (x < 0)
		return x;
	if (!strcmp(text, buf_str(&out)))
		return 0;
	/* A pattern may have cut a UTF-8 sequence: then nothing of it is shown. */
	if (json_string_set(value, buf_str(&out)) < 0)
		return json_string_set(value, REDACTED) < 0 ? -ENOMEM : 0;
	return 0;
}

/* Is this word of an argv an option whose value is the next word? */
static bool hides_next(const char *word)
{
	bool is_head;

	return *word == '-' && !strpbrk(word, "= :") &&
	       is_secret_name(word, strlen(word), &is_head);
}

static int redact_user(json_t *word)
{
	const char *text = json_string_value(word), *colon = strchr(text, ':');

	if (!colon || !colon[1])
		return 0;
	auto_buf struct buf out = BUF_INIT(strlen(text) + 8);
	if (buf_add(&out, text, (size_t)(colon + 1 - text)) < 0 || buf_addz(&out, REDACTED) < 0)
		return -ENOMEM;
	return json_string_set(word, buf_str(&out)) < 0 ? -ENOMEM : 0;
}

static int redact_array(struct redact *r, json_t *array)
{
	bool is_hidden = false, is_user = false;
	json_t *item;
	size_t i;

	json_array_foreach (array, i, item) {
		const char *text = json_string_value(item);
		int x = 0;
		bool next = text && hides_next(text);
		bool next_user = text && (!strcmp(text, "-u") || !strcmp(text, "--user"));

		if (text && is_hidden && *text != '-')
			x = json_string_set(item, REDACTED) < 0 ? -ENOMEM : 0;
		else if (text && is_user)
			x = redact_user(item);
		else
			x = redact_json(r, item);
		if (x < 0)
			return x;
		is_hidden = next;
		is_user = next_user;
	}
	return 0;
}

static int redact_object(struct redact *r, json_t *object)
{
	const char *name;
	json_t *item;
	void *next;

	json_object_foreach_safe(object, next, name, item)
	{
		bool is_head, is_scalar = !json_is_object(item) && !json_is_array(item);
		int x = 0;

		if (is_scalar && !json_is_null(item) && !json_is_boolean(item) &&
			is_secret_name(name, strlen(name), &is_head))
			x = json_object_set_new(object, name, json_string(REDACTED)) < 0 ? -ENOMEM
											 : 0;
		else
			x = redact_json(r, item);
		if (x < 0)
			return x;
	}
	return 0;
}

int redact_json(struct redact *r, json_t *value)
{
	if (json_is_string(value))
		return redact_string(r, value);
	if (json_is_array(value))
		return redact_array(r, value);
	return json_is_object(value) ? redact_object(r, value) : 0;
}
