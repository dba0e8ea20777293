/* SPDX-License-Identifier: Apache-2.0 */
/* host_env.c: --env and --env-from of `cell exec`. Which variables are secrets is the core's
 * judgement, the same as for a new cell. */
#include "cli/host_env.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/spec.h"
#include "core/env.h"

static int policy_of(const char *word, enum cell_env_from *ret, struct cell_error *err)
{
	static const char *const words[] = {
		[CELL_ENV_NONE] = "none", [CELL_ENV_CORE] = "core", [CELL_ENV_ALL] = "all"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i])) {
			*ret = (enum cell_env_from)i;
			return 0;
		}
	cell_fail(err, CELL_EINVAL, 0, "option '--env-from': '%.40s' is not known", word);
	return cell_error_hint(err, -EINVAL, "write all, core or none");
}

int cli_host_env(const struct cli_args *args, char ***ret, struct cell_error *err)
{
	const char *word = cli_args_value(args, "env-from");
	enum cell_env_from policy = CELL_ENV_NONE;
	char **named = NULL;
	int r = word ? policy_of(word, &policy, err) : 0;

	if (r == 0)
		r = cli_env_list(args, &named, err);
	if (r < 0)
		return r;
	if (policy == CELL_ENV_NONE) {
		*ret = named;
		return 0;
	}
	r = cell_env_compose(policy, environ, (const char *const *)named, ret, err);
	cli_strings_free(named);
	return r;
}
