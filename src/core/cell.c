/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cell.c: opening, reopening, closing and destroying a cell. The order of cell_open is what makes a
 * crash at any point harmless: the name and its lock first, then a record that says "creating",
 * then the place. What has no holder and is not "ready" was left behind, and the record says how to
 * remove it.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/code_defaults.h"
#include "core/contract.h"
#include "core/deps/place.h"
#include "core/env.h"
#include "core/handle.h"
#include "core/link.h"
#include "core/record.h"
#include "core/resources.h"
#include "core/snapshot.h"
#include "core/store_spare.h"
#include "core/within.h"

#define REAP_AT_OPEN  64 /* cells looked at by an open; list and prune look at all */
#define DYING_MS      2000
#define DYING_LOOK_MS 5
#define REAP_TRIES    3
#define REAP_PAUSE_MS 200

const char *cell_version(void)
{
	return CELL_VERSION;
}

static int random_name(char ret[CELL_NAME_MAX], struct cell_error *err)
{
	unsigned char id[10];

	if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
		return cell_fail_errno(err, errno, "choose an id for the cell");
	for (size_t i = 0; i < sizeof id; i++) /* a letter first: never mistaken for a number */
		(void)snprintf(ret + 2 * i, 3, "%c%x", 'a' + (id[i] >> 4), id[i] & 15u);
	return 0;
}

static uint64_t now_unix_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int resolve_workspace(const char *workspace, char **ret, struct cell_error *err)
{
	struct stat st;
	auto_free char *path = realpath(workspace, NULL);

	if (!path || stat(path, &st) < 0) {
		int r = cell_fail_errno(err, errno, "workspace '%s'", workspace);
		return cell_error_hint(err, r, "give a directory that exists");
	}
	if (!S_ISDIR(st.st_mode)) {
		int r = cell_fail(err, CELL_EINVAL, ENOTDIR, "workspace '%s'", workspace);
		return cell_error_hint(err, r, "give a directory, not a file");
	}
	*ret = steal_ptr(path);
	return 0;
}

static int fill_record(struct cell *c, const struct cell_spec *spec)
{
	char backend[256] = "";
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; c->chain[i]; i++) {
		int k = snprintf(backend + n, sizeof backend - n, "%s%s", i ? ":" : "",
			c->chain[i]->name);
		n += k > 0 ? (size_t)k : 0;
	}
	r |= cell_record_set_int(c->record, "version", CELL_RECORD_VERSION);
	r |= cell_record_set_str(c->record, "state", "creating");
	r |= cell_record_set_str(c->record, "name", c->name);
	r |= cell_record_set_str(c->record, "backend", backend);
	r |= json_object_set_new(c->record, "ephemeral", json_boolean(c->is_ephemeral));
	r |= cell_record_set_int(c->record, "created_unix_ms", (int64_t)now_unix_ms());
	r |= cell_record_set_int(c->record, "owner_pid", getpid());
	r |= cell_record_set_caps(c->record, "caps", c->caps);
	r |= cell_record_set_caps(c->record, "degraded", c->degraded);
	r |= cell_record_set_str(c->record, "workspace", spec->workspace);
	r |= cell_record_set_str(c->record, "cwd", c->cwd);
	r |= cell_record_set_str(c->record, "user", c->user);
	r |= cell_record_set_int(c->record, "timeout_ms", (int64_t)c->timeout_ms);
	if (!c->is_ephemeral) /* nobody else can run anything in it: what it was told stays here */
		r |= cell_record_set_list(c->record, "env", (const char *const *)c->env);
	r |= cell_record_set_list(c->record, "labels", spec->labels);
	if (spec->resources)
		r |= cell_record_set_str(c->record, "resources",
			cell_resources_name(spec->resources));
	if (spec->scratch)
		r |= cell_record_set_str(c->record, "scratch",
			spec->scratch == CELL_SCRATCH_DISK ? "disk" : "memory");
	r |= cell_record_set_str(c->record, "seccomp", spec->seccomp);
	r |= cell_record_set_str(c->record, "from", spec->from);
	return r ? -ENOMEM : 0;
}

