/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_recover.c: starting up is recovering. What the database says is compared with the cells there are: live ones are taken over with
 * their commands, dead ones told as lost, half-made ones made again, half-ended ones ended, and cells nobody knows are removed. While the
 * server runs, session_sweep() does the same for what changes behind its back, and ends what is over its time.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "cell/cell.h"
#include "cell/exec.h"

#include "base/cleanup.h"
#include "core/remove_tree.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/idempotency.h"
#include "server/schedule.h"
#include "server/seat.h"
#include "server/server.h"
#include "server/session_parts.h"
#include "server/snapshots.h"

#define RECOVER_MS     5000
#define THOROUGH_LOOKS 10 /* after the start: some minutes */

/* ---- from the database ---- */

static enum session_state state_of(const char *name)
{
	for (int i = SESSION_CREATING; i <= SESSION_LOST; i++)
		if (!strcmp(name, session_state_name((enum session_state)i)))
			return (enum session_state)i;
	return SESSION_LOST;
}

static json_t *parsed(const char *text)
{
	json_t *j = text ? json_loads(text, 0, NULL) : NULL;

	return j ? j : json_object();
}

static void read_error(struct session *s, const char *text)
{
	json_t *j = parsed(text);
	const char *msg = json_string_value(json_object_get(j, "msg"));
	const char *hint = json_string_value(json_object_get(j, "hint"));

	s->error.code = (enum cell_code)json_integer_value(json_object_get(j, "code"));
	(void)snprintf(s->error.msg, sizeof s->error.msg, "%s", msg ? msg : "");
	(void)snprintf(s->error.hint, sizeof s->error.hint, "%s", hint ? hint : "");
	json_decref(j);
}

static int on_row(const struct db_row *row, void *user)
{
	struct server *srv = user;
	struct session *s = session_new(srv, db_text(row, 0));

	if (!s)
		return -ENOMEM;
	(void)snprintf(s->tenant, sizeof s->tenant, "%s", db_text(row, 1));
	s->state = state_of(db_text(row, 2));
	(void)snprintf(s->lifecycle, sizeof s->lifecycle, "%s", db_text(row, 3));
	(void)snprintf(s->backend, sizeof s->backend, "%s", db_text(row, 4));
	s->spec = parsed(db_text(row, 5));
	s->labels = parsed(db_text(row, 6));
	s->degraded = db_is_null(row, 7) ? json_array() : parsed(db_text(row, 7));
	(void)snprintf(s->fingerprint, sizeof s->fingerprint, "%s", db_text(row, 8));
	s->created_ns = db_int(row, 9);
	s->last_used_ns = db_int(row, 10);
	session_name_cell(s);
	s->times.idle_ms = (uint64_t)db_int(row, 11);
	/* Nobody wrote down when it was used last: it counts as used now. */
	s->times.used_ns = clock_monotonic_ns();
	session_set_expiry(s, db_int(row, 12));
	if (!db_is_null(row, 13))
		read_error(s, db_text(row, 13));
	s->is_trusted = db_int(row, 14);
	struct cell_error err = {0};
	if (schedule_read(s, &err) < 0 || schedule_load(s, &err) < 0)
		log_failure("schedule.failed", &err, s->id);
	int r = session_insert(s);
	session_unref(s);
	return r;
}

/* ---- one session ---- */

static void reconciled(struct server *srv, const char *what)
{
	const char *labels[] = {what};

	metrics_add(srv->ledger.metrics, METRIC_RECONCILED, labels, 1);
}

/* Every spool of a session that is not done with, by its id. */
static void each_open_spool(struct session *s, void (*fn)(struct session *s, const char *id))
{
	int fd = exec_directory(s->srv, s->id, false, NULL);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			!spool_is_sealed(&st))
			fn(s, e->d_name);
}

/* Its command runs on in the session's cell, or is lost with it. */
static void adopt_exec(struct session *s, const char *id)
{
	struct cell_error err = {0};

	if (exec_adopt(s, s->seat, id, &err) < 0)
		log_failure("exec.adopt", &err, id);
}

