/* SPDX-License-Identifier: Apache-2.0 */
/* seat.c: see seat.h. */
#include "server/seat.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "cell/cell.h"

#include "server/exec.h"
#include "server/server.h"

#define ROUNDS	 32 /* of one command before others have their turn */
#define RETRY_MS 500

/* Every command waits for its reader: what lies there is not taken, so do not ask whether there is something. */
static bool are_held(const struct seat *seat)
{
	const struct exec *e;

	DL_FOREACH2(seat->execs, e, seat_next)
	if (!exec_is_held(e))
		return false;
	return seat->execs != NULL;
}

static void set_events(struct seat *seat)
{
	int events = NET_READABLE;

	bool is_held = !seat->is_broken && !seat->is_stalled && are_held(seat);
	if (seat->is_broken || seat->is_stalled || is_held) {
		(void)net_watch_set(seat->watch, 0);
		if (is_held) /* a reader that is expected may never come */
			net_timer_start(seat->retry, RETRY_MS, 0);
		return;
	}
	if (cell_poll_events(seat->cell) & POLLOUT)
		events |= NET_WRITABLE;
	(void)net_watch_set(seat->watch, events);
}

static void lose_lanes(struct seat *seat, const struct cell_error *why)
{
	while (seat->lanes) {
		struct seat_lane *l = seat->lanes;
		l->lost(l, why);
	}
}

void seat_break(struct seat *seat, const struct cell_error *why)
{
	if (seat->is_broken)
		return;
	seat->is_broken = true;
	(void)net_watch_set(seat->watch, 0);
	while (seat->execs) {
		struct exec *e = seat->execs;
		exec_lose(e, why);
	}
	lose_lanes(seat, why);
	seat->broken(seat, why, seat->arg);
}

/* What one of them read from the connection may have been another's: the descriptor tells nobody of it any more. */
static bool has_news(const struct seat *seat)
{
	const struct exec *e;
	const struct seat_lane *l;

	DL_FOREACH2(seat->execs, e, seat_next)
	if (e->x && !e->end && cell_exec_has_news(e->x))
		return true;
	DL_FOREACH (seat->lanes, l)
		if (!l->is_blocked && l->has_news(l))
			return true;
	return false;
}

static bool pump_lanes(struct seat *seat)
{
	struct seat_lane *l, *next;
	bool is_more = false;

	/* a lane that is pumped removes at most itself */
	DL_FOREACH_SAFE(seat->lanes, l, next)
	{
		for (int i = 0; i < ROUNDS && !l->is_blocked; i++) {
			if (!l->pump(l)) /* it may be gone now */
				break;
			is_more = true;
		}
		if (seat->is_broken)
			return false;
	}
	return is_more;
}

/* Everything there is, each command in its turn. */
static void pump(struct seat *seat)
{
	bool is_more = true;

	while (is_more && !seat->is_broken && !seat->is_stalled) {
		struct exec *e, *next;
		is_more = false;
		DL_FOREACH_SAFE2(seat->execs, e, next, seat_next)
		{
			/* what it reads for others is theirs to take in the next round */
			for (int i = 0; i < ROUNDS && exec_pump(e); i++)
				is_more = true;
			if (seat->is_broken || seat->is_stalled)
				break;
		}
		if (!seat->is_broken && !seat->is_stalled)
			is_more |= pump_lanes(seat);
		if (!is_more && !seat->is_broken)
			is_more = has_news(seat);
	}
}

/* Does anybody take what comes? */
static bool is_heard(const struct seat *seat)
{
	const struct seat_lane *l;

	if (seat->execs)
		return true;
	DL_FOREACH (seat->lanes, l)
		if (!l->is_blocked)
			return true;
	return false;
}

static void on_ready(void *arg, int events)
{
	struct seat *seat = arg;

	(void)events;
	if (!is_heard(seat)) { /* nobody listens: notice that the guest is gone, and flush */
		struct cell_error err = {0};
		if (cell_poll(seat->cell, &err) < 0) {
			seat_break(seat, &err);
			return;
		}
	}
	pump(seat);
	if (!seat->is_broken)
		set_events(seat);
}

static void on_retry(void *arg)
{
	struct seat *seat = arg;
	struct exec *e, *next;

	DL_FOREACH_SAFE2(seat->execs, e, next, seat_next)
	{
		if (!exec_retry(e)) {
			net_timer_start(seat->retry, RETRY_MS, 0);
			return;
		}
	}
	seat->is_stalled = false;
	pump(seat);
	if (!seat->is_broken)
		set_events(seat);
}

int seat_new(struct server *srv, struct cell *cell,
	void (*broken)(struct seat *seat, const struct cell_error *why, void *arg), void *arg,
	struct seat **ret, struct cell_error *err)
{
	struct seat *seat = calloc(1, sizeof *seat);
	int r = -ENOMEM;

	if (seat) {
		*seat = (struct seat){.srv = srv, .cell = cell, .broken = broken, .arg = arg};
		r = net_timer_new(srv->loop, on_retry, seat, &seat->retry);
	}
	if (r < 0)
		(void)cell_fail_errno(err, -r, "hold a cell");
	else
		r = net_watch_new(srv->loop, cell_poll_fd(cell), on_ready, seat, &seat->watch, err);
	if (r < 0) {
		if (seat)
			net_timer_free(seat->retry);
		free(seat);
		(void)cell_close(cell, NULL);
		return r;
	}
	set_events(seat);
	*ret = seat;
	return 0;
}

struct cell *seat_free(struct seat *seat)
{
	struct cell *cell = seat->cell;
	struct cell_error why = {.code = CELL_EGONE};

	(void)snprintf(why.msg, sizeof why.msg, "the session has ended");
	lose_lanes(seat, &why);
	while (seat->execs)
		seat_remove(seat, seat->execs);
	net_watch_free(seat->watch);
	net_timer_free(seat->retry);
	free(seat);
	return cell;
}

void seat_add(struct seat *seat, struct exec *e)
{
	e->seat = seat;
	DL_APPEND2(seat->execs, e, seat_prev, seat_next);
	set_events(seat);
}

void seat_remove(struct seat *seat, struct exec *e)
{
	DL_DELETE2(seat->execs, e, seat_prev, seat_next);
	e->seat = NULL;
	cell_exec_free(e->x);
	e->x = NULL;
}

void seat_add_lane(struct seat *seat, struct seat_lane *l)
{
	l->seat = seat;
	DL_APPEND(seat->lanes, l);
	set_events(seat);
}

void seat_remove_lane(struct seat_lane *l)
{
	if (!l->seat)
		return;
	DL_DELETE(l->seat->lanes, l);
	l->seat = NULL;
}

void seat_pump(struct seat *seat)
{
	pump(seat);
	if (!seat->is_broken)
		set_events(seat);
}

void seat_wake(struct seat *seat)
{
	if (seat->is_broken || seat->is_stalled)
		return;
	pump(seat);
	if (!seat->is_broken)
		set_events(seat);
}

void seat_kick(struct seat *seat)
{
	/* answers may have been read along with what was sent */
	if (!seat->is_broken && !seat->is_stalled)
		set_events(seat);
}

void seat_stall(struct seat *seat)
{
	seat->is_stalled = true;
	(void)net_watch_set(seat->watch, 0);
	net_timer_start(seat->retry, RETRY_MS, 0);
}
