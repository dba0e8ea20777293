/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: making struct cell and calling its chain of back ends; for cell.c and cells.c. */
#pragma once
#include "cell/cell.h"

#include "core/cell.h"
#include "core/store.h"

#define CELL_CONNECT_TIMEOUT_MS 10000 /* for a guest to say hello */

void cell_handle_freep(struct cell **c);
#define auto_cell __attribute__((cleanup(cell_handle_freep)))

/* The handle as the spec wants it, nothing outside of this process touched yet. */
int cell_prepare(const struct cell_spec *spec, struct cell **ret, struct cell_error *err);
/* shelf.c: spec.warm and spec.preload in one text; NULL when there is nothing. */
int cell_warm_text(const struct cell_spec *spec, char **ret, struct cell_error *err);
/* Have the guest start them now, with the cell's environment. Where it cannot, the first run does. */
void cell_warm_now(struct cell *c);
/* Allocates the states of the chain, too. */
int cell_handle_set_chain(struct cell *c, const struct cell_backend *const *chain);
/* The handle owns what the slot had. */
void cell_handle_take_slot(struct cell *c, struct cell_slot *slot);
/* record may be NULL: a cell of which nothing is known but its directory. Takes the slot over, also
 * on failure. */
int cell_handle_from_record(const char *name, json_t *record, struct cell_slot *slot,
	struct cell **ret, struct cell_error *err);

/* The chain from the outside; errors carry the back end's name. */
int cell_place_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err);
int cell_place_connect(struct cell *c, struct cell_error *err); /* open_guest and hello: c->link */
void cell_place_detach(struct cell *c);
int cell_place_destroy(struct cell *c, struct cell_error *err);
bool cell_place_is_alive(struct cell *c);
/* Of the first in the chain that has the slot: a wrapper without it lets the call through. */
int cell_place_pause(struct cell *c, bool is_on, struct cell_error *err);
int cell_place_snapshot(struct cell *c, const char *id, unsigned *ret_apart,
	struct cell_error *err);
int cell_place_forget(struct cell *c, const char *id, struct cell_error *err);
/* -ENOTSUP with err untouched: the guest is to be asked. */
int cell_place_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err);

/* One cell by its name and record, not connected; the caller's. */
int cell_look(struct cell_store *s, const char *name, struct cell **ret, enum cell_state *ret_state,
	struct cell_error *err);
/* The same, held against others who would remove or change it; of an ephemeral cell, whose owner holds it, just found. Waits
 * a while for who holds it now, then CELL_EBUSY. */
int cell_look_held(struct cell_store *s, const char *name, struct cell **ret,
	enum cell_state *ret_state, struct cell_error *err);
/* "there is no cell". */
int cell_fail_no_cell(const char *name, struct cell_error *err);
/* Is it paused, as its record has it? */
bool cell_is_paused(const struct cell *c);

/* Judge one cell and remove it when it is dead, half-made or without owner. fn (may be NULL) is
 * told before. 1 when it was removed, 0 when there was nothing to do. */
int cell_reap(struct cell_store *s, const char *name, cell_info_fn fn, void *user,
	struct cell_error *err);
/* The same for up to `max` cells (0: all); errors are passed over. */
void cell_reap_some(struct cell_store *s, size_t max);
