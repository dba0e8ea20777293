/* SPDX-License-Identifier: Apache-2.0 */
#include "core/container_life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_door.h"
#include "core/guest_pack.h"
#include "core/guest_process.h"
#include "core/room.h"
#include "core/snapshot_part.h"

/* ---- its beginning ---- */

static const struct container_engine *calls_of(const struct cell *c)
{
	const struct container_kind *kind = cell_kind(c);

	return kind->engine;
}

static int check(const struct container_plan *p, struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	/* an engine refuses a limit that its kernel has not got, but for memory, which it may leave out */
	int r = container_check_memory(&spec->limits, err);

	if (r < 0)
		return r;
	if (p->no_disk && spec->limits.disk_bytes && spec->scratch == CELL_SCRATCH_DISK) {
		r = cell_fail(err, CELL_ENOTSUP, 0, "limits.disk: %s", p->no_disk);
		return cell_error_hint(err, r, "use --scratch memory");
	}
	return cell_degrade_workspace(p->c, spec, err);
}

static int note(struct container_plan *p, struct cell_error *err)
{
	int r = container_name(p->c, p->name, err);

	if (r == 0)
		r = cell_state_id(p->c, p->state, err);
	if (r == 0)
		r = cell_note_set(p->c, "container", p->name, err);
	if (r == 0)
		r = cell_note_set_int(p->c, "engine_is_far", p->is_far, err);
	return r < 0 ? r : cell_notes_save(p->c, p->notes, err);
}

/* guest_maker.is_there */
static bool still_runs(void *plan, struct cell_error *err)
{
	const struct container_plan *p = plan;

	if (calls_of(p->c)->runs(p->engine, p->name))
		return true;
	int r = cell_fail(err, CELL_EBACKEND, 0, "the guest ended before it came to its socket");
	(void)cell_error_hint(err, r, "%s", p->fix);
	return false;
}

/* guest_maker.start */
static int start(void *plan, struct cell_error *err)
{
	const struct container_plan *p = plan;

	return calls_of(p->c)->start(p->engine, p->name, err);
}

static int create_near(struct container_plan *p, struct cell_error *err)
{
	auto_door struct guest_door door = GUEST_DOOR_INIT;
	const struct guest_maker maker = {.start = start, .is_there = still_runs, .user = p};
	int r = guest_door_open(p->c, p->filter, p->floor, &door, err);

	p->door = door.path;
	if (r == 0)
		r = p->make(p, err);
	if (r == 0)
		r = guest_door_start(p->c, &door, &p->spec->limits, &maker, err);
	p->door = NULL;
	guest_door_remove(p->c);
	return r;
}

static int create_far(struct container_plan *p, struct cell_error *err)
{
	auto_buf struct buf archive = BUF_INIT(GUEST_PACK_MAX);
	int r = p->make(p, err);

	if (r == 0 && guest_pack(p->user, p->filter, &archive) < 0)
		r = cell_fail_errno(err, ENOMEM, "pack the guest");
	if (r == 0)
		r = calls_of(p->c)->put(p->engine, p->name, CONTAINER_GUEST_DIR, &archive, err);
	return r == 0 ? start(p, err) : r;
}

int container_create(struct container_plan *p, struct cell_error *err)
{
	int r = check(p, err);

	if (r == 0)
		r = note(p, err);
	if (r < 0)
		return r;
	r = p->is_far ? create_far(p, err) : create_near(p, err);
	if (r < 0)
		(void)p->destroy(p->c, NULL);
	return r;
}

json_t *container_args(const struct container_plan *p)
{
	const struct container_guest guest = {.limits = &p->spec->limits,
		.sees_cgroup = true,
		.reach = p->door		   ? CONTAINER_CALLS
			 : cell_is_ephemeral(p->c) ? CONTAINER_LISTENS_ONCE
						   : CONTAINER_LISTENS};

	return container_guest_args(&guest);
}

json_t *container_labels(const struct container_plan *p)
{
	return json_pack("{s:s,s:s,s:s}", CONTAINER_LABEL_NAME, cell_name(p->c),
		CONTAINER_LABEL_DIR, cell_directory(p->c), CONTAINER_LABEL_STATE, p->state);
}

int container_choose_user(struct container_plan *p, bool is_rootless, struct cell_error *err)
{
	uid_t uid = 0;
	gid_t gid = 0;

	if (p->spec->user) {
		(void)snprintf(p->user, sizeof p->user, "%.127s", p->spec->user);
		return 0;
	}
	int r = container_owner(p->spec, &uid, &gid, err);
	if (r == 0 && p->spec->workspace && is_rootless) {
		/* we are its root; others have ids we cannot know */
		if (uid != geteuid()) {
			r = cell_fail(err, CELL_EDENIED, 0,
				"workspace '%s' is not yours, and a rootless engine cannot be its "
				"owner",
				p->spec->workspace);
			return cell_error_hint(err, r, "use a directory of your own");
		}
		uid = gid = 0;
	}
	(void)snprintf(p->user, sizeof p->user, "%u:%u", uid, gid);
	return r;
}

int container_take_image(const struct container_plan *p, const char *id, const char *digest,
	const char *cwd, const struct oci_config *config, struct cell_error *err)
{
	const struct cell_image_facts facts = {.id = id,
		.digest = digest,
		.env = config->env,
		.entrypoint = config->entrypoint,
		.cmd = config->cmd,
		.cwd = cwd,
		.user = config->user};

	return cell_take_image(p->c, p->spec, &facts, err);
}

/* ---- what is done to it ---- */

