/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: see session.h. */
#include "server/session.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "cell/cell.h"
#include "cell/config.h"

#include "base/cleanup.h"
#include "core/env.h"
#include "core/remove_tree.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/redact.h"
#include "server/schedule.h"
#include "server/seat.h"
#include "server/server.h"

#define MAKE_TRIES    5
#define KILL_ROUNDS   200
#define KILL_PAUSE_NS (20 * 1000000)
#define SPOOL_HOLD    "%s/spool" /* what its output holds of the tenant's storage */
#define SPOOL_STEP    20	 /* a MiB more or less is not worth writing down */

static const char *const migrations[] = {
	"CREATE TABLE sessions (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, "
	"lifecycle TEXT NOT NULL,"
	" backend TEXT NOT NULL, spec TEXT NOT NULL, labels TEXT NOT NULL, degraded TEXT, "
	"fingerprint TEXT NOT NULL,"
	" created_ns INTEGER NOT NULL, last_used_ns INTEGER NOT NULL, idle_ms INTEGER NOT NULL, "
	"expires_ns INTEGER NOT NULL,"
	" error TEXT) WITHOUT ROWID;",
	NULL};
const struct db_module session_module = {"sessions", migrations};

const char *session_state_name(enum session_state state)
{
	static const char *const names[] = {"creating", "ready", "failed", "ending", "lost"};

	return names[state];
}

/* ---- connections besides the seat's ---- */

struct cell *session_take_spare(struct session *s)
{
	return s->n_spares ? s->spares[--s->n_spares] : NULL;
}

bool session_keep_spare(struct session *s, struct cell *cell)
{
	if (s->state != SESSION_READY || s->is_gone || s->n_spares == SESSION_SPARES)
		return false;
	s->spares[s->n_spares++] = cell;
	return true;
}

static void close_spares(struct session *s)
{
	while (s->n_spares)
		(void)cell_close(s->spares[--s->n_spares], NULL);
}

/* ---- the table ---- */

struct session *session_new(struct server *srv, const char *id)
{
	struct session *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	(void)snprintf(s->id, sizeof s->id, "%s", id);
	s->srv = srv;
	s->refs = 1;
	return s;
}

void session_ref(struct session *s)
{
	s->refs++;
}

void session_unref(struct session *s)
{
	if (!s || --s->refs)
		return;
	json_decref(s->spec);
	json_decref(s->labels);
	json_decref(s->degraded);
	close_spares(s);
	schedule_free(s->schedule);
	free(s);
}

int session_insert(struct session *s)
{
	HASH_ADD_STR(s->srv->sessions, id, s);
	if (!table_has(s))
		return -ENOMEM;
	session_ref(s);
	return 0;
}

/* What a cell takes is held by its name: those who share it hold it together. */
static void release_quota(struct session *s)
{
	if (!session_other_user(s))
		(void)quota_release(s->srv->quota, s->cell_name, NULL);
}

void session_take_out(struct session *s)
{
	s->is_gone = true;
	HASH_DEL(s->srv->sessions, s);
	session_unref(s);
}

void session_forget(struct session *s)
{
	if (s->is_gone)
		return;
	session_ref(s);
	session_take_out(s);
	(void)db_run(s->srv->db, NULL, "DELETE FROM sessions WHERE id = ?", "s", s->id);
	char id[64];
	(void)snprintf(id, sizeof id, SPOOL_HOLD, s->id);
	release_quota(s);
	(void)quota_release(s->srv->quota, id, NULL);
	schedule_forget(s);
	session_unref(s);
}

const char *session_name(const struct session *s)
{
	return json_string_value(json_object_get(s->labels, SESSION_NAME));
}

struct session *session_named(struct server *srv, const char *name, const char *tenant)
{
	struct session *s, *next;

	HASH_ITER (hh, srv->sessions, s, next) {
		const char *have = session_name(s);
		if (have && !strcmp(have, name) && !strcmp(s->tenant, tenant))
			return s;
	}
	return NULL;
}

