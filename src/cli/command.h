/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: running one command in an open cell for run, exec and shell: stdin, terminal, output
 * and the result, as text or as JSON. */
#pragma once
#include <jansson.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/stream.h"

#define CLI_JSON_OUTPUT_BYTES (UINT64_C(1) << 20) /* kept of each stream with --json */

struct cli_command {
	bool is_tty;
	bool has_stdin;
	bool is_raw;
	bool is_detached;
	bool is_merged;
	bool is_joinable; /* the cell stays, so a command that was left can be attached again */
	bool is_sole;	  /* the cell is for this command: its deadline is the cell's */
	uint64_t max_output, grace_ms;
};

/* What the flags of cli_command_options say. CELL_EINVAL for flags that exclude each other. */
int cli_command_from_args(const struct cli *cli, const struct cli_args *args,
	struct cli_command *ret, struct cell_error *err);

/* Run it to its end, or start it when detached. *ret_json (with --json, else NULL) is the result;
 * caller prints it. Returns the exit code for this process; on an error negative, with err set. */
int cli_command_run(const struct cli *cli, const struct cli_command *cmd, struct cell *c,
	struct cell_exec_opts *opts, json_t **ret_json, struct cell_error *err);

/* A stream's end as an exit code, telling the user what is worth telling. */
int cli_stream_exit(const struct cli_stream *s);
/* The result of a stream whose sinks collect. */
json_t *cli_stream_json(const struct cli_stream *s);
/* stdout and stderr of ours, or collecting with --json. */
void cli_stream_sinks(struct cli_stream *s, const struct cli *cli, const struct cli_command *cmd);
void cli_stream_done(struct cli_stream *s);

/* Make a cell, showing how far it is where that takes long. */
int cli_cell_make(const struct cli *cli, const struct cell_spec *spec, struct cell **ret,
	struct cell_error *err);
/* Open a named cell for a verb; *ret NULL on failure. */
int cli_cell_open(const char *name, struct cell **ret, struct cell_error *err);
/* For `auto_(cli_cell_close)`. */
void cli_cell_close(struct cell **c);
/* Tell of limits that are not enforced. */
void cli_tell_degraded(const struct cli *cli, const struct cell *c);