/* An engine that is spoken to. */
struct talk {
	const struct container_engine *calls;
	void *e;
	const char *container; /* NULL: none is noted */
};

static void talk_done(struct talk *t)
{
	if (t->e)
		t->calls->close(&t->e);
}
#define auto_talk __attribute__((cleanup(talk_done)))

static int talk(const struct cell *c, struct talk *ret, struct cell_error *err)
{
	const struct container_kind *kind = cell_kind(c);

	ret->calls = kind->engine;
	ret->container = cell_note(c, "container");
	return ret->calls->open(kind, c, &ret->e, err);
}

static bool is_far(const struct cell *c)
{
	return cell_note_int(c, "engine_is_far", 0);
}

static int reach(const struct cell *c, struct talk *ret, struct cell_error *err)
{
	return cell_note(c, "container")
		       ? talk(c, ret, err)
		       : cell_fail(err, CELL_EGONE, 0, "the cell has no container");
}

int container_reach(const struct cell *c, void **ret, const char **ret_container,
	struct cell_error *err)
{
	struct talk t = {0};
	int r = reach(c, &t, err);

	*ret = t.e;
	*ret_container = t.container;
	return r;
}

int container_gone(const char *name, struct cell_error *err)
{
	return cell_fail(err, CELL_EGONE, 0, "the container '%s' is gone", name);
}

int container_check_saved(uint64_t bytes, const char *where, struct cell_error *err)
{
	if (bytes > SNAPSHOT_PART_MAX) {
		int r = cell_fail(err, CELL_ELIMIT, 0,
			"what the cell changed of its image has %llu GiB, holes counted; %llu can "
			"be saved",
			(unsigned long long)(bytes >> 30),
			(unsigned long long)(SNAPSHOT_PART_MAX >> 30));
		return cell_error_hint(err, r,
			"remove large files, or keep them in a workspace or mount of the host");
	}
	auto_fd int dir = where && *where ? open(where, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	int r = dir < 0 ? 0 : room_check(dir, bytes, err);
	return r < 0 ? cell_error_prefix(err, r,
			       "save the %llu MiB that the cell changed of its image",
			       (unsigned long long)(bytes >> 20))
		     : 0;
}

int container_open_guest(struct cell *c, struct cell_error *err)
{
	auto_talk struct talk t = {0};

	if (!is_far(c))
		return cell_guest_connect(c, err);
	int r = talk(c, &t, err);
	return r < 0 ? r
		     : t.calls->exec(t.e, t.container,
			       json_pack("[s,s,s]", CONTAINER_GUEST, "--relay", CONTAINER_SOCKET),
			       err);
}

int container_destroy(struct cell *c, struct cell_error *err)
{
	auto_talk struct talk t = {0};

	if (!cell_note(c, "container"))
		return 0;
	int r = talk(c, &t, err);
	if (r == 0)
		r = t.calls->remove(t.e, t.container, err);
	if (r == 0 && !is_far(c))
		r = cell_guest_stop(c, err); /* dead with its container: forget it */
	guest_door_remove(c);
	return r;
}

bool container_is_alive(struct cell *c)
{
	auto_talk struct talk t = {0};

	if (!is_far(c))
		return cell_guest_is_alive(c);
	return cell_note(c, "container") &&
	       (talk(c, &t, NULL) < 0 || t.calls->runs(t.e, t.container));
}

int container_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	auto_talk struct talk t = {0};
	int r = reach(c, &t, err);

	return r < 0 ? r : t.calls->pause(t.e, t.container, is_on, err);
}

int container_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	auto_talk struct talk t = {0};
	int r = reach(c, &t, err);

	if (r < 0)
		return r;
	r = t.calls->stats(t.e, t.container, ret, err);
	return r == -ENOENT ? container_gone(t.container, err) : r;
}

int container_forget(struct cell *c, const char *id, struct cell_error *err)
{
	auto_talk struct talk t = {0};
	char image[CONTAINER_SNAPSHOT_SIZE];
	int r = talk(c, &t, err);

	container_snapshot(id, image);
	return r < 0 ? r : t.calls->remove_image(t.e, image, err);
}

/* ---- what is nobody's any more ---- */

struct sweep {
	const struct cell_sweep *s;
	struct talk t;
	int n; /* containers removed */
};

static void sweep_container(void *user, const char *cell, const char *name)
{
	struct sweep *w = user;

	if (cell && *cell && name && *name && !w->s->is_known(w->s, cell, "container", name))
		w->n += w->t.calls->remove(w->t.e, name, NULL) == 0;
}

/* An engine finishes what it was asked for, also when who asked is dead and its traces are removed. */
static void sweep_image(void *user, const char *cell, const char *name)
{
	const struct sweep *w = user;
	const size_t n = sizeof CONTAINER_SNAPSHOTS ":" - 1;

	(void)cell;
	if (name && !strncmp(name, CONTAINER_SNAPSHOTS ":", n) && !w->s->is_saved(w->s, name + n))
		(void)w->t.calls->remove_image(w->t.e, name, NULL);
}

int container_sweep(const struct cell_sweep *s, struct cell_error *err)
{
	const struct container_kind *kind = s->backend->kind;
	struct sweep w = {.s = s, .t = {.calls = kind->engine}};

	(void)err; /* who cannot be asked has none */
	if (w.t.calls->open(kind, NULL, &w.t.e, NULL) == 0) {
		w.t.calls->list(w.t.e, CONTAINER_CONTAINERS, s->state_id, sweep_container, &w);
		w.t.calls->list(w.t.e, CONTAINER_IMAGES, s->state_id, sweep_image, &w);
	}
	talk_done(&w.t);
	return w.n;
}
