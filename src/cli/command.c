/* SPDX-License-Identifier: Apache-2.0 */
/* command.c: running one command in an open cell for run, exec and shell. */
#include "cli/command.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/units.h"

int cli_command_from_args(const struct cli *cli, const struct cli_args *args,
	struct cli_command *ret, struct cell_error *err)
{
	bool is_interactive = cli_args_has(args, "interactive");
	int r;

	*ret = (struct cli_command){.is_tty = cli_args_has(args, "tty"),
		.is_raw = cli_args_has(args, "raw"),
		.is_merged = cli_args_has(args, "merge")};
	ret->has_stdin = ret->is_tty || is_interactive || !isatty(STDIN_FILENO);
	r = cli_args_duration_ms(args, "grace", 0, &ret->grace_ms, err);
	if (r < 0)
		return r;
	r = cli_args_size(args, "max-output", cli->is_json ? CLI_JSON_OUTPUT_BYTES : 0,
		&ret->max_output, err);
	if (r < 0)
		return r;
	if (ret->is_tty && cli->is_json) {
		cell_fail(err, CELL_EINVAL, 0, "--tty and --json exclude each other");
		return cell_error_hint(err, -EINVAL,
			"a terminal shows everything as it comes; drop one");
	}
	if (ret->is_tty && !isatty(STDIN_FILENO)) {
		cell_fail(err, CELL_EINVAL, 0, "--tty: stdin is not a terminal");
		return cell_error_hint(err, -EINVAL,
			"drop -t; -i passes stdin on without a terminal");
	}
	return 0;
}

void cli_stream_sinks(struct cli_stream *s, const struct cli *cli, const struct cli_command *cmd)
{
	if (cli->is_json) {
		cli_sink_collect(&s->out, cmd->max_output);
		cli_sink_collect(&s->err, cmd->max_output);
	} else {
		cli_sink_fd(&s->out, STDOUT_FILENO, cmd->is_raw || cmd->is_tty, cmd->max_output);
		cli_sink_fd(&s->err, STDERR_FILENO, cmd->is_raw || cmd->is_tty, cmd->max_output);
	}
}

void cli_stream_done(struct cli_stream *s)
{
	cli_sink_done(&s->out);
	cli_sink_done(&s->err);
	cells->exec_free(s->exec);
	s->exec = NULL;
}

json_t *cli_stream_json(const struct cli_stream *s)
{
	const struct cell_exit *e = &s->exit;
	json_t *o = json_object(), *usage = json_object();

	cli_json_string(o, "id", cells->exec_id(s->exec));
	cli_json_string(o, "cell", cells->name(s->cell));
	cli_json_string(o, "backend", cells->backend_of(s->cell));
	json_object_set_new(o, "exit_code",
		s->has_exited ? json_integer(e->exit_code) : json_null());
	json_object_set_new(o, "signal", e->signal ? json_integer(e->signal) : json_null());
	json_object_set_new(o, "timed_out", json_boolean(e->timed_out));
	json_object_set_new(o, "truncated",
		json_boolean(s->out.is_truncated || s->err.is_truncated || s->gap_bytes));
	json_object_set_new(o, "oom", json_boolean(e->oom));
	cli_json_bytes(o, "stdout", s->out.waiting.data, s->out.waiting.len);
	cli_json_bytes(o, "stderr", s->err.waiting.data, s->err.waiting.len);
	json_object_set_new(o, "stdout_bytes", json_integer((json_int_t)s->out.total));
	json_object_set_new(o, "stderr_bytes", json_integer((json_int_t)s->err.total));
	json_object_set_new(o, "duration_ms",
		json_integer((json_int_t)(e->usage.wall_ns / 1000000)));
	json_object_set_new(usage, "cpu_ms", json_integer((json_int_t)(e->usage.cpu_ns / 1000000)));
	json_object_set_new(usage, "max_rss_bytes",
		json_integer((json_int_t)e->usage.max_rss_bytes));
	json_object_set_new(o, "usage", usage);
	if (cells->degraded(s->cell))
		json_object_set_new(o, "degraded", cli_json_caps(cells->degraded(s->cell)));
	return o;
}

int cli_stream_exit(const struct cli_stream *s)
{
	if (s->gap_bytes)
		cli_note(s->cli, "%" PRIu64 " bytes of output are no longer kept and were left out",
			s->gap_bytes);
	if ((s->out.is_truncated || s->err.is_truncated) && !s->cli->is_json)
		cli_note(s->cli,
			"output cut: %" PRIu64 " bytes of stdout, %" PRIu64 " of stderr in all",
			s->out.total, s->err.total);
	if (s->is_broken)
		return CLI_EXIT_SIGNAL + SIGPIPE;
	if (s->stop_signal)
		return CLI_EXIT_SIGNAL + s->stop_signal;
	if (s->is_left && !s->is_joinable) {
		cli_note(s->cli, "left; the cell and what runs in it are removed");
		return CLI_EXIT_OK;
	}
	if (s->is_left) {
		cli_note(s->cli, "left; the command goes on: cell attach %s %s",
			cells->name(s->cell), cells->exec_id(s->exec));
		return CLI_EXIT_OK;
	}
	if (!s->has_exited)
		return CLI_EXIT_OK;
	if (s->exit.timed_out)
		cli_note(s->cli, "the deadline passed: ended after %" PRIu64 " ms",
			s->exit.usage.wall_ns / 1000000);
	else if (s->exit.oom)
		cli_note(s->cli, "the command ran out of memory and was killed");
	return s->exit.exit_code;
}

