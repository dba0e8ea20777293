/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: a container engine that speaks Docker's API. No back end of its own: what docker and podman share,
 * each of which is its table, its place and its differences (struct engine_kind).
 *
 *	api.c        one request and its answer; the version both speak; errors in words
 *	info.c       what the engine says of itself, asked once in a while
 *	image.c      the image: looked at, pulled
 *	auth.c       who we are to a registry: Docker's configuration and helpers
 *	container.c  from a spec to the JSON that makes a container with these walls
 *	far.c        a guest in a container of another machine: by archive, reached through the engine
 *	place.c      making a container and removing it, and what it is to be: the mandatory slots
 *	keep.c       pause, stats, snapshots, containers without a cell: the optional ones
 */
#pragma once
#include <jansson.h>
#include <linux/filter.h>
#include <stdbool.h>

#include "base/buf.h"
#include "core/backend.h"

#define ENGINE_GUEST_DIR "/.cell"
#define ENGINE_GUEST	 ENGINE_GUEST_DIR "/guest"
#define ENGINE_FILTER	 ENGINE_GUEST_DIR "/filter"
#define ENGINE_SOCKET	 ENGINE_GUEST_DIR "/run/sock" /* of a far guest */
#define ENGINE_WORKSPACE "/workspace"
#define ENGINE_HOME	 "/home/cell"
#define ENGINE_UID	 65532u /* of a cell that has no files of the host and names no user */

/* The images of snapshots, each with its id as tag: of no registry, and with a name that Podman does not complete. */
#define ENGINE_SNAPSHOTS   "localhost/cell-snapshot"
#define ENGINE_CWD_LABEL   "cell.cwd"
#define ENGINE_STATE_LABEL "cell.state" /* of containers: which state directory has their record */

/* Where an engine listens. */
struct engine_address {
	char url[512];	    /* unix:/path, http://host:port, https://host:port */
	char cert_dir[512]; /* ca.pem, cert.pem, key.pem; "": none */
	bool is_insecure;   /* do not verify its certificate */
};

/* What makes one engine differ from another. */
struct engine_kind {
	const char *name;  /* of the back end */
	const char *title; /* for people */
	const char *fix;   /* when nobody answers */
	int (*locate)(struct engine_address *ret, struct cell_error *err);
};

struct engine_info {
	bool is_near;	  /* on this machine, in our sight: shares files and sockets */
	bool is_rootless; /* its root is an ordinary user */
	bool has_cgroups; /* its containers have groups of their own: they can be paused, too */
	bool has_memory, has_cpus, has_pids;
	char runtimes[400]; /* " runc runsc " */
	char server[100];   /* "Docker 20.10.24" */
	char security[300]; /* " seccomp apparmor rootless " */
	char root[300];	    /* where it keeps its images; "": it does not say */
};

struct engine {
	const struct engine_kind *kind;
	struct engine_address address;
	struct http_client *http;
	char version[16]; /* "/v1.41" */
	bool is_libpod;
	struct engine_info info;
};

/* ---- api.c ---- */

/* Connected, version agreed; info is filled. From the notes of c when it has them (may be NULL). */
int engine_open(const struct engine_kind *kind, const struct cell *c, struct engine **ret,
	struct cell_error *err);
void engine_free(struct engine **e);
#define auto_engine __attribute__((cleanup(engine_free)))

struct engine_request {
	const char *method;
	const char *path; /* behind the version; query encoded */
	const json_t *json;
	const void *body; /* instead of json */
	size_t body_len;
	const char *type, *auth; /* of body; X-Registry-Auth */
	int (*sink)(void *arg, const void *p, size_t n);
	void *arg;
	unsigned timeout_ms; /* 0: a minute */
};
/* The status, or negative errno. *ret_text (may be NULL) gets the body: JSON, or a message. */
int engine_send(struct engine *e, const struct engine_request *rq, struct buf *ret_text,
	struct cell_error *err);
