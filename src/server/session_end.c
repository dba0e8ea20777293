/* SPDX-License-Identifier: Apache-2.0 */
/* session_end.c: how a session ends: its commands, its cell, its record; and what is done when its cell ended before it. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cell/cell.h"

#include "core/remove_tree.h"
#include "server/exec.h"
#include "server/filework.h"
#include "server/seat.h"
#include "server/server.h"
#include "server/session_parts.h"

#define KILL_ROUNDS   200
#define KILL_PAUSE_NS (20 * 1000000)

/* ---- losing it ---- */

static void on_broken(struct seat *seat, const struct cell_error *why, void *arg)
{
	struct session *s = arg;

	(void)seat;
	if (s->state == SESSION_READY)
		session_lose(s, why);
}

/* A cell on its way out, by its connection or its name. */
struct remains {
	struct cell *cell;
	char name[CELL_NAME_MAX];
};

static void remove_remains(void *arg)
{
	struct remains *r = arg;
	struct cell_error err = {0};

	/* what fails here is found again by the sweep: nobody owns it */
	if ((r->cell ? cell_destroy(r->cell, &err) : cell_remove(r->name, &err)) < 0 &&
		err.code != CELL_ENOTFOUND)
		log_failure("cell.remove", &err, r->name);
}

void session_remove_cell(struct server *srv, struct cell *cell, const char *name)
{
	struct remains *r = calloc(1, sizeof *r);

	if (r) {
		r->cell = cell;
		(void)snprintf(r->name, sizeof r->name, "%s", cell ? cell_name(cell) : name);
	}
	if (r && net_pool_work(srv->lives, remove_remains, free, r) == 0)
		return;
	free(r);
	if (cell) /* its name is what the sweep finds it by */
		(void)cell_close(cell, NULL);
}

static void bury(void *arg)
{
	struct session *s = arg;
	struct cell *cell = NULL;

	session_close_spares(s);
	if (s->state == SESSION_LOST && s->seat) {
		cell = seat_free(s->seat);
		s->seat = NULL;
	}
	if (s->state == SESSION_LOST) {
		if (session_other_user(s)) /* theirs to judge */
			(void)cell_close(cell, NULL);
		else
			session_remove_cell(s->srv, cell, s->cell_name);
		session_release_quota(s);
	}
	session_unref(s);
}

void session_lose(struct session *s, const struct cell_error *why)
{
	s->error = *why;
	log_event(LOG_WARN, "session.lost", "session", s->id, "error", why->msg, NULL);
	filework_lose(s);
	session_set_state(s, SESSION_LOST);
	session_ref(s);
	if (net_loop_post(s->srv->loop, bury, s) < 0) /* never inside of the seat's own callbacks */
		session_unref(s);
}

int session_seat(struct session *s, struct cell *cell, struct cell_error *err)
{
	return seat_new(s->srv, cell, on_broken, s, &s->seat, err);
}

/* ---- ending it ---- */

struct ending {
	struct session *s;
	struct cell *cell;
	char name[64];
	struct cell_error err;
	int result;
	bool is_kept;			 /* others use the cell */
	char (*execs)[CELL_EXEC_ID_MAX]; /* then: the session's commands, which end all the same */
	size_t n_execs;
	struct cell **fresh; /* of an ephemeral session's commands */
	size_t n_fresh;
};

struct still_running {
	const struct ending *e;
	bool is_any;
};

static int look_for(const struct cell_exec_info *info, void *user)
{
	struct still_running *s = user;

	for (size_t i = 0; i < s->e->n_execs && info->state != CELL_EXEC_EXITED; i++)
		s->is_any |= !strcmp(info->id, s->e->execs[i]);
	return 0;
}

/* Until none of them is left: a command that is just being started does not hear the first call. */
static void kill_commands(struct ending *e)
{
	const struct timespec pause = {.tv_nsec = KILL_PAUSE_NS};

	for (int round = 0; round < KILL_ROUNDS; round++) {
		struct still_running s = {.e = e};
		for (size_t i = 0; i < e->n_execs; i++)
			(void)cell_signal(e->cell, e->execs[i], SIGKILL, true, NULL);
		if (cell_ps(e->cell, look_for, &s, NULL) < 0 || !s.is_any)
			return;
		(void)nanosleep(&pause, NULL);
	}
}

static void end_work(void *arg)
{
	struct ending *e = arg;
	struct cell_error err = {0};

	if (e->is_kept) {
		if (e->cell && e->n_execs)
			kill_commands(e);
		(void)cell_close(e->cell, NULL);
		return;
	}
	e->result = e->cell ? cell_destroy(e->cell, &e->err) : cell_remove(e->name, &e->err);
	if (e->result < 0 && e->err.code == CELL_ENOTFOUND)
		e->result = 0;
	for (size_t i = 0; i < e->n_fresh; i++)
		if (cell_destroy(e->fresh[i], &err) < 0)
			log_failure("cell.remove", &err, e->name);
}

