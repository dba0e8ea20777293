/* SPDX-License-Identifier: Apache-2.0 */
/* cell.h: a cell handle from the inside. Back ends use backend.h; only the core looks in here. */
#pragma once
#include <jansson.h>
#include <sys/types.h>

#include "cell/cell.h"

#include "core/backend.h"

struct link;

struct cell {
	char name[CELL_NAME_MAX];
	char *directory;  /* <state>/cells/<name> */
	int directory_fd; /* O_PATH */
	int lock_fd;	  /* held while this process owns an ephemeral or half-made cell, else -1 */
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
	char *warm;		  /* spec.warm as the guest takes it; NULL: none */
	bool is_warmed_late;	  /* not at the guest's start: its environment comes later */
	uint64_t code_timeout_ms; /* 0: none */
	char **languages;	  /* NULL: all */
	char **databases;	  /* servers that SQL may connect to; NULL: none */
	char **env;		  /* "K=V" composed from policy and spec, NULL-terminated */
	struct link *link;
	/* of guest_process.c: the guest this process started */
	struct {
		int stream_fd; /* our end of the socketpair until it is handed out, else -1 */
		int pidfd;     /* -1 when it is not our child */
		pid_t pid;
	} guest;
};

/* For tests of back ends and for guest_process.c: a handle with nothing in it yet; free takes NULL
 * and half-made ones, and destroys nothing. */
struct cell *cell_handle_new(const char *name);
void cell_handle_free(struct cell *c);
