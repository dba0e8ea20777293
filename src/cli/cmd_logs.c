/* SPDX-License-Identifier: Apache-2.0 */
/* cell logs: the kept output of a command or of a run of code, now or as it comes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/code/job.h"
#include "cli/command.h"
#include "cli/find.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "core/run_gather.h"

/* Only the stream that was asked for. */
static void choose(const struct cli_args *args, struct cli_sink *out, struct cli_sink *err)
{
	bool only_out = cli_args_has(args, "stdout"), only_err = cli_args_has(args, "stderr");

	if (only_out == only_err)
		return;
	struct cli_sink *unwanted = only_out ? err : out;
	cli_sink_done(unwanted);
	cli_sink_drop(unwanted);
}

/* ---- a run of code ---- */

static int gather(const struct cell_code_event *e, void *user)
{
	return run_gather_add(user, e);
}

static int print_run(struct cli *cli, const struct code_job *j, const struct run_gather *g)
{
	json_t *o = run_gather_json(g);

	cli_json_string(o, "id", j->look_id);
	cli_json_string(o, "cell", cells->name(j->cell));
	cli_json_bytes(o, "stdout", g->out.data, g->out.len);
	cli_json_bytes(o, "stderr", g->err.data, g->err.len);
	return cli_print_json(cli, o);
}

/* As `cell code` showed it, or would have; pictures only where a terminal can. */
static int show_run(struct cli *cli, const struct cli_args *args, struct cell *c, const char *id,
	struct cell_error *err)
{
	struct code_screen screen = {0};
	struct run_gather g;
	struct code_job j = {.cli = cli,
		.cell = c,
		.look_id = id,
		.is_following = cli_args_has(args, "follow"),
		.screen = cli->is_json ? NULL : &screen,
		.take = cli->is_json ? gather : NULL,
		.user = &g};
	uint64_t max_output = 0;

	if (cli_args_size(args, "max-output", cli->is_json ? CLI_JSON_OUTPUT_BYTES : 0, &max_output,
		    err) < 0 ||
		cli_args_number(args, "from", 0, &j.look_from, err) < 0)
		return -EINVAL;
	if (run_gather_init(&g, cli->is_json ? (size_t)max_output : 0) < 0)
		return cell_fail_errno(err, ENOMEM, "look at a run");
	code_screen_init(&screen, cli, false, cli_args_has(args, "raw"));
	screen.out.limit = screen.err.limit = max_output;
	screen.way = isatty(STDOUT_FILENO) ? picture_way_here() : PICTURE_NONE;
	if (screen.way == PICTURE_FILE)
		screen.way = PICTURE_NONE;
	choose(args, &screen.out, &screen.err);
	int r = code_job_run(&j, err);
	if (r == 0 && cli->is_json)
		r = print_run(cli, &j, &g);
	if (r == 0 && (j.stop_signal || j.is_broken))
		r = CLI_EXIT_SIGNAL + (j.stop_signal ? j.stop_signal : SIGPIPE);
	code_job_done(&j);
	code_screen_done(&screen);
	run_gather_done(&g);
	return r;
}

/* ---- a command ---- */

static int show(struct cli *cli, const struct cli_args *args, struct cell *c, const char *id,
	struct cell_error *err)
{
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
	choose(args, &s->out, &s->err);
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

static int show_either(struct cli *cli, const struct cli_args *args, struct cell *c,
	const struct cli_found *found, struct cell_error *err)
{
	return (found->is_code ? show_run : show)(cli, args, c, found->id, err);
}

static int logs(struct cli *cli, const struct cli_args *args)
{
	return cli_on_exec(cli, args, false, show_either);
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
		 "stopped; when bytes are no longer kept, that is said.\n\n"
		 "Of a run of code (cell code) it is what 'cell code' showed: streams in their "
		 "order, values as text, the traceback; with --json the result as one object. Its "
		 "offsets are those of its events.",
	.examples = "cell logs web\n"
		    "cell logs -f web 5f3a\n"
		    "cell logs --from 4096 --stdout web 5f3a",
	.groups = {options},
	.operands = {CLI_CELL, CLI_EXEC},
	.head = CLI_NO_COMMAND,
	.run = logs,
};