int cell_prepare(const struct cell_spec *spec, struct cell **ret, struct cell_error *err)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	struct cell_probe probe;
	cell_caps degraded = 0;
	char name[CELL_NAME_MAX];
	int r = spec->name ? cell_store_check_name(spec->name, err) : random_name(name, err);

	if (r >= 0)
		r = cell_contract_choose_hastily(spec, chain, &probe, &degraded, err);
	if (r < 0)
		return r;
	auto_cell struct cell *c = cell_handle_new(spec->name ? spec->name : name);
	if (!c || cell_handle_set_chain(c, chain) < 0)
		return cell_fail_errno(err, ENOMEM, "make a cell");
	c->is_ephemeral = !spec->name;
	c->caps = probe.caps;
	c->degraded = degraded;
	c->timeout_ms = spec->timeout_ms;
	if ((spec->cwd && !(c->cwd = strdup(spec->cwd))) ||
		(spec->user && !(c->user = strdup(spec->user))) || code_defaults_set(c, spec) < 0)
		return cell_fail_errno(err, ENOMEM, "make a cell");
	r = cell_env_compose(spec->env_from, environ, spec->env, &c->env, err);
	if (r >= 0)
		r = cell_warm_text(spec, &c->warm, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(c);
	return 0;
}

static int take_name(struct cell_store *s, struct cell *c, struct cell_error *err)
{
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	int r = cell_store_create(s, c->name, &slot, err);

	for (int i = 0; r == -EEXIST && c->is_ephemeral && i < 8; i++) {
		r = random_name(c->name, err);
		if (r >= 0)
			r = cell_store_create(s, c->name, &slot, err);
	}
	if (r >= 0)
		cell_handle_take_slot(c, &slot);
	return r;
}

/* A look at the directory as a slot; borrowed from the handle, nothing to release. */
static struct cell_slot slot_of(const struct cell *c)
{
	return (struct cell_slot){
		.path = c->directory, .fd = c->directory_fd, .lock_fd = c->lock_fd};
}

/* End the place and free the name. When the place resists, the record stays for the next attempt.
 */
static int destroy_cell(struct cell_store *s, struct cell *c, struct cell_error *err)
{
	cell_place_detach(c);
	int r = cell_place_destroy(c, err);
	if (r < 0)
		return cell_error_prefix(err, r, "destroy cell '%s'", c->name);
	struct cell_slot slot = slot_of(c);
	const char *state = cell_record_str(c->record, "state");
	if (c->is_ephemeral && state && !strcmp(state, "ready") &&
		cell_spare_keep(s, c->name, &slot)) {
		c->directory_fd = c->lock_fd = -1;
		return 0;
	}
	return cell_store_remove(s, c->name, &slot, err);
}

/* The name and its lock first, then a record that says "creating"; with a directory that was kept the
 * record is there before the name is. */
static int take_place(struct cell_store *s, struct cell *c, const struct cell_spec *spec,
	struct cell_error *err)
{
	auto_slot struct cell_slot kept = CELL_SLOT_INIT;
	int r = fill_record(c, spec);

	if (r < 0)
		return cell_fail_errno(err, -r, "make cell '%s'", c->name);
	if (c->is_ephemeral && cell_spare_take(s, &kept)) {
		if (cell_record_save(kept.fd, c->record, false, NULL) == 0 &&
			cell_spare_reveal(s, c->name, &kept) == 0) {
			cell_handle_take_slot(c, &kept);
			return 0;
		}
	}
	r = take_name(s, c, err);
	if (r < 0)
		return r;
	if (cell_record_set_str(c->record, "name", c->name) < 0)
		r = cell_fail_errno(err, ENOMEM, "make cell '%s'", c->name);
	else
		r = cell_note_save(c, err);
	if (r < 0) {
		struct cell_slot slot = slot_of(c);
		(void)cell_store_remove(s, c->name, &slot, NULL);
	}
	return r;
}

/* A cell could not be made. Does trying the back end out say more than that? */
static bool is_unusable(const struct cell_spec *spec, struct cell_error *ret_why)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	struct cell_probe probe;
	cell_caps degraded = 0;

	return cell_contract_choose(spec, chain, &probe, &degraded, ret_why) < 0 &&
	       ret_why->code == CELL_ENOTSUP;
}

