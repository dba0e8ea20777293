/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.h: where a stream of a command goes: our stdout or stderr, a buffer for --json, or nowhere.
 * Writing never blocks and never buffers more than one piece: while a sink is full, its owner takes
 * nothing more from the cell, and so the command is held back.
 */
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/text.h"

struct cli_sink {
	int fd;		  /* -1: collect; see also is_dropped */
	bool is_fd_owned; /* a description of our own that does not block */
	bool is_blocking; /* none could be had: ask poll() first and write little */
	bool is_socket;
	bool is_dropped;   /* goes nowhere */
	bool is_neutral;   /* a terminal that must not see control sequences */
	bool is_broken;	   /* nobody reads any more (EPIPE) */
	bool is_truncated; /* the limit was passed */
	uint64_t limit;	   /* bytes taken at most */
	uint64_t total;	   /* bytes given to it */
	struct cli_neutral neutral;
	struct buf waiting; /* to an fd: not written yet; else: what was collected */
};

/* To an fd of ours (1 or 2). is_raw: control sequences pass even to a terminal. */
void cli_sink_fd(struct cli_sink *s, int fd, bool is_raw, uint64_t limit);
void cli_sink_collect(struct cli_sink *s, uint64_t limit);
void cli_sink_drop(struct cli_sink *s);
void cli_sink_done(struct cli_sink *s);

/* Take the bytes. Call only when not full. 0, or a negative errno with err set; EPIPE is no error,
 * it sets is_broken. */
int cli_sink_put(struct cli_sink *s, const void *p, size_t n, struct cell_error *err);
/* Try to write what waits. */
int cli_sink_flush(struct cli_sink *s, struct cell_error *err);
/* The stream is over: give out what the neutraliser holds. May leave it full. */
int cli_sink_finish(struct cli_sink *s, struct cell_error *err);
bool cli_sink_is_full(const struct cli_sink *s);
/* To wait until it can be flushed; its fd is -1 when it is not full. */
struct pollfd cli_sink_pollfd(const struct cli_sink *s);
/* Both streams of a command are over: write what they hold, at the pace of who reads it. A signal that is to end us, in *signal before or taken and put
 * there meanwhile, is not kept waiting. */
int cli_sinks_drain(struct cli_sink *out, struct cli_sink *errors, int *signal,
	struct cell_error *err);