int session_check_name(struct server *srv, const char *name, const char *tenant,
	const struct session *self, struct cell_error *err)
{
	const struct session *other = session_named(srv, name, tenant);

	if (!other || other == self)
		return 0;
	int r = cell_fail(err, CELL_EEXISTS, 0, "there is already a cell '%.64s'", name);
	return cell_error_hint(err, r, "choose another name, or remove it: cell rm %.64s", name);
}

int session_find(struct server *srv, const char *id, const char *own_tenant, bool is_any,
	struct session **ret, struct cell_error *err)
{
	struct session *s;

	HASH_FIND_STR(srv->sessions, id, s);
	if (!s)
		s = session_named(srv, id, own_tenant);
	/* another tenant's is not there, as far as this one can tell */
	if (!s || (!is_any && strcmp(s->tenant, own_tenant))) {
		int r = cell_fail(err, CELL_ENOTFOUND, ENOENT, "there is no session '%.64s'", id);
		return cell_error_hint(err, r,
			"GET /v1/sessions lists them; they end when idle for too long");
	}
	session_ref(s);
	*ret = s;
	return 0;
}

void session_touch(struct session *s)
{
	s->last_used_ns = clock_unix_ns();
	s->times.used_ns = clock_monotonic_ns();
}

void session_set_expiry(struct session *s, int64_t expires_ns)
{
	uint64_t longest_ms = s->srv->set.max_lifetime_ms;
	int64_t last = s->created_ns + (int64_t)longest_ms * NS_PER_MS;

	s->expires_ns = longest_ms && (!expires_ns || expires_ns > last) ? last : expires_ns;
	s->times.end_ns = session_times_end(s->expires_ns, clock_unix_ns(), clock_monotonic_ns());
}

static char *dumped(const json_t *j)
{
	return j ? json_dumps(j, JSON_COMPACT) : NULL;
}

int session_save(struct session *s, struct cell_error *err)
{
	auto_free char *spec = dumped(s->spec), *labels = dumped(s->labels),
		       *degraded = dumped(s->degraded);
	json_t *why = s->error.code ? json_pack("{s:i, s:s, s:s, s:s}", "code", (int)s->error.code,
					      "msg", s->error.msg, "hint", s->error.hint, "backend",
					      s->error.backend)
				    : NULL;
	auto_free char *error = dumped(why);

	json_decref(why);
	int r = db_run(s->srv->db, err,
		"INSERT OR REPLACE INTO sessions (id, tenant, state, lifecycle, backend, spec, "
		"labels, degraded, fingerprint,"
		" created_ns, last_used_ns, idle_ms, expires_ns, error) VALUES "
		"(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		"sssssssssiiiis", s->id, s->tenant, session_state_name(s->state), s->lifecycle,
		s->backend, spec ? spec : "{}", labels ? labels : "{}", degraded, s->fingerprint,
		s->created_ns, s->last_used_ns, (int64_t)s->times.idle_ms, s->expires_ns, error);
	s->is_unsaved = r < 0;
	return r;
}

static void set_state(struct session *s, enum session_state state)
{
	struct cell_error err = {0};

	s->state = state;
	if (session_save(s, &err) < 0)
		log_failure("session.save", &err, s->id);
}

static void call_waiters(struct session *s, struct session_waiter **list)
{
	struct session_waiter *w = *list, *next;

	*list = NULL;
	session_ref(s);
	for (; w; w = next) {
		next = w->next;
		w->fn(s, w->arg);
		free(w);
	}
	session_unref(s);
}

static bool add_waiter(struct session_waiter **list, void (*fn)(struct session *s, void *arg),
	void *arg)
{
	struct session_waiter *w = calloc(1, sizeof *w);

	if (!w)
		return false;
	*w = (struct session_waiter){fn, arg, NULL};
	LL_APPEND(*list, w);
	return true;
}

void session_when_made(struct session *s, void (*fn)(struct session *s, void *arg), void *arg)
{
	if (s->state != SESSION_CREATING || !add_waiter(&s->made_waiters, fn, arg))
		fn(s, arg);
}