/* A cell that is to be taken over: a session's, or that of one command of an ephemeral session. Connecting to its guest waits for the
 * guest, which may hang: that is done on threads. */
struct adoption {
	struct session *s;
	char name[CELL_NAME_MAX], exec[CELL_EXEC_ID_MAX];
	bool was_ready; /* otherwise its making was cut short */
	bool was_paused;
	struct cell *cell;
	struct cell_error err;
	int result;
};

static int note_paused(const struct cell_info *info, void *user)
{
	*(bool *)user = info->state == CELL_STATE_PAUSED;
	return 0;
}

static void adopt_work(void *arg)
{
	struct adoption *a = arg;

	/* one that stands still answers nobody: it moves for the moment that is needed to take it over */
	if (cell_inspect(a->name, note_paused, &a->was_paused, NULL) == 0 && a->was_paused)
		(void)cell_resume(a->name, NULL);
	a->result = cell_reopen(a->name, &a->cell, &a->err);
}

static void adoption_free(struct adoption *a)
{
	a->s->srv->n_adopting--;
	session_unref(a->s);
	free(a);
}

/* The cell of an ephemeral session's command. */
static void exec_adopted(struct adoption *a)
{
	struct session *s = a->s;
	struct seat *seat = NULL;
	struct cell_error err = a->err;

	if (a->result == 0)
		(void)session_fresh_seat_of(s, a->cell, &seat, &err);
	int is_running = exec_adopt(s, seat, a->exec, &err);
	if (is_running == 1)
		s->execs->prev->owns_seat = true; /* it was appended last */
	else if (seat)
		session_drop_seat(s->srv, seat);
	reconciled(s->srv, is_running == 1 ? "adopted" : "lost");
}

struct pausing {
	struct session *s;
	struct cell_error err;
	int result;
};

static void pause_again(void *arg)
{
	struct pausing *p = arg;

	p->result = cell_pause(p->s->cell_name, &p->err);
}

static void paused_again(void *arg)
{
	struct pausing *p = arg;

	if (p->result < 0) {
		log_failure("session.pause", &p->err, p->s->id);
		p->s->is_paused = false;
	}
	session_unref(p->s);
	free(p);
}

static void keep_paused(struct session *s)
{
	struct pausing *p = calloc(1, sizeof *p);

	if (!p)
		return;
	p->s = s;
	session_ref(s);
	s->is_paused = true; /* nobody begins anything in it meanwhile */
	if (net_pool_work(s->srv->lives, pause_again, paused_again, p) == 0)
		return;
	s->is_paused = false;
	session_unref(s);
	free(p);
}

static void cell_adopted(struct adoption *a)
{
	struct session *s = a->s;

	if (a->result == 0)
		a->result = session_seat(s, a->cell, &a->err);
	if (a->result == 0) {
		reconciled(s->srv, "adopted");
		each_open_spool(s, adopt_exec);
		if (a->was_paused)
			keep_paused(s);
		return;
	}
	each_open_spool(s, adopt_exec);
	if (a->was_ready) {
		reconciled(s->srv, "lost");
		session_lose(s, &a->err);
		return;
	}
	reconciled(s->srv, "made_again");
	s->is_adopting = false;
	session_make(s);
}

static void adopted(void *arg)
{
	struct adoption *a = arg;
	struct session *s = a->s;

	s->n_adopting--;
	if (s->state != SESSION_CREATING) { /* it was ended meanwhile: its cell is found by name */
		if (a->result == 0)
			(void)cell_close(a->cell, NULL);
	} else if (a->exec[0]) {
		exec_adopted(a);
	} else {
		cell_adopted(a);
	}
	if (!s->n_adopting && s->is_adopting)
		session_made(s, s->state == SESSION_CREATING ? SESSION_READY : s->state);
	adoption_free(a);
}

static void adopt_here(void *arg)
{
	adopt_work(arg);
	adopted(arg);
}

