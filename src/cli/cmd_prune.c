/* SPDX-License-Identifier: Apache-2.0 */
/* cell prune: remove what crashed processes left behind. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/output.h"
#include "cli/signals.h"

struct pruned {
	const struct cli *cli;
	json_t *list;
};

static int note(const struct cell_info *info, void *user)
{
	struct pruned *p = user;

	if (p->cli->is_json)
		json_array_append_new(p->list, json_string(info->name));
	else if (p->cli->is_quiet)
		cli_print_line(info->name);
	else {
		(void)fputs("removed ", stdout);
		cli_print_name(info->name);
		printf(" (%s)\n", cli_state_name(info->state));
	}
	return 0;
}

static int prune(struct cli *cli, const struct cli_args *args)
{
	struct pruned p = {.cli = cli};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	p.list = json_array();
	if (cells->prune(note, &p, &err) < 0) {
		json_decref(p.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "removed", p.list));
	json_decref(p.list);
	return cli_flush(cli);
}

const struct cli_verb cli_verb_prune = {
	.name = "prune",
	.usage = "",
	.summary = "remove what crashed processes left behind",
	.about = "Removes dead cells, half-made ones, and ephemeral ones whose command is gone. "
		 "Cells "
		 "that work are never touched.",
	.examples = "cell prune\n"
		    "cell prune --json",
	.head = CLI_NO_COMMAND,
	.run = prune,
};