int cell_open(const struct cell_spec *spec, struct cell **ret, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_cell struct cell *c = NULL;
	auto_free char *workspace = NULL;
	auto_deps_mounts struct deps_mounts mounts = {0};
	auto_snapshot struct snapshot_held from = SNAPSHOT_HELD_INIT;
	struct cell_spec own = *spec;
	int r = cell_resources_complete(&own, err);

	if (r >= 0)
		r = snapshot_hold(&own, &from, err);
	if (r >= 0)
		r = cell_prepare(&own, &c, err);
	if (r >= 0)
		r = cell_within_spec(&own, err);
	if (r >= 0 && spec->workspace)
		r = resolve_workspace(spec->workspace, &workspace, err);
	if (r >= 0)
		r = cell_store_open(&store, true, err);
	if (r < 0)
		return r;
	if (workspace)
		own.workspace = workspace;
	cell_reap_some(&store, REAP_AT_OPEN);
	r = take_place(&store, c, &own, err);
	if (r < 0)
		return r;
	if (own.from) /* for the back end it is what it saved it as */
		own.from = from.id;
	c->is_warmed_late = own.image || own.root || own.from || deps_are_wanted(&own);
	r = deps_place_make(c, &own, &mounts, err);
	if (r >= 0)
		r = cell_place_create(c, &own, err);
	if (r >= 0)
		r = cell_place_connect(c, err);
	if (r >= 0)
		r = snapshot_restore(c, &from, own.workspace != NULL, err);
	if (r >= 0)
		r = deps_place_open(c, &own, err);
	if (r >= 0 && c->warm && c->is_warmed_late)
		cell_warm_now(c);
	if (r >= 0 && cell_record_set_str(c->record, "state", "ready") < 0)
		r = cell_fail_errno(err, ENOMEM, "make cell '%s'", c->name);
	if (r >= 0)
		r = cell_note_save(c, err);
	if (r < 0) {
		struct cell_error why = {0};

		(void)destroy_cell(&store, c, NULL);
		if (!is_unusable(&own, &why))
			return cell_error_prefix(err, r, "make cell '%s'", c->name);
		if (err)
			*err = why;
		return -EOPNOTSUPP;
	}
	if (!c->is_ephemeral) {
		cell_closep(&c->lock_fd);
		c->lock_fd = -1;
	}
	*ret = steal_ptr(c);
	return 0;
}

static int fail_gone(struct cell_store *s, const char *name, const char *why,
	struct cell_error *err)
{
	struct cell_error left = {0};
	int r = -EAGAIN;

	/* an engine may be busy with what has died just now */
	for (int i = 0; r < 0 && i < REAP_TRIES; i++) {
		(void)poll(NULL, 0, i * REAP_PAUSE_MS);
		r = cell_reap(s, name, NULL, NULL, &left);
	}
	bool is_clean = r >= 0;
	r = cell_fail(err, CELL_EGONE, 0, "cell '%s' is gone: %s%s%s", name, why,
		is_clean ? "" : "; what it left cannot be removed: ", is_clean ? "" : left.msg);
	return is_clean
		       ? cell_error_hint(err, r,
				 "what it left was cleaned up; make it again: cell create %s", name)
		       : cell_error_hint(err, r, "try again: cell rm -f %s", name);
}

/* A guest that was killed listens no more, but is there until what else was in its place has ended, too. */
static bool is_dying(struct cell *c)
{
	for (int i = 0; i < DYING_MS / DYING_LOOK_MS; i++) {
		if (!cell_place_is_alive(c))
			return true;
		(void)poll(NULL, 0, DYING_LOOK_MS);
	}
	return false;
}

