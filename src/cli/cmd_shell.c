/* SPDX-License-Identifier: Apache-2.0 */
/* cell shell: an interactive shell, in a named cell or in a fresh one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/spec.h"

static int note_tool(const char *name, const char *path, void *user)
{
	bool *has_bash = user;

	if (!strcmp(name, "bash") && *path)
		*has_bash = true;
	return 0;
}

/* bash where the cell has it. A cell that cannot say gets sh. */
static const char *choose_shell(struct cell *c, const struct cli_args *args)
{
	static const char *const names[] = {"bash", NULL};
	const char *asked = cli_args_value(args, "program");
	bool has_bash = false;

	if (asked)
		return asked;
	(void)cells->tools(c, names, note_tool, &has_bash, NULL);
	return has_bash ? "bash" : "sh";
}

static int enter(struct cli *cli, const struct cli_args *args, struct cell *c,
	struct cell_error *err)
{
	struct cli_command cmd = {.is_tty = isatty(STDIN_FILENO),
		.has_stdin = true,
		.is_joinable = args->n_operands > 0};
	const char *argv[] = {choose_shell(c, args), NULL};
	struct cell_exec_opts opts = {.argv = argv};
	json_t *result = NULL;
	int code = cli_command_run(cli, &cmd, c, &opts, &result, err);

	json_decref(result);
	return code;
}

static int open_cell(const struct cli *cli, const struct cli_args *args, struct cell **ret,
	struct cell_error *err)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	const struct cell_spec *spec;
	int r;

	if (args->n_operands) {
		for (size_t i = 0; i < args->n_given; i++)
			if (args->given[i].option->key) {
				cell_fail(err, CELL_EINVAL, 0,
					"shell: --%s is for a fresh cell, but '%.64s' is there "
					"already",
					args->given[i].option->name, args->operands[0]);
				return cell_error_hint(err, -EINVAL,
					"give either the name of a cell or options of a new one");
			}
		return cli_cell_open(args->operands[0], ret, err);
	}
	r = cli_spec_load(cli, args, &cfg, &spec, err);
	return r < 0 ? r : cli_cell_make(cli, spec, ret, err);
}

static int shell(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0}, end_err = {0};
	struct cell *c = NULL;
	int code, r;

	if (cli->is_json) {
		cell_fail(&err, CELL_EINVAL, 0, "shell: an interactive shell has no JSON form");
		cell_error_hint(&err, 0, "cell run --json or cell exec --json run a command");
		return cli_fail(cli, &err);
	}
	if (cli_args_count(args, 0, 1, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	if (open_cell(cli, args, &c, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_patience(CLI_PATIENT);
	cli_tell_degraded(cli, c);
	code = enter(cli, args, c, &err);
	/* A fresh cell without a name is removed by closing it. */
	r = cells->close(c, &end_err);
	if (code < 0)
		return cli_fail(cli, &err);
	if (r < 0)
		cli_fail(cli, &end_err);
	return code;
}

static const struct cli_option options[] = {
	{"program", 0, "SHELL", "which shell (default: bash where there is one, else sh)"},
	{0},
};

const struct cli_verb cli_verb_shell = {
	.name = "shell",
	.usage = "[OPTION...] [CELL]",
	.summary = "open a shell in a cell",
	.about = "Opens an interactive shell: in the cell CELL, or in a fresh one made from the "
		 "configuration and the options, which is removed when the shell ends. When stdin "
		 "is "
		 "not a terminal, the shell reads its commands from it.\n"
		 "\n"
		 "Ctrl-] three times within a second leaves a shell that does not end.",
	.examples = "cell shell\n"
		    "cell shell web\n"
		    "cell shell --network none -w ./project\n"
		    "cell shell --program 'python3' web",
	.groups = {options, cli_spec_options},
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = shell,
};
