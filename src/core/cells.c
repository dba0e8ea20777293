/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c: all the cells of a state directory: listing them, removing one by name, cleaning up what
 * crashes left. Works from records and locks alone, connects to no guest but to end it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/handle.h"
#include "core/record.h"
#include "core/snapshot.h"
#include "core/store_spare.h"

#define REAP_EVERY_MS	   100
#define REMOVE_PATIENCE_MS 5000 /* for another process that is making or removing the same cell */

/* What a look at one cell found. */
struct look {
	struct cell *c;
	enum cell_state state;
	char **labels;
};

static void look_done(struct look *l)
{
	cell_record_list_free(&l->labels);
	cell_handle_free(l->c);
	*l = (struct look){0};
}
#define auto_look __attribute__((cleanup(look_done)))

static const char *text_of(const struct cell *c, const char *key)
{
	const char *text = cell_record_str(c->record, key);

	return text ? text : "";
}

static const char *note_of(const struct cell *c, const char *key)
{
	const char *text = cell_note(c, key);

	return text ? text : "";
}

static int to_info(const struct look *l, cell_info_fn fn, void *user)
{
	const struct cell *c = l->c;
	const char *backend = cell_record_str(c->record, "backend");
	const char *workspace = cell_record_str(c->record, "workspace");

	if (!workspace)
		workspace = cell_note(c, "workspace");
	struct cell_info info = {
		.name = c->name,
		.backend = backend ? backend : "",
		.state = l->state,
		.workspace = workspace ? workspace : "",
		.is_ephemeral = c->is_ephemeral,
		.guest_pid = cell_note_int(c, "guest_pid", 0),
		.created_unix_ms = (uint64_t)cell_record_int(c->record, "created_unix_ms", 0),
		.labels = (const char *const *)l->labels,
		.directory = c->directory,
		.resources = text_of(c, "resources"),
		.scratch = text_of(c, "scratch"),
		.seccomp = text_of(c, "seccomp"),
		.image = note_of(c, "image"),
		.image_digest = note_of(c, "image_digest"),
		.image_entrypoint = note_of(c, "image_entrypoint"),
		.image_cmd = note_of(c, "image_cmd"),
		.image_user = note_of(c, "image_user"),
	};
	return fn(&info, user);
}

/* Takes the slot over. is_held: by another process. */
static int look_at(const char *name, struct cell_slot *slot, bool is_held, struct look *ret,
	struct cell_error *err)
{
	json_t *record = NULL;
	int r = cell_record_load(slot->fd, &record, NULL);
	bool is_broken = r < 0 && r != -ENOENT;

	r = cell_handle_from_record(name, record, slot, &ret->c, err);
	if (r >= 0 && cell_record_list(record, "labels", &ret->labels) < 0)
		r = cell_fail_errno(err, ENOMEM, "look at cell '%s'", name);
	const char *state = cell_record_str(record, "state");
	bool is_ready = state && !strcmp(state, "ready");
	json_decref(record);
	if (r < 0)
		return r;
	if (is_broken)
		ret->state = CELL_STATE_BROKEN;
	else if (!is_ready)
		ret->state = is_held ? CELL_STATE_CREATING : CELL_STATE_DEAD;
	else if (ret->c->is_ephemeral)
		ret->state = is_held ? CELL_STATE_READY : CELL_STATE_DEAD;
	else
		ret->state = cell_place_is_alive(ret->c) ? CELL_STATE_READY : CELL_STATE_DEAD;
	if (ret->state == CELL_STATE_READY && cell_is_paused(ret->c))
		ret->state = CELL_STATE_PAUSED;
	return 0;
}

/* Gone since it was listed, or a stray file that never was a cell. */
static bool is_no_cell(int r)
{
	return r == -ENOENT || r == -ENOTDIR;
}

static int remove_place(struct cell_store *s, struct cell *c, struct cell_error *err)
{
	int r = cell_place_destroy(c, err);

	if (r < 0)
		return cell_error_prefix(err, r, "remove cell '%s'", c->name);
	struct cell_slot slot = {
		.path = c->directory, .fd = c->directory_fd, .lock_fd = c->lock_fd};
	return cell_store_remove(s, c->name, &slot, err);
}

