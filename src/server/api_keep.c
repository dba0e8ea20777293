/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_keep.c: sessions that stand still, and sessions that are saved. A snapshot is called TENANT/NAME in the library, and NAME by those
 * whose it is: nobody else can name it.
 */
#include <stdlib.h>
#include <string.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "server/api.h"
#include "server/clock.h"
#include "server/seat.h"
#include "server/session.h"
#include "server/snapshots.h"

#define OWNED_NAME_MAX (TENANT_NAME_MAX + CELL_NAME_MAX)

struct keep {
	struct call_work base; /* first: call.c gets it */
	struct quota *quota;
	char cell[CELL_NAME_MAX];
	char tenant[TENANT_NAME_MAX];
	char name[OWNED_NAME_MAX]; /* of a snapshot, with its owner */
	bool is_on;
	json_t *list;
	struct cell_stats stats;
};

static struct keep *keep_new(struct call *c, void (*work)(struct call_work *w),
	void (*done)(struct call_work *w))
{
	struct keep *k = calloc(1, sizeof *k);

	if (!k) {
		call_failf(c, CELL_ENOSPACE, "", "no memory");
		return NULL;
	}
	k->base = (struct call_work){.call = c, .work = work, .done = done};
	k->quota = c->srv->quota;
	(void)snprintf(k->tenant, sizeof k->tenant, "%s", c->who.tenant);
	if (c->session)
		(void)snprintf(k->cell, sizeof k->cell, "%s", c->session->cell_name);
	return k;
}

static void start(struct keep *k)
{
	if (!call_start_work(k->base.call->srv->lives, &k->base))
		free(k);
}

/* ---- standing still ---- */

static void pause_work(struct call_work *w)
{
	const struct keep *k = (const struct keep *)(void *)w;

	w->result = k->is_on ? cell_pause(k->cell, &w->err) : cell_resume(k->cell, &w->err);
}

static void pause_done(struct call_work *w)
{
	struct keep *k = (struct keep *)(void *)w;
	struct call *c = w->call;

	if (w->result < 0) {
		call_fail(c, &w->err);
	} else {
		c->session->is_paused = k->is_on;
		session_touch(c->session);
		call_json(c, 200, session_json(c->session));
	}
	free(k);
}

/* Its cell is its own, and there. */
static bool has_cell(struct call *c)
{
	struct cell_error err = {0};

	if (c->session->state != SESSION_READY && session_require_ready(c->session, &err) < 0) {
		call_fail(c, &err);
		return false;
	}
	if (!c->session->seat) {
		call_failf(c, CELL_ENOTSUP, "use another lifecycle",
			"an ephemeral session has no cell that stays");
		return false;
	}
	return true;
}

static void pause_permitted(struct call *c)
{
	if (!has_cell(c))
		return;
	if (session_other_user(c->session)) {
		call_failf(c, CELL_EBUSY, "end the others, or give each its own workspace_key",
			"other sessions use the cell of session '%s'", c->session->id);
		return;
	}
	struct keep *k = keep_new(c, pause_work, pause_done);
	if (!k)
		return;
	const char *path = http_path(c->x);
	size_t n = strlen(path);
	k->is_on = n >= 6 && !strcmp(path + n - 6, "/pause");
	start(k);
}

static void pause_session(struct call *c)
{
	if (api_session(c) && has_cell(c))
		call_permit(c, &(struct policy_request){0}, pause_permitted);
}

/* ---- what one that stands still takes ---- */

static void stats_work(struct call_work *w)
{
	struct keep *k = (struct keep *)(void *)w;

	w->result = cell_stats(k->cell, &k->stats, &w->err);
}

static void stats_done(struct call_work *w)
{
	struct keep *k = (struct keep *)(void *)w;
	const struct session *s = w->call->session;

	if (w->result < 0)
		call_fail(w->call, &w->err);
	else
		call_json(w->call, 200,
			json_pack("{s:s, s:i, s:n, s:n, s:I, s:I, s:i, s:I}", "session", s->id,
				"execs_running", (int)s->n_execs, "commands", "clients", "cpu_us",
				(json_int_t)(k->stats.cpu_ns / 1000), "memory_bytes",
				(json_int_t)k->stats.memory_bytes, "processes",
				(int)k->stats.processes, "spool_bytes",
				(json_int_t)session_spool_bytes(s)));
	free(k);
}

void api_paused_stats(struct call *c)
{
	struct keep *k = keep_new(c, stats_work, stats_done);

	if (k)
		start(k);
}

/* ---- snapshots ---- */

/* One's own: an owner cannot be given. */
static int own_name(const char *tenant, const char *name, char ret[OWNED_NAME_MAX],
	struct cell_error *err)
{
	if (strchr(name, '/') || strlen(name) >= CELL_NAME_MAX) {
		int r = cell_fail(err, CELL_EINVAL, 0, "'%.64s' is no name for a snapshot", name);
		return cell_error_hint(err, r,
			"use a-z 0-9 . _ -, beginning with a letter or digit");
	}
	(void)snprintf(ret, OWNED_NAME_MAX, "%s/%s", tenant, name);
	return 0;
}

