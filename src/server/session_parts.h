/* SPDX-License-Identifier: Apache-2.0 */
/* session_parts.h: what the files that make up a session share, and nobody else needs. */
#pragma once
#include "server/session.h"

struct cell;
struct cell_config;

/* session.c: the table */
struct session *session_new(struct server *srv, const char *id);
int session_insert(struct session *s); /* -ENOMEM */
void session_forget(struct session *s);
void session_take_out(struct session *s); /* of the table; its reference goes */
void session_set_state(struct session *s, enum session_state state); /* and save it */
/* What a cell takes is held by its name: those who share it hold it together. */
void session_release_quota(struct session *s);
void session_close_spares(struct session *s);
bool session_add_waiter(struct session_waiter **list, void (*fn)(struct session *s, void *arg),
	void *arg);
void session_call_waiters(struct session *s, struct session_waiter **list);

/* session_make.c: a cell being made on a thread */
struct session_making {
	struct session *s;
	struct cell_config *cfg;
	struct cell *cell;
	struct cell_error err;
	int result;
	bool is_shared;
	const char *const *within; /* where its directories of the machine may be; NULL: anywhere */
	/* a fresh seat */
	void (*done)(struct session *s, struct seat *seat, const struct cell_error *why, void *arg);
	void *arg;
};
void session_making_work(void *arg);
const char *const *session_within(const struct session *s);
void session_make(struct session *s);
/* no longer `creating`: saved, and who waits is told */
void session_made(struct session *s, enum session_state state);

/* session_end.c */
int session_seat(struct session *s, struct cell *cell, struct cell_error *err);
/* Its cell is gone: what is left of it goes, too. */
void session_lose(struct session *s, const struct cell_error *why);
/* On a thread. Takes the cell; name is used where there is none. */
void session_remove_cell(struct server *srv, struct cell *cell, const char *name);

/* session_fresh.c */
int session_fresh_seat_of(struct session *s, struct cell *cell, struct seat **ret,
	struct cell_error *err);
