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

#include "base/cleanup.h"
#include "core/remove_tree.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/idempotency.h"
#include "server/schedule.h"
#include "server/seat.h"
#include "server/server.h"
#include "server/session.h"

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
	s->idle_timeout_ms = (uint64_t)db_int(row, 11);
	s->expires_ns = db_int(row, 12);
	if (!db_is_null(row, 13))
		read_error(s, db_text(row, 13));
	struct cell_error err = {0};
	if (schedule_read(s, &err) < 0 || schedule_load(s, &err) < 0)
		log_failure("schedule.failed", &err, s->id);
	int r = session_insert(s);
	session_unref(s);
	return r;
}

/* ---- one session ---- */

/* Every spool of a session that has no end: its command runs, or is lost. */
static void adopt_execs(struct session *s, struct seat *seat)
{
	struct cell_error err = {0};
	int fd = exec_directory(s->srv, s->id, false, NULL);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		err = (struct cell_error){0};
		if (exec_adopt(s, seat, e->d_name, &err) < 0)
			log_failure("exec.adopt", &err, e->d_name);
	}
}

static void reconciled(struct server *srv, const char *what)
{
	const char *labels[] = {what};

	metrics_add(srv->ledger.metrics, METRIC_RECONCILED, labels, 1);
}

static void adopt(struct session *s)
{
	struct cell_error err = {0};
	struct cell *cell = NULL;
	int r = cell_reopen(s->cell_name, &cell, &err);

	if (r == 0)
		r = session_seat(s, cell, &err);
	if (r == 0) {
		s->state = SESSION_READY;
		reconciled(s->srv, "adopted");
		adopt_execs(s, s->seat);
		return;
	}
	log_failure("session.lost", &err, s->id);
	s->error = err;
	s->state = SESSION_LOST;
	reconciled(s->srv, "lost");
	adopt_execs(s, NULL);
	(void)session_save(s, NULL);
}

/* The command of an ephemeral session had a cell that died with the server's connection, or waits without owner. */
static void give_up_execs(struct session *s)
{
	adopt_execs(s, NULL);
}

static void recover_one(struct session *s)
{
	bool is_ephemeral = !strcmp(s->lifecycle, "ephemeral");

	switch (s->state) {
	case SESSION_CREATING:
		reconciled(s->srv, "made_again");
		session_make(s);
		break;
	case SESSION_READY:
		if (is_ephemeral)
			give_up_execs(s);
		else
			adopt(s);
		break;
	case SESSION_ENDING:
		reconciled(s->srv, "ended");
		s->error = (struct cell_error){.code = CELL_EGONE}; /* so that it is done again */
		session_end(s, "was being ended", NULL, NULL);
		break;
	case SESSION_FAILED:
	case SESSION_LOST:
		break;
	}
}

/* ---- cells nobody knows ---- */

struct orphans {
	struct server *srv;
	char names[256][CELL_NAME_MAX];
	size_t n;
};