int session_require_ready(const struct session *s, struct cell_error *err)
{
	if (s->state == SESSION_READY)
		return 0;
	if (s->state == SESSION_FAILED || s->state == SESSION_LOST) {
		int r = cell_fail(err, CELL_EGONE, ESHUTDOWN, "session '%s' is %s: %.200s", s->id,
			session_state_name(s->state), s->error.msg);
		return cell_error_hint(err, r, "%s",
			s->error.hint[0] ? s->error.hint : "delete it and make a new one");
	}
	int r = cell_fail(err, CELL_EBUSY, EBUSY, "session '%s' is %s", s->id,
		session_state_name(s->state));
	return cell_error_hint(err, r,
		s->state == SESSION_CREATING ? "wait until it is ready" : "make a new one");
}

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

/* Takes the cell; name is used where there is none. */
static void remove_cell(struct server *srv, struct cell *cell, const char *name)
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

	close_spares(s);
	if (s->state == SESSION_LOST && s->seat) {
		cell = seat_free(s->seat);
		s->seat = NULL;
	}
	if (s->state == SESSION_LOST) {
		if (session_other_user(s)) /* theirs to judge */
			(void)cell_close(cell, NULL);
		else
			remove_cell(s->srv, cell, s->cell_name);
		release_quota(s);
	}
	session_unref(s);
}

void session_lose(struct session *s, const struct cell_error *why)
{
	s->error = *why;
	log_event(LOG_WARN, "session.lost", "session", s->id, "error", why->msg, NULL);
	set_state(s, SESSION_LOST);
	session_ref(s);
	if (net_loop_post(s->srv->loop, bury, s) < 0) /* never inside of the seat's own callbacks */
		session_unref(s);
}

int session_seat(struct session *s, struct cell *cell, struct cell_error *err)
{
	return seat_new(s->srv, cell, on_broken, s, &s->seat, err);
}

/* ---- making it ---- */

struct making {
	struct session *s;
	struct cell_config *cfg;
	struct cell *cell;
	struct cell_error err;
	int result;
	bool is_shared;
	/* a fresh seat */
	void (*done)(struct session *s, struct seat *seat, const struct cell_error *why, void *arg);
	void *arg;
};

/* Made by a server that died before it knew: it is ours. Or what makes cells died under it, the launcher: there is a new one. */
static bool is_worth_again(const struct cell_error *err, int tries)
{
	/* a launcher that dies while it is asked what it can do is told as a back end that is not usable */
	return err->code == CELL_EEXISTS || err->code == CELL_EGONE ||
	       err->sys_errno == ECONNRESET || err->sys_errno == EPIPE ||
	       (err->code == CELL_ENOTSUP && tries == 0);
}

static void make_work(void *arg)
{
	struct making *m = arg;
	const struct cell_spec *spec;

	m->result = cell_config_spec(m->cfg, &spec, &m->err);
	if (m->result == 0)
		m->result = cell_open(spec, &m->cell, &m->err);
	if (m->result < 0 && m->err.code == CELL_EEXISTS &&
		m->is_shared) { /* another session's, alive */
		struct cell_error why = {0};
		m->result = cell_reopen(spec->name, &m->cell, &why);
		if (m->result == 0) {
			m->err = (struct cell_error){0};
		} else if (why.code != CELL_EGONE && why.code != CELL_ENOTFOUND) {
			m->err =
				why; /* it lives, and is not ours alone: never removed for being busy */
			return;
		}
	}
	/* Others clean up after a dead launcher as well: that it is gone by then is no failure. */
	for (int i = 0; i < MAKE_TRIES && m->result < 0 && is_worth_again(&m->err, i); i++) {
		struct cell_error why = {0};
		m->err = (struct cell_error){0};
		m->result = cell_remove(spec->name, &why);
		if (m->result < 0 && why.code != CELL_ENOTFOUND)
			m->err = why;
		else
			m->result = cell_open(spec, &m->cell, &m->err);
	}
}

static json_t *degraded_json(const struct cell *c)
{
	json_t *list = json_array();
	cell_caps caps = cell_degraded(c);

	for (int i = 0; i < CELL_CAP_COUNT; i++)
		if (caps & CELL_CAP_BIT(i))
			(void)json_array_append_new(list,
				json_string(cell_cap_name((enum cell_cap)i)));
	return list;
}