int cell_reap(struct cell_store *s, const char *name, cell_info_fn fn, void *user,
	struct cell_error *err)
{
	for (int is_judging = 0; is_judging < 2; is_judging++) {
		auto_slot struct cell_slot slot = CELL_SLOT_INIT;
		auto_look struct look look = {0};
		enum cell_hold hold = CELL_HOLD_UNSURE;
		struct cell_error why = {0};
		int r = cell_store_find(s, name, &slot, &why);

		if (is_no_cell(r))
			return 0;
		if (r < 0 && err)
			*err = why;
		if (r >= 0)
			r = cell_store_hold(s, name, &slot, is_judging, &hold, err);
		if (r < 0)
			return r;
		if (hold == CELL_HOLD_OTHER || hold == CELL_HOLD_GONE)
			return 0;
		if (hold == CELL_HOLD_UNSURE)
			continue;
		r = look_at(name, &slot, false, &look, err);
		if (r < 0)
			return r;
		if (look.state != CELL_STATE_DEAD)
			return 0;
		/* one that never was ready may belong to a creator that has yet to take its lock */
		const char *state = cell_record_str(look.c->record, "state");
		if (!is_judging && (!state || strcmp(state, "ready") != 0))
			continue;
		if (fn && (r = to_info(&look, fn, user)) != 0)
			return r;
		r = remove_place(s, look.c, err);
		return r < 0 ? r : 1;
	}
	return 0;
}

/* Has this process looked at this store a moment ago? Who makes hundreds of cells a second would look at
 * hundreds of living ones for each. */
static bool was_reaped(const struct cell_store *s)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct {
		dev_t dev;
		ino_t ino;
		struct timespec when;
	} last;
	struct timespec now;
	struct stat st;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if (fstat(s->cells_fd, &st) < 0)
		return false;
	(void)pthread_mutex_lock(&lock);
	int64_t since_ms = (int64_t)(now.tv_sec - last.when.tv_sec) * 1000 +
			   (now.tv_nsec - last.when.tv_nsec) / 1000000;
	bool is_recent = last.when.tv_sec && last.dev == st.st_dev && last.ino == st.st_ino &&
			 since_ms < REAP_EVERY_MS;
	if (!is_recent) {
		last.dev = st.st_dev;
		last.ino = st.st_ino;
		last.when = now;
	}
	(void)pthread_mutex_unlock(&lock);
	return is_recent;
}

void cell_reap_some(struct cell_store *s, size_t max)
{
	char **names = NULL;

	if (was_reaped(s))
		return;
	cell_store_sweep(s);
	if (cell_store_names(s, max, &names, NULL) < 0)
		return;
	for (char **n = names; *n; n++)
		(void)cell_reap(s, *n, NULL, NULL, NULL);
	cell_store_names_free(&names);
}

/* ---- places whose record is gone ---- */

struct orphans {
	struct cell_sweep sweep; /* first: is_known gets it */
	struct cell_store *store;
	const char *backend;
	cell_info_fn fn;
	void *user;
};

static bool is_known(const struct cell_sweep *s, const char *name, const char *key,
	const char *note)
{
	const struct orphans *o = (const struct orphans *)(const void *)s;
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	json_t *record = NULL;
	int r = cell_store_check_name(name, NULL);

	if (r == 0)
		r = cell_store_find(o->store, name, &slot, NULL);
	if (r == 0)
		r = cell_record_load(slot.fd, &record, NULL);
	const char *have = cell_record_str(json_object_get(record, "notes"), key);
	/* what cannot be read may be its record */
	bool is = r == 0 ? have && !strcmp(have, note) : !is_no_cell(r);
	json_decref(record);
	const struct cell_info info = {.name = name,
		.backend = o->backend,
		.state = CELL_STATE_DEAD,
		.workspace = "",
		.labels = (const char *const[]){NULL},
		.directory = "",
		.resources = "",
		.scratch = "",
		.seccomp = "",
		.image = "",
		.image_digest = "",
		.image_entrypoint = "",
		.image_cmd = "",
		.image_user = ""};
	if (!is && o->fn)
		(void)o->fn(&info, o->user);
	return is;
}

static bool is_saved(const struct cell_sweep *s, const char *id)
{
	const struct orphans *o = (const struct orphans *)(const void *)s;

	return snapshot_is_known(o->store, id);
}

static int sweep_places(struct cell_store *s, cell_info_fn fn, void *user)
{
	char id[CELL_STATE_ID_SIZE];
	int n = 0;

	if (cell_store_id(s, id, NULL) < 0)
		return 0;
	for (size_t i = 0; cell_backends[i]; i++) {
		struct orphans o = {.sweep = {.backend = cell_backends[i],
					    .state_id = id,
					    .is_known = is_known,
					    .is_saved = is_saved},
			.store = s,
			.backend = cell_backends[i]->name,
			.fn = fn,
			.user = user};
		int k = cell_backends[i]->sweep ? cell_backends[i]->sweep(&o.sweep, NULL) : 0;
		n += k > 0 ? k : 0;
	}
	return n;
}

