/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: a container engine that speaks Docker's API. No back end of its own: the slots that docker and podman share,
 * each of which is its table, its place and its differences (struct engine_kind).
 *
 *	api.c        one request and its answer; the version both speak; errors in words
 *	info.c       what the engine says of itself, asked once in a while
 *	image.c      the image: looked at, pulled, with the credentials of who asks
 *	container.c  from a spec to the JSON that makes a container with these walls
 *	place.c      what it can, making a container, its walls: the slots that are not the same for every container
 *	keep.c       how it is asked about one: runs, remove, pause, stats, save, list (core/container_life.h)
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "core/container_life.h"
#include "core/json_at.h"
#include "net/carry.h"
#include "net/endpoint.h"
#include "net/json_call.h"

/* What makes one engine differ from another: cell_backend.kind. */
struct engine_kind {
	struct container_kind container; /* .engine = &engine_calls */
	const char *name;		 /* of the back end */
	const char *title;		 /* for people */
	const char *fix;		 /* when nobody answers */
	const char *denied;		 /* when its socket is not for us */
	int (*locate)(struct net_endpoint *ret, struct cell_error *err);
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
	struct net_endpoint address;
	struct http_client *http;
	unsigned minor; /* of the version that is spoken: 1.minor */
	bool is_libpod;
	struct engine_info info; /* after engine_look() */
	int status;		 /* of the last answer, and what it said */
	char said[JSON_SAID_SIZE];
};

/* ---- api.c ---- */

/* Connected, version agreed: a struct engine. From the notes of c when it has them (may be NULL). */
int engine_open(const void *kind, const struct cell *c, void **ret, struct cell_error *err);
void engine_close(void **at);
#define auto_engine __attribute__((cleanup(engine_close)))

struct engine_request {
	struct http_call http; /* without its target; 0 ms: a minute */
	json_t *json;	       /* the body, taken; NULL: that of http, or none */
	const char *doing; /* what a refusal is told with: "make the container"; NULL: the path */
	int fine;	   /* a status besides 2xx that is no refusal; ENGINE_ANY: all are */
	const struct net_framing
		*framing; /* it becomes a stream of such pieces: a file descriptor is returned */
};
#define ENGINE_ANY (-1)
/* path: behind the version, its query encoded. *ret (may be NULL) gets the JSON that was answered. A refusal is an error,
 * "doing: what the engine said"; e->status and e->said have it too. */
int engine_call(struct engine *e, const struct engine_request *rq, json_t **ret,
	struct cell_error *err, const char *path, ...) __attribute__((format(printf, 5, 6)));
/* A GET whose answer is JSON. 404: -ENOENT with err untouched. */
int engine_get(struct engine *e, json_t **ret, struct cell_error *err, const char *path, ...)
	__attribute__((format(printf, 4, 5)));
/* What any refusal may be about. */
extern const struct cell_known_words engine_words[];
/* Whoever answers there speaks HTTP, and not Docker's. */
int engine_is_none(const struct engine *e, struct cell_error *err);
/* A stream to a program that it runs in the container: its framing taken off. */
int engine_exec(void *at, const char *container, json_t *command, struct cell_error *err);

/* ---- info.c ---- */

int engine_look(struct engine *e, struct cell_error *err);

/* ---- image.c ---- */

#define ENGINE_CWD_LABEL "cell.cwd" /* of a snapshot's image: where its commands run */

/* The image that a spec names, pulled as its policy says. *ret: what the engine knows of it. */
int engine_image(struct engine *e, const struct cell_spec *spec, json_t **ret,
	struct cell_error *err);
/* Where its commands run. */
const char *engine_image_cwd(const json_t *image);

/* ---- container.c ---- */

struct engine_plan {
	struct container_plan at;
	const struct engine *e;
	const json_t *image;
};
/* The body of POST /containers/create. */
int engine_container(const struct engine_plan *p, json_t **ret, struct cell_error *err);

/* ---- the slots ---- */

extern const struct container_engine engine_calls;

void engine_probe(struct cell_probe *p);
int engine_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err);
int engine_walls(const struct cell_backend *self, cell_wall_fn fn, void *user);
int engine_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err);
/* container_engine.start */
int engine_start(void *at, const char *container, struct cell_error *err);
/* container_engine.put */
int engine_put(void *at, const char *container, const char *where, const struct buf *archive,
	struct cell_error *err);

/* In the table, behind what differs. caps: at best; probe narrows it. */
#define ENGINE_TABLE                                                                          \
	.tier = 2, .probe = engine_probe, .create = engine_create, .walls = engine_walls,     \
	.open_guest = container_open_guest, .destroy = container_destroy,                     \
	.is_alive = container_is_alive, .pause = container_pause, .stats = container_stats,   \
	.snapshot = engine_snapshot, .forget = container_forget, .sweep = container_sweep,    \
	.caps = CONTAINER_CAPS | CAP(PULL) | CAP(SNAPSHOT) | CAP(NET_OPEN) | CAP(NET_NAMED) | \
		CAP(GPU)
