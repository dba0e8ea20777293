/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h: a back end is a place and a pipe. It makes a place with the asked-for walls, puts the
 * guest in it, and hands back a byte stream. Everything else (commands, files, kernels) is the
 * guest's and is written once.
 *
 * To add one: copy backends/null/, fill the slots, add its name in meson.build, pass the
 * conformance suite. docs/backend-guide.md walks through it.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/caps.h"
#include "cell/error.h"
#include "cell/spec.h"

struct cell;
struct cell_stats;
struct cell_sweep;

/* For the tables of back ends: CAP(EXEC) | CAP(PTY). */
#define CAP(name) CELL_CAP_BIT(CELL_CAP_##name)

/* What probe() finds. It starts as "usable, with everything declared". */
struct cell_probe {
	const struct cell_backend *const *chain; /* this back end, then what it wraps; then NULL */
	bool is_hasty; /* who asks will make a cell at once: need not be tried out before */
	bool is_usable;
	bool is_thorough; /* somebody wants to know, no cell waits for it: it may take a little */
	int broken; /* not usable because trying it out went wrong: the errno. It may go well another time */
	char reason[240]; /* when not usable: why, and what would help */
	char fix[240];
	cell_caps caps;
	struct cell_lack lacks[CELL_LACKS_MAX];
	size_t n_lacks;
};

/* Every call may block; none is made from an event loop. Slots marked * are mandatory, a NULL slot
 * means "not supported". Inputs are borrowed. A back end keeps what it must remember across
 * processes with cell_note_set() (strings, saved in the cell's record) and finds it again with
 * cell_note(): open_guest and destroy run in other processes than create did, after crashes too. */
struct cell_backend {
	const char *name;    /* * the word after --backend */
	const char *summary; /* * one line for `cell backends` */
	const char *wall;    /* * one sentence: what it keeps apart, and what not */
	int tier;	     /*   0 no wall; 1..4 as in MISSION D */
	int strength;	     /*   the usable one with the most is the default; 0: never by itself */
	cell_caps caps;	     /*   what it can promise at best */
	size_t state_size;   /*   zeroed private state per handle, cell_state(c) */
	bool is_wrapper;     /*   wraps another: "trace:local" */
	const void
		*kind; /*   the back end's own: what differs between those that share their slots */

	/* * Usable here? Narrow p->caps with cell_probe_lack(), or cell_probe_refuse(). Cheap: no
	 * process started, nothing left behind. */
	void (*probe)(struct cell_probe *p);
	/* * Make the place and start the guest in it. On failure nothing is left. The spec has been
	 * validated and asks for nothing beyond what probe promised. */
	int (*create)(struct cell *c, const struct cell_spec *spec, struct cell_error *err);
	/* * A connected stream to the guest, owned by the caller, CLOEXEC. Called once after create
	 * and once for each reopen; may be called several times at once. */
	int (*open_guest)(struct cell *c, struct cell_error *err);
	/* * End everything and remove everything. Idempotent; works on a half-made cell and from
	 * the record alone. */
	int (*destroy)(struct cell *c, struct cell_error *err);
	/* Is the place still there? NULL: the core asks the guest's pid. */
	bool (*is_alive)(struct cell *c);
	/* How each wall is provided here, for people to read: only when probe said usable. Its own
	 * slot, because probe runs for every cell and this does not. */
	int (*walls)(const struct cell_backend *self, cell_wall_fn fn, void *user);
	/* Have n cells like this one made ahead. The handle has no directory. NULL: cannot. */
	int (*shelf)(struct cell *c, const struct cell_spec *spec, unsigned n,
		struct cell_error *err);
	/* The stream has ended: release what create or open_guest keep in cell_state(c). */
	void (*detach)(struct cell *c);
	/* Stop everything in the place, the guest too, or let it go on. Nothing to do when it is so
	 * already. The core remembers it in the record. Needs CELL_CAP_PAUSE. */
	int (*pause)(struct cell *c, bool is_on, struct cell_error *err);
	/* What the place uses, of a paused one too. NULL: the core asks the guest. */
	int (*stats)(struct cell *c, struct cell_stats *ret, struct cell_error *err);
	/* Save the place's files under this id, which is nobody's yet: a create whose spec.from is the id
	 * begins with them. *ret_apart: CELL_APART_* that are not in it, which the core saves and puts
	 * back through the guest. Needs CELL_CAP_SNAPSHOT. */
	int (*snapshot)(struct cell *c, const char *id, unsigned *ret_apart,
		struct cell_error *err);
	/* Remove what snapshot saved, or began to. Idempotent. c is the cell it was of, as its record
	 * was: there may be no such cell any more. */
	int (*forget)(struct cell *c, const char *id, struct cell_error *err);
	/* Remove places and snapshots of this state directory (cell_state_id()) that nobody knows any more, where
	 * they can be found by a mark that only we make. Returns how many places. Who cannot be asked (an
	 * engine that is not there) has none. Asked of every back end of the build, by none of its cells: no wrapper is in between. */
	int (*sweep)(const struct cell_sweep *s, struct cell_error *err);
};

enum cell_apart {
	CELL_APART_WORKSPACE = 1 << 0, /* a private one; never a directory of the host */
	CELL_APART_HOME = 1 << 1,
};

