/* SPDX-License-Identifier: Apache-2.0 */
/* api_exec_calls.c: what requests about commands (api_execs.c) and runs of code (api_runs.c) have in common: finding the one that is meant, and
 * telling it something. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/exec.h"
#include "server/seat.h"
#include "server/session.h"
#include "wire/wire.h"

int exec_check_id(const char *id, struct cell_error *err)
{
	if (!id || wire_is_id(id))
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "'id' must be " WIRE_ID_RULE);
	return cell_error_hint(err, r, "leave it out to get one");
}

int exec_find_first(struct call *c, const char *id, struct exec **ret, struct cell_error *err)
{
	struct exec *e;

	if (!c->is_keyed)
		return 0;
	int r = exec_find(c->session, id, &e, err);
	if (r < 0 && err->code == CELL_EBUSY)
		return r;
	if (r < 0) {
		*err = (struct cell_error){0};
		return 0;
	}
	if (exec_is_unsure(e)) {
		exec_unref(e);
		r = cell_fail(err, CELL_EBUSY, 0, "command '%s' is being taken over", id);
		return cell_error_hint(err, r, "ask again in a second");
	}
	if (exec_never_began(e)) {
		exec_forget(e);
		exec_unref(e);
		return 0;
	}
	const char *was = json_string_value(json_object_get(e->meta, "fingerprint"));
	const char *key = json_string_value(json_object_get(e->meta, "key"));
	if (!key || strcmp(key, c->key) !=
			    0) { /* the client's own id, given to another command before */
		exec_unref(e);
		r = cell_fail(err, CELL_EEXISTS, 0, "exec: id '%.64s' was used before", id);
		return cell_error_hint(err, r,
			"an id is used once; take a new one, or look at this one");
	}
	if (!was || strcmp(was, c->fingerprint) != 0) {
		exec_unref(e);
		r = cell_fail(err, CELL_EEXISTS, 0,
			"Idempotency-Key '%.64s': it was used for another command", c->key);
		return cell_error_hint(err, r, "a key names one request; take a new one");
	}
	(void)http_add_header(c->x, "Idempotency-Replayed", "true");
	*ret = e;
	return 1;
}

json_t *exec_list_json(struct call *c, bool is_runs, const char *member, const char *wanted)
{
	int fd = exec_directory(c->srv, c->session->id, false, NULL);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	json_t *items = json_array();

	for (struct dirent *entry; d && (entry = readdir(d)) && json_array_size(items) < 1000;) {
		struct exec *e;
		if (entry->d_name[0] == '.' || exec_find(c->session, entry->d_name, &e, NULL) < 0)
			continue;
		json_t *o = exec_is_run(e) == is_runs ? exec_json(e) : NULL;
		if (o &&
			(!wanted || !strcmp(wanted, json_string_value(json_object_get(o, member)))))
			(void)json_array_append(items, o);
		json_decref(o);
		exec_unref(e);
	}
	return items;
}

static void have_fresh(struct session *s, struct seat *seat, const struct cell_error *why,
	void *arg)
{
	struct call *c = arg;

	(void)s;
	if (seat)
		c->begin(c, seat, true);
	else
		call_fail(c, why);
}

void exec_begin(struct call *c)
{
	struct cell_error err = {0};
	struct quota_verdict v = quota_exec(c->srv->quota, c->who.tenant, clock_monotonic_ns());

	if (v.is_allowed)
		v = session_hold_spool(c->session);
	if (!v.is_allowed) {
		(void)quota_fail(&v, c->who.tenant, &err);
		c->retry_after_s = (unsigned)(v.retry_after_ms / 1000) + 1;
		call_fail(c, &err);
	} else if (session_require_ready(c->session, &err) < 0) {
		call_fail(c, &err);
	} else if (c->session->seat) {
		c->begin(c, c->session->seat, false);
	} else { /* of an ephemeral session: a cell of its own */
		session_fresh_seat(c->session, have_fresh, c);
	}
}

static void take_id(struct call *c)
{
	(void)snprintf(c->exec_id, sizeof c->exec_id, "%.63s", c->params[1]);
}

bool exec_of(struct call *c, bool is_run, struct exec **ret)
{
	struct cell_error err = {0};

	if (!api_session(c))
		return false;
	take_id(c);
	int r = exec_find(c->session, c->params[1], ret, &err);
	if (r == 0 && exec_is_run(*ret) == is_run)
		return true;
	if (r == 0) {
		exec_unref(*ret);
		(void)cell_fail(&err, CELL_ENOTFOUND, ENOENT,
			is_run ? "'%.64s' is a command, no run of code"
			       : "'%.64s' is a run of code, no command",
			c->params[1]);
		(void)cell_error_hint(&err, 0, "look at /v1/sessions/%s/%s/%.64s", c->session->id,
			is_run ? "execs" : "runs", c->params[1]);
	}
	call_fail(c, &err);
	return false;
}

bool exec_running(struct call *c, bool is_run, struct exec **ret)
{
	if (!exec_of(c, is_run, ret))
		return false;
	if ((*ret)->x)
		return true;
	exec_unref(*ret);
	call_failf(c, CELL_EBUSY, "", "%s '%s' has ended", is_run ? "run" : "command",
		c->params[1]);
	return false;
}

void exec_permit(struct call *c, void (*go)(struct call *c))
{
	take_id(c);
	call_permit(c, &(struct policy_request){0}, go);
}

void exec_ordered(struct call *c, struct exec *e, int r, const struct cell_error *err)
{
	if (e->seat)
		seat_kick(e->seat);
	exec_unref(e);
	if (r < 0)
		call_fail(c, err);
	else
		call_empty(c, 204);
}
