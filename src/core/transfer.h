/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h: files and directories between the host and a cell, whole, by whatever way the cell's files are reached: a guest here
 * (file_transfer.c), or a server. Which file goes where under which name is decided once, for both.
 */
#pragma once
#include <sys/stat.h>

#include "cell/file.h"

#include "core/room.h"

/* Bytes moved so far, and whom to tell. */
struct transfer_meter {
	cell_progress_fn fn;
	void *user;
	uint64_t bytes;
	int stop; /* what fn returned when not 0 */
	struct room
		room; /* of the host's file system when they are written there; else its fd is -1 */
	struct cell_error why; /* there is too little of it */
};
int transfer_meter_add(struct transfer_meter *m, size_t n); /* -ECANCELED, -ENOSPC */

struct transfer_ops {
	int (*stat)(struct cell *c, const char *path, cell_file_fn fn, void *user,
		struct cell_error *err);
	int (*mkdir)(struct cell *c, const char *path, uint32_t mode, bool parents,
		struct cell_error *err);
	int (*read)(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
		cell_data_fn fn, void *user, struct cell_error *err);
	int (*write)(struct cell *c, const char *path, uint32_t mode, uint32_t flags,
		cell_source_fn fn, void *user, uint64_t *ret_size, struct cell_error *err);
	/* What is in the host's directory into one of the cell, which is there, and back. host_path and path are for messages, too. */
	int (*put_tree)(struct cell *c, int dir, const char *host_path, const char *path,
		struct transfer_meter *m, struct cell_error *err);
	int (*get_tree)(struct cell *c, const char *path, int dir, struct transfer_meter *m,
		struct cell_error *err);
};

/* As cell_file_upload() and cell_file_download(). */
int transfer_upload(const struct transfer_ops *ops, struct cell *c, const char *host_path,
	const char *path, cell_progress_fn progress, void *user, struct cell_error *err);
int transfer_download(const struct transfer_ops *ops, struct cell *c, const char *path,
	const char *host_path, cell_progress_fn progress, void *user, struct cell_error *err);
