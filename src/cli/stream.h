/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h: a command in a cell joined to our own stdin, stdout and stderr, until it ends. Forwards
 * signals and window sizes; holds the command back when our reader is slow.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/sink.h"
#include "cli/terminal.h"

#define CLI_INPUT_MAX (64u * 1024)

struct cli_stream {
	/* set by the caller */
	const struct cli *cli;
	struct cell *cell;
	struct cell_exec *exec;
	struct cli_sink out, err;
	bool has_stdin;	      /* our stdin goes to the command */
	bool is_tty;	      /* the command has a terminal and ours is raw */
	bool is_joinable;     /* a command that was left goes on */
	bool is_only_looking; /* signals and a closed pipe end the looking, not the command */

	/* how it ended */
	bool has_exited;    /* exit is filled */
	bool has_all;	    /* attach without follow: everything there was came */
	bool is_left;	    /* the user left a command that goes on */
	bool is_broken;	    /* nobody reads our output any more */
	int stop_signal;    /* what ended the looking or the patience, or 0 */
	uint64_t gap_bytes; /* output that was no longer kept */
	struct cell_exit exit;

	/* inside */
	uint8_t input[CLI_INPUT_MAX];
	size_t input_at, input_len;
	bool is_input_over, is_input_closed;
	struct cli_escape escape;
	unsigned n_stops;
	uint64_t kill_at_ms, give_up_at_ms; /* monotonic; 0: not set */
	uint64_t out_next, err_next;
	bool is_over;
};

/* Until the command ends, the user leaves, or an error. Signals must have been caught
 * (cli_signals_catch). The sinks are flushed when it returns 0. */
int cli_stream_run(struct cli_stream *s, struct cell_error *err);
