/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h: from configuration files, environment and flags to the cell that was asked for. */
#pragma once
#include "base/error.h"
#include "cli/args.h"
#include "cli/cli.h"

/* Load the configuration and set what the flags say. The spec is valid as long as *ret_cfg;
 * ret_spec may be NULL. Caller frees *ret_cfg. */
int cli_spec_load(const struct cli *cli, const struct cli_args *args, struct cell_config **ret_cfg,
	const struct cell_spec **ret_spec, struct cell_error *err);

/* "K=V" as it is; "K" with the value this process has. CELL_EINVAL when it has none. Caller frees.
 */
int cli_env_value(const char *given, char **ret, struct cell_error *err);
/* "NAME=VALUE" of every --env, NULL-terminated. Free with cli_strings_free(). */
int cli_env_list(const struct cli_args *args, char ***ret, struct cell_error *err);
void cli_strings_free(char **list);

/* The path from the root; relative ones begin at the current directory. Caller frees. */
char *cli_absolute(const char *path);

/* For auto_(). */
static inline void cli_config_freep(struct cell_config **cfg)
{
	cell_config_free(*cfg);
}

static inline void cli_strings_freep(char ***list)
{
	cli_strings_free(*list);
}