static int adopt(struct session *s, const char *name, const char *exec, bool was_ready)
{
	struct adoption *a = calloc(1, sizeof *a);

	if (!a)
		return -ENOMEM;
	a->s = s;
	a->was_ready = was_ready;
	(void)snprintf(a->name, sizeof a->name, "%s", name);
	(void)snprintf(a->exec, sizeof a->exec, "%s", exec);
	session_ref(s);
	s->n_adopting++;
	s->srv->n_adopting++;
	s->is_adopting = true;
	s->state = SESSION_CREATING;
	/* more than the queue takes: slower, but all of them */
	if (net_pool_work(s->srv->lives, adopt_work, adopted, a) < 0)
		return net_loop_post(s->srv->loop, adopt_here, a);
	return 0;
}

/* A command of an ephemeral session has a cell of its own, which its spool names. */
static void adopt_fresh(struct session *s, const char *id)
{
	struct cell_error err = {0};
	char name[CELL_NAME_MAX];

	if (exec_cell(s, id, name) == 0 && adopt(s, name, id, true) == 0)
		return;
	if (exec_adopt(s, NULL, id, &err) < 0)
		log_failure("exec.adopt", &err, id);
}

static int recover_one(struct session *s)
{
	bool is_ephemeral = !strcmp(s->lifecycle, "ephemeral");

	switch (s->state) {
	case SESSION_CREATING:
	case SESSION_READY:
		if (!is_ephemeral)
			return adopt(s, s->cell_name, "", s->state == SESSION_READY);
		if (s->state == SESSION_CREATING)
			session_make(s);
		else
			each_open_spool(s, adopt_fresh);
		break;
	case SESSION_ENDING:
		reconciled(s->srv, "ended");
		s->error = (struct cell_error){.code = CELL_EGONE}; /* so that it is done again */
		session_end(s, "was being ended", NULL, NULL);
		break;
	case SESSION_FAILED:
	case SESSION_LOST: /* a cell that is still there has no owner: find_orphans() */
		each_open_spool(s, adopt_exec);
		break;
	}
	return 0;
}

/* ---- cells nobody knows ---- */

struct orphans {
	struct server *srv;
	char (*names)[CELL_NAME_MAX];
	size_t n, room;
	bool is_thorough; /* engines are asked, too */
};

static int on_cell(const struct cell_info *info, void *user)
{
	struct orphans *o = user;
	bool is_ours = false;

	for (size_t i = 0; info->labels && info->labels[i]; i++)
		is_ours |= !strcmp(info->labels[i], "cell.session=1");
	if (!is_ours)
		return 0;
	if (o->n == o->room) {
		size_t room = o->room ? 2 * o->room : 64;
		void *more = realloc(o->names, room * sizeof *o->names);
		if (!more)
			return 1; /* the next sweep finds the rest */
		o->names = more;
		o->room = room;
	}
	(void)snprintf(o->names[o->n++], CELL_NAME_MAX, "%s", info->name);
	return 0;
}

/* SESSION, or SESSION.BOOT-NUMBER for a command's own. */
static bool has_owner(struct server *srv, const char *name)
{
	char id[CELL_NAME_MAX];
	struct session *s;

	(void)snprintf(id, sizeof id, "%s", name);
	char *dot = strchr(id, '.');
	if (dot)
		*dot = '\0';
	HASH_FIND_STR(srv->sessions, id, s);
	for (struct session *any = srv->sessions; !s && any && id[0] == 'w'; any = any->hh.next)
		if (!strcmp(any->cell_name, id) && any->state != SESSION_LOST &&
			any->state != SESSION_FAILED)
			return true;
	if (!s || s->state == SESSION_LOST || s->state == SESSION_FAILED)
		return false;
	/* this server's are looked after, also while they are being made */
	if (!dot || s->is_adopting || !strncmp(dot + 1, srv->boot_id, 8))
		return true;
	for (const struct exec *e = s->execs; e; e = e->next)
		if (e->seat && !strcmp(cell_name(e->seat->cell), name))
			return true;
	return false;
}

static void list_work(void *arg)
{
	struct orphans *o = arg;

	(void)cell_list(on_cell, arg, NULL);
	snapshots_tidy(o->srv->quota, o->is_thorough);
}