void session_made(struct session *s, enum session_state state)
{
	if (!s->is_adopting)
		session_touch(s);
	s->is_adopting = false;
	set_state(s, state);
	if (state == SESSION_FAILED)
		release_quota(s);
	call_waiters(s, &s->made_waiters);
}

static void made(void *arg)
{
	struct making *m = arg;
	struct session *s = m->s;

	cell_config_free(m->cfg);
	session_end_turn(s);
	if (m->result == 0 &&
		s->is_gone) { /* the server has left meanwhile: the next one takes it from here */
		(void)cell_close(m->cell, NULL);
		m->result = cell_fail(&m->err, CELL_EBUSY, ESHUTDOWN, "the server is leaving");
	}
	if (m->result == 0) {
		(void)snprintf(s->backend, sizeof s->backend, "%s", cell_backend_of(m->cell));
		json_decref(s->degraded);
		s->degraded = degraded_json(m->cell);
		m->result = session_seat(s, m->cell, &m->err);
	}
	if (s->state == SESSION_CREATING && !s->is_gone) {
		if (m->result < 0)
			s->error = m->err;
		session_made(s, m->result < 0 ? SESSION_FAILED : SESSION_READY);
	} else {
		call_waiters(s, &s->made_waiters);
	}
	session_unref(s);
	free(m);
}

static void fail_making(void *arg)
{
	struct making *m = arg;

	m->result = cell_fail(&m->err, CELL_EBUSY, EAGAIN, "too many sessions are being made");
	(void)cell_error_hint(&m->err, 0, "try again in a second");
	made(m);
}

static void ephemeral_made(void *arg)
{
	struct session *s = arg;

	session_end_turn(s);
	if (s->state == SESSION_CREATING)
		session_made(s, SESSION_READY);
	else
		call_waiters(s, &s->made_waiters);
	session_unref(s);
}

void session_make(struct session *s)
{
	struct making *m = calloc(1, sizeof *m);
	struct cell_error err = {0};

	if (!session_take_turn(s, session_make)) {
		free(m);
		return;
	}
	session_ref(s);
	if (!strcmp(s->lifecycle, "ephemeral") && m) { /* each command has a cell of its own */
		free(m);
		(void)net_loop_post(s->srv->loop, ephemeral_made, s);
		return;
	}
	if (!m || session_spec(s->srv, s->spec, s->cell_name, true, &m->cfg, &err) < 0) {
		s->error = err;
		if (m) {
			m->s = s;
			m->result = -EINVAL;
			m->err = err;
			made(m);
		}
		return;
	}
	m->s = s;
	m->is_shared = session_is_shared(s);
	if (net_pool_work(s->srv->lives, make_work, made, m) < 0)
		(void)net_loop_post(s->srv->loop, fail_making, m);
}

static void read_order(struct session *s, const struct session_order *o,
	const struct cell_spec *spec)
{
	const char *lifecycle = json_string_value(json_object_get(o->spec, "lifecycle"));

	(void)snprintf(s->tenant, sizeof s->tenant, "%s", o->tenant);
	(void)snprintf(s->lifecycle, sizeof s->lifecycle, "%s", lifecycle ? lifecycle : "session");
	(void)snprintf(s->fingerprint, sizeof s->fingerprint, "%s", o->fingerprint);
	(void)snprintf(s->backend, sizeof s->backend, "%s", spec->backend ? spec->backend : "");
	s->spec = json_incref(o->spec);
	session_name_cell(s);
	s->labels = json_object();
	s->degraded = json_array();
	session_touch(s);
	s->created_ns = s->last_used_ns;
	s->times.idle_ms = o->idle_timeout_ms;
	session_set_expiry(s, o->ttl_ms ? s->created_ns + (int64_t)o->ttl_ms * NS_PER_MS : 0);
	for (size_t i = 0; spec->labels && spec->labels[i]; i++) {
		auto_free char *key = strdup(spec->labels[i]);
		char *eq = key ? strchr(key, '=') : NULL;
		if (!eq || !strncmp(key, "cell.", 5))
			continue;
		*eq = '\0';
		(void)json_object_set_new(s->labels, key, json_string(eq + 1));
	}
	json_t *name = json_object_get(o->spec, "name");
	if (json_is_string(name))
		(void)json_object_set(s->labels, SESSION_NAME, name);
}

