/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seat.h: a cell as the loop holds it: the connection to its guest, watched, and the commands whose output comes over it. A session has
 * one; a command of an ephemeral session has one to itself.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"

struct server;
struct cell;
struct exec;
struct net_watch;
struct net_timer;

/* Another stream over the seat's connection: a connection into the cell. */
struct seat_lane {
	/* Take what there is. True: there may be more at once. It may remove itself, and others. */
	bool (*pump)(struct seat_lane *l);
	bool (*has_news)(const struct seat_lane *l);
	void (*lost)(struct seat_lane *l,
		const struct cell_error *why); /* the guest is gone: it must remove itself */
	struct seat *seat;
	struct seat_lane *next, *prev;
	bool is_blocked; /* takes nothing now */
};

struct seat {
	struct server *srv;
	struct cell *cell; /* owned */
	struct net_watch *watch;
	struct net_timer *retry;
	struct exec *execs; /* running in it; utlist by seat_next */
	struct seat_lane *lanes;
	bool is_broken;
	bool is_stalled; /* the disk is full: nothing is taken until it is not */
	/* Its guest is gone; every command of it has ended with why. The seat is still there, and must not be freed in here. */
	void (*broken)(struct seat *seat, const struct cell_error *why, void *arg);
	void *arg;
};

/* Takes the cell over, also on failure (then it is closed: a named one goes on). */
int seat_new(struct server *srv, struct cell *cell,
	void (*broken)(struct seat *seat, const struct cell_error *why, void *arg), void *arg,
	struct seat **ret, struct cell_error *err);
/* Lets go of the connection; the cell is given back and is the caller's. Commands of it are let go of as well: they run on. */
struct cell *seat_free(struct seat *seat);

void seat_add(struct seat *seat, struct exec *e);
void seat_remove(struct seat *seat, struct exec *e);
void seat_add_lane(struct seat *seat, struct seat_lane *l);
void seat_remove_lane(struct seat_lane *l); /* nothing to do when it is in none */
/* The guest's connection broke: end what ran in it. */
void seat_break(struct seat *seat, const struct cell_error *why);
/* The disk is full: take nothing more until exec_retry() succeeds for all. */
void seat_stall(struct seat *seat);
/* Somebody takes again: give out what waits. */
void seat_pump(struct seat *seat);
/* Something was queued for the guest: see to it that it leaves. */
void seat_kick(struct seat *seat);
/* A reader that held a command back has moved on, or is gone. */
void seat_wake(struct seat *seat);
