/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.c: what an image says about commands run from it, laid under what the spec says: as
 * `docker run` does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/env.h"
#include "core/record.h"

/* An image is foreign: what is no variable is passed over, as Docker does. */
static bool is_variable(const char *text)
{
	return *text && *text != '=' && strchr(text, '=');
}

static size_t count(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static int take_env(struct cell *c, const struct cell_spec *spec, const char *const *env,
	struct cell_error *err)
{
	size_t n_env = count(env), n_spec = count(spec->env), n = 0;
	char **composed = NULL;

	if (!n_env)
		return 0;
	auto_free const char **all = calloc(n_env + n_spec + 1, sizeof *all);
	if (!all)
		return cell_fail_errno(err, ENOMEM, "take over the image's environment");
	for (size_t i = 0; i < n_env; i++)
		if (is_variable(env[i]))
			all[n++] = env[i];
	for (size_t i = 0; i < n_spec; i++)
		all[n++] = spec->env[i];
	int r = cell_env_compose(spec->env_from, environ, all, &composed, err);
	if (r < 0)
		return r;
	cell_env_free(c->env);
	c->env = composed;
	if (cell_record_set_list(c->record, "env", (const char *const *)c->env) < 0)
		return cell_fail_errno(err, ENOMEM, "take over the image's environment");
	return 0;
}

int cell_take_defaults(struct cell *c, const struct cell_spec *spec, const char *const *env,
	const char *cwd, struct cell_error *err)
{
	int r = take_env(c, spec, env, err);

	/* a workspace of the host was given to be worked in */
	if (r < 0 || spec->cwd || spec->workspace || !cwd || *cwd != '/')
		return r;
	char *copy = strdup(cwd);
	if (!copy || cell_record_set_str(c->record, "cwd", cwd) < 0) {
		free(copy);
		return cell_fail_errno(err, ENOMEM, "take over the image's directory");
	}
	free(c->cwd);
	c->cwd = copy;
	return 0;
}
