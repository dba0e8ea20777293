/* SPDX-License-Identifier: Apache-2.0 */
/* place.h: the cell that code is run in: a fresh one, or one that is named and stays. */
#pragma once
#include "cell/config.h"

#include "cli/args.h"
#include "cli/cells.h"
#include "cli/cli.h"

struct code_place {
	struct cell *cell;
	bool is_kept; /* it stays when we go */
	struct cell_config *cfg;
};

/* --session NAME: that cell, made from the other options when it is not there. Else a fresh one. Signals must have been caught. */
int code_place_open(const struct cli *cli, const struct cli_args *args, struct code_place *ret,
	struct cell_error *err);
void code_place_close(const struct cli *cli, struct code_place *p);