/* Turn a refusal into an error: "doing: what the engine said". Always negative. */
int engine_refused(const struct engine *e, int status, const struct buf *text,
	struct cell_error *err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* A GET whose answer is JSON. 404: -ENOENT with err untouched. */
int engine_get(struct engine *e, const char *path, json_t **ret, struct cell_error *err);
/* The text of a JSON body that says {"message": ...}, or the body itself, in ret. */
void engine_message(const struct buf *text, char *ret, size_t size);
/* %XX for a part of a path or query. */
int engine_escape(struct buf *b, const char *text);

/* ---- info.c ---- */

int engine_look(struct engine *e, struct cell_error *err);

/* ---- info_kept.c ---- */

/* The caller's; NULL when nothing is kept, or it is old. */
json_t *engine_info_load(const struct engine *e);
void engine_info_save(const struct engine *e, json_t *info);

/* ---- image.c, auth.c ---- */

/* The image that a spec names, pulled as its policy says. *ret: what the engine knows of it. */
int engine_image(struct engine *e, const struct cell_spec *spec, json_t **ret,
	struct cell_error *err);
/* Where its commands run. */
const char *engine_image_cwd(const json_t *image);
/* The value of X-Registry-Auth for an image's registry: "" when there are no credentials. */
int engine_auth(const char *image, struct buf *ret, struct cell_error *err);

/* ---- container.c ---- */

struct engine_plan {
	struct cell *c;
	const struct cell_spec *spec;
	const struct engine *engine;
	const json_t *image;
	const char *door; /* directory of the host with guest and socket; NULL: the guest is far */
};
/* The body of POST /containers/create. */
int engine_container(const struct engine_plan *p, json_t **ret, struct cell_error *err);
/* Who the guest is in the container: "uid:gid" or a name of the image's. */
int engine_user(const struct engine_plan *p, char ret[128], struct cell_error *err);

/* What a guest is to take upon itself: a built-in profile's program, or with a filter of the user's own, which the engine
 * loads, what holds in any case. */
const struct sock_fprog *engine_filter(const char *seccomp);

/* ---- far.c ---- */

/* Put the guest into a container that is made and not yet started. */
int engine_far_put(struct engine *e, const char *container, const char *user, const char *seccomp,
	struct cell_error *err);
/* A container that is made of a snapshot and not yet started: a file system in memory takes the mode of the directory below it, which
 * the snapshot has from when it was mounted there first. */
int engine_open_scratch(struct engine *e, const char *container, struct cell_error *err);
/* A stream to it through the engine. */
int engine_far_open(struct engine *e, const char *container, struct cell_error *err);

/* ---- place.c and keep.c: the slots, for either kind ---- */

void engine_probe(const struct engine_kind *kind, struct cell_probe *p);
int engine_create(const struct engine_kind *kind, struct cell *c, const struct cell_spec *spec,
	struct cell_error *err);
int engine_open_guest(const struct engine_kind *kind, struct cell *c, struct cell_error *err);
int engine_destroy(const struct engine_kind *kind, struct cell *c, struct cell_error *err);
bool engine_is_alive(const struct engine_kind *kind, struct cell *c);
int engine_walls(const struct engine_kind *kind, cell_wall_fn fn, void *user);
int engine_pause(const struct engine_kind *kind, struct cell *c, bool is_on,
	struct cell_error *err);
int engine_stats(const struct engine_kind *kind, struct cell *c, struct cell_stats *ret,
	struct cell_error *err);
int engine_snapshot(const struct engine_kind *kind, struct cell *c, const char *id,
	unsigned *ret_apart, struct cell_error *err);
int engine_forget(const struct engine_kind *kind, struct cell *c, const char *id,
	struct cell_error *err);
int engine_sweep(const struct engine_kind *kind, const struct cell_sweep *s,
	struct cell_error *err);

/* One that is being removed already is waited for; one that is not there is removed. */
int engine_remove_container(struct engine *e, const char *container, struct cell_error *err);

/* The slots of a table have no place for a kind: these do. */
#define ENGINE_SLOTS(kind)                                                                      \
	static void probe(struct cell_probe *p)                                                 \
	{                                                                                       \
		engine_probe(&(kind), p);                                                       \
	}                                                                                       \
	static int create(struct cell *c, const struct cell_spec *spec, struct cell_error *err) \
	{                                                                                       \
		return engine_create(&(kind), c, spec, err);                                    \
	}                                                                                       \
	static int open_guest(struct cell *c, struct cell_error *err)                           \
	{                                                                                       \
		return engine_open_guest(&(kind), c, err);                                      \
	}                                                                                       \
	static int destroy(struct cell *c, struct cell_error *err)                              \
	{                                                                                       \
		return engine_destroy(&(kind), c, err);                                         \
	}                                                                                       \
	static bool is_alive(struct cell *c)                                                    \
	{                                                                                       \
		return engine_is_alive(&(kind), c);                                             \
	}                                                                                       \
	static int walls(const struct cell_backend *self, cell_wall_fn fn, void *user)          \
	{                                                                                       \
		(void)self;                                                                     \
		return engine_walls(&(kind), fn, user);                                         \
	}                                                                                       \
	static int pause_cell(struct cell *c, bool is_on, struct cell_error *err)               \
	{                                                                                       \
		return engine_pause(&(kind), c, is_on, err);                                    \
	}                                                                                       \
	static int stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)        \
	{                                                                                       \
		return engine_stats(&(kind), c, ret, err);                                      \
	}                                                                                       \
	static int snapshot(struct cell *c, const char *id, unsigned *ret_apart,                \
		struct cell_error *err)                                                         \
	{                                                                                       \
		return engine_snapshot(&(kind), c, id, ret_apart, err);                         \
	}                                                                                       \
	static int forget(struct cell *c, const char *id, struct cell_error *err)               \
	{                                                                                       \
		return engine_forget(&(kind), c, id, err);                                      \
	}                                                                                       \
	static int sweep(const struct cell_sweep *s, struct cell_error *err)                    \
	{                                                                                       \
		return engine_sweep(&(kind), s, err);                                           \
	}