int session_create(struct server *srv, const struct session_order *order, struct session **ret,
	struct cell_error *err)
{
	struct cell_config *cfg = NULL;
	const struct cell_spec *spec = NULL;
	struct quota_verdict verdict;
	struct session *s;

	HASH_FIND_STR(srv->sessions, order->id, s);
	if (s) {
		session_ref(s);
		*ret = s;
		return cell_fail(err, CELL_EEXISTS, EEXIST, "session '%s'", order->id);
	}
	int r = session_spec(srv, order->spec, order->id, true, &cfg, err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, err);
	s = r == 0 ? session_new(srv, order->id) : NULL;
	if (r == 0 && !s)
		r = cell_fail_errno(err, ENOMEM, "make a session");
	if (r < 0) {
		cell_config_free(cfg);
		return r;
	}
	read_order(s, order, spec);
	r = session_name(s) ? session_check_name(srv, session_name(s), s->tenant, NULL, err) : 0;
	if (r < 0) {
		cell_config_free(cfg);
		session_unref(s);
		return r;
	}
	uint64_t amounts[QUOTA_HELD] = {[QUOTA_CELLS] = 1,
		[QUOTA_CPU_MILLIS] = spec->limits.cpu_millis,
		[QUOTA_MEMORY_BYTES] = spec->limits.memory_bytes,
		[QUOTA_STORAGE_BYTES] = spec->limits.disk_bytes};
	cell_config_free(cfg);
	r = session_check_sharing(s, err);
	if (r == 0)
		r = schedule_read(s, err);
	if (r < 0) {
		session_unref(s);
		return r;
	}
	verdict.is_allowed = true;
	if (!session_other_user(s)) /* a cell that is there already is held already */
		r = quota_hold(srv->quota, s->cell_name, s->tenant, amounts, &verdict, err);
	if (r == 0 && !verdict.is_allowed)
		r = quota_fail(&verdict, s->tenant, err);
	if (r >= 0) {
		r = session_insert(s);
		if (r < 0)
			(void)cell_fail_errno(err, -r, "make a session");
		else if ((r = session_save(s, err)) < 0 || (r = schedule_save(s, err)) < 0)
			session_forget(s);
	}
	if (r < 0) {
		session_unref(s);
		return r;
	}
	session_make(s);
	*ret = s;
	return 0;
}

void session_remake(struct session *s)
{
	log_event(LOG_INFO, "session.remade", "session", s->id, NULL);
	close_spares(s);
	if (s->seat)
		(void)cell_close(seat_free(s->seat), NULL);
	s->seat = NULL;
	s->error = (struct cell_error){0};
	set_state(s, SESSION_CREATING);
	session_make(s);
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
	call_waiters(s, &s->gone_waiters);
	session_unref(s);
	free(e->fresh);
	free(e->execs);
	free(e);
}

/* The sweep comes back to it; cells are found by their names. */
static void end_later(struct session *s)
{
	(void)cell_fail(&s->error, CELL_EBUSY, EAGAIN, "session '%s' could not be ended yet",
		s->id);
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
	close_spares(s);
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
		(void)add_waiter(&s->gone_waiters, fn, arg);
	if (!is_first && !s->error.code)
		return;
	if (is_first)
		log_event(LOG_INFO, "session.end", "session", s->id, "tenant", s->tenant, "why",
			why, NULL);
	s->error = (struct cell_error){0};
	set_state(s, SESSION_ENDING);
	if (is_making)
		(void)add_waiter(&s->made_waiters, end_after_making, NULL);
	else
		post_end(s);
}

/* ---- cells of one command ---- */

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
	struct making *m = arg;
	struct seat *seat = NULL;

	cell_config_free(m->cfg);
	if (m->result == 0 &&
		session_require_ready(m->s, &m->err) < 0) { /* it was ended meanwhile */
		remove_cell(m->s->srv, m->cell, NULL);
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
	struct making *m = arg;

	m->result = cell_fail(&m->err, CELL_EBUSY, EAGAIN, "too many cells are being made");
	(void)cell_error_hint(&m->err, 0, "try again in a second");
	fresh_made(m);
}

