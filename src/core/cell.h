/* SPDX-License-Identifier: Apache-2.0 */
/* cell.h: a cell handle from the inside. Back ends use backend.h; only the core looks in here. */
#pragma once
#include <jansson.h>

#include "cell/cell.h"

#include "core/backend.h"

struct link;

struct cell {
	char name[CELL_NAME_MAX];
	char *directory;  /* <state>/cells/<name> */
	int directory_fd; /* O_PATH */
	int lock_fd;      /* held while this process owns an ephemeral or half-made cell, else -1 */
	bool is_ephemeral;
	json_t *record; /* what cell.json says; owned */
	const struct cell_backend *chain[CELL_CHAIN_MAX];
	size_t level; /* which of chain is running: wrappers step it */
	void *states[CELL_CHAIN_MAX];
	cell_caps caps;
	cell_caps degraded;
	/* defaults for every exec, from the spec */
	char *cwd, *user;
	uint64_t timeout_ms;
	char **env; /* "K=V" composed from policy and spec, NULL-terminated */
	struct link *link;
};
