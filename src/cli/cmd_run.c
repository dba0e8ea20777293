/* SPDX-License-Identifier: Apache-2.0 */
/* cell run: make a cell, run one command in it, remove the cell. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/spec.h"

static int no_command(const struct cli_args *args, struct cell_error *err)
{
	if (cli_args_value(args, "shell")) {
		if (!args->n_operands)
			return 0;
		cell_fail(err, CELL_EINVAL, 0,
			"run: --shell LINE and a command exclude each other");
		return cell_error_hint(err, -EINVAL,
			"example: cell run --shell 'echo hello | wc -c'");
	}
	if (args->n_operands)
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "run: no command given");
	return cell_error_hint(err, -EINVAL, "example: cell run -- echo hello");
}

static void tell_cell(const struct cli *cli, const struct cell *c, const struct cell_config *cfg)
{
	struct cell_backend_info info;

	if (!cli->is_verbose)
		return;
	for (const char *const *f = cell_config_files(cfg); f && *f; f++)
		cli_tell(cli, "configuration: %s", *f);
	cli_tell(cli, "cell %s, back end %s", cells->name(c), cells->backend_of(c));
	if (cells->backend_probe(cells->backend_of(c), &info, NULL) == 0)
		cli_tell(cli, "walls (tier %d): %s", info.tier, info.wall);
}

/* End the cell whatever happened. A failure to clean up is said, and does not change the exit code
 * of a command that ran. */
static void end_cell(const struct cli *cli, struct cell *c, bool is_kept)
{
	struct cell_error err = {0};
	int r;

	cli_signals_patience(1);
	r = is_kept ? cells->close(c, &err) : cells->destroy(c, &err);
	if (r < 0)
		cli_fail(&(struct cli){.color_err = cli->color_err}, &err);
}

static int run(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	const struct cell_spec *spec;
	struct cell_error err = {0};
	struct cli_command cmd;
	struct cell_exec_opts opts = {.shell = cli_args_value(args, "shell")};
	struct cell *c = NULL;
	json_t *result = NULL;
	int code;

	if (no_command(args, &err) < 0 || cli_command_from_args(cli, args, &cmd, &err) < 0 ||
		cli_spec_load(cli, args, &cfg, &spec, &err) < 0)
		return cli_fail(cli, &err);
	if (!opts.shell)
		opts.argv = args->operands;

	cli_signals_catch();
	cli_signals_patience(1);
	if (cli_cell_make(cli, spec, &c, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_patience(CLI_PATIENT);
	tell_cell(cli, c, cfg);
	cli_tell_degraded(cli, c);
	cmd.is_sole = !cli_args_has(args, "keep");
	if (cli_signals_stop())
		code = CLI_EXIT_SIGNAL + cli_signals_stop();
	else
		code = cli_command_run(cli, &cmd, c, &opts, &result, &err);
	end_cell(cli, c, cli_args_has(args, "keep"));
	if (code < 0)
		return cli_fail(cli, &err);
	if (result) {
		int r = cli_print_json(cli, result);
		return r ? r : code;
	}
	return code;
}

static const struct cli_option options[] = {
	{"keep", 0, NULL, "leave a cell with a --name in place afterwards"},
	{0},
};

const struct cli_verb cli_verb_run = {
	.name = "run",
	.usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
	.summary = "run one command in a fresh cell, then remove the cell",
	.about = "Makes a cell from the configuration and the options, runs COMMAND in it, and "
		 "removes the cell and everything the command left running. stdout and stderr stay "
		 "apart. stdin is passed on when it is not a terminal, or with -i.\n"
		 "\n"
		 "Ctrl-C and the signals TERM, HUP and QUIT go to the command; a second one kills "
		 "it "
		 "and everything it started. With --timeout a command that takes too long gets "
		 "TERM, "
		 "half a second (or --grace) later KILL, and the exit code is 124. The deadline is "
		 "kept from outside too: nothing that runs in the cell can delay it.\n"
		 "\n"
		 "With --json one object is printed at the end: id, cell, backend, exit_code, "
		 "signal, "
		 "timed_out, truncated, oom, stdout, stderr, stdout_bytes, stderr_bytes, "
		 "duration_ms "
		 "and usage (cpu_ms, max_rss_bytes). Output that is not UTF-8 is in stdout_base64 "
		 "or "
		 "stderr_base64 instead.",
	.examples = "cell run -- python3 -c 'print(6 * 7)'\n"
		    "cell run --timeout 10s --memory 512m -- make test\n"
		    "cell run --network none --env CI=1 -w ./project -- npm test\n"
		    "cell run -t -- bash\n"
		    "cell run --json --shell 'echo out; echo err >&2; exit 3'",
	.groups = {options, cli_command_options, cli_spec_options},
	.operands = {CLI_COMMAND},
	.head = 0,
	.run = run,
};