void session_fresh_seat(struct session *s,
	void (*done)(struct session *s, struct seat *seat, const struct cell_error *why, void *arg),
	void *arg)
{
	static unsigned number;
	struct making *m = calloc(1, sizeof *m);
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
	m->done = done;
	m->arg = arg;
	if (net_pool_work(s->srv->lives, make_work, fresh_made, m) < 0)
		(void)net_loop_post(s->srv->loop, fresh_failed, m);
}

static void drop_later(void *arg)
{
	struct seat *seat = arg;
	struct server *srv = seat->srv;

	remove_cell(srv, seat_free(seat), NULL);
}

void session_drop_seat(struct server *srv, struct seat *seat)
{
	(void)net_loop_post(srv->loop, drop_later, seat); /* never from inside of its own pump */
}

/* ---- what its output takes ---- */

uint64_t session_spool_bytes(const struct session *s)
{
	uint64_t bytes = s->spooled_bytes;

	for (const struct exec *e = s->execs; e; e = e->next)
		bytes += spool_bytes(e->spool);
	return bytes;
}

struct quota_verdict session_hold_spool(struct session *s)
{
	uint64_t bytes = session_spool_bytes(s) >> SPOOL_STEP << SPOOL_STEP;
	const uint64_t amounts[QUOTA_HELD] = {[QUOTA_STORAGE_BYTES] = bytes};
	struct quota_verdict v = {.is_allowed = true};
	struct cell_error err = {0};
	char id[64];

	if (bytes == s->spool_held)
		return v;
	(void)snprintf(id, sizeof id, SPOOL_HOLD, s->id);
	if (quota_hold(s->srv->quota, id, s->tenant, amounts, &v, &err) < 0)
		log_failure("quota.failed", &err, s->id);
	else if (v.is_allowed)
		s->spool_held = bytes;
	return v;
}

/* ---- showing it ---- */

static json_t *time_json(int64_t ns)
{
	char text[CLOCK_TEXT_MAX];

	return ns ? json_string(clock_text(ns, text)) : json_null();
}

/* What was asked for, without the values of secrets: who may look at a session need not know them. */
static json_t *shown_spec(const struct session *s)
{
	json_t *spec = json_copy(s->spec), *env = json_deep_copy(json_object_get(spec, "env")), *v;
	const char *key;
	size_t i;

	if (!env)
		return spec;
	if (json_is_object(env)) {
		json_object_foreach (env, key, v)
			if (cell_env_is_secret(key))
				(void)json_object_set_new(env, key, json_string(REDACTED));
	} else {
		json_array_foreach (env, i, v) {
			const char *text = json_string_value(v);
			size_t n = text ? strcspn(text, "=") : 0;
			auto_free char *name = text && text[n] ? strndup(text, n) : NULL;
			if (name && cell_env_is_secret(name))
				(void)json_array_set_new(env, i,
					json_sprintf("%s=" REDACTED, name));
		}
	}
	(void)redact_json(s->srv->redact, env);
	(void)json_object_set_new(spec, "env", env);
	return spec;
}

json_t *session_json(const struct session *s)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:o, s:O, s:o, s:o, s:o, s:f, s:I}",
		"id", s->id, "tenant", s->tenant, "state", session_state_name(s->state),
		"lifecycle", s->lifecycle, "backend", s->backend, "labels", s->labels, "spec",
		shown_spec(s), "degraded", s->degraded, "created_at", time_json(s->created_ns),
		"last_used_at", time_json(s->last_used_ns), "expires_at", time_json(s->expires_ns),
		"idle_timeout_s", (double)s->times.idle_ms / 1000.0, "execs_running",
		(json_int_t)s->n_execs);

	if (s->schedule)
		(void)json_object_set_new(o, "schedule", schedule_json(s));
	if (s->error.code)
		(void)json_object_set_new(o, "error",
			json_pack("{s:s, s:s, s:s}", "code", cell_code_name(s->error.code),
				"message", s->error.msg, "hint", s->error.hint));
	return o;
}