void snapshot_tidy(bool is_thorough)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	struct stat st;

	if (cell_store_open(&store, false, NULL) < 0 ||
		fstatat(store.fd, "snapshots", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* nobody has ever saved anything */
	snapshot_sweep(&store);
	if (is_thorough)
		(void)sweep_places(&store, NULL, NULL);
}

int cell_prune(cell_info_fn fn, void *user, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	char **names = NULL;
	int n_reaped = 0, first_error = 0;
	int r = cell_store_open(&store, false, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	cell_spare_remove_all();
	cell_store_sweep(&store);
	r = cell_store_names(&store, 0, &names, err);
	for (char **n = names; r >= 0 && *n; n++) {
		/* one that resists must not keep the others */
		int k = cell_reap(&store, *n, fn, user, first_error ? NULL : err);
		if (k > 0)
			n_reaped++;
		else if (k < 0 && !first_error)
			first_error = k;
	}
	cell_store_names_free(&names);
	if (r >= 0) {
		snapshot_sweep(&store);
		n_reaped += sweep_places(&store, fn, user);
	}
	return r < 0 ? r : first_error ? first_error : n_reaped;
}

static int show(struct cell_store *s, const char *name, cell_info_fn fn, void *user,
	struct cell_error *err)
{
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	auto_look struct look look = {0};
	int r = cell_store_find(s, name, &slot, err);

	if (r >= 0)
		r = look_at(name, &slot, cell_slot_is_held(&slot), &look, err);
	return r < 0 ? r : to_info(&look, fn, user);
}

int cell_list(cell_info_fn fn, void *user, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	char **names = NULL;
	int r = cell_store_open(&store, false, err);

	if (r == -ENOENT)
		return 0;
	if (r >= 0)
		r = cell_store_names(&store, 0, &names, err);
	if (r < 0)
		return r;
	for (char **n = names; *n && !r; n++) {
		struct cell_error why = {0};

		r = show(&store, *n, fn, user, &why);
		if (why.code && is_no_cell(r))
			r = 0;
		else if (r < 0 && err)
			*err = why;
	}
	cell_store_names_free(&names);
	return r;
}

int cell_fail_no_cell(const char *name, struct cell_error *err)
{
	cell_fail(err, CELL_ENOTFOUND, 0, "there is no cell '%s'", name);
	return cell_error_hint(err, -ENOENT, "`cell ls` lists those there are");
}

int cell_inspect(const char *name, cell_info_fn fn, void *user, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	int r = cell_store_check_name(name, err);

	if (r >= 0)
		r = cell_store_open(&store, false, err);
	if (r == -ENOENT)
		return cell_fail_no_cell(name, err);
	return r < 0 ? r : show(&store, name, fn, user, err);
}

int cell_look(struct cell_store *s, const char *name, struct cell **ret, enum cell_state *ret_state,
	struct cell_error *err)
{
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	auto_look struct look look = {0};
	int r = cell_store_find(s, name, &slot, err);

	if (r >= 0)
		r = look_at(name, &slot, cell_slot_is_held(&slot), &look, err);
	if (r < 0)
		return r;
	*ret_state = look.state;
	*ret = steal_ptr(look.c);
	return 0;
}

int cell_look_held(struct cell_store *s, const char *name, struct cell **ret,
	enum cell_state *ret_state, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000000};

	for (int waited_ms = 0;; waited_ms += 10) {
		auto_slot struct cell_slot slot = CELL_SLOT_INIT;
		auto_look struct look look = {0};
		enum cell_hold hold = CELL_HOLD_UNSURE;

		int r = cell_store_find(s, name, &slot, err);
		if (r >= 0)
			r = cell_store_hold(s, name, &slot, true, &hold, err);
		if (r < 0)
			return r;
		if (hold == CELL_HOLD_GONE)
			return cell_fail_no_cell(name, err);
		r = look_at(name, &slot, hold == CELL_HOLD_OTHER, &look, err);
		if (r < 0)
			return r;
		bool is_owned = look.c->is_ephemeral &&
				(look.state == CELL_STATE_READY || look.state == CELL_STATE_PAUSED);
		if (hold == CELL_HOLD_OURS || is_owned) {
			*ret_state = look.state;
			*ret = steal_ptr(look.c);
			return 0;
		}
		if (waited_ms < REMOVE_PATIENCE_MS) {
			(void)nanosleep(&pause, NULL);
			continue;
		}
		r = cell_fail(err, CELL_EBUSY, 0,
			"cell '%s' is being made or removed by process %d", name,
			(int)cell_record_int(look.c->record, "owner_pid", 0));
		return cell_error_hint(err, r, "try again when that has ended");
	}
}

int cell_remove(const char *name, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_cell struct cell *c = NULL;
	enum cell_state state;
	int r = cell_store_check_name(name, err);

	if (r >= 0)
		r = cell_store_open(&store, false, err);
	if (r == -ENOENT)
		return cell_fail_no_cell(name, err);
	/* an ephemeral cell's owner keeps the lock; its guest is ended all the same */
	if (r >= 0)
		r = cell_look_held(&store, name, &c, &state, err);
	return r < 0 ? r : remove_place(&store, c, err);
}
