/* SPDX-License-Identifier: Apache-2.0 */
/* job.h: one piece of code in a cell, from its start to its end: events to a screen and to whoever gathers them, stdin to input(),
 * Ctrl-C as an interrupt. */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "cli/cells.h"
#include "cli/code/screen.h"

/* Lines of our stdin for input(). Shared by the runs of one process, so that nothing read ahead is lost. */
struct code_input {
	struct buf ahead;
	bool is_over;
};

struct code_job {
	/* set by the caller */
	const struct cli *cli;
	struct cell *cell;
	struct cell_code_opts opts; /* with_input is set here */
	const char *context;	    /* its name, for ending what does not stop */
	struct code_screen *screen; /* NULL: nothing is shown */
	/* Called for each event before it is shown; negative ends the looking. May be NULL. */
	int (*take)(const struct cell_code_event *e, void *user);
	void *user;
	struct code_input *input; /* NULL: input() finds nothing */
	const char *look_id; /* of a run that is there: only look at it; opts count for nothing */
	uint64_t look_from;  /* from this byte of its events on */
	bool is_following;   /* until it ends; else what there is */
	bool is_sole; /* the cell is for this run alone: what does not stop is ended with it */

	/* how it ended */
	struct cell_code_run *run;
	bool has_done;
	struct cell_code_done done;
	int stop_signal; /* what ended our patience, or 0 */
	bool is_broken;	 /* nobody reads our output any more */

	/* inside */
	unsigned n_stops;
	bool is_over, is_asked, is_hidden;
	uint64_t give_up_at_ms;
};

/* Signals must have been caught. Frees nothing: code_job_done(). */
int code_job_run(struct code_job *j, struct cell_error *err);
void code_job_done(struct code_job *j);
/* The exit code for this process, telling the user what is worth telling. has_failed: the code ended with an error. */
int code_job_exit(const struct code_job *j, bool has_failed);
