/* SPDX-License-Identifier: Apache-2.0 */
/* outbox.c: see outbox.h. */
#include "server/outbox.h"

#include <string.h>

#include "server/clock.h"

#define BATCH 64

static const char *const migrations[] = {
	"CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL);",
	NULL,
};
const struct db_module outbox_module = {.name = "outbox", .migrations = migrations};

int outbox_put(struct db *db, const struct audit_event *e, struct cell_error *err)
{
	char when[CLOCK_TEXT_MAX];
	json_t *o = json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:O*, s:O*}", "time",
		clock_text(clock_unix_ns(), when), "kind",
		e->kind == AUDIT_INTENT ? "intent" : "result", "action", e->action, "tenant",
		e->tenant, "actor", e->actor, "details", e->details, "outcome", e->outcome);
	/* Secrets go before they are first written anywhere. */
	int r = o && redact_json(NULL, o) == 0 ? 0 : -ENOMEM;
	auto_free char *text = r == 0 ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	if (!text)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "writing down '%s'", e->action);
	r = db_run(db, err, "INSERT INTO outbox (event) VALUES (?)", "s", text);
	return r < 0 ? r : 0;
}

struct batch {
	struct {
		int64_t id;
		json_t *event;
	} of[BATCH];
	size_t n;
};

static int take(const struct db_row *row, void *user)
{
	struct batch *b = user;
	const char *text = db_text(row, 1);

	b->of[b->n].id = db_int(row, 0);
	b->of[b->n].event = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	b->n++;
	return 0;
}

static const char *text_of(json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static int write_down(struct audit *audit, json_t *o, struct cell_error *err)
{
	const char *kind = text_of(o, "kind"), *action = text_of(o, "action");
	json_t *details = json_object_get(o, "details");
	json_t *copy = json_is_object(details) ? json_copy(details) : json_object();
	struct audit_event e = {
		.kind = kind && !strcmp(kind, "intent") ? AUDIT_INTENT : AUDIT_RESULT,
		.action = action ? action : "unknown",
		.tenant = text_of(o, "tenant"),
		.actor = text_of(o, "actor"),
		.details = copy,
		.outcome = json_object_get(o, "outcome")};

	int r = json_object_set(copy, "happened", json_object_get(o, "time")) < 0
			? cell_fail(err, CELL_ENOSPACE, ENOMEM, "writing down '%s'", e.action)
			: audit_write(audit, &e, NULL, err);
	json_decref(copy);
	return r;
}

int outbox_drain(struct db *db, struct audit *audit, struct cell_error *err)
{
	struct batch b = {0};
	int done = 0;

	int r = db_each(db, take, &b, err, "SELECT id, event FROM outbox ORDER BY id LIMIT 64", "");
	for (size_t i = 0; i < b.n; i++) {
		if (r == 0 && b.of[i].event)
			r = write_down(audit, b.of[i].event, err);
		if (r == 0) {
			int gone =
				db_run(db, err, "DELETE FROM outbox WHERE id=?", "i", b.of[i].id);
			r = gone < 0 ? gone : 0;
			done += r == 0;
		}
		json_decref(b.of[i].event);
	}
	return r < 0 ? r : done;
}
