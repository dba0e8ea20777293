/* SPDX-License-Identifier: Apache-2.0 */
/* copy_arg.h: what an operand of `cell cp` means. Pure. */
#pragma once
#include <stddef.h>

#include "cell/cell.h"

#include "base/error.h"

enum cli_place {
	CLI_PLACE_HOST,
	CLI_PLACE_CELL,
	CLI_PLACE_STDIO, /* "-" */
};

struct cli_copy_arg {
	enum cli_place place;
	char cell[CELL_NAME_MAX];
	const char *path; /* borrowed from the word; "." for "CELL:" */
};

/* "CELL:PATH" is in a cell when what stands before the first colon could name one, so "./a:b" and
 * "/a:b" are files of the host. CELL_EINVAL for an empty word. */
int cli_copy_arg_parse(const char *word, struct cli_copy_arg *ret, struct cell_error *err);

/* Sources first, target last. CELL_EINVAL when the two ends do not go together. */
int cli_copy_args_check(const struct cli_copy_arg *args, size_t n, struct cell_error *err);

/* The last name of a path: "a/b/" gives "b". "" for "/", ".", ".." and paths ending so: they have
 * no name that could be given to a copy. Writes into `out`. */
const char *cli_copy_name(const char *path, char *out, size_t size);
