/* SPDX-License-Identifier: Apache-2.0 */
/* session_fresh.c: ephemeral sessions: a cell for each command, made for it and ended with it. */
#include <stdio.h>
#include <stdlib.h>

#include "cell/cell.h"
#include "cell/config.h"

#include "server/seat.h"
#include "server/server.h"
#include "server/session_parts.h"

static void fresh_broken(struct seat *seat, const struct cell_error *why, void *arg)
{
	(void)seat;
	(void)why;
	(void)arg; /* its one command has ended, and drops it */
}

int session_fresh_seat_of(struct session *s, struct cell *cell, struct seat **ret,
	struct cell_error *err)
{
	return seat_new(s->srv, cell, fresh_broken, NULL, ret, err);
}

static void fresh_made(void *arg)
{
	struct session_making *m = arg;
	struct seat *seat = NULL;

	cell_config_free(m->cfg);
	if (m->result == 0 &&
		session_require_ready(m->s, &m->err) < 0) { /* it was ended meanwhile */
		session_remove_cell(m->s->srv, m->cell, NULL);
	} else if (m->result == 0) {
		(void)snprintf(m->s->backend, sizeof m->s->backend, "%s", cell_backend_of(m->cell));
		(void)session_fresh_seat_of(m->s, m->cell, &seat, &m->err);
	}
	m->done(m->s, seat, &m->err, m->arg);
	session_unref(m->s);
	free(m);
}

static void fresh_failed(void *arg)
{
	struct session_making *m = arg;

	m->result = cell_fail(&m->err, CELL_EBUSY, 0, "too many cells are being made");
	(void)cell_error_hint(&m->err, 0, "try again in a second");
	fresh_made(m);
}

void session_fresh_seat(struct session *s,
	void (*done)(struct session *s, struct seat *seat, const struct cell_error *why, void *arg),
	void *arg)
{
	static unsigned number;
	struct session_making *m = calloc(1, sizeof *m);
	struct cell_error err = {0};
	char name[64];

	(void)snprintf(name, sizeof name, "%s.%.8s-%u", s->id, s->srv->boot_id, number++);
	if (!m || session_spec(s->srv, s->spec, name, true, &m->cfg, &err) < 0) {
		free(m);
		done(s, NULL, &err, arg);
		return;
	}
	session_ref(s);
	m->s = s;
	m->within = session_within(s);
	m->done = done;
	m->arg = arg;
	if (net_pool_work(s->srv->lives, session_making_work, fresh_made, m) < 0)
		(void)net_loop_post(s->srv->loop, fresh_failed, m);
}

static void drop_later(void *arg)
{
	struct seat *seat = arg;
	struct server *srv = seat->srv;

	session_remove_cell(srv, seat_free(seat), NULL);
}

void session_drop_seat(struct server *srv, struct seat *seat)
{
	(void)net_loop_post(srv->loop, drop_later, seat); /* never from inside of its own pump */
}