static void remove_orphans(void *arg)
{
	struct orphans *o = arg;
	struct cell_error err = {0};

	for (size_t i = 0; i < o->n; i++)
		if (cell_remove(o->names[i], &err) < 0 && err.code != CELL_ENOTFOUND)
			log_failure("orphan.remove", &err, o->names[i]);
		else
			log_event(LOG_INFO, "orphan.removed", "cell", o->names[i], NULL);
}

static void orphans_free(struct orphans *o)
{
	o->srv->is_looking = false;
	free(o->names);
	free(o);
}

static void orphans_removed(void *arg)
{
	struct orphans *o = arg;

	for (size_t i = 0; i < o->n; i++)
		reconciled(o->srv, "orphan_removed");
	orphans_free(o);
}

static void cells_listed(void *arg)
{
	struct orphans *o = arg;
	size_t n = 0;

	for (size_t i = 0; i < o->n; i++)
		if (!has_owner(o->srv, o->names[i]))
			memmove(o->names[n++], o->names[i], CELL_NAME_MAX);
	o->n = n;
	if (!n || net_pool_work(o->srv->lives, remove_orphans, orphans_removed, o) < 0)
		orphans_free(o);
}

/* Listing looks at every cell there is: on a thread, and one at a time. */
static void find_orphans(struct server *srv)
{
	struct orphans *o = srv->is_looking ? NULL : calloc(1, sizeof *o);

	if (!o)
		return;
	o->srv = srv;
	/* an engine may go on for a while to save what the last server had asked for */
	o->is_thorough = srv->n_looks++ < THOROUGH_LOOKS;
	srv->is_looking = true;
	if (net_pool_work(srv->lives, list_work, cells_listed, o) < 0)
		orphans_free(o);
}

/* Spools of sessions that are gone. */
static void find_stray_spools(struct server *srv)
{
	int fd = openat(srv->spool_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	for (struct dirent *e; d && (e = readdir(d));) {
		struct session *s;
		if (e->d_name[0] == '.')
			continue;
		HASH_FIND_STR(srv->sessions, e->d_name, s);
		if (!s)
			(void)cell_remove_tree(srv->spool_fd, e->d_name, NULL);
	}
}

/* What a session holds that was never written down, or is gone. */
struct holds {
	struct server *srv;
	char (*ids)[64];
	size_t n;
};

static int on_hold(const char *id, const char *tenant, void *user)
{
	struct holds *h = user;
	struct session *s;
	size_t n = strcspn(id, "/"); /* s.../spool */
	char name[64];

	(void)tenant;
	if (!strncmp(id, SNAPSHOTS_HOLD, strlen(SNAPSHOTS_HOLD) - 2)) /* counted by snapshots.c */
		return 0;
	(void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), id);
	HASH_FIND_STR(h->srv->sessions, name, s);
	for (struct session *any = h->srv->sessions; !s && any && id[0] == 'w'; any = any->hh.next)
		if (!strcmp(any->cell_name, name))
			s = any;
	if (s && (id[n] || (s->state != SESSION_LOST && s->state != SESSION_FAILED)))
		return 0;
	void *more = realloc(h->ids, (h->n + 1) * sizeof *h->ids);
	if (!more)
		return 1;
	h->ids = more;
	(void)snprintf(h->ids[h->n++], sizeof *h->ids, "%s", id);
	return 0;
}

static void release_stray_holds(struct server *srv)
{
	struct holds h = {.srv = srv};

	(void)quota_each(srv->quota, on_hold, &h, NULL);
	for (size_t i = 0; i < h.n; i++)
		(void)quota_release(srv->quota, h.ids[i], NULL);
	free(h.ids);
}

static void out_of_patience(void *arg)
{
	*(bool *)arg = true;
}

static void drop_old_spools(struct session *s, int64_t now_ns);

