/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: see schedule.h. */
#include "server/schedule.h"

#include <inttypes.h>
#include <string.h>

#include "cell/exec.h"

#include "base/cleanup.h"
#include "core/config/units.h"
#include "server/clock.h"
#include "server/cron.h"
#include "server/exec.h"
#include "server/permit.h"
#include "server/server.h"
#include "server/session.h"
#include "server/zone.h"

#define RUN_PREFIX "run-"
#define ACTOR	   "schedule"

static const char *const migrations[] = {
	"CREATE TABLE schedules (session TEXT PRIMARY KEY, last_s INTEGER NOT NULL, ran_s INTEGER "
	"NOT NULL, waiting_s INTEGER NOT NULL,"
	" skipped INTEGER NOT NULL) WITHOUT ROWID;",
	NULL};
const struct db_module schedule_module = {"schedules", migrations};

struct schedule {
	struct cron cron;
	struct zone *zone;
	enum cron_missed missed;
	enum cron_overlap overlap;
	const char *shell; /* the spec's; or */
	const char **argv;
	const char *cwd, *user;
	uint64_t timeout_ms;
	int64_t last_s;	   /* every time up to it is seen to */
	int64_t ran_s;	   /* the last run's; 0: none yet */
	int64_t waiting_s; /* a run that waits for the one before; 0: none */
	uint64_t skipped;
	bool is_asking; /* the guard */
};

void schedule_free(struct schedule *c)
{
	if (!c)
		return;
	zone_free(c->zone);
	free(c->argv);
	free(c);
}

/* ---- from the spec ---- */

static int wrong(const char *name, const char *want, struct cell_error *err)
{
	return cell_fail(err, CELL_EINVAL, 0, "schedule.%s must be %s", name, want);
}

static int text_of(json_t *o, const char *name, const char **ret, struct cell_error *err)
{
	json_t *v = json_object_get(o, name);

	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v) ||
		!*json_string_value(v))
		return wrong(name, "a text", err);
	*ret = json_string_value(v);
	return 0;
}

static int read_command(json_t *o, struct schedule *c, struct cell_error *err)
{
	json_t *list = json_object_get(o, "command"), *v;
	size_t i;

	if (!json_is_array(list))
		list = json_object_get(o, "argv");
	if (!json_is_array(json_object_get(o, "command"))) {
		int r = text_of(o, "command", &c->shell, err);
		if (r < 0)
			return r;
	}
	if (!list == !c->shell || (list && (!json_is_array(list) || !json_array_size(list)))) {
		int r = cell_fail(err, CELL_EINVAL, 0, "schedule: give either 'command' or 'argv'");
		return cell_error_hint(err, r,
			"\"schedule\": {\"cron\": \"0 3 * * *\", \"command\": \"./nightly\"}");
	}
	if (!list)
		return 0;
	c->argv = calloc(json_array_size(list) + 1, sizeof *c->argv);
	if (!c->argv)
		return cell_fail_errno(err, ENOMEM, "read the schedule");
	json_array_foreach (list, i, v) {
		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
			return wrong("argv", "a list of texts", err);
		c->argv[i] = json_string_value(v);
	}
	return 0;
}

static int read_timeout(json_t *o, struct schedule *c, struct cell_error *err)
{
	json_t *v = json_object_get(o, "timeout");

	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v) && parse_duration(json_string_value(v), &c->timeout_ms) == 0)
		return 0;
	if (!json_is_number(v) || json_number_value(v) < 0 || json_number_value(v) > 1e9)
		return wrong("timeout",
			"a time: seconds, or a text such as \"30s\", \"5m\", \"1h\"", err);
	c->timeout_ms = (uint64_t)(json_number_value(v) * 1000);
	return 0;
}

static int read_rules(json_t *o, struct schedule *c, struct cell_error *err)
{
	const char *missed = NULL, *overlap = NULL;
	int r = text_of(o, "missed", &missed, err);

	if (r == 0)
		r = text_of(o, "overlap", &overlap, err);
	if (r < 0)
		return r;
	int m = missed ? cron_missed_find(missed) : CRON_MISSED_SKIP;
	int v = overlap ? cron_overlap_find(overlap) : CRON_OVERLAP_SKIP;
	if (m < 0)
		return wrong("missed", "skip, once or all", err);
	if (v < 0)
		return wrong("overlap", "skip, queue or kill", err);
	c->missed = (enum cron_missed)m;
	c->overlap = (enum cron_overlap)v;
	return 0;
}

