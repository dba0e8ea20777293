/* SPDX-License-Identifier: Apache-2.0 */
/* cell pause, cell resume: let cells stand still, and go on. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/cells.h"
#include "cli/output.h"
#include "cli/signals.h"

/* One that fails does not keep the others; the first failure is the answer. */
static int each(struct cli *cli, const struct cli_args *args,
	int (*fn)(const char *name, struct cell_error *err), const char *done)
{
	struct cell_error err = {0};
	json_t *list = json_array();
	bool is_failed = cli_args_count(args, 1, CLI_MANY, &err) < 0;

	cli_signals_catch();
	cli_signals_patience(1);
	if (is_failed)
		cli_fail(cli, &err);
	for (size_t i = 0; i < args->n_operands && !(is_failed && cli->is_json); i++) {
		struct cell_error one = {0};
		if (fn(args->operands[i], &one) < 0) {
			cli_fail(cli, &one);
			is_failed = true;
			continue;
		}
		json_array_append_new(list, json_string(args->operands[i]));
		cli_tell(cli, "%s %s", done, args->operands[i]);
	}
	if (cli->is_json && !is_failed)
		return cli_print_json(cli, json_pack("{s:o}", done, list));
	json_decref(list);
	return is_failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int pause_cells(struct cli *cli, const struct cli_args *args)
{
	return each(cli, args, cells->pause, "paused");
}

static int resume_cells(struct cli *cli, const struct cli_args *args)
{
	return each(cli, args, cells->resume, "resumed");
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
