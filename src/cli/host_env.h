/* SPDX-License-Identifier: Apache-2.0 */
/* host_env.h: what a command in an existing cell gets on top of the cell's own environment. */
#pragma once
#include "base/error.h"
#include "cli/args.h"

/* What --env and --env-from say, "K=V", NULL-terminated. Free with cli_strings_free(). */
int cli_host_env(const struct cli_args *args, char ***ret, struct cell_error *err);
