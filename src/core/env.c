/* SPDX-License-Identifier: Apache-2.0 */
/* env.c: composing the environment of commands; env.h says what passes. */
#include "core/env.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* Shell patterns, case ignored. Generous: a variable too few is noticed, a secret too many is not.
 */
static const char *const secrets[] = {
	"*API_KEY*",
	"*APIKEY*",
	"*_KEY",
	"*_KEYS",
	"*PRIVATE_KEY*",
	"*PRIVATEKEY*",
	"*ACCESS_KEY*",
	"*ACCESSKEY*",
	"*SECRET*",
	"*TOKEN",
	"*_TOKEN_*",
	"TOKEN_*",
	"*PASSWORD*",
	"*PASSWD*",
	"*PASSPHRASE*",
	"*_PASS",
	"PASS",
	"*_PWD",
	"*CREDENTIAL*",
	"*_CREDS",
	"CREDS",
	"*_PAT",
	"*_AUTH",
	"*_JWT",
	"JWT",
	"*BEARER*",
	"*_COOKIE",
	"*_DSN",
	"DSN",
	"*CONNECTION_STRING*",
	"*CONNECTIONSTRING*",
	"DATABASE_URL",
	"*_DATABASE_URL",
	"*_WEBHOOK_URL",
	"KUBECONFIG",
	"DOCKER_AUTH_CONFIG",
	"NETRC",
	"VAULT_*",
	"KRB5CCNAME",
	"XAUTHORITY",
	/* ways to an agent that holds secrets */
	"SSH_AUTH_SOCK",
	"GPG_AGENT_INFO",
	"DBUS_SESSION_BUS_ADDRESS",
	"DBUS_STARTER_ADDRESS",
	/* make programs load or run code */
	"LD_*",
	"DYLD_*",
	"GLIBC_TUNABLES",
	"GCONV_PATH",
	"LOCPATH",
	"NLSPATH",
	"BASH_ENV",
	"ENV",
	"BASH_FUNC_*",
	"SHELLOPTS",
	"BASHOPTS",
	"PROMPT_COMMAND",
	"IFS",
	"PS4",
	"PYTHONSTARTUP",
	"PYTHONHOME",
	"PERL5OPT",
	"PERL5DB",
	"RUBYOPT",
	"NODE_OPTIONS",
	"JAVA_TOOL_OPTIONS",
	"_JAVA_OPTIONS",
};

static const char *const core_names[] = {"PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM",
	"COLORTERM", "NO_COLOR", "SHELL", "USER", "LOGNAME"};

/* True of the caller's place, not of the command's. */
static const char *const caller_names[] = {
	"HOME", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "TMP", "TEMP", "XDG_*"};

#define MATCHES(list, name) matches(list, sizeof(list) / sizeof(list)[0], name)

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Of letters small and large, with * for any text. Not fnmatch(): that knows every script, and takes a tenth of a millisecond for
 * all that an audit record asks it. */
static bool is_like(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (lower(*pattern) == lower(*name)) {
			pattern++;
			name++;
		} else if (star) { /* the star takes one more */
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool matches(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (is_like(list[i], name))
			return true;
	return false;
}

bool cell_env_is_secret(const char *name)
{
	return MATCHES(secrets, name);
}

/* scheme://user:password@host, or a private key in PEM. */
static bool holds_credentials(const char *value)
{
	for (const char *p = value; (p = strstr(p, "://"));) {
		p += 3;
		size_t n = strcspn(p, "/?# \t\n");
		const char *at = memrchr(p, '@', n);
		const char *colon = at ? memchr(p, ':', (size_t)(at - p)) : NULL;
		if (colon && colon + 1 < at)
			return true;
	}
	return strstr(value, "PRIVATE KEY-----") != NULL;
}

struct entry {
	const char *text; /* borrowed */
	size_t name_len;
	size_t order;
	bool is_dropped;
};

struct list {
	struct entry *entries;
	size_t n, cap;
};

static int add(struct list *l, const char *text)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 32;
		struct entry *entries = reallocarray(l->entries, cap, sizeof *entries);
		if (!entries)
			return -ENOMEM;
		l->entries = entries;
		l->cap = cap;
	}
	l->entries[l->n] =
		(struct entry){.text = text, .name_len = strcspn(text, "="), .order = l->n};
	l->n++;
	return 0;
}

static bool does_pass(enum cell_env_from from, const char *text)
{
	size_t n = strcspn(text, "=");
	char name[256];

	if (from == CELL_ENV_NONE || !n || !text[n] || n >= sizeof name)
		return false;
	memcpy(name, text, n);
	name[n] = '\0';
	if (from == CELL_ENV_CORE && !MATCHES(core_names, name))
		return false;
	return !cell_env_is_secret(name) && !MATCHES(caller_names, name) &&
	       !holds_credentials(text + n + 1);
}

static int by_name(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
	size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
	int c = memcmp(x->text, y->text, n);

	if (c)
		return c;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* Of each name the last one stays. */
static int drop_overridden(struct list *l)
{
	auto_free struct entry **sorted = calloc(l->n + 1, sizeof(struct entry *));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		sorted[i] = &l->entries[i];
	qsort(sorted, l->n, sizeof(struct entry *), by_name);
	for (size_t i = 1; i < l->n; i++)
		if (sorted[i]->name_len == sorted[i - 1]->name_len &&
			!memcmp(sorted[i]->text, sorted[i - 1]->text, sorted[i]->name_len))
			sorted[i - 1]->is_dropped = true;
	return 0;
}

static int copy_out(const struct list *l, char ***ret)
{
	char **env = calloc(l->n + 1, sizeof(char *));
	size_t n = 0;

	if (!env)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++) {
		if (l->entries[i].is_dropped)
			continue;
		env[n] = strdup(l->entries[i].text);
		if (!env[n++]) {
			cell_env_free(env);
			return -ENOMEM;
		}
	}
	*ret = env;
	return 0;
}

void cell_env_free(char **env)
{
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
}

static void list_done(struct list *l)
{
	free(l->entries);
}

int cell_env_compose(enum cell_env_from from, char *const *host_env, const char *const *extra,
	char ***ret, struct cell_error *err)
{
	auto_(list_done) struct list l = {0};

	int r = add(&l, "PATH=" CELL_ENV_PATH);
	if (r == 0)
		r = add(&l, "LANG=" CELL_ENV_LANG);
	for (; r == 0 && host_env && *host_env; host_env++)
		if (does_pass(from, *host_env))
			r = add(&l, *host_env);
	for (; r == 0 && extra && *extra; extra++) {
		size_t n = strcspn(*extra, "=");
		if (!n || !(*extra)[n])
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0,
					"setting the environment: '%.60s' is not NAME=value",
					*extra),
				"write NAME=value");
		r = add(&l, *extra);
	}
	if (r == 0)
		r = drop_overridden(&l);
	if (r == 0)
		r = copy_out(&l, ret);
	return r < 0 ? cell_fail(err, CELL_ENOSPACE, -r, "composing the environment") : 0;
}
