/* SPDX-License-Identifier: Apache-2.0 */
/* repl.h: code typed at a terminal, piece by piece, in one context. */
#pragma once
#include "cli/code/job.h"

struct code_repl {
	const struct cli *cli;
	struct cell *cell;
	const char *language, *context;
	struct cell_code_opts opts; /* of each run */
	struct code_screen *screen;
	bool is_sole; /* the cell is gone when we are */
};

/* Until the user leaves: the exit code; negative on an error. */
int code_repl_run(struct code_repl *r, struct cell_error *err);
