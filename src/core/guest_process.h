/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_process.h: the guest as a process of this machine, for back ends whose place is one (local,
 * subprocess, chroot). Starts it from the copy embedded in this library, finds it again, ends it.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/backend.h"

struct guest_options {
	const char *workspace;	/* as the guest sees it, absolute */
	const char *spool;	/* directory for kept output, as the guest sees it; NULL: memory */
	const char *home, *tmp; /* NULL: the user's own */
	const char *const *rlimits; /* "nofile=64", NULL-terminated; NULL: none */
	/* Runs in the child just before exec, async-signal-safe code only; 0 or a negative errno.
	 */
	int (*enter)(void *user);
	/* Or: somebody else starts it (the launcher). Gets its argv[0] and its end of the stream;
	 * fills *ret_pid and *ret_pidfd. Everything above but `user` is then unused. */
	int (*start)(void *user, const char *title, int stream_fd, pid_t *ret_pid, int *ret_pidfd,
		struct cell_error *err);
	void *user;
};

/* The host directory that is its workspace, and a note of it: the one asked for, the current one, or one made in the cell's own directory.
 * Caller frees. */
int cell_guest_workspace(struct cell *c, const struct cell_spec *spec, char **ret,
	struct cell_error *err);

/* Start it. An ephemeral cell's guest hangs on a socketpair and dies with this process; a named
 * cell's listens on `sock` in the cell's directory and has its own session. Notes guest_pid,
 * guest_start. */
int cell_guest_start(struct cell *c, const struct guest_options *o, struct cell_error *err);
/* A stream to it: the socketpair's end the first time, else a new connection. */
int cell_guest_connect(struct cell *c, struct cell_error *err);
bool cell_guest_is_alive(const struct cell *c);
/* Kill it, and wait for a moment; false: it is not known to have ended (cell_guest_stop says more). For guests
 * that take all their processes with them. */
bool cell_guest_kill(const struct cell *c, int timeout_ms);
/* Ask it to end everything, then kill it and whatever it left; waits until it is gone. */
int cell_guest_stop(struct cell *c, struct cell_error *err);

/* What names a cell's guest among all processes: its argv[0]. */
int cell_guest_title(const struct cell *c, char ret[160], struct cell_error *err);

/* The embedded programs. */
extern const unsigned char cell_guest_blob[];
extern const unsigned char cell_guest_blob_end[];
extern const unsigned char cell_launcher_blob[];
extern const unsigned char cell_launcher_blob_end[];
/* An fd of it that can be executed (memfd, or a file in dir_fd where memfds may not be), CLOEXEC.
 */
int cell_guest_image(int dir_fd, struct cell_error *err);
int cell_launcher_image(int dir_fd, struct cell_error *err);
