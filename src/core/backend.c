/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c: what back ends see of a cell: their state, the next one of a chain, their notes. */
#include "core/backend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/cell.h"
#include "core/guest_process.h"
#include "core/record.h"
#include "core/store.h"

void *cell_state(struct cell *c)
{
	return c->states[c->level];
}

const void *cell_kind(const struct cell *c)
{
	return c->chain[c->level]->kind;
}

const struct cell_backend *cell_next(const struct cell *c)
{
	return c->chain[c->level + 1];
}

int cell_next_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	c->level++;
	int r = c->chain[c->level]->create(c, spec, err);
	c->level--;
	return r;
}

int cell_next_open_guest(struct cell *c, struct cell_error *err)
{
	c->level++;
	int r = c->chain[c->level]->open_guest(c, err);
	c->level--;
	return r;
}

int cell_next_destroy(struct cell *c, struct cell_error *err)
{
	c->level++;
	int r = c->chain[c->level]->destroy(c, err);
	c->level--;
	return r;
}

bool cell_next_is_alive(struct cell *c)
{
	c->level++;
	const struct cell_backend *b = c->chain[c->level];
	bool is_alive = b->is_alive ? b->is_alive(c) : cell_guest_is_alive(c);
	c->level--;
	return is_alive;
}

void cell_next_detach(struct cell *c)
{
	c->level++;
	const struct cell_backend *b = c->chain[c->level];
	if (b->detach)
		b->detach(c);
	c->level--;
}

/* Slots that are optional: the next of the chain that has it, as `b` at level `at`; b is NULL when none has. */
#define FIND_NEXT(c, slot)                              \
	const size_t here = (c)->level;                 \
	size_t at = here + 1;                           \
	while ((c)->chain[at] && !(c)->chain[at]->slot) \
		at++;                                   \
	const struct cell_backend *const b = (c)->chain[at]

/* Call it from there. */
#define CALL_NEXT(c, call)            \
	({                            \
		(c)->level = at;      \
		int result_ = (call); \
		(c)->level = here;    \
		result_;              \
	})

static int no_slot(const struct cell *c, const char *what, struct cell_error *err)
{
	const char *backend = cell_record_str(c->record, "backend");
	int r = cell_fail(err, CELL_ENOTSUP, 0, "back end '%s' cannot %s", backend ? backend : "?",
		what);

	return cell_error_hint(err, r, "`cell backends` shows which can");
}

int cell_next_shelf(struct cell *c, const struct cell_spec *spec, unsigned n,
	struct cell_error *err)
{
	FIND_NEXT(c, shelf);
	return b ? CALL_NEXT(c, b->shelf(c, spec, n, err)) : no_slot(c, "make cells ahead", err);
}

int cell_next_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	FIND_NEXT(c, pause);
	return b ? CALL_NEXT(c, b->pause(c, is_on, err)) : no_slot(c, "pause cells", err);
}

int cell_next_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	FIND_NEXT(c, stats);
	return b ? CALL_NEXT(c, b->stats(c, ret, err)) : -ENOTSUP;
}

int cell_next_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err)
{
	FIND_NEXT(c, snapshot);
	return b ? CALL_NEXT(c, b->snapshot(c, id, ret_apart, err)) : no_slot(c, "save cells", err);
}

int cell_next_forget(struct cell *c, const char *id, struct cell_error *err)
{
	FIND_NEXT(c, forget);
	return b ? CALL_NEXT(c, b->forget(c, id, err)) : no_slot(c, "remove snapshots", err);
}

const char *cell_directory(const struct cell *c)
{
	return c->directory;
}

const char *cell_warm(const struct cell *c)
{
	return c->is_warmed_late ? NULL : c->warm;
}

int cell_directory_fd(const struct cell *c)
{
	return c->directory_fd;
}

int cell_lock_fd(const struct cell *c)
{
	return c->lock_fd;
}

int cell_state_id(const struct cell *c, char ret[CELL_STATE_ID_SIZE], struct cell_error *err)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	int r = cell_store_open_for(&s, c->directory_fd, c->directory, err);

	if (r == -ENOENT)
		return cell_fail(err, CELL_EGONE, 0, "cell '%s' was removed meanwhile", c->name);
	return r < 0 ? r : cell_store_id(&s, ret, err);
}

void cell_degrade(struct cell *c, enum cell_cap cap)
{
	c->degraded |= CELL_CAP_BIT(cap);
	(void)cell_record_set_caps(c->record, "degraded", c->degraded);
}

int cell_degrade_workspace(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	const struct cell_limits *l = &spec->limits;

	if (!spec->workspace || (!l->disk_bytes && !l->inodes))
		return 0;
	if (!l->is_best_effort) {
		int r = cell_fail(err, CELL_ENOTSUP, 0,
			"limits.%s: what is written to the workspace '%s' goes to the host's disk, "
			"uncounted",
			l->disk_bytes ? "disk" : "inodes", spec->workspace);
		return cell_error_hint(err, r,
			"leave the workspace out (a private one counts), or use --limits "
			"best-effort to limit the rest");
	}
	if (l->disk_bytes)
		cell_degrade(c, CELL_CAP_LIMIT_DISK);
	if (l->inodes)
		cell_degrade(c, CELL_CAP_LIMIT_INODES);
	return 0;
}

bool cell_is_ephemeral(const struct cell *c)
{
	return c->is_ephemeral;
}

static int fail_note(struct cell_error *err, const char *key)
{
	return cell_fail_errno(err, ENOMEM, "note '%s' of the cell", key);
}

static json_t *notes(struct cell *c)
{
	json_t *n = json_object_get(c->record, "notes");

	if (n)
		return n;
	n = json_object();
	return json_object_set_new(c->record, "notes", n) < 0 ? NULL : n;
}

int cell_note_set(struct cell *c, const char *key, const char *value, struct cell_error *err)
{
	json_t *n = notes(c);

	return !n || cell_record_set_str(n, key, value) < 0 ? fail_note(err, key) : 0;
}

int cell_note_set_int(struct cell *c, const char *key, int64_t value, struct cell_error *err)
{
	json_t *n = notes(c);

	return !n || cell_record_set_int(n, key, value) < 0 ? fail_note(err, key) : 0;
}

const char *cell_note(const struct cell *c, const char *key)
{
	return cell_record_str(json_object_get(c->record, "notes"), key);
}

int64_t cell_note_int(const struct cell *c, const char *key, int64_t otherwise)
{
	return cell_record_int(json_object_get(c->record, "notes"), key, otherwise);
}

int cell_note_save(struct cell *c, struct cell_error *err)
{
	int r = cell_record_save(c->directory_fd, c->record, !c->is_ephemeral, err);

	return r < 0 ? cell_error_prefix(err, r, "cell '%s'", c->name) : 0;
}

int cell_notes_save(struct cell *c, const char *const (*pairs)[2], struct cell_error *err)
{
	int r = 0;

	for (; r == 0 && (*pairs)[0]; pairs++)
		if ((*pairs)[1] && *(*pairs)[1])
			r = cell_note_set(c, (*pairs)[0], (*pairs)[1], err);
	return r < 0 ? r : cell_note_save(c, err);
}
