/* SPDX-License-Identifier: Apache-2.0 */
/* cell signal: send a signal to commands of a cell. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/find.h"
#include "cli/output.h"
#include "cli/signals.h"

static int which_signal(const struct cli_args *args, int *ret, struct cell_error *err)
{
	const char *word = cli_args_value(args, "signal");

	*ret = word ? cli_signal_number(word) : SIGTERM;
	if (*ret > 0)
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "signal: '%.40s' is no signal", word);
	return cell_error_hint(err, -EINVAL, "write it like TERM, SIGKILL or 9");
}

static int send_signal(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	json_t *sent;
	int number;

	if (cli_args_count(args, 1, CLI_MANY, &err) < 0 || which_signal(args, &number, &err) < 0 ||
		cli_cell_open(args->operands[0], &c, &err) < 0)
		return cli_fail(cli, &err);
	sent = json_array();
	for (size_t i = 1; i == 1 || i < args->n_operands; i++) {
		struct cli_found found;
		if (cli_find_exec(c, args->operands[i], true, &found, &err) < 0 ||
			cells->signal(c, found.id, number, cli_args_has(args, "tree"), &err) < 0) {
			json_decref(sent);
			return cli_fail(cli, &err);
		}
		cli_tell(cli, "%s sent to %s", cli_signal_name(number), found.id);
		json_array_append_new(sent, json_string(found.id));
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:i, s:o}", "signal", number, "sent", sent));
	json_decref(sent);
	return CLI_EXIT_OK;
}

static const struct cli_option options[] = {
	{"signal", 's', "SIGNAL", "which one: KILL, 9, ... (default: TERM)", .kind = CLI_SIGNAL},
	{"tree", 0, NULL, "every descendant, not only the command's process group"},
	{0},
};

const struct cli_verb cli_verb_signal = {
	.name = "signal",
	.usage = "[OPTION...] CELL [ID...]",
	.summary = "send a signal to commands of a cell",
	.about =
		"Sends a signal to the process group of each command, or with --tree to everything "
		"it started. ID may be left out when one command runs.",
	.examples = "cell signal web\n"
		    "cell signal -s KILL --tree web 5f3a",
	.groups = {options},
	.operands = {CLI_CELL, CLI_EXEC},
	.head = CLI_NO_COMMAND,
	.run = send_signal,
};