/* In the table, behind what differs. */
#define ENGINE_TABLE                                                                        \
	.tier = 2, .caps = ENGINE_CAPS, .probe = probe, .create = create,                   \
	.open_guest = open_guest, .destroy = destroy, .is_alive = is_alive, .walls = walls, \
	.pause = pause_cell, .stats = stats, .snapshot = snapshot, .forget = forget,        \
	.sweep = sweep

#define ENGINE_CAP(name) CELL_CAP_BIT(CELL_CAP_##name)
/* At best; probe narrows it. */
#define ENGINE_CAPS                                                                                \
	(ENGINE_CAP(EXEC) | ENGINE_CAP(PTY) | ENGINE_CAP(FILES) | ENGINE_CAP(WATCH) |              \
		ENGINE_CAP(BACKGROUND) | ENGINE_CAP(NAMED) | ENGINE_CAP(DEFAULT_USER) |            \
		ENGINE_CAP(WORKSPACE) | ENGINE_CAP(PRIVATE_HOME) | ENGINE_CAP(KILL_TREE) |         \
		ENGINE_CAP(HIDE_FILES) | ENGINE_CAP(HIDE_PROCESSES) | ENGINE_CAP(SYSCALL_FILTER) | \
		ENGINE_CAP(IMAGE) | ENGINE_CAP(PULL) | ENGINE_CAP(MOUNTS) |                        \
		ENGINE_CAP(LIMIT_MEMORY) | ENGINE_CAP(LIMIT_CPUS) | ENGINE_CAP(LIMIT_PIDS) |       \
		ENGINE_CAP(LIMIT_DISK) | ENGINE_CAP(LIMIT_FILES) | ENGINE_CAP(LIMIT_FILE_SIZE) |   \
		ENGINE_CAP(LIMIT_PROCESS_MEMORY) | ENGINE_CAP(LIMIT_CPU_TIME) |                    \
		ENGINE_CAP(SCRATCH_MEMORY) | ENGINE_CAP(SCRATCH_DISK) | ENGINE_CAP(NET_NONE) |     \
		ENGINE_CAP(NET_OPEN) | ENGINE_CAP(NET_NAMED) | ENGINE_CAP(RUNTIME) |               \
		ENGINE_CAP(GPU) | ENGINE_CAP(PORTS) | ENGINE_CAP(PAUSE) | ENGINE_CAP(SNAPSHOT))
