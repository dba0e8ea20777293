/* SPDX-License-Identifier: Apache-2.0 */
/* cell pause, cell resume: let cells stand still, and go on. */
#include "cli/cells.h"
#include "cli/each.h"

static int pause_cells(struct cli *cli, const struct cli_args *args)
{
	return cli_each_operand(cli, args, cells->pause, "paused");
}

static int resume_cells(struct cli *cli, const struct cli_args *args)
{
	return cli_each_operand(cli, args, cells->resume, "resumed");
}

const struct cli_verb cli_verb_pause = {
	.name = "pause",
	.usage = "CELL...",
	.summary = "let everything in a cell stand still",
	.about = "Stops every process of the cell where it is, without it noticing; memory and "
		 "files stay. Nothing runs in it, and no command can be given to it, until 'cell "
		 "resume'. "
		 "Deadlines run on: a command that is overdue by then ends when the cell goes on. "
		 "Needs a back end that promises 'pause': see 'cell backends'.",
	.examples = "cell pause web",
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = pause_cells,
};

const struct cli_verb cli_verb_resume = {
	.name = "resume",
	.usage = "CELL...",
	.summary = "let a paused cell go on",
	.about = "What 'cell pause' stopped goes on where it was. Does nothing to a cell that is "
		 "not "
		 "paused.",
	.examples = "cell resume web",
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = resume_cells,
};
