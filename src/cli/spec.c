/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c: from configuration files, environment and flags to the cell that was asked for. Each flag
 * is one configuration key; what values mean is the configuration's business, not ours. */
#include "cli/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/memory.h"

char *cli_absolute(const char *path)
{
	auto_free char *cwd = NULL;

	if (*path == '/' || *path == '~' || !(cwd = getcwd(NULL, 0)))
		return cli_strdup(path);
	if (!strncmp(path, "./", 2))
		path += 2;
	if (!*path || !strcmp(path, "."))
		return steal_ptr(cwd);
	return cli_format("%s%s%s", cwd, cwd[1] ? "/" : "", path);
}

int cli_env_value(const char *given, char **ret, struct cell_error *err)
{
	const char *value;

	if (strchr(given, '=')) {
		*ret = cli_strdup(given);
		return 0;
	}
	value = getenv(given);
	if (!value) {
		cell_fail(err, CELL_EINVAL, 0, "--env '%.80s': this variable is not set here",
			given);
		return cell_error_hint(err, -EINVAL, "write --env %.80s=VALUE", given);
	}
	*ret = cli_format("%s=%s", given, value);
	return 0;
}

void cli_strings_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

int cli_env_list(const struct cli_args *args, char ***ret, struct cell_error *err)
{
	auto_free const char **given = cli_args_values(args, "env");
	size_t n = 0;
	char **list;

	while (given[n])
		n++;
	list = cli_calloc(n + 1, sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		int r = cli_env_value(given[i], &list[i], err);
		if (r < 0) {
			cli_strings_free(list);
			return r;
		}
	}
	*ret = list;
	return 0;
}

/* Is it one of the words, separated by spaces, an option takes besides files? */
static bool is_choice(const char *choices, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = choices; n && p && *p; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");
		if (len == n && !strncmp(p, word, n))
			return true;
		p += len;
	}
	return false;
}

/* What the configuration is to be told: paths of flags begin at the current directory, a variable
 * without value is the host's. */
static int flag_value(const struct cli_given *g, char **ret, struct cell_error *err)
{
	const struct cli_option *o = g->option;

	if (!g->value) {
		*ret = cli_strdup(o->fixed ? o->fixed : "true");
		return 0;
	}
	if (!strcmp(o->key, "env"))
		return cli_env_value(g->value, ret, err);
	if (!strcmp(o->key, "limits.best_effort") && !strcmp(g->value, "best-effort"))
		*ret = cli_strdup("true");
	else if (!strcmp(o->key, "limits.best_effort") && !strcmp(g->value, "strict"))
		*ret = cli_strdup("false");
	else if (is_choice(o->choices, g->value))
		*ret = cli_strdup(g->value);
	else if (o->kind == CLI_DIRECTORY || o->kind == CLI_FILE)
		*ret = *g->value ? cli_absolute(g->value) : cli_strdup("");
	else
		*ret = cli_strdup(g->value);
	return 0;
}

static int set_flags(struct cell_config *cfg, const struct cli_args *args, struct cell_error *err)
{
	for (size_t i = 0; i < args->n_given; i++) {
		const struct cli_given *g = &args->given[i];
		auto_free char *value = NULL;
		char origin[64];
		int r;
		if (!g->option->key)
			continue;
		snprintf(origin, sizeof(origin), "--%s", g->option->name);
		r = flag_value(g, &value, err);
		if (r == 0)
			r = cell_config_set(cfg, g->option->key, value, origin, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int cli_spec_load(const struct cli *cli, const struct cli_args *args, struct cell_config **ret_cfg,
	const struct cell_spec **ret_spec, struct cell_error *err)
{
	struct cell_config_args how = {.path = cli->config_path, .no_files = cli->no_config};
	const char *workspace = cli_args_value(args, "workspace");
	struct cell_config *cfg = NULL;
	struct stat st;
	int r;

	/* One that is not there is told of when the cell is made, not as a missing configuration. */
	if (workspace && stat(workspace, &st) == 0 && S_ISDIR(st.st_mode))
		how.directory = workspace;
	r = cell_config_load(&how, &cfg, err);
	if (r < 0)
		return r;
	r = set_flags(cfg, args, err);
	if (r == 0 && ret_spec)
		r = cell_config_spec(cfg, ret_spec, err);
	if (r < 0) {
		cell_config_free(cfg);
		return r;
	}
	*ret_cfg = cfg;
	return 0;
}