int session_recover(struct server *srv, struct cell_error *err)
{
	struct session *s, *next;
	struct net_timer *timer = NULL;
	bool is_late = false;
	int r = db_each(srv->db, on_row, srv, err,
		"SELECT id, tenant, state, lifecycle, backend, spec, labels, degraded, "
		"fingerprint, "
		"created_ns, last_used_ns, idle_ms, expires_ns, error, is_trusted FROM sessions",
		"");

	if (r == 0)
		r = net_timer_new(srv->loop, out_of_patience, &is_late, &timer);
	if (r < 0)
		return r;
	HASH_ITER (hh, srv->sessions, s, next) {
		if (r == 0 && (r = recover_one(s)) < 0)
			(void)cell_fail_errno(err, -r, "take over session '%s'", s->id);
		drop_old_spools(s, clock_unix_ns());
	}
	find_stray_spools(srv);
	release_stray_holds(srv);
	/* A guest that hangs must not keep the others' clients waiting: its session is `creating` until it answers. */
	net_timer_start(timer, RECOVER_MS, 0);
	while (srv->n_adopting && !is_late)
		net_loop_step(srv->loop, true);
	net_timer_free(timer);
	find_orphans(srv);
	return r;
}

/* ---- while it runs ---- */

/* Finished commands that nobody asked for in a while. */
static void drop_old_spools(struct session *s, int64_t now_ns)
{
	int fd = exec_directory(s->srv, s->id, false, NULL);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;
	uint64_t bytes = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		struct exec *x;
		bool is_running = false;
		if (e->d_name[0] == '.' || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		int64_t age_ms =
			(now_ns - st.st_mtim.tv_sec * NS_PER_S - st.st_mtim.tv_nsec) / NS_PER_MS;
		for (x = s->execs; x && !is_running; x = x->next)
			is_running = !strcmp(x->id, e->d_name);
		if (!is_running && age_ms > (int64_t)s->srv->set.spool_keep_ms)
			(void)unlinkat(fd, e->d_name, 0);
		else if (!is_running)
			bytes += (uint64_t)st.st_blocks * 512;
	}
	s->spooled_bytes = bytes;
	(void)session_hold_spool(s);
}

void session_sweep(struct server *srv)
{
	static unsigned turn;
	int64_t now = clock_unix_ns();
	struct session *s, *next;

	turn++;
	HASH_ITER (hh, srv->sessions, s, next) {
		if (s->is_unsaved)
			(void)session_save(s, NULL);
		if (s->state == SESSION_ENDING) {
			if (s->error.code)
				session_end(s, "tried again", NULL, NULL);
			continue;
		}
		exec_check_deadlines(s);
		enum session_due due = session_times_due(&s->times,
			s->execs || s->is_adopting || (s->seat && s->seat->lanes),
			clock_monotonic_ns());
		if (due == SESSION_EXPIRED)
			session_end(s, "its time is over", NULL, NULL);
		else if (due == SESSION_IDLE)
			session_end(s, "idle", NULL, NULL);
		else if ((turn + (unsigned)s->created_ns) % 60 == 0)
			drop_old_spools(s, now);
	}
	if (turn % 30 == 0)
		find_orphans(srv);
	if (turn % 600 == 0)
		idempotency_sweep(srv);
}

/* Its commands run on: the next server takes them over. */
static void let_go_of_execs(struct session *s)
{
	while (s->execs) {
		struct exec *e = s->execs;
		struct seat *seat = e->owns_seat ? e->seat : NULL;
		if (e->seat)
			seat_remove(e->seat, e);
		DL_DELETE(s->execs, e);
		s->n_execs--;
		s->srv->n_execs--;
		exec_unref(e);
		if (seat)
			(void)cell_close(seat_free(seat), NULL);
	}
}

void session_let_go(struct server *srv)
{
	struct session *s, *next;

	HASH_ITER (hh, srv->sessions, s, next) {
		if (!s->is_adopting)
			(void)session_save(s, NULL);
		let_go_of_execs(s);
		if (s->seat)
			(void)cell_close(seat_free(s->seat), NULL);
		s->seat = NULL;
		session_take_out(s); /* of this server's table, not of the database */
	}
}
