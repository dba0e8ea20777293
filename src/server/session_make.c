/* SPDX-License-Identifier: Apache-2.0 */
/* session_make.c: from what was asked for to a session, and from a session to its cell, on a thread. */
#include <string.h>

#include "cell/cell.h"
#include "cell/config.h"

#include "base/cleanup.h"
#include "server/clock.h"
#include "server/schedule.h"
#include "server/seat.h"
#include "server/server.h"
#include "server/session_parts.h"

#define MAKE_TRIES 5

/* Made by a server that died before it knew: it is ours. Or what makes cells died under it, the launcher: there is a new one. */
static bool is_worth_again(const struct cell_error *err)
{
	return err->code == CELL_EEXISTS || err->code == CELL_EGONE ||
	       err->sys_errno == ECONNRESET || err->sys_errno == EPIPE;
}

/* Looked at whenever its cell is made: what a path leads to may have changed since it was asked for. */
const char *const *session_within(const struct session *s)
{
	static const char *const nowhere[] = {NULL};
	const char *const *allowed = s->srv->set.host_paths; /* a reload keeps what was */

	return s->is_trusted ? NULL : allowed ? allowed : nowhere;
}

void session_making_work(void *arg)
{
	struct session_making *m = arg;
	const struct cell_spec *asked;
	struct cell_spec own = {0}, *spec = &own;
	char from[TENANT_NAME_MAX + CELL_NAME_MAX];

	m->result = cell_config_spec(m->cfg, &asked, &m->err);
	if (m->result == 0) {
		own = *asked;
		own.own_workspace = true; /* the server's current directory is nobody's */
		own.within = m->within;
		if (own.from) { /* of the session's tenant */
			(void)snprintf(from, sizeof from, "%s/%s", m->s->tenant, own.from);
			own.from = from;
		}
		m->result = cell_open(spec, &m->cell, &m->err);
	}
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
	for (int i = 0; i < MAKE_TRIES && m->result < 0 && is_worth_again(&m->err); i++) {
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
	session_set_state(s, state);
	if (state == SESSION_FAILED)
		session_release_quota(s);
	session_call_waiters(s, &s->made_waiters);
}

static void made(void *arg)
{
	struct session_making *m = arg;
	struct session *s = m->s;

	cell_config_free(m->cfg);
	session_end_turn(s);
	if (m->result == 0 &&
		s->is_gone) { /* the server has left meanwhile: the next one takes it from here */
		(void)cell_close(m->cell, NULL);
		m->result = cell_fail(&m->err, CELL_EBUSY, 0, "the server is leaving");
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
		session_call_waiters(s, &s->made_waiters);
	}
	session_unref(s);
	free(m);
}

static void fail_making(void *arg)
{
	struct session_making *m = arg;

	m->result = cell_fail(&m->err, CELL_EBUSY, 0, "too many sessions are being made");
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
		session_call_waiters(s, &s->made_waiters);
	session_unref(s);
}

void session_make(struct session *s)
{
	struct session_making *m = calloc(1, sizeof *m);
	struct cell_error err = {0};

	if (!session_take_turn(s, session_make)) {
		free(m);
		return;
	}
	if (!m) {
		(void)cell_fail_errno(&s->error, ENOMEM, "make a session");
		session_end_turn(s);
		session_made(s, SESSION_FAILED);
		return;
	}
	session_ref(s);
	if (!strcmp(s->lifecycle, "ephemeral")) { /* each command has a cell of its own */
		free(m);
		(void)net_loop_post(s->srv->loop, ephemeral_made, s);
		return;
	}
	m->s = s;
	if (session_spec(s->srv, s->spec, s->cell_name, true, &m->cfg, &err) < 0) {
		m->result = -EINVAL;
		m->err = err;
		made(m);
		return;
	}
	m->is_shared = session_is_shared(s);
	m->within = session_within(s);
	if (net_pool_work(s->srv->lives, session_making_work, made, m) < 0)
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
	s->is_trusted = o->is_trusted;
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
		return cell_fail(err, CELL_EEXISTS, 0, "there is already a session '%s'",
			order->id);
	}
	int r = session_spec(srv, order->spec, order->id, true, &cfg, err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, err);
	s = r == 0 ? session_new(srv, order->id) : NULL;
	if (r == 0 && !s)
		r = cell_fail_errno(err, ENOMEM, "make a session");
	if (r < 0 || !s || !spec) {
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
	session_close_spares(s);
	if (s->seat)
		(void)cell_close(seat_free(s->seat), NULL);
	s->seat = NULL;
	s->error = (struct cell_error){0};
	session_set_state(s, SESSION_CREATING);
	session_make(s);
}
