/* SPDX-License-Identifier: Apache-2.0 */
/* fileio.h: our own descriptors as sources and targets of file transfers. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "cell/file.h"

#include "base/error.h"
#include "cli/sink.h"

struct cli_fd_source {
	int fd;
	const char *text; /* instead of fd: these bytes */
	size_t text_len;
	cell_progress_fn on_bytes; /* may be NULL; told how many so far */
	void *user;
	/* inside */
	uint64_t bytes;
	int sys_errno; /* why reading failed */
};
/* A cell_source_fn; user is a struct cli_fd_source. Gives up when a signal asked us to stop. */
ssize_t cli_fd_source(void *p, size_t n, void *user);

struct cli_fd_target {
	struct cli_sink sink;
	cell_progress_fn on_bytes; /* may be NULL */
	void *user;
	/* inside */
	uint64_t bytes;
	struct cell_error error;
};
/* A cell_data_fn; user is a struct cli_fd_target. Waits for a slow reader; gives up when a signal
 * asked us to stop. -EPIPE when the reader is gone. */
int cli_fd_target(const void *p, size_t n, void *user);
/* After the transfer that returned r: flush and release. Returns r, or what went wrong with the
 * target. */
int cli_fd_target_end(struct cli_fd_target *t, int r, struct cell_error *err);
