/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pause.c: letting a cell stand still, and what it uses meanwhile. By name and record: the guest of such a cell
 * answers nobody. The record says that it is paused, so that nobody waits for a guest that cannot answer.
 */
#include <errno.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "core/contract.h"
#include "core/handle.h"
#include "core/record.h"

static int open_store_of(const char *name, struct cell_store *ret, struct cell_error *err)
{
	int r = cell_store_check_name(name, err);

	if (r >= 0)
		r = cell_store_open(ret, false, err);
	return r == -ENOENT ? cell_fail_no_cell(name, err) : r;
}

static int require_life(const char *name, enum cell_state state, struct cell_error *err)
{
	if (state == CELL_STATE_READY || state == CELL_STATE_PAUSED)
		return 0;
	if (state == CELL_STATE_CREATING) {
		int r = cell_fail(err, CELL_EBUSY, 0, "cell '%s' is still being made", name);
		return cell_error_hint(err, r, "try again in a moment");
	}
	int r = cell_fail(err, CELL_EGONE, 0, "cell '%s' is gone: its guest has died", name);
	return cell_error_hint(err, r, "`cell prune` cleans up");
}

static int note_paused(struct cell *c, bool is_on, struct cell_error *err)
{
	int r = is_on ? json_object_set_new(c->record, "paused", json_true())
		      : json_object_del(c->record, "paused");

	return is_on && r < 0 ? cell_fail_errno(err, ENOMEM, "note that the cell is paused")
			      : cell_note_save(c, err);
}

/* Noted before it stands still and after it goes on: whoever dies in between leaves a cell that says it is paused, which resuming
 * puts right, and never one that hangs for no reason given. */
static int set_paused(const char *name, bool is_on, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_cell struct cell *c = NULL;
	enum cell_state state;
	int r = open_store_of(name, &store, err);

	if (r >= 0)
		r = cell_look_held(&store, name, &c, &state, err);
	if (r >= 0)
		r = require_life(name, state, err);
	if (r >= 0)
		r = cell_contract_require(c, CELL_CAP_BIT(CELL_CAP_PAUSE),
			is_on ? "pause everything" : "resume everything", err);
	bool was_on = r >= 0 && cell_is_paused(c);
	if (r >= 0 && is_on && !was_on)
		r = note_paused(c, true, err);
	if (r < 0 || (!is_on && !was_on))
		return r < 0 ? r : 0;
	r = cell_place_pause(c, is_on, err);
	if (r < 0 && is_on && !was_on) /* it may stand still all the same: nobody is told so */
		(void)cell_place_pause(c, false, NULL);
	if (r >= 0 ? !is_on : is_on && !was_on) {
		int noted = note_paused(c, false, r < 0 ? NULL : err);
		r = r < 0 ? r : noted;
	}
	return r < 0 ? cell_error_prefix(err, r, "%s cell '%s'", is_on ? "pause" : "resume", name)
		     : 0;
}

int cell_pause(const char *name, struct cell_error *err)
{
	return set_paused(name, true, err);
}

int cell_resume(const char *name, struct cell_error *err)
{
	return set_paused(name, false, err);
}

static int from_platform(const struct cell_platform *p, void *user)
{
	*(struct cell_stats *)user = (struct cell_stats){.cpu_ns = p->cpu_ns,
		.memory_bytes = p->used_memory_bytes,
		.processes = p->processes};
	return 0;
}

int cell_stats(const char *name, struct cell_stats *ret, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_cell struct cell *c = NULL;
	struct cell *open = NULL;
	enum cell_state state;
	int r = open_store_of(name, &store, err);

	if (r >= 0)
		r = cell_look(&store, name, &c, &state, err);
	if (r >= 0)
		r = require_life(name, state, err);
	if (r < 0)
		return r;
	*ret = (struct cell_stats){0};
	r = cell_place_stats(c, ret, err);
	if (r != -ENOTSUP)
		return r < 0 ? cell_error_prefix(err, r, "stats of cell '%s'", name) : 0;
	r = cell_reopen(name, &open, err);
	if (r >= 0)
		r = cell_platform(open, from_platform, ret, err);
	(void)cell_close(open, NULL);
	return r;
}
