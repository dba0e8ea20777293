/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h: the lifecycle `scheduled`: a session whose command runs at the times of a cron expression. Each run is a command of the
 * session like any other, called run-<time>, so that no run happens twice, whatever is killed in between. When it last ran is in the
 * database: what was missed while no server was there is seen to by the rule `missed`.
 *
 *	"lifecycle": "scheduled",
 *	"schedule": {"cron": "0 3 * * *", "zone": "Europe/Berlin", "command": "./nightly", "timeout": "1h",
 *		"missed": "skip" | "once" | "all", "overlap": "skip" | "queue" | "kill"}
 */
#pragma once
#include <jansson.h>

#include "base/error.h"
#include "server/db.h"

struct schedule;
struct server;
struct session;

extern const struct db_module schedule_module;

/* Is what is asked for a schedule, where there must be one? */
int schedule_check(json_t *asked, struct cell_error *err);
/* s->schedule from its spec; nothing to do for other lifecycles. It begins now. */
int schedule_read(struct session *s, struct cell_error *err);
/* And where it stood when the last server ended. */
int schedule_load(struct session *s, struct cell_error *err);
int schedule_save(struct session *s, struct cell_error *err);
void schedule_forget(struct session *s); /* it is gone for good */
void schedule_free(struct schedule *c);	 /* takes NULL */
/* Every second: start what is due. */
void schedule_tick(struct server *srv);
/* {next_at, last_at, last_exec, running, waiting, skipped}: a new reference. */
json_t *schedule_json(const struct session *s);