static void ended(void *arg)
{
	struct ending *e = arg;
	struct session *s = e->s;

	session_end_turn(s);
	if (e->result < 0) {
		log_failure("session.end", &e->err, s->id); /* the sweep tries again */
		s->error = e->err;
	} else {
		s->error = (struct cell_error){0};
		(void)cell_remove_tree(s->srv->spool_fd, s->id, NULL);
		session_forget(s);
	}
	session_call_waiters(s, &s->gone_waiters);
	session_unref(s);
	free(e->fresh);
	free(e->execs);
	free(e);
}

/* The sweep comes back to it; cells are found by their names. */
static void end_later(struct session *s)
{
	(void)cell_fail(&s->error, CELL_EBUSY, 0, "session '%s' could not be ended yet", s->id);
	(void)cell_error_hint(&s->error, 0, "it is tried again every second");
}

/* Commands in cells of their own: each with its seat. */
static void take_fresh(struct session *s, struct ending *e, const struct cell_error *why)
{
	e->fresh = calloc(s->n_execs + 1, sizeof(struct cell *));
	while (s->execs) {
		struct exec *x = s->execs;
		struct seat *seat = x->owns_seat ? x->seat : NULL;
		x->owns_seat =
			x->owns_seat && !e->fresh; /* without memory it is dropped on its own */
		if (x->seat)
			x->seat->is_broken = true;
		exec_lose(x, why);
		if (seat && e->fresh)
			e->fresh[e->n_fresh++] = seat_free(seat);
	}
}

static void note_command(struct ending *e, const struct exec *x)
{
	void *more = e->is_kept ? realloc(e->execs, (e->n_execs + 1) * sizeof *e->execs) : NULL;

	if (!more)
		return;
	e->execs = more;
	(void)snprintf(e->execs[e->n_execs++], sizeof *e->execs, "%s", x->id);
}

static void end_now(struct session *s)
{
	struct cell_error why = {.code = CELL_EGONE};
	struct ending *e;

	if (!session_take_turn(s, end_now))
		return;
	e = calloc(1, sizeof *e);
	if (!e) {
		session_end_turn(s);
		end_later(s);
		return;
	}
	e->is_kept = session_other_user(s) != NULL;
	(void)snprintf(why.msg, sizeof why.msg, "the session was ended");
	filework_lose(s);
	session_close_spares(s);
	if (s->seat) {
		s->seat->is_broken = true; /* nothing more is taken from it */
		for (struct exec *x = s->seat->execs; x; x = x->seat_next)
			note_command(e, x);
	}
	take_fresh(s, e, &why);
	if (s->seat) {
		e->cell = seat_free(s->seat);
		s->seat = NULL;
	}
	e->s = s;
	(void)snprintf(e->name, sizeof e->name, "%s", s->cell_name);
	session_ref(s);
	if (net_pool_work(s->srv->lives, end_work, ended, e) == 0)
		return;
	if (e->cell)
		(void)cell_close(e->cell, NULL);
	for (size_t i = 0; i < e->n_fresh; i++)
		(void)cell_close(e->fresh[i], NULL);
	session_end_turn(s);
	end_later(s);
	session_unref(s);
	free(e->fresh);
	free(e->execs);
	free(e);
}

static void end_posted(void *arg)
{
	end_now(arg);
	session_unref(arg);
}

/* Whoever asked may stand inside of a callback of the very seat that goes. */
static void post_end(struct session *s)
{
	session_ref(s);
	if (net_loop_post(s->srv->loop, end_posted, s) == 0)
		return;
	end_later(s);
	session_unref(s);
}

static void end_after_making(struct session *s, void *arg)
{
	(void)arg;
	post_end(s);
}

void session_end(struct session *s, const char *why, void (*fn)(struct session *s, void *arg),
	void *arg)
{
	bool is_making = s->state == SESSION_CREATING;
	bool is_first = s->state != SESSION_ENDING;

	if (s->is_gone) {
		if (fn)
			fn(s, arg);
		return;
	}
	if (fn)
		(void)session_add_waiter(&s->gone_waiters, fn, arg);
	if (!is_first && !s->error.code)
		return;
	if (is_first)
		log_event(LOG_INFO, "session.end", "session", s->id, "tenant", s->tenant, "why",
			why, NULL);
	s->error = (struct cell_error){0};
	session_set_state(s, SESSION_ENDING);
	if (is_making)
		(void)session_add_waiter(&s->made_waiters, end_after_making, NULL);
	else
		post_end(s);
}
