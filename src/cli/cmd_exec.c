/* SPDX-License-Identifier: Apache-2.0 */
/* cell exec: run a command in a named cell. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/host_env.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/spec.h"

static int check_operands(const struct cli_args *args, struct cell_error *err)
{
	bool has_line = cli_args_value(args, "shell") != NULL;

	if (!args->n_head) {
		cell_fail(err, CELL_EINVAL, 0, "exec: no cell given");
		return cell_error_hint(err, -EINVAL, "example: cell exec NAME -- echo hello");
	}
	if (has_line == (args->n_operands == 1))
		return 0;
	if (has_line)
		cell_fail(err, CELL_EINVAL, 0,
			"exec: --shell LINE and a command exclude each other");
	else
		cell_fail(err, CELL_EINVAL, 0, "exec: no command given");
	return cell_error_hint(err, -EINVAL, "example: cell exec %s -- echo hello",
		args->operands[0]);
}

static int exec(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	auto_(cli_strings_freep) char **env = NULL;
	struct cell_error err = {0};
	struct cli_command cmd;
	struct cell_exec_opts opts = {.shell = cli_args_value(args, "shell"),
		.id = cli_args_value(args, "id"),
		.cwd = cli_args_value(args, "cwd"),
		.user = cli_args_value(args, "user")};
	json_t *result = NULL;
	int code;

	if (check_operands(args, &err) < 0 || cli_command_from_args(cli, args, &cmd, &err) < 0 ||
		cli_args_duration_ms(args, "timeout", 0, &opts.timeout_ms, &err) < 0 ||
		cli_args_size(args, "keep-output", 0, &opts.keep_bytes, &err) < 0 ||
		cli_host_env(args, &env, &err) < 0)
		return cli_fail(cli, &err);
	if (!opts.shell)
		opts.argv = args->operands + 1;
	opts.env = (const char *const *)env;
	cmd.is_detached = cli_args_has(args, "detach");
	cmd.is_joinable = true;

	cli_signals_catch();
	cli_signals_patience(1);
	if (cli_cell_open(args->operands[0], &c, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_patience(CLI_PATIENT);
	code = cli_command_run(cli, &cmd, c, &opts, &result, &err);
	if (code < 0)
		return cli_fail(cli, &err);
	if (result) {
		int r = cli_print_json(cli, result);
		return r ? r : code;
	}
	return code;
}

static const struct cli_option options[] = {
	{"detach", 'd', NULL, "print the command's id and leave it running"},
	{"timeout", 0, "TIME", "end it after this: TERM, then KILL (1s, 5m); see --grace"},
	{"env", 'e', "NAME[=VALUE]", "set a variable, or pass on the host's; may be repeated"},
	{"env-from", 0, "POLICY",
		"what of the host's environment passes: all, core or none; secrets never do",
		.kind = CLI_CHOICE, .choices = "all core none"},
	{"cwd", 'C', "DIR", "directory to start in, relative to the workspace"},
	{"user", 'u', "USER", "a name or UID[:GID] in the cell"},
	{"id", 0, "ID", "give the command this id; a second start with it is refused"},
	{"keep-output", 0, "SIZE", "how much output is kept for later readers, per stream"},
	{0},
};

const struct cli_verb cli_verb_exec = {
	.name = "exec",
	.usage = "[OPTION...] CELL [--] COMMAND [ARGUMENT...]",
	.summary = "run a command in a cell",
	.about =
		"Runs COMMAND in the cell CELL. Streams, signals, exit code and --json are as for "
		"'cell run'. With --detach the command goes on by itself: its id is printed, 'cell "
		"logs' shows its output and 'cell attach' joins it.\n"
		"\n"
		"In a terminal (-t), Ctrl-] three times within a second leaves the command "
		"running.",
	.examples = "cell exec web -- ls -l\n"
		    "cell exec -t web -- bash\n"
		    "cell exec --detach web -- python3 -m http.server\n"
		    "echo 'select 1' | cell exec --timeout 5s db -- sqlite3 data.db",
	.groups = {options, cli_command_options},
	.operands = {CLI_CELL, CLI_COMMAND},
	.head = 1,
	.run = exec,
};
