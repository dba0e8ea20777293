/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container_life.h: the life of a cell in a container, whoever makes the container. A back end says how its engine is asked (struct
 * container_engine); how a cell begins, is reached, stands still and ends, and what is nobody's any more, is the same for all of them.
 *
 * A container's name is in the cell's record before it exists, so that whatever dies in between, the next one to look finds it. It is near
 * when the guest can come to its door (guest_door.h), and far when its program goes in as an archive (guest_pack.h) and listens inside: in a
 * container of another machine, or in a kernel of its own. A stream to it is then a relay that the engine runs there (guest/reach.c).
 */
#pragma once
#include <linux/filter.h>
#include <stdbool.h>

#include "base/buf.h"
#include "core/container.h"
#include "core/image/oci.h"

/* What carries our mark in an engine. */
enum container_marked {
	CONTAINER_CONTAINERS,
	CONTAINER_IMAGES, /* which have it from the container they were made of */
};
/* cell: its label; NULL for images. */
typedef void (*container_marked_fn)(void *user, const char *cell, const char *name);

/* How an engine is asked. e: the connection that open made. Calls that a back end's slots do not need may be NULL. */
struct container_engine {
	/* The engine that the record of c names; c NULL: the one that this user has. */
	int (*open)(const void *kind, const struct cell *c, void **ret, struct cell_error *err);
	void (*close)(void **e); /* NULL is fine */
	int (*start)(void *e, const char *container, struct cell_error *err);
	bool (*runs)(void *e, const char *container); /* no answer is no death */
	/* Until it is gone. One that is not there is removed. */
	int (*remove)(void *e, const char *container, struct cell_error *err);
	/* Far ones: files into one that is not started yet; a stream to a program that it runs there, a list of words that it takes. */
	int (*put)(void *e, const char *container, const char *where, const struct buf *archive,
		struct cell_error *err);
	int (*exec)(void *e, const char *container, json_t *command, struct cell_error *err);
	/* Nothing to do when it is so already. */
	int (*pause)(void *e, const char *container, bool is_on, struct cell_error *err);
	/* -ENOENT, *err untouched: it is gone. */
	int (*stats)(void *e, const char *container, struct cell_stats *ret,
		struct cell_error *err);
	/* CELL_EBUSY: something is made of it. One that is not there is removed. */
	int (*remove_image)(void *e, const char *name, struct cell_error *err);
	void (*list)(void *e, enum container_marked what, const char *state_id,
		container_marked_fn fn, void *user);
};

/* cell_backend.kind begins with it. */
struct container_kind {
	const struct container_engine *engine;
};

/* ---- its beginning ---- */

struct container_plan {
	struct cell *c;
	const struct cell_spec *spec;
	void *engine; /* open */
	/* Makes it: it is there, and does not run. p is this plan, which may be the beginning of a larger one. */
	int (*make)(struct container_plan *p, struct cell_error *err);
	int (*destroy)(struct cell *c, struct cell_error *err); /* the slot, after a failure */
	const char *fix;     /* when it ended and its guest had not come */
	const char *no_disk; /* why limits.disk cannot hold for what is on disk; NULL: it can */
	const struct sock_fprog *filter; /* what the guest takes upon itself */
	const struct sock_fprog *floor;	 /* and before it, when near; NULL: nothing */
	bool is_far;
	char user
		[128]; /* who the guest is in it: "uid:gid" or a name of the image's; of a far one, or for make */
	const char *const (*notes)[2]; /* for the record, as cell_notes_save() takes them */

	/* From container_create(), for make. */
	char name[CONTAINER_NAME_SIZE];
	char state[CELL_STATE_ID_SIZE];
	const char *door; /* directory of the host that it is shown; NULL: it is far */
};
/* Checks, notes, makes, starts. On failure nothing is left. */
int container_create(struct container_plan *p, struct cell_error *err);

/* For make: the guest's command line, and labels; the caller's. NULL: no memory. */
json_t *container_args(const struct container_plan *p);
json_t *container_labels(const struct container_plan *p);

/* p->user, for makers that find the ids of a name themselves. A rootless one has no ids but its user's own. */
int container_choose_user(struct container_plan *p, bool is_rootless, struct cell_error *err);
/* cell_take_image() with an image's configuration. digest: NAME@sha256:..., or NULL; cwd: where its commands run. */
int container_take_image(const struct container_plan *p, const char *id, const char *digest,
	const char *cwd, const struct oci_config *config, struct cell_error *err);

/* ---- slots ---- */

int container_open_guest(struct cell *c, struct cell_error *err);
int container_destroy(struct cell *c, struct cell_error *err);
bool container_is_alive(struct cell *c);
int container_pause(struct cell *c, bool is_on, struct cell_error *err);
int container_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err);
int container_forget(struct cell *c, const char *id, struct cell_error *err);
int container_sweep(const struct cell_sweep *s, struct cell_error *err);

/* For others: the engine of a cell, to be closed, and its container in it; CELL_EGONE when it has none. */
int container_reach(const struct cell *c, void **ret, const char **ret_container,
	struct cell_error *err);
int container_gone(const char *name, struct cell_error *err);
/* Is there room for its files as an image, of so many bytes, where it is saved (a directory of this machine; "" or NULL: nobody knows)?
 * Who saves it writes holes down as zeros. */
int container_check_saved(uint64_t bytes, const char *where, struct cell_error *err);
