/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.h: what a cell in a container is, whoever makes the container: where things are in it, how its guest is started, what is said of
 * a spec before anybody is asked. For back ends; nothing here speaks to an engine or runs a program.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/backend.h"

#define CONTAINER_GUEST_DIR "/.cell" /* where it has the guest's directory */
#define CONTAINER_GUEST	    CONTAINER_GUEST_DIR "/guest"
#define CONTAINER_RUN_DIR   CONTAINER_GUEST_DIR "/run"
#define CONTAINER_SOCKET    CONTAINER_RUN_DIR "/sock" /* of a guest that listens inside */
#define CONTAINER_WORKSPACE "/workspace"
#define CONTAINER_HOME	    "/home/cell"
#define CONTAINER_UID	    65532u /* of a cell that has no files of the host and names no user */

/* What a cell in any container has; its maker may have more. */
#define CONTAINER_CAPS                                                                        \
	(CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(BACKGROUND) | CAP(NAMED) |      \
		CAP(DEFAULT_USER) | CAP(WORKSPACE) | CAP(PRIVATE_HOME) | CAP(KILL_TREE) |     \
		CAP(HIDE_FILES) | CAP(HIDE_PROCESSES) | CAP(SYSCALL_FILTER) | CAP(IMAGE) |    \
		CAP(RUNTIME) | CAP(MOUNTS) | CAP(LIMIT_MEMORY) | CAP(LIMIT_CPUS) |            \
		CAP(LIMIT_PIDS) | CAP(LIMIT_DISK) | CAP(LIMIT_FILES) | CAP(LIMIT_FILE_SIZE) | \
		CAP(LIMIT_PROCESS_MEMORY) | CAP(LIMIT_CPU_TIME) | CAP(SCRATCH_MEMORY) |       \
		CAP(SCRATCH_DISK) | CAP(NET_NONE) | CAP(PORTS) | CAP(PAUSE))

#define CONTAINER_LABEL_NAME  "cell.name"
#define CONTAINER_LABEL_DIR   "cell.directory"
#define CONTAINER_LABEL_STATE "cell.state" /* which state directory has its record */
/* The images of snapshots, each with its id as tag: of no registry, and with a name that nobody completes. */
#define CONTAINER_SNAPSHOTS	"localhost/cell-snapshot"
#define CONTAINER_SNAPSHOT_SIZE (sizeof CONTAINER_SNAPSHOTS + 65)
void container_snapshot(const char *id, char ret[CONTAINER_SNAPSHOT_SIZE]);

/* A name of its own that every engine takes: the cell's, shortened, and a number. */
#define CONTAINER_NAME_SIZE 76
int container_name(const struct cell *c, char ret[CONTAINER_NAME_SIZE], struct cell_error *err);

/* Who the cell is when its spec names no user: the owner of the workspace, so that files in it stay with whom it belongs to, or
 * CONTAINER_UID. */
int container_owner(const struct cell_spec *spec, uid_t *ret_uid, gid_t *ret_gid,
	struct cell_error *err);

/* ---- its guest ---- */

/* How it gets its stream. */
enum container_reach {
	CONTAINER_CALLS,	/* it comes to the socket in its directory (core/guest_door.h) */
	CONTAINER_HAS_IT,	/* it is its standard input */
	CONTAINER_LISTENS,	/* on a socket inside, for relays */
	CONTAINER_LISTENS_ONCE, /* and ends with the first of them */
};

struct container_guest {
	enum container_reach reach;
	const struct cell_limits *limits;
	const char *
		alone_as; /* "uid:gid": it leaves root for them, in a user namespace of its own; NULL: it is who it is */
	bool has_floor;	  /* its filter is the user's own, upon what no cell may do */
	bool sees_cgroup; /* its own, at the usual place */
	bool has_hold_fd; /* it keeps fd 3 */
	bool has_nproc; /* processes are counted by RLIMIT_NPROC: their user has a namespace of its own */
};
/* Its command line, a list of words; the caller's. NULL: no memory. */
json_t *container_guest_args(const struct container_guest *g);

/* ---- its files ---- */

/* Can nothing be written to but scratch space? */
bool container_is_read_only(const struct cell_spec *spec);

/* /tmp, HOME and a private workspace are in memory, and have a size. With a limit of the disk they share it. */
struct container_scratch {
	const char *path;
	uint64_t bytes, inodes;
};
size_t container_scratch(const struct cell_spec *spec, struct container_scratch ret[3]);

/* The spec's mounts, each with its real source, for fn to take; negative ends it. Devices and the whole root are refused. The
 * socket of an engine gives its holder the whole machine: it may be asked for, but not silently, so c is marked. */
typedef int (*container_mount_fn)(void *user, const struct cell_mount *m, const char *source,
	const struct stat *st, struct cell_error *err);
int container_mounts(struct cell *c, const struct cell_spec *spec, container_mount_fn fn,
	void *user, struct cell_error *err);

/* ---- its limits ---- */

/* Is it enough for the container itself? */
int container_check_memory(const struct cell_limits *l, struct cell_error *err);
/* cgroup's cpu.shares for a burstable one. */
uint64_t container_cpu_shares(const struct cell_limits *l);

/* ---- its walls, in words ---- */

/* NULL: what holds for containers of root's, or, for `kernel` and `files`, nothing to tell. */
struct container_walls {
	const char *maker, *how; /* "engine": which one, and where */
	const char *kernel, *kernel_better;
	const char *ids, *ids_better; /* with ids of its own: better is told only when given */
	const char *syscalls, *files, *network, *limits, *disk;
	bool is_unlimited; /* not all of the limits hold */
};
int container_walls_tell(const struct container_walls *w, cell_wall_fn fn, void *user);
