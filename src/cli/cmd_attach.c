/* SPDX-License-Identifier: Apache-2.0 */
/* cell attach: join a command that runs in a cell. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/find.h"
#include "cli/memory.h"
#include "cli/output.h"

static int join(struct cli *cli, const struct cli_args *args, struct cell *c,
	const struct cli_found *found, struct cell_error *err)
{
	bool has_stdin = !cli_args_has(args, "no-stdin");
	struct cli_command cmd = {.is_tty = found->is_tty && isatty(STDIN_FILENO) && !cli->is_json,
		.is_raw = cli_args_has(args, "raw")};
	struct cell_attach_opts opts = {.hold = true, .with_stdin = has_stdin};
	auto_free struct cli_stream *s = cli_calloc(1, sizeof(*s));
	int r, code;

	if (cli_args_size(args, "max-output", cli->is_json ? CLI_JSON_OUTPUT_BYTES : 0,
		    &cmd.max_output, err) < 0 ||
		cli_args_number(args, "from", 0, &opts.out_offset, err) < 0)
		return -EINVAL;
	opts.err_offset = opts.out_offset;
	s->cli = cli;
	s->cell = c;
	s->is_tty = cmd.is_tty;
	s->is_joinable = true;
	s->has_stdin = has_stdin && (cmd.is_tty || !isatty(STDIN_FILENO));
	r = cells->exec_attach(c, found->id, &opts, &s->exec, err);
	if (r < 0)
		return r;
	cli_stream_sinks(s, cli, &cmd);
	s->out_next = s->err_next = opts.out_offset;
	if (cmd.is_tty) {
		uint16_t rows, cols;
		(void)cli_terminal_raw();
		cli_terminal_size(&rows, &cols);
		(void)cells->exec_resize(s->exec, rows, cols, NULL);
	}
	r = cli_stream_run(s, err);
	cli_terminal_restore();
	code = r < 0 ? r : cli_stream_exit(s);
	if (r == 0 && cli->is_json && cli_print_json(cli, cli_stream_json(s)) != 0)
		code = CLI_EXIT_FAILED;
	cli_stream_done(s);
	return code;
}

static int attach(struct cli *cli, const struct cli_args *args)
{
	return cli_on_exec(cli, args, true, join);
}

static const struct cli_option options[] = {
	{"from", 0, "OFFSET", "begin at this byte of each stream (default: the oldest kept)"},
	{"no-stdin", 0, NULL, "leave the command's stdin alone"},
	{"max-output", 0, "SIZE", "keep at most this much of each stream (with --json: 1M)"},
	{"raw", 0, NULL, "do not neutralise control sequences on a terminal"},
	{0},
};

const struct cli_verb cli_verb_attach = {
	.name = "attach",
	.usage = "[OPTION...] CELL [ID]",
	.summary = "join a command that runs in a cell",
	.about = "Shows the output of a command from the beginning, or from --from, and goes on "
		 "until "
		 "it ends; signals and stdin go to it, and its exit code is ours. ID may be left "
		 "out "
		 "when one command runs. In a terminal, Ctrl-] three times within a second leaves "
		 "the "
		 "command running.",
	.examples = "cell attach web\n"
		    "cell attach web 5f3a --from 1048576",
	.groups = {options},
	.operands = {CLI_CELL, CLI_EXEC},
	.head = CLI_NO_COMMAND,
	.run = attach,
};