struct cell_sweep {
	const struct cell_backend *backend; /* whose slot is called */
	const char *state_id;
	/* Does the cell `name` exist with this note in its record? Only what is not known may be removed. */
	bool (*is_known)(const struct cell_sweep *s, const char *name, const char *key,
		const char *note);
	/* Is this the id of a snapshot, or of one that is being saved? The same holds. */
	bool (*is_saved)(const struct cell_sweep *s, const char *id);
};

/* All built ones, NULL-terminated, in the order of meson.build. */
extern const struct cell_backend *const cell_backends[];
/* Known by name but not in this build: name and summary, NULL-terminated. */
struct cell_backend_planned {
	const char *name;
	const char *summary;
	cell_caps caps; /* what it will promise; used to answer "who has it" */
	int tier;
	const char *instead; /* what to use meanwhile; NULL: nothing in particular */
};
extern const struct cell_backend_planned cell_backends_planned[];

/* "local" or "trace:fault:local": fills chain (NULL-terminated, outermost first). -ENOENT with the
 * nearest name as a hint; CELL_ENOTSUP for a planned one. */
#define CELL_CHAIN_MAX 8
int cell_backend_chain(const char *name, const struct cell_backend *chain[CELL_CHAIN_MAX],
	struct cell_error *err);

void cell_probe_run(const struct cell_backend *const *chain, struct cell_probe *p);
void cell_probe_hastily(const struct cell_backend *const *chain, struct cell_probe *p);
/* The capability is not to be had here; reason and fix are copied. */
void cell_probe_lack(struct cell_probe *p, enum cell_cap cap, const char *reason, const char *fix);
/* The same, unless it is there. */
void cell_probe_need(struct cell_probe *p, bool is_there, enum cell_cap cap, const char *reason,
	const char *fix);
/* The whole back end is not. */
void cell_probe_refuse(struct cell_probe *p, const char *reason, const char *fix);
/* Whether it is could not be found out, since something broke (errno `why`) meanwhile. */
void cell_probe_break(struct cell_probe *p, int why, const char *reason, const char *fix);

/* For back ends: the cell they are called for. */
void *cell_state(struct cell *c);
/* cell_backend.kind of who is called. */
const void *cell_kind(const struct cell *c);
/* The next back end of a wrapper's chain, and calling it. */
const struct cell_backend *cell_next(const struct cell *c);
int cell_next_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err);
int cell_next_open_guest(struct cell *c, struct cell_error *err);
int cell_next_destroy(struct cell *c, struct cell_error *err);
bool cell_next_is_alive(struct cell *c);
void cell_next_detach(struct cell *c);
/* Of the next that has the slot. CELL_ENOTSUP when none has; of stats -ENOTSUP with err untouched: the guest is to be asked. */
int cell_next_shelf(struct cell *c, const struct cell_spec *spec, unsigned n,
	struct cell_error *err);
int cell_next_pause(struct cell *c, bool is_on, struct cell_error *err);
int cell_next_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err);
int cell_next_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err);
int cell_next_forget(struct cell *c, const char *id, struct cell_error *err);

/* Interpreters its guest is to start at once (--warm), or NULL. */
const char *cell_warm(const struct cell *c);
/* Its own, 0700, removed by the core after destroy. */
const char *cell_directory(const struct cell *c);
int cell_directory_fd(const struct cell *c);
/* The lock on its record, which others wait for as long as any copy of it is open; -1 when it is not ours. */
int cell_lock_fd(const struct cell *c);
bool cell_is_ephemeral(const struct cell *c);
/* Which state directory it is in, in 32 hex digits that no other has. */
#define CELL_STATE_ID_SIZE 33
int cell_state_id(const struct cell *c, char ret[CELL_STATE_ID_SIZE], struct cell_error *err);
/* From create: with this spec a limit asked for with best effort is not enforced after all. */
void cell_degrade(struct cell *c, enum cell_cap cap);
/* A workspace of the host lies on its disk, where no limit of the cell's counts: limits.disk and limits.inodes are refused with one, and where best
 * effort is asked for they are degraded: they hold for the rest. */
int cell_degrade_workspace(struct cell *c, const struct cell_spec *spec, struct cell_error *err);
/* From create: what an image gives its commands, and says of itself. The spec wins over environment and directory, and a workspace
 * over the directory; the rest is noted for whoever looks at the cell, or wants to run the same again. NULL: it does not say. */
struct cell_image_facts {
	const char *id;	    /* its digest: what runs, to the bit */
	const char *digest; /* NAME@sha256:..., of one from a registry */
	char *const *env, *const *entrypoint, *const *cmd; /* NULL-terminated */
	const char *cwd, *user;
};
int cell_take_image(struct cell *c, const struct cell_spec *spec,
	const struct cell_image_facts *image, struct cell_error *err);
/* Remember a string; saved in the record by the core after create, and by cell_note_save at once.
 */
int cell_note_set(struct cell *c, const char *key, const char *value, struct cell_error *err);
int cell_note_set_int(struct cell *c, const char *key, int64_t value, struct cell_error *err);
const char *cell_note(const struct cell *c, const char *key); /* NULL if absent */
int64_t cell_note_int(const struct cell *c, const char *key, int64_t otherwise);
int cell_note_save(struct cell *c, struct cell_error *err);
/* Several, and saved at once: pairs of key and value, the last key NULL. Values that are NULL or "" are left out. */
int cell_notes_save(struct cell *c, const char *const (*pairs)[2], struct cell_error *err);
