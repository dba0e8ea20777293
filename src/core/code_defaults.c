/* SPDX-License-Identifier: Apache-2.0 */
/* code_defaults.c: see code_defaults.h. */
#include "core/code_defaults.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "core/contract.h"
#include "core/record.h"

/* As the executors of the same names have it. */
#define PROCESS_MS   120000
#define CONTAINER_MS 60000

static uint64_t usual_ms(const struct cell *c)
{
	const struct cell_backend *b = cell_chain_place(c->chain);

	return !strcmp(b->name, "subprocess") || !strcmp(b->name, "local") ? PROCESS_MS
									   : CONTAINER_MS;
}

int code_defaults_set(struct cell *c, const struct cell_spec *spec)
{
	uint64_t ms = spec->code_timeout_ms;

	if (!ms)
		ms = spec->timeout_ms ? spec->timeout_ms : usual_ms(c);
	c->code_timeout_ms = ms == CELL_NO_TIMEOUT ? 0 : ms;
	int r = cell_record_set_int(c->record, "code_timeout_ms", (int64_t)c->code_timeout_ms);
	if (r == 0 && spec->languages && *spec->languages)
		r = cell_record_set_list(c->record, "languages", spec->languages);
	if (r == 0 && spec->databases && *spec->databases)
		r = cell_record_set_list(c->record, "databases", spec->databases);
	return r ? -ENOMEM : code_defaults_load(c);
}

int code_defaults_load(struct cell *c)
{
	c->code_timeout_ms = (uint64_t)cell_record_int(c->record, "code_timeout_ms", 0);
	cell_record_list_free(&c->languages);
	cell_record_list_free(&c->databases);
	int r = 0;
	if (json_object_get(c->record, "languages"))
		r = cell_record_list(c->record, "languages", &c->languages);
	if (r == 0 && json_object_get(c->record, "databases"))
		r = cell_record_list(c->record, "databases", &c->databases);
	return r;
}

uint64_t code_deadline_ms(const struct cell *c, const struct cell_code_opts *opts)
{
	if (opts->timeout_ms || opts->is_detached || opts->with_input)
		return opts->timeout_ms;
	return c->code_timeout_ms;
}

static const char *canonical(const char *word)
{
	static const char *const names[][4] = {{"python", "py", "python3", NULL},
		{"javascript", "js", "node", NULL}, {"shell", "bash", "sh", NULL},
		{"sql", "sqlite", NULL, NULL}};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (size_t k = 0; k < 4 && names[i][k]; k++)
			if (!strcmp(word, names[i][k]))
				return names[i][0];
	return word;
}

int code_check_language(const struct cell *c, const char *language, const char *context,
	struct cell_error *err)
{
	auto_buf struct buf all = BUF_INIT(256);

	if (!c->languages || (!language && context)) /* who made the context was asked */
		return 0;
	const char *name = canonical(language ? language : "python");
	for (char **l = c->languages; *l; l++) {
		if (!strcmp(*l, name))
			return 0;
		(void)buf_addf(&all, "%s%s", all.len ? ", " : "", *l);
	}
	int r = cell_fail(err, CELL_EDENIED, EACCES,
		"run code: this cell runs no %.32s: kernels.languages", name);
	return cell_error_hint(err, r, "it runs %s", buf_str(&all));
}

/* "scheme://user:password@host/name" against "scheme://host/name": the same to the byte but for who asks. What stands behind
 * a '?' could name another server, so it counts. */
static bool is_granted(const char *url, const char *grant)
{
	const char *rest = strstr(url, "://");
	size_t scheme = rest ? (size_t)(rest + 3 - url) : 0;

	if (!strcmp(grant, "*"))
		return true;
	if (!rest || strncmp(url, grant, scheme) != 0)
		return false;
	rest += 3;
	size_t authority = strcspn(rest, "/?#");
	for (const char *at; (at = memchr(rest, '@', authority));) {
		authority -= (size_t)(at + 1 - rest);
		rest = at + 1;
	}
	return !strcmp(rest, grant + scheme);
}

int code_check_database(const struct cell *c, const char *database, struct cell_error *err)
{
	if (!database || !strstr(database, "://"))
		return 0;
	for (char **d = c->databases; d && *d; d++)
		if (is_granted(database, *d))
			return 0;
	/* not the URL: there may be a password in it */
	int r = cell_fail(err, CELL_EDENIED, 0,
		"make a context: this cell may not connect to that database server");
	return cell_error_hint(err, r,
		"kernels.databases in the configuration grants it: its URL without user and "
		"password; a network "
		"that reaches it is needed, too");
}
