/* SPDX-License-Identifier: Apache-2.0 */
/* find.h: which of a cell's commands is meant. */
#pragma once
#include <stdbool.h>

#include "cell/cell.h"

#include "base/error.h"

struct cli;
struct cli_args;

struct cli_found {
	char id[CELL_EXEC_ID_MAX];
	bool is_tty;
	bool is_code; /* a run of code */
	enum cell_exec_state state;
};

/* `word` is an id or its unambiguous beginning. NULL: the only one that runs; when
 * is_running_wanted is false and none runs, the one started last. */
int cli_find_exec(struct cell *c, const char *word, bool is_running_wanted, struct cli_found *ret,
	struct cell_error *err);

/* The exit code, or a negative errno with err. */
typedef int (*cli_exec_fn)(struct cli *cli, const struct cli_args *args, struct cell *c,
	const struct cli_found *found, struct cell_error *err);
/* For verbs whose operands are a cell and, perhaps, one of its commands. A signal ends the search, and is fn's from then on. */
int cli_on_exec(struct cli *cli, const struct cli_args *args, bool is_running_wanted,
	cli_exec_fn fn);