static void save_work(struct call_work *w)
{
	const struct keep *k = (const struct keep *)(void *)w;

	w->result = snapshots_save(k->quota, k->tenant, k->cell, k->name, &w->err);
}

static void save_done(struct call_work *w)
{
	struct keep *k = (struct keep *)(void *)w;
	struct call *c = w->call;
	const char *name = strchr(k->name, '/') + 1;

	if (w->result < 0) {
		call_fail(c, &w->err);
	} else {
		session_touch(c->session);
		(void)http_add_headerf(c->x, "Location", "/v1/snapshots/%s", name);
		call_json(c, 201,
			json_pack("{s:s, s:s, s:s}", "name", name, "session", c->session->id,
				"backend", c->session->backend));
	}
	free(k);
}

static void save_permitted(struct call *c)
{
	const char *name = json_string_value(json_object_get(c->body, "name"));
	struct cell_error err = {0};

	if (!has_cell(c))
		return;
	struct keep *k = keep_new(c, save_work, save_done);
	if (!k)
		return;
	/* of the session's own tenant: an admin may save it for them */
	if (own_name(c->session->tenant, name ? name : "", k->name, &err) < 0) {
		free(k);
		call_fail(c, &err);
		return;
	}
	(void)snprintf(k->tenant, sizeof k->tenant, "%s", c->session->tenant);
	/* as long as there is something to save: those who make and end cells must not wait for it */
	if (!call_start_work(c->srv->transfers, &k->base))
		free(k);
}

static void save(struct call *c)
{
	static const char *const known[] = {"name", NULL};
	struct cell_error err = {0};
	const char *name;

	if (!api_ready_session(c) || !has_cell(c))
		return;
	int r = call_known(c, known, &err);
	if (r == 0)
		r = call_text(c, "name", &name, &err);
	if (r == 0 && !name) {
		r = cell_fail(&err, CELL_EINVAL, 0, "'name' is missing");
		r = cell_error_hint(&err, r, "say what to call the snapshot");
	}
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	c->details = json_incref(c->body);
	call_permit(c, &(struct policy_request){0}, save_permitted);
}

static int add(const struct cell_snapshot_info *info, void *user)
{
	struct keep *k = user;
	const char *slash = strchr(info->name, '/'), *from = strchr(info->from, '/');
	size_t n = strlen(k->tenant);
	char text[CLOCK_TEXT_MAX];

	if (!slash || (size_t)(slash - info->name) != n || strncmp(info->name, k->tenant, n) != 0)
		return 0;
	bool is_ours = from && !strncmp(info->from, info->name, n + 1);
	return json_array_append_new(k->list,
		json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "name", slash + 1, "session",
			info->cell, "from", is_ours ? from + 1 : info->from, "backend",
			info->backend, "created_at",
			clock_text((int64_t)info->created_unix_ms * NS_PER_MS, text), "size_bytes",
			(json_int_t)info->size_bytes));
}

static void list_work(struct call_work *w)
{
	struct keep *k = (struct keep *)(void *)w;

	k->list = json_array();
	w->result = cell_snapshot_list(add, k, &w->err);
}

static void list_done(struct call_work *w)
{
	struct keep *k = (struct keep *)(void *)w;

	if (w->result < 0) {
		json_decref(k->list);
		call_fail(w->call, &w->err);
	} else {
		call_json(w->call, 200, json_pack("{s:o}", "snapshots", k->list));
	}
	free(k);
}

static void list(struct call *c)
{
	struct keep *k = keep_new(c, list_work, list_done);

	if (k)
		start(k);
}

static void remove_work(struct call_work *w)
{
	const struct keep *k = (const struct keep *)(void *)w;

	w->result = snapshots_remove(k->quota, k->tenant, k->name, &w->err);
}

static void remove_done(struct call_work *w)
{
	if (w->result < 0)
		call_fail(w->call, &w->err);
	else
		call_empty(w->call, 204);
	free(w);
}

static void remove_permitted(struct call *c)
{
	struct cell_error err = {0};
	struct keep *k = keep_new(c, remove_work, remove_done);

	if (!k)
		return;
	if (own_name(c->who.tenant, c->params[0], k->name, &err) < 0) {
		free(k);
		call_fail(c, &err);
		return;
	}
	start(k);
}

static void remove_snapshot(struct call *c)
{
	c->details = json_pack("{s:s}", "name", c->params[0]);
	call_permit(c, &(struct policy_request){0}, remove_permitted);
}

const struct route api_keep_routes[] = {
	{"POST", "/v1/sessions/{session}/pause", TOKEN_USER, .action = "session.pause",
		.is_replayable = true, .handler = pause_session},
	{"POST", "/v1/sessions/{session}/resume", TOKEN_USER, .action = "session.resume",
		.is_replayable = true, .handler = pause_session},
	{"POST", "/v1/sessions/{session}/snapshots", TOKEN_USER, .action = "snapshot.create",
		.has_json = true, .is_replayable = true, .handler = save},
	{"GET", "/v1/snapshots", TOKEN_READ_ONLY, .handler = list},
	{"DELETE", "/v1/snapshots/{snapshot}", TOKEN_USER, .action = "snapshot.delete",
		.is_replayable = true, .handler = remove_snapshot},
	{NULL},
};