static int on_cell(const struct cell_info *info, void *user)
{
	struct orphans *o = user;
	struct session *s;
	char id[CELL_NAME_MAX];
	bool is_ours = false;

	for (size_t i = 0; info->labels && info->labels[i]; i++)
		is_ours |= !strcmp(info->labels[i], "cell.session=1");
	if (!is_ours || o->n == sizeof o->names / sizeof *o->names)
		return 0;
	(void)snprintf(id, sizeof id, "%s", info->name);
	HASH_FIND_STR(o->srv->sessions, id, s);
	for (struct session *any = o->srv->sessions; !s && any && id[0] == 'w'; any = any->hh.next)
		if (!strcmp(any->cell_name, id))
			s = any;
	if (s)
		return 0;
	/* s<id>.<boot>-<n>: a command's own cell; of this server they are looked after */
	char *dot = strchr(id, '.');
	if (dot && !strncmp(dot + 1, o->srv->boot_id, 8))
		return 0;
	(void)snprintf(o->names[o->n++], CELL_NAME_MAX, "%s", info->name);
	return 0;
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

static void orphans_removed(void *arg)
{
	struct orphans *o = arg;

	for (size_t i = 0; i < o->n; i++)
		reconciled(o->srv, "orphan_removed");
	free(o);
}

static void find_orphans(struct server *srv)
{
	struct orphans *o = calloc(1, sizeof *o);

	if (!o)
		return;
	o->srv = srv;
	(void)cell_list(on_cell, o, NULL);
	if (!o->n || net_pool_work(srv->lives, remove_orphans, orphans_removed, o) < 0)
		free(o);
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

/* ---- quotas that nobody holds ---- */

struct holds {
	struct server *srv;
	char ids[256][64];
	size_t n;
};

static bool is_holder(const char *name, const char *id, size_t n)
{
	return strlen(name) == n && !strncmp(name, id, n);
}

static int on_hold(const char *id, const char *tenant, void *user)
{
	struct holds *h = user;
	struct session *s;
	size_t n = strcspn(id, "/"); /* s.../spool */
	char name[64];

	(void)tenant;
	(void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), id);
	HASH_FIND_STR(h->srv->sessions, name, s);
	for (struct session *any = h->srv->sessions; !s && any && id[0] == 'w'; any = any->hh.next)
		if (is_holder(any->cell_name, id, n))
			s = any;
	if (!s && h->n < sizeof h->ids / sizeof *h->ids)
		(void)snprintf(h->ids[h->n++], sizeof *h->ids, "%s", id);
	return 0;
}

/* Of sessions that a killed server had just begun to make, or just ended. */
static void release_stray_holds(struct server *srv)
{
	struct holds *h = calloc(1, sizeof *h);

	if (!h)
		return;
	h->srv = srv;
	(void)quota_each(srv->quota, on_hold, h, NULL);
	for (size_t i = 0; i < h->n; i++)
		(void)quota_release(srv->quota, h->ids[i], NULL);
	free(h);
}

static void drop_old_spools(struct session *s, int64_t now_ns);

int session_recover(struct server *srv, struct cell_error *err)
{
	struct session *s, *next;
	int r = db_each(srv->db, on_row, srv, err,
		"SELECT id, tenant, state, lifecycle, backend, spec, labels, degraded, "
		"fingerprint, created_ns, last_used_ns,"
		" idle_ms, expires_ns, error FROM sessions",
		"");

	if (r < 0)
		return r;
	HASH_ITER (hh, srv->sessions, s, next) {
		recover_one(s);
		drop_old_spools(s, clock_unix_ns());
	}
	release_stray_holds(srv);
	find_stray_spools(srv);
	find_orphans(srv);
	return 0;
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
		int64_t idle_ms = (now - s->last_used_ns) / NS_PER_MS;

		if (s->state == SESSION_ENDING) {
			if (s->error.code)
				session_end(s, "tried again", NULL, NULL);
			continue;
		}
		if (s->expires_ns && now >= s->expires_ns)
			session_end(s, "its time is over", NULL, NULL);
		else if (s->idle_timeout_ms && !s->execs && !(s->seat && s->seat->lanes) &&
			 idle_ms > (int64_t)s->idle_timeout_ms)
			session_end(s, "idle", NULL, NULL);
		else if (turn % 60 == 0)
			drop_old_spools(s, now);
	}
	if (turn % 30 == 0)
		find_orphans(srv);
	if (turn % 600 == 0)
		idempotency_sweep(srv);
}

void session_let_go(struct server *srv)
{
	struct session *s, *next;

	HASH_ITER (hh, srv->sessions, s, next) {
		(void)session_save(s, NULL);
		while (s->execs) { /* they run on; the next server takes them over */
			struct exec *e = s->execs;
			struct seat *seat = e->seat;
			if (seat)
				seat_remove(seat, e);
			if (seat && e->owns_seat)
				(void)cell_close(seat_free(seat), NULL);
			DL_DELETE(s->execs, e);
			s->n_execs--;
			srv->n_execs--;
			exec_unref(e);
		}
		if (s->seat)
			(void)cell_close(seat_free(s->seat), NULL);
		s->seat = NULL;
		session_take_out(s); /* of this server's table, not of the database */
	}
}
