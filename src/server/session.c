/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: the table of sessions: in memory and in the database, by id and by name, with the state each is in and who waits for the next. */
#include "server/session.h"

#include <string.h>
#include <utlist.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/session_parts.h"

#define SPOOL_HOLD "%s/spool" /* what its output holds of the tenant's storage */
#define SPOOL_STEP 20	      /* a MiB more or less is not worth writing down */

static const char *const migrations[] = {
	"CREATE TABLE sessions (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, "
	"lifecycle TEXT NOT NULL,"
	" backend TEXT NOT NULL, spec TEXT NOT NULL, labels TEXT NOT NULL, degraded TEXT, "
	"fingerprint TEXT NOT NULL,"
	" created_ns INTEGER NOT NULL, last_used_ns INTEGER NOT NULL, idle_ms INTEGER NOT NULL, "
	"expires_ns INTEGER NOT NULL,"
	" error TEXT) WITHOUT ROWID;",
	"ALTER TABLE sessions ADD COLUMN is_trusted INTEGER NOT NULL DEFAULT 0;", NULL};
const struct db_module session_module = {"sessions", migrations};

const char *session_state_name(enum session_state state)
{
	static const char *const names[] = {"creating", "ready", "failed", "ending", "lost"};

	return names[state];
}

const char *session_shown_state(const struct session *s)
{
	return s->state == SESSION_READY && s->is_paused ? "paused" : session_state_name(s->state);
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

void session_close_spares(struct session *s)
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
	session_close_spares(s);
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

void session_release_quota(struct session *s)
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
	session_release_quota(s);
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
	if (!s || (!is_any && strcmp(s->tenant, own_tenant) != 0)) {
		int r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no session '%.64s'", id);
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
		" created_ns, last_used_ns, idle_ms, expires_ns, error, is_trusted) VALUES "
		"(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		"sssssssssiiiisi", s->id, s->tenant, session_state_name(s->state), s->lifecycle,
		s->backend, spec ? spec : "{}", labels ? labels : "{}", degraded, s->fingerprint,
		s->created_ns, s->last_used_ns, (int64_t)s->times.idle_ms, s->expires_ns, error,
		(int64_t)s->is_trusted);
	s->is_unsaved = r < 0;
	return r;
}

void session_set_state(struct session *s, enum session_state state)
{
	struct cell_error err = {0};

	s->state = state;
	if (session_save(s, &err) < 0)
		log_failure("session.save", &err, s->id);
}

void session_call_waiters(struct session *s, struct session_waiter **list)
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

bool session_add_waiter(struct session_waiter **list, void (*fn)(struct session *s, void *arg),
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
	if (s->state != SESSION_CREATING || !session_add_waiter(&s->made_waiters, fn, arg))
		fn(s, arg);
}

int session_require_ready(const struct session *s, struct cell_error *err)
{
	if (s->state == SESSION_READY && !s->is_paused)
		return 0;
	if (s->state == SESSION_READY) {
		int r = cell_fail(err, CELL_EBUSY, 0, "session '%s' is paused", s->id);
		return cell_error_hint(err, r, "let it go on: POST /v1/sessions/%s/resume", s->id);
	}
	if (s->state == SESSION_FAILED || s->state == SESSION_LOST) {
		int r = cell_fail(err, CELL_EGONE, 0, "session '%s' is %s: %.200s", s->id,
			session_state_name(s->state), s->error.msg);
		return cell_error_hint(err, r, "%s",
			s->error.hint[0] ? s->error.hint : "delete it and make a new one");
	}
	int r = cell_fail(err, CELL_EBUSY, 0, "session '%s' is %s", s->id,
		session_state_name(s->state));
	return cell_error_hint(err, r,
		s->state == SESSION_CREATING ? "wait until it is ready" : "make a new one");
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
