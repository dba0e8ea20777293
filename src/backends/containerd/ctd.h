/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctd.h: containers by containerd itself, without Docker: its gRPC services on its socket, in a namespace of their own.
 *
 *	api.c         a connection, a call and its answer; errors in words
 *	store.c       content, snapshots, leases: the few calls of containerd's store that are needed
 *	image.c       the image a spec names: found, read, unpacked
 *	pull.c        fetched from a registry into containerd's store
 *	container.c   from a spec to a container, its task, and their end
 *	keep.c        pause, stats, snapshots: optional slots
 *	sweep.c       what nobody knows any more: another
 *	containerd.c  the mandatory ones
 */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "core/container_life.h"
#include "net/grpc.h"

#define CTD_DIGEST   (DIGEST_HEX + 8) /* "sha256:" and its digits */
#define CTD_NAME_MAX 700
#define CTD_TEXT_MAX (8u << 20)

struct ctd {
	struct grpc *rpc;
	char address[256];
	char space[80]; /* containerd's word for it is namespace */
	char snapshotter[80];
	bool is_broken;			/* the connection is: nothing more will be answered */
	char state[CELL_STATE_ID_SIZE]; /* of the cell it is for; "": of none */
	char lease[64];			/* what is made belongs to it; "": to nobody */
};

/* ---- api.c ---- */

/* Connected: a struct ctd. From the notes of c when it has them, else from CONTAINERD_ADDRESS, CONTAINERD_NAMESPACE,
 * CONTAINERD_SNAPSHOTTER, as the program `ctr` has them. */
int ctd_open(const void *kind, const struct cell *c, void **ret, struct cell_error *err);
void ctd_close(void **at);
#define auto_ctd __attribute__((cleanup(ctd_close)))

/* method: "tasks.v1.Tasks/Create". ret (may be NULL): the message that comes; when more come, one behind the other, which is how
 * their lists are joined. Negative errno: what the service refused says so (-ENOENT, -EEXIST, -EBUSY), with what it said. */
int ctd_call(struct ctd *d, const char *method, const struct buf *request, struct buf *ret,
	const char *doing, struct cell_error *err);
/* The same where one refusal is as good as success, or the beginning of something else: then *err is left as it is. */
int ctd_try(struct ctd *d, const char *method, const struct buf *request, struct buf *ret,
	const char *doing, int expected, struct cell_error *err);
/* For calls of more than one message. */
int ctd_begin(struct ctd *d, const char *method, struct cell_error *err);
int ctd_end(struct ctd *d, const char *doing, struct cell_error *err);
/* "1.6.20" */
int ctd_version(struct ctd *d, char ret[80], struct cell_error *err);

/* ---- store.c ---- */

/* A blob of JSON, checked against its digest. */
int ctd_content(struct ctd *d, const char *hex, struct buf *ret, struct cell_error *err);
bool ctd_has_content(struct ctd *d, const char *hex);
struct ctd_label {
	const char *key, *value;
};
int ctd_add_labels(struct buf *b, unsigned field, const struct ctd_label *labels);
/* labels end with a NULL key; they are put beside those it has. */
int ctd_label_content(struct ctd *d, const char *hex, const struct ctd_label *label,
	struct cell_error *err);
/* ret: mounts, each a field 1. -ENOENT, and *err left as it is: there is no such parent. */
int ctd_prepare(struct ctd *d, const char *key, const char *parent, const struct ctd_label *labels,
	struct buf *ret, struct cell_error *err);
int ctd_remove_snapshot(struct ctd *d, const char *key, struct cell_error *err);
/* What is made meanwhile stays until it is given back, or for an hour when nobody does. */
int ctd_lease(struct ctd *d, struct cell_error *err);
void ctd_lease_end(struct ctd *d);

/* ---- image.c ---- */

struct ctd_image {
	char name[CTD_NAME_MAX]; /* in containerd's store; "" when found by its digest */
	char target[CTD_DIGEST]; /* what the name stands for: a manifest, or a list of them */
	char digest[CTD_DIGEST]; /* of the manifest for this machine */
	char chain[CTD_DIGEST];	 /* the snapshot of all its layers */
	struct buf manifest;
	struct oci_config config;
};
#define CTD_IMAGE_INIT                             \
	{                                          \
		.manifest = BUF_INIT(CTD_TEXT_MAX) \
	}
void ctd_image_done(struct ctd_image *i);
#define auto_ctd_image __attribute__((cleanup(ctd_image_done)))

/* Found, or pulled as the spec's policy says, and read; that of a snapshot when it begins with one. */
int ctd_image_get(struct ctd *d, const struct cell_spec *spec, struct ctd_image *ret,
	struct cell_error *err);
/* Every layer becomes a snapshot on the one below it; those that are there are left. */
int ctd_image_unpack(struct ctd *d, const struct ctd_image *i, struct cell_error *err);

/* ---- pull.c ---- */

struct reference;
/* Into containerd's store, under that name. */
int ctd_pull(struct ctd *d, const struct reference *ref, const char *name, struct cell_error *err);

/* A small blob, unless it is there. */
int ctd_put_text(struct ctd *d, const char *hex, const struct buf *text,
	const struct ctd_label *labels, struct cell_error *err);
/* The name stands for it from now on. */
int ctd_name_image(struct ctd *d, const char *name, const struct ctd_label *labels, const char *hex,
	size_t size, bool is_index, struct cell_error *err);

/* ---- container.c ---- */

struct ctd_plan {
	struct container_plan at; /* its name is that of container, task and snapshot */
	const struct ctd_image *image;
};
/* A snapshot of the image, a container on it, its task: made, not started. */
int ctd_container_make(struct ctd *d, const struct ctd_plan *p, struct cell_error *err);
int ctd_container_start(void *at, const char *id, struct cell_error *err);
/* Is its first process there? No answer is no death. */
bool ctd_container_runs(void *at, const char *id);
/* Task, container and snapshot, whatever of them there is. is_dead: its first process is, and need not be killed. */
int ctd_container_remove(struct ctd *d, const char *id, bool is_dead, struct cell_error *err);
/* About one container, by its id alone. -ENOENT, and *err left as it is: there is none. */
int ctd_about(struct ctd *d, const char *method, const char *id, struct buf *ret, const char *doing,
	struct cell_error *err);

/* ---- keep.c ---- */

#define CTD_LABEL_SIGHT "cell.sight"   /* in which mount namespace that is */
#define CTD_LABEL_OWNER "cell.process" /* of a lease: its pid and when it began */

#define CTD_NOTE_SAVING "saving" /* in the record while a snapshot is made */

bool ctd_is_paused(struct ctd *d, const char *id);
/* After a snapshot that came to no end. */
int ctd_let_go_on(struct cell *c, struct cell_error *err);
int ctd_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err);
/* How containerd is asked. */
extern const struct container_engine ctd_calls;

/* ---- sweep.c ---- */

/* Containers of state directories that are gone as a whole, with nobody who would ever prune them. */
void ctd_sweep_lost(struct ctd *d);
/* container_engine.list */
void ctd_list(void *at, enum container_marked what, const char *state_id, container_marked_fn fn,
	void *user);
/* Which mount namespace we see: another's directories need not be in it. */
void ctd_sight(char ret[32]);
int ctd_sweep(const struct cell_sweep *s, struct cell_error *err);