int cell_reopen(const char *name, struct cell **ret, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	auto_cell struct cell *c = NULL;
	json_t *record = NULL;
	int r = cell_store_check_name(name, err);

	if (r >= 0)
		r = cell_store_open(&store, false, err);
	if (r == -ENOENT) {
		cell_fail(err, CELL_ENOTFOUND, 0, "there is no cell '%s'", name);
		return cell_error_hint(err, r, "make it: cell create %s", name);
	}
	if (r >= 0)
		r = cell_store_find(&store, name, &slot, err);
	if (r < 0)
		return r;
	bool is_held = cell_slot_is_held(&slot);
	r = cell_record_load(slot.fd, &record, err);
	if (r < 0 && r != -ENOENT)
		return cell_error_prefix(err, r, "cell '%s'", name);
	const char *state = r < 0 ? "creating" : cell_record_str(record, "state");
	if (strcmp(state, "ready") != 0) {
		json_decref(record);
		if (!is_held)
			return fail_gone(&store, name, "who made it died before it was ready", err);
		r = cell_fail(err, CELL_EBUSY, 0, "cell '%s' is still being made", name);
		return cell_error_hint(err, r, "try again in a moment");
	}
	r = cell_handle_from_record(name, record, &slot, &c, err);
	if (r >= 0 && !c->chain[0])
		r = cell_backend_chain(cell_record_str(record, "backend"), c->chain, err);
	json_decref(record);
	if (r < 0)
		return cell_error_prefix(err, r, "cell '%s'", name);
	if (c->is_ephemeral && is_held) {
		r = cell_fail(err, CELL_EBUSY, 0,
			"cell '%s' is ephemeral: only the process that made it can use it", name);
		return cell_error_hint(err, r, "make a cell with a name to share it: cell create");
	}
	if (c->is_ephemeral)
		return fail_gone(&store, name, "the process that made it has ended", err);
	if (!cell_place_is_alive(c))
		return fail_gone(&store, name, "its guest has died", err);
	if (cell_is_paused(c)) {
		r = cell_fail(err, CELL_EBUSY, 0, "cell '%s' is paused", name);
		return cell_error_hint(err, r, "let it go on: cell resume %s", name);
	}
	r = cell_place_connect(c, err);
	if ((r == -ECONNREFUSED || r == -ENOENT) && is_dying(c))
		return fail_gone(&store, name, "its guest has died", err);
	if (r < 0)
		return cell_error_prefix(err, r, "open cell '%s'", name);
	*ret = steal_ptr(c);
	return 0;
}

int cell_destroy(struct cell *c, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	enum cell_hold hold = CELL_HOLD_OURS;

	if (!c)
		return 0;
	int r = cell_store_open_for(&store, c->directory_fd, c->directory, err);
	if (r == -ENOENT) { /* removed by somebody else */
		cell_place_detach(c);
		r = cell_place_destroy(c, err);
		cell_handle_free(c);
		return r;
	}
	if (r >= 0 &&
		c->lock_fd < 0) { /* against a second remover; whoever comes late finds it gone */
		slot = slot_of(c);
		r = cell_store_hold(&store, c->name, &slot, true, &hold, err);
		c->lock_fd = slot.lock_fd;
		slot = (struct cell_slot)CELL_SLOT_INIT;
	}
	if (r >= 0 && hold != CELL_HOLD_GONE)
		r = destroy_cell(&store, c, err);
	cell_handle_free(c);
	return r;
}

int cell_close(struct cell *c, struct cell_error *err)
{
	if (c && c->is_ephemeral)
		return cell_destroy(c, err);
	if (c)
		cell_place_detach(c);
	cell_handle_free(c);
	return 0;
}

const char *cell_name(const struct cell *c)
{
	return c->name;
}

const char *cell_backend_of(const struct cell *c)
{
	return cell_record_str(c->record, "backend");
}

bool cell_supports(const struct cell *c, enum cell_cap cap)
{
	return (unsigned)cap < CELL_CAP_COUNT && (c->caps & CELL_CAP_BIT(cap));
}

cell_caps cell_degraded(const struct cell *c)
{
	return c->degraded;
}

int cell_poll_fd(const struct cell *c)
{
	return link_fd(c->link);
}

int cell_poll(struct cell *c, struct cell_error *err)
{
	return link_idle(c->link, err);
}

short cell_poll_events(const struct cell *c)
{
	return link_events(c->link);
}