static int check_names(json_t *o, struct cell_error *err)
{
	static const char *const known[] = {"cron", "zone", "command", "argv", "cwd", "user",
		"timeout", "missed", "overlap", NULL};
	const char *key;
	json_t *v;

	json_object_foreach (o, key, v) {
		size_t i = 0;
		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i]) {
			int r = cell_fail(err, CELL_EINVAL, 0,
				"schedule: there is no field '%.64s'", key);
			return cell_error_hint(err, r,
				"cron, zone, command, argv, cwd, user, timeout, missed, overlap");
		}
	}
	return 0;
}

static int read_all(json_t *o, struct schedule *c, struct cell_error *err)
{
	const char *cron = NULL, *zone = NULL;
	int64_t next;
	int r = check_names(o, err);

	if (r == 0)
		r = text_of(o, "cron", &cron, err);
	if (r == 0 && !cron)
		r = wrong("cron", "five fields such as \"0 3 * * *\", or @hourly, @daily ...", err);
	if (r == 0)
		r = cron_parse(cron, &c->cron, err);
	if (r == 0)
		r = text_of(o, "zone", &zone, err);
	if (r == 0)
		r = zone_open(zone ? zone : "UTC", &c->zone, err);
	if (r == 0)
		r = read_command(o, c, err);
	if (r == 0)
		r = text_of(o, "cwd", &c->cwd, err);
	if (r == 0)
		r = text_of(o, "user", &c->user, err);
	if (r == 0)
		r = read_timeout(o, c, err);
	if (r == 0)
		r = read_rules(o, c, err);
	if (r == 0 && cron_next(&c->cron, c->zone, clock_unix_ns() / NS_PER_S, &next) < 0) {
		r = cell_fail(err, CELL_EINVAL, 0, "schedule.cron '%.64s' never comes", cron);
		r = cell_error_hint(err, r, "is there such a day in that month?");
	}
	return r;
}

