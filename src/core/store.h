/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h: the state directory: which cells there are, who holds them. Knows directories and locks,
 * nothing of what a cell is.
 *
 *	<state>/id                   which state directory this is: for marks on what is elsewhere
 *	<state>/snapshots/           saved cells: snapshot.c
 *	<state>/engine-*             what engines said of themselves a moment ago: kept.c
 *	<state>/lock                 a moment's order between creators and reapers
 *	<state>/cells/<name>/        one cell; making this directory is taking the name
 *	<state>/cells/<name>/lock    held (flock) while being made, and by an ephemeral cell's owner
 *	<state>/cells/.gone-*        being removed; whoever comes by finishes the job
 *	<state>/cells/.next-*        kept for the next ephemeral cell: store_spare.h
 *
 * A cell without a holder that is not ready was left by a crash. A creator takes the name and the
 *lock while it shares the state lock; a reaper judges such a cell only while it has the state lock
 *to itself, so it never catches a creator between the two.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"

struct cell_store {
	const char *path; /* for messages */
	char *owned_path; /* NULL when path is borrowed */
	int fd, cells_fd, lock_fd;
};

#define CELL_STORE_INIT                                 \
	{                                               \
		.fd = -1, .cells_fd = -1, .lock_fd = -1 \
	}

/* $CELL_STATE_DIR; as root /var/lib/cell; else $XDG_STATE_HOME/cell or ~/.local/state/cell. With
 * is_made it is made where missing; otherwise -ENOENT (err untouched) when there is none. Refuses a
 * directory that is another user's or that others may write to. */
int cell_store_open(struct cell_store *s, bool is_made, struct cell_error *err);
/* Its path, whether it is there or not; the caller's. */
int cell_store_path(char **ret, struct cell_error *err);
/* The one that a cell's directory is in, whatever the environment says now; allocates nothing. `path` is
 * borrowed. -ENOENT (err untouched) when the cell has been removed. */
int cell_store_open_for(struct cell_store *s, int cell_fd, const char *path,
	struct cell_error *err);
/* 32 hex digits, made up the first time. */
int cell_store_id(const struct cell_store *s, char ret[33], struct cell_error *err);
void cell_store_done(struct cell_store *s);
#define auto_store __attribute__((cleanup(cell_store_done)))

/* a-z 0-9 . _ - beginning with a letter or digit, shorter than CELL_NAME_MAX. */
int cell_store_check_name(const char *name, struct cell_error *err);

/* One cell's directory as this process has it open. */
struct cell_slot {
	char *path;
	int fd;	     /* O_PATH */
	int lock_fd; /* -1 when not held */
};

#define CELL_SLOT_INIT                  \
	{                               \
		.fd = -1, .lock_fd = -1 \
	}
void cell_slot_done(struct cell_slot *slot);
#define auto_slot __attribute__((cleanup(cell_slot_done)))

/* Take the name: the directory exists and its lock is held afterwards. CELL_EEXISTS. */
int cell_store_create(struct cell_store *s, const char *name, struct cell_slot *ret,
	struct cell_error *err);
/* Open an existing one, not locked. CELL_ENOTFOUND. */
int cell_store_find(struct cell_store *s, const char *name, struct cell_slot *ret,
	struct cell_error *err);

enum cell_hold {
	CELL_HOLD_UNSURE, /* not judging: it has no lock yet, or no longer */
	CELL_HOLD_OURS,	  /* we have the lock now */
	CELL_HOLD_OTHER,  /* another process has it */
	CELL_HOLD_GONE,	  /* the cell was removed meanwhile */
};
/* Try to hold it. is_judging: also when its creator may be between taking name and lock. */
int cell_store_hold(struct cell_store *s, const char *name, struct cell_slot *slot, bool is_judging,
	enum cell_hold *ret, struct cell_error *err);
void cell_slot_release(struct cell_slot *slot);
/* Does a process hold the lock? A look, takes nothing. */
bool cell_slot_is_held(const struct cell_slot *slot);

/* Free the name and remove the directory with all it holds. Nothing to do when `slot` is no longer
 * what has that name. */
int cell_store_remove(struct cell_store *s, const char *name, const struct cell_slot *slot,
	struct cell_error *err);
/* Remove what an interrupted cell_store_remove left, and what dead processes kept. */
void cell_store_sweep(struct cell_store *s);

/* The names in use, sorted, NULL-terminated; free with cell_store_names_free. `max` 0: all. */
int cell_store_names(struct cell_store *s, size_t max, char ***ret, struct cell_error *err);
void cell_store_names_free(char ***names);