/* Name the back end in an error that may be its doing: a full disk of ours is not. */
static int blame(struct cell_error *err, int r, const struct cell *c)
{
	bool is_its_own = err && (err->code == CELL_EGONE || err->code == CELL_EPROTOCOL ||
					 err->code == CELL_EBACKEND || err->code == CELL_ENOTSUP);

	if (is_its_own && !*err->backend)
		(void)snprintf(err->backend, sizeof(err->backend), "%s", cells->backend_of(c));
	return r;
}

static int start_detached(const struct cli *cli, struct cell *c, struct cell_exec_opts *opts,
	json_t **ret_json, struct cell_error *err)
{
	struct cell_exec *x = NULL;
	int r;

	opts->flags |= CELL_EXEC_DETACH;
	r = cells->exec_start(c, opts, &x, err);
	if (r < 0)
		return blame(err, r, c);
	if (cli->is_json) {
		*ret_json = json_object();
		cli_json_string(*ret_json, "id", cells->exec_id(x));
		cli_json_string(*ret_json, "cell", cells->name(c));
		cli_json_string(*ret_json, "backend", cells->backend_of(c));
	} else {
		cli_print_line(cells->exec_id(x));
	}
	cells->exec_free(x);
	return cli->is_json ? CLI_EXIT_OK : cli_flush(cli);
}

int cli_command_run(const struct cli *cli, const struct cli_command *cmd, struct cell *c,
	struct cell_exec_opts *opts, json_t **ret_json, struct cell_error *err)
{
	auto_free struct cli_stream *s = NULL;
	int r, code;

	*ret_json = NULL;
	opts->flags |= cmd->has_stdin && !cmd->is_detached ? CELL_EXEC_STDIN : 0;
	opts->flags |= cmd->is_tty ? CELL_EXEC_TTY : 0;
	opts->flags |= cmd->is_merged ? CELL_EXEC_MERGE : 0;
	opts->flags |= cmd->is_sole ? CELL_EXEC_SOLE : 0;
	opts->grace_ms = cmd->grace_ms;
	if (cmd->is_tty)
		cli_terminal_size(&opts->rows, &opts->cols);
	if (cmd->is_detached)
		return start_detached(cli, c, opts, ret_json, err);

	s = cli_calloc(1, sizeof(*s));
	s->cli = cli;
	s->cell = c;
	s->has_stdin = cmd->has_stdin;
	s->is_tty = cmd->is_tty;
	s->is_joinable = cmd->is_joinable;
	r = cells->exec_start(c, opts, &s->exec, err);
	if (r < 0)
		return blame(err, r, c);
	cli_stream_sinks(s, cli, cmd);
	if (cmd->is_tty)
		(void)cli_terminal_raw();
	r = cli_stream_run(s, err);
	cli_terminal_restore();
	code = r < 0 ? blame(err, r, c) : cli_stream_exit(s);
	if (r == 0 && cli->is_json)
		*ret_json = cli_stream_json(s);
	cli_stream_done(s);
	return code;
}

struct making {
	const struct cli *cli;
	struct cli_progress bar;
	char title[200];
};

/* On a terminal a bar; with --verbose a line for whatever happened to a layer, but for its counting. */
static int show_making(const struct cell_making *m, void *user)
{
	struct making *s = user;
	char size[CLI_UNIT_MAX];

	if (s->cli->is_verbose && strcmp(m->status, "Downloading") &&
		strcmp(m->status, "Extracting")) {
		cli_progress_end(&s->bar);
		cli_tell(s->cli, "pull %s: %s%s%s (%s, %u of %u layers)", m->image, m->layer,
			*m->layer ? ": " : "", m->status, cli_format_size(size, m->bytes),
			m->layers_done, m->layers);
	}
	if (!s->bar.title)
		cli_progress_init(&s->bar, s->cli, s->title, 0);
	(void)snprintf(s->title, sizeof s->title, "%u/%u layers of %s", m->layers_done, m->layers,
		m->image);
	s->bar.total = m->total_bytes;
	cli_progress_update(&s->bar, m->bytes);
	return cli_signals_stop();
}

int cli_cell_make(const struct cli *cli, const struct cell_spec *spec, struct cell **ret,
	struct cell_error *err)
{
	struct making s = {.cli = cli};
	struct cell_spec own = *spec;

	own.making = show_making;
	own.making_user = &s;
	int r = cells->open(&own, ret, err);
	cli_progress_end(&s.bar);
	return r;
}

int cli_cell_open(const char *name, struct cell **ret, struct cell_error *err)
{
	int r;

	*ret = NULL;
	r = cells->reopen(name, ret, err);
	if (r < 0 && err && err->code == CELL_ENOTFOUND && !*err->hint)
		return cell_error_hint(err, r,
			"'cell ls' lists the cells; 'cell create %s' makes it", name);
	return r;
}

void cli_cell_close(struct cell **c)
{
	struct cell_error ignored;

	if (*c)
		(void)cells->close(*c, &ignored);
	*c = NULL;
}

void cli_tell_degraded(const struct cli *cli, const struct cell *c)
{
	cell_caps caps = cells->degraded(c);

	if (caps & CELL_CAP_BIT(CELL_CAP_HIDE_FILES)) /* no limit that is missing, but all of it */
		cli_note(cli,
			"warning: this cell has no walls: it is given the socket of a container "
			"engine, and whoever holds that is root on the engine's machine");
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++)
		if (caps & CELL_CAP_BIT(cap))
			cli_note(cli, "warning: %s is not enforced by back end %s",
				cell_cap_name(cap), cells->backend_of(c));
}
