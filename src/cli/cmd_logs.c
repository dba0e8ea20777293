/* SPDX-License-Identifier: Apache-2.0 */
/* cell logs: the kept output of a command, now or as it comes. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/find.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/signals.h"

static int show(struct cli *cli, const struct cli_args *args, struct cell *c, const char *id,
	struct cell_error *err)
{
	bool only_out = cli_args_has(args, "stdout"), only_err = cli_args_has(args, "stderr");
	struct cli_command cmd = {.is_raw = cli_args_has(args, "raw")};
	struct cell_attach_opts opts = {.no_follow = !cli_args_has(args, "follow")};
	auto_free struct cli_stream *s = cli_calloc(1, sizeof(*s));
	int r;

	if (cli_args_size(args, "max-output", cli->is_json ? CLI_JSON_OUTPUT_BYTES : 0,
		    &cmd.max_output, err) < 0 ||
		cli_args_number(args, "from", 0, &opts.out_offset, err) < 0)
		return -EINVAL;
	opts.err_offset = opts.out_offset;
	s->cli = cli;
	s->cell = c;
	s->is_only_looking = true;
	s->out_next = s->err_next = opts.out_offset;
	r = cells->exec_attach(c, id, &opts, &s->exec, err);
	if (r < 0)
		return r;
	cli_stream_sinks(s, cli, &cmd);
	if (only_out != only_err) {
		struct cli_sink *unwanted = only_out ? &s->err : &s->out;
		cli_sink_done(unwanted);
		cli_sink_drop(unwanted);
	}
	r = cli_stream_run(s, err);
	if (r == 0) {
		s->has_exited = s->has_exited && cli->is_json; /* its exit code is not ours */
		r = cli_stream_exit(s);
		if (cli->is_json)
			r = cli_print_json(cli, cli_stream_json(s));
	}
	cli_stream_done(s);
	return r;
}

static int logs(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct cli_found found;
	int code;

	if (cli_args_count(args, 1, 2, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	if (cli_cell_open(args->operands[0], &c, &err) < 0 ||
		cli_find_exec(c, args->operands[1], false, &found, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_patience(CLI_PATIENT);
	code = show(cli, args, c, found.id, &err);
	return code < 0 ? cli_fail(cli, &err) : code;
}

static const struct cli_option options[] = {
	{"follow", 'f', NULL, "go on until the command ends"},
	{"from", 0, "OFFSET", "begin at this byte of each stream (default: the oldest kept)"},
	{"stdout", 0, NULL, "only stdout"},
	{"stderr", 0, NULL, "only stderr"},
	{"max-output", 0, "SIZE", "keep at most this much of each stream (with --json: 1M)"},
	{"raw", 0, NULL, "do not neutralise control sequences on a terminal"},
	{0},
};

const struct cli_verb cli_verb_logs = {
	.name = "logs",
	.usage = "[OPTION...] CELL [ID]",
	.summary = "show the output of a command",
	.about = "Prints what a command has written so far, its stdout to stdout and its stderr to "
		 "stderr. ID may be left out when one command runs, or for the last one started "
		 "when "
		 "none does. Looking never disturbs the command: Ctrl-C ends the looking. Every "
		 "byte "
		 "of a stream has an offset, so a reader that was cut off goes on with --from "
		 "where it "
		 "stopped; when bytes are no longer kept, that is said.",
	.examples = "cell logs web\n"
		    "cell logs -f web 5f3a\n"
		    "cell logs --from 4096 --stdout web 5f3a",
	.groups = {options},
	.operands = {CLI_CELL, CLI_EXEC},
	.head = CLI_NO_COMMAND,
	.run = logs,
};
