/* SPDX-License-Identifier: Apache-2.0 */
/* help.h: help texts, and finding verbs by name. */
#pragma once
#include "base/error.h"
#include "cli/cli.h"

/* Print; return the exit code. */
int cli_help_verb(const struct cli *cli, const struct cli_verb *verb);
int cli_help_all(const struct cli *cli);

/* The verb of that name. CELL_EINVAL with the nearest one as the hint. `of` is the verb whose table
 * it is, NULL for the main one; `verbs` may be NULL. */
int cli_verb_find(const struct cli_verb *const *verbs, const struct cli_verb *of, const char *name,
	const struct cli_verb **ret, struct cell_error *err);
