/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.h: file operations. Each runs in a worker process forked by the guest for this one call, so it
 * is straight-line blocking code: a hang, a crash or a cancelled call harms nobody else, and being
 * killed at any point must leave no half-written file behind.
 *
 * A worker's bytes go out on out_fd and come in on in_fd; both are pipes that the guest connects to
 * the stream with flow control, so blocking on them is right. Listings go out as records (wire.h).
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "wire/wire.h"

struct fs_call {
	uint16_t op;
	const uint8_t *fields; /* of the request, checked to be a field list */
	size_t fields_len;
	int root_fd;	       /* the workspace, O_PATH|O_DIRECTORY */
	const char *root_path; /* as the cell sees it, absolute, no trailing slash (but "/") */
	const char *home;      /* the same of the cell's home; NULL: it has none */
	int in_fd;
	int out_fd;
	struct buf reply; /* fields of the END on success; max WIRE_MAX_REPLY */
};

/* Does this op exist? */
bool fs_has(uint16_t op);
/* Run it. 0, or a negative errno with err filled: what was attempted, on which path, what would
 * help. */
int fs_run(struct fs_call *call, struct cell_error *err);