static int parse(json_t *spec, struct schedule **ret, struct cell_error *err)
{
	struct schedule *c = calloc(1, sizeof *c);
	int r = c ? read_all(json_object_get(spec, "schedule"), c, err)
		  : cell_fail_errno(err, ENOMEM, "read the schedule");

	if (r < 0) {
		schedule_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static bool is_scheduled(json_t *spec)
{
	const char *lifecycle = json_string_value(json_object_get(spec, "lifecycle"));

	return lifecycle && !strcmp(lifecycle, "scheduled");
}

int schedule_check(json_t *asked, struct cell_error *err)
{
	json_t *o = json_object_get(asked, "schedule");
	struct schedule *c = NULL;
	int r;

	if (!is_scheduled(asked) && o) {
		r = cell_fail(err, CELL_EINVAL, 0,
			"schedule: only sessions of the lifecycle scheduled have one");
		return cell_error_hint(err, r, "add \"lifecycle\": \"scheduled\"");
	}
	if (!is_scheduled(asked))
		return 0;
	if (!json_is_object(o)) {
		r = cell_fail(err, CELL_EINVAL, 0, "lifecycle scheduled: schedule is missing");
		return cell_error_hint(err, r,
			"\"schedule\": {\"cron\": \"0 3 * * *\", \"command\": \"./nightly\"}");
	}
	r = parse(asked, &c, err);
	schedule_free(c);
	return r;
}

int schedule_read(struct session *s, struct cell_error *err)
{
	if (!is_scheduled(s->spec))
		return 0;
	int r = parse(s->spec, &s->schedule, err);
	if (r == 0)
		s->schedule->last_s = clock_unix_ns() / NS_PER_S;
	return r;
}

/* ---- the database ---- */

static int on_row(const struct db_row *row, void *user)
{
	struct schedule *c = user;

	c->last_s = db_int(row, 0);
	c->ran_s = db_int(row, 1);
	c->waiting_s = db_int(row, 2);
	c->skipped = (uint64_t)db_int(row, 3);
	return 0;
}

int schedule_load(struct session *s, struct cell_error *err)
{
	return s->schedule ? db_each(s->srv->db, on_row, s->schedule, err,
				     "SELECT last_s, ran_s, waiting_s, skipped FROM schedules "
				     "WHERE session = ?",
				     "s", s->id)
			   : 0;
}

int schedule_save(struct session *s, struct cell_error *err)
{
	const struct schedule *c = s->schedule;

	return c ? db_run(s->srv->db, err,
			   "INSERT OR REPLACE INTO schedules (session, last_s, ran_s, waiting_s, "
			   "skipped) VALUES (?,?,?,?,?)",
			   "siiii", s->id, c->last_s, c->ran_s, c->waiting_s, (int64_t)c->skipped)
		 : 0;
}

void schedule_forget(struct session *s)
{
	if (s->schedule)
		(void)db_run(s->srv->db, NULL, "DELETE FROM schedules WHERE session = ?", "s",
			s->id);
}

/* ---- runs ---- */

static struct exec *running(const struct session *s)
{
	struct exec *e = s->execs;

	while (e && strncmp(e->id, RUN_PREFIX, sizeof RUN_PREFIX - 1) != 0)
		e = e->next;
	return e;
}

static json_t *meta_of(const struct schedule *c, int64_t due_s)
{
	char when[CLOCK_TEXT_MAX];
	json_t *o = json_object(), *argv = json_array();

	for (size_t i = 0; c->argv && c->argv[i]; i++)
		(void)json_array_append_new(argv, json_string(c->argv[i]));
	if (c->shell)
		(void)json_object_set_new(o, "command", json_string(c->shell));
	else
		(void)json_object_set(o, "argv", argv);
	json_decref(argv);
	if (c->cwd)
		(void)json_object_set_new(o, "cwd", json_string(c->cwd));
	(void)json_object_set_new(o, "started_at", json_string(clock_text(clock_unix_ns(), when)));
	(void)json_object_set_new(o, "scheduled_at",
		json_string(clock_text(due_s * NS_PER_S, when)));
	(void)json_object_set_new(o, "tty", json_false());
	(void)json_object_set_new(o, "actor", json_string(ACTOR));
	return o;
}

static struct audit_event event_of(const struct session *s, enum audit_kind kind, const char *id,
	const struct policy_decision *d)
{
	return (struct audit_event){.kind = kind,
		.action = "exec.start",
		.tenant = s->tenant,
		.actor = ACTOR,
		.session = s->id,
		.backend = s->backend,
		.exec = id,
		.effect = d->rule[0] ? policy_effect_name(d->effect) : NULL,
		.rule = d->rule[0] ? d->rule : NULL};
}

/* It does not happen: on record, and never tried again. */
static void skip(struct session *s, const char *id, const struct policy_decision *d,
	const char *why)
{
	struct audit_event a = event_of(s, AUDIT_RESULT, id, d);
	struct cell_error err = {0};

	s->schedule->skipped++;
	a.outcome = json_pack("{s:s, s:s}", "skipped", id, "message", why);
	if (ledger_result(&s->srv->ledger, &a, &err) < 0)
		log_failure("audit.failed", &err, s->id);
	json_decref(a.outcome);
	log_event(LOG_WARN, "schedule.skipped", "session", s->id, "run", id, "why", why, NULL);
}

static void run_permitted(struct session *s, int64_t due_s, const struct policy_decision *d)
{
	struct schedule *c = s->schedule;
	struct cell_error err = {0};
	struct exec *e = NULL;
	char id[CELL_EXEC_ID_MAX];
	struct quota_verdict v = quota_exec(s->srv->quota, s->tenant, clock_monotonic_ns());

	(void)snprintf(id, sizeof id, RUN_PREFIX "%" PRId64, due_s);
	struct exec_order order = {.id = id,
		.opts = {.argv = (const char *const *)c->argv,
			.shell = c->shell,
			.cwd = c->cwd,
			.user = c->user,
			.timeout_ms = c->timeout_ms},
		.meta = meta_of(c, due_s)};
	struct audit_event a = event_of(s, AUDIT_INTENT, id, d);
	a.details = order.meta;
	int r = ledger_intent(&s->srv->ledger, &a,
		&err); /* nothing happens that is not on record; what is refused is, too */
	if (r >= 0 && d->effect == POLICY_ALLOW && !v.is_allowed)
		r = quota_fail(&v, s->tenant, &err);
	if (r >= 0 && d->effect != POLICY_ALLOW)
		r = policy_fail(d, &err);
	if (r >= 0)
		r = exec_start(s, s->seat, &order, &e, &err);
	json_decref(order.meta);
	if (r < 0 && err.code != CELL_EEXISTS) { /* that: it ran before the server was killed */
		skip(s, id, d, err.msg);
		return;
	}
	c->ran_s = due_s;
	exec_unref(e);
}

/* ---- may it? ---- */

struct asked {
	struct session *s;
	int64_t due_s;
};

static void permitted(const struct policy_decision *d, void *arg)
{
	struct asked *a = arg;
	struct session *s = a->s;

	s->schedule->is_asking = false;
	if (s->state == SESSION_READY && s->seat) {
		run_permitted(s, a->due_s, d);
		(void)schedule_save(s, NULL);
	}
	session_unref(s);
	free(a);
}

static void run(struct session *s, int64_t due_s)
{
	struct schedule *c = s->schedule;
	const struct policy_request q = {.tenant = s->tenant,
		.role = "user",
		.backend = s->backend,
		.action = "exec.start",
		.session = s->id,
		.actor = ACTOR,
		.argv = (const char *const *)c->argv,
		.shell = c->shell};
	struct asked *a = malloc(sizeof *a);

	if (!a) {
		c->waiting_s = due_s; /* once more in a second */
		return;
	}
	*a = (struct asked){s, due_s};
	session_ref(s);
	c->is_asking = true;
	permit_ask(s->srv, &q, permitted, a);
}

/* ---- when ---- */

/* False: not now, ask again. */
static bool see_to(struct session *s, int64_t due_s, bool is_behind)
{
	struct schedule *c = s->schedule;
	struct exec *e = running(s);
	bool is_running = e || c->is_asking;

	if (c->missed == CRON_MISSED_ALL && is_behind && is_running)
		return false; /* what was missed is caught up with one by one */
	switch (cron_step(c->overlap, is_running, c->waiting_s != 0)) {
	case CRON_STEP_RUN:
		run(s, due_s);
		break;
	case CRON_STEP_SKIP: {
		char id[CELL_EXEC_ID_MAX];
		(void)snprintf(id, sizeof id, RUN_PREFIX "%" PRId64, due_s);
		skip(s, id, &(struct policy_decision){0}, "the run before goes on");
		break;
	}
	case CRON_STEP_WAIT:
		c->waiting_s = due_s;
		break;
	case CRON_STEP_KILL_AND_RUN:
		if (e && e->x)
			(void)cell_exec_kill(e->x, NULL);
		c->waiting_s = due_s; /* begins as soon as the other is gone */
		break;
	}
	return true;
}

static void tick(struct session *s, int64_t now_s)
{
	struct schedule *c = s->schedule;
	int64_t due[CRON_CATCH_UP];
	uint64_t dropped = 0;
	bool is_changed = false;

	if (c->waiting_s && !running(s) && !c->is_asking) {
		int64_t waiting_s = c->waiting_s;
		c->waiting_s = 0;
		run(s, waiting_s);
		is_changed = true;
	}
	int n = cron_due(&c->cron, c->zone, c->last_s, now_s, c->missed, due, &dropped);
	c->skipped += dropped;
	int64_t seen_s = now_s;
	for (int i = 0; i < n; i++) {
		if (!see_to(s, due[i], i > 0 || now_s - due[i] > CRON_SLACK_S)) {
			seen_s = due[i] - 1;
			break;
		}
		is_changed = true;
	}
	/* time that was set back does not make old runs new */
	if (seen_s > c->last_s)
		c->last_s = seen_s;
	struct cell_error err = {0};
	if ((is_changed || dropped) && schedule_save(s, &err) < 0)
		log_failure("schedule.failed", &err, s->id);
}

void schedule_tick(struct server *srv)
{
	int64_t now_s = clock_unix_ns() / NS_PER_S;
	struct session *s, *next;

	HASH_ITER (hh, srv->sessions, s, next) {
		int64_t next_s;
		if (!s->schedule)
			continue;
		if (s->state == SESSION_READY && s->seat)
			tick(s, now_s);
		/* its cell died: the next run gets another, and no sooner, so that one which always dies does not keep us busy */
		else if (s->state == SESSION_LOST &&
			 cron_next(&s->schedule->cron, s->schedule->zone, s->schedule->last_s,
				 &next_s) == 0 &&
			 next_s <= now_s)
			session_remake(s);
	}
}

json_t *schedule_json(const struct session *s)
{
	const struct schedule *c = s->schedule;
	const struct exec *e = running(s);
	char text[CLOCK_TEXT_MAX], id[CELL_EXEC_ID_MAX];
	int64_t next;
	json_t *o = json_pack("{s:b, s:b, s:I}", "running", e != NULL, "waiting", c->waiting_s != 0,
		"skipped", (json_int_t)c->skipped);

	bool has_next = cron_next(&c->cron, c->zone, clock_unix_ns() / NS_PER_S, &next) == 0;
	(void)json_object_set_new(o, "next_at",
		has_next ? json_string(clock_text(next * NS_PER_S, text)) : json_null());
	(void)json_object_set_new(o, "last_at",
		c->ran_s ? json_string(clock_text(c->ran_s * NS_PER_S, text)) : json_null());
	(void)snprintf(id, sizeof id, RUN_PREFIX "%" PRId64, c->ran_s);
	(void)json_object_set_new(o, "last_exec", c->ran_s ? json_string(id) : json_null());
	return o;
}
