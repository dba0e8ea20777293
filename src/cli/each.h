/* SPDX-License-Identifier: Apache-2.0 */
/* each.h: verbs that do the same to several cells or snapshots. */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "cli/cli.h"

typedef int (*cli_each_fn)(const char *name, struct cell_error *err);

/* Do it to each. One that fails does not keep the others; every failure is said, with --json the first alone. `done` is what was done to them:
 * "removed". Returns the exit code. */
int cli_each(const struct cli *cli, const char *const *names, size_t n, cli_each_fn fn,
	const char *done);
/* The same with the operands, of which there must be some. */
int cli_each_operand(const struct cli *cli, const struct cli_args *args, cli_each_fn fn,
	const char *done);
