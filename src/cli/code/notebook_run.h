/* SPDX-License-Identifier: Apache-2.0 */
/* notebook_run.h: a notebook's code cells, one after the other, in one context. */
#pragma once
#include "cli/code/job.h"
#include "cli/code/notebook.h"

struct notebook_run {
	const struct cli *cli;
	struct cell *cell;
	struct cell_code_opts opts; /* of each cell: language, context, timeout */
	const char *context;
	bool is_sole, goes_on; /* past errors */
	unsigned n_run, n_failed;
};

/* The exit code: of the first cell that failed. Negative on an error. */
int notebook_run(struct notebook_run *r, struct notebook *nb, struct cell_error *err);
