/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.h: a container by an OCI runtime alone, without a daemon.
 *
 *	oci.c      the slots
 *	plan.c     from a spec to a bundle: who the cell is, its directories, a root that only the runtime sees
 *	ids.c      without root: a user namespace, its ids, and what may not be had there
 *	runtime.c  finding the runtime's program and running it
 *	remains.c  what is left when somebody died in the middle: processes, cgroups
 *	groups.c   where its cgroups may be
 *	stir.c     not to wait for them
 *	aside.c    a thread for what is short
 *	freeze.c   letting it stand still
 *	walls.c    what keeps what apart, in words
 */
#pragma once
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/bundle/bundle.h"
#include "core/backend.h"
#include "core/image/image.h"

#define OCI_GROUP "cell-oci-" /* how its cgroups' names begin */
#define OCI_STATE "oci"	      /* the runtime's own directory, in the cell's */

#define OCI_RUNSC_PIDS \
	"gVisor does not count its processes, and the host cannot tell them from its threads"
#define OCI_RUNSC_TREE "gVisor knows no subreapers: what leaves its parent ends with the cell only"
#define OCI_RUNSC_FIX  "use runc or crun (--runtime, CELL_OCI_RUNTIME), or --limits best-effort"
#define OCI_RELAY_USER "relay_user" /* note: uid:gid */

/* ---- ids.c ---- */

/* Who a runtime is when it is started by an ordinary user: root of a user namespace. */
struct oci_ids {
	bool is_rootless;
	bool has_range; /* ids besides the own one, given by /etc/subuid and /etc/subgid */
	uid_t own_uid;
	gid_t own_gid;
	uint32_t first_uid, first_gid, n_uids, n_gids; /* the range's, mapped to 1 and on */
	char uid_map[32], gid_map[32];		       /* of one id */
};
void oci_ids_find(struct oci_ids *ret);
/* Why no user namespace can be had; NULL: nothing is known against it. */
const char *oci_ids_refusal(const char **ret_fix);
/* In the child: the namespace, and its ids. sync_fd: where the parent says that it has mapped a range. Async-signal-safe. */
int oci_ids_enter(const struct oci_ids *ids, int sync_fd);
/* In the parent, when the child waits. */
int oci_ids_map(const struct oci_ids *ids, pid_t child, struct cell_error *err);

/* ---- groups.c ---- */

#define OCI_GROUP_PATH 1024

struct oci_groups {
	bool is_there;
	bool has_memory, has_cpu, has_pids;
	char dir[OCI_GROUP_PATH]; /* the one it is to be in; "": the root of each hierarchy */
};
void oci_groups_find(struct oci_groups *ret);
/* What is in its way moves aside, and limits can be set below. */
void oci_groups_begin(const struct oci_groups *g);
/* As a runtime is told it; NULL: too long. */
const char *oci_groups_name(const struct oci_groups *g, const char *id, char *ret, size_t size);

/* ---- runtime.c ---- */

enum oci_kind {
	OCI_RUNC, /* and whatever is called like it */
	OCI_CRUN,
	OCI_RUNSC, /* has a kernel of its own, and so no sockets of the host's */
};

struct oci_runtime {
	char *program;
	enum oci_kind kind;
};
/* The program of that name or path (NULL: CELL_OCI_RUNTIME, or the first of runc, crun and runsc there is); caller frees. */
int oci_runtime_find(const char *name, struct oci_runtime *ret, struct cell_error *err);
enum oci_kind oci_runtime_kind(const char *program);

#define OCI_NO_KEYRING "--no-new-keyring"

struct oci_call {
	const char *program;
	const char *directory;	   /* of the cell: the runtime's state and its log are below it */
	const char *const *args;   /* behind the global options, NULL-terminated */
	const struct oci_ids *ids; /* whose user namespace it is run in; NULL: none */
	int stdin_fd, stdout_fd, stderr_fd; /* -1: none */
	int pass_fd;			    /* becomes fd 3; -1: none */
	bool has_cgroups;		    /* it may make some */
	bool shares_keys; /* OCI_NO_KEYRING is among the words: it has the keyring of all cells of its user */
	int (*enter)(void *user); /* in the child, async-signal-safe; 0 or -errno */
	void *user;
};
/* What is asked of the runtime of a cell that is there: without any fd of ours. */
struct oci_call oci_runtime_order(struct cell *c, const char *program, const char *const *args);
/* Run it to its end. 0, or an error with the last thing it said, which is in `said` too. */
int oci_runtime_call(const struct oci_call *call, char *said, size_t size, struct cell_error *err);
/* The same in two parts; the call is borrowed until the second. It is killed when we die, or this thread. */
struct oci_running {
	const struct oci_call *call;
	pid_t pid; /* 0: none, or its end is known */
	int pidfd; /* readable when it has ended */
};
int oci_runtime_begin(const struct oci_call *call, struct oci_running *ret, struct cell_error *err);
int oci_runtime_end(struct oci_running *x, char *said, size_t size, struct cell_error *err);
/* Start it with both ends of its standard input and output in one stream, which is the caller's. Nobody waits for it: it ends with the
 * stream. */
int oci_runtime_stream(const struct oci_call *call, struct cell_error *err);

/* ---- plan.c ---- */

struct oci_plan {
	struct cell *c;
	const struct cell_spec *spec;
	const struct oci_runtime *runtime;
	struct oci_ids ids;
	struct oci_groups groups;
	struct cell_image image;
	const char *id;
	const char *door; /* on the host */
	uid_t uid;	  /* in the cell */
	gid_t gid;
	bool is_alone; /* the container is root of the namespace, and its guest leaves it for uid:gid */
	bool has_cgroups;  /* limits are by the runtime's cgroups */
	bool hides_hybrid; /* crun is not shown that there are cgroups of both kinds */
	/* for oci_enter */
	char *bundle;	      /* <cell>/bundle */
	char *root, *scratch; /* below it */
	char *tmp; /* likewise, beside the root: that of an image may be nobody's to write, and gVisor has one that no limit counts */
	char *overlay;	/* mount options */
	char tmpfs[80]; /* of scratch; "": a directory on disk */
};
#define OCI_PLAN_INIT                    \
	{                                \
		.image = CELL_IMAGE_INIT \
	}
void oci_plan_done(struct oci_plan *p);
/* The image, the user, the directories; then the file. */
int oci_plan_make(struct oci_plan *p, struct cell_error *err);
int oci_plan_write(struct oci_plan *p, struct cell_error *err);
/* In the runtime's process before it begins: a mount namespace in which the bundle's root is the image under scratch space. It
 * goes when the runtime and the container have: nothing is ever mounted on the host. */
int oci_enter(void *plan);

/* ---- remains.c ---- */

/* Kill whatever has the cell's bundle mounted or its state as the runtime's, and wait until it is gone. */
int oci_remains_kill(struct cell *c, struct cell_error *err);
typedef bool (*oci_group_fn)(const char *path);
/* Calls fn for each cgroup of ours whose name ends so; false when one said so. dir: where they are; "": below each hierarchy's root. */
bool oci_each_group(const char *dir, const char *ending, oci_group_fn fn);
#define OCI_GROUP_DIR "group_dir" /* note: as in struct oci_groups */
bool oci_each_group_of(const struct cell *c, oci_group_fn fn);
/* Remove the cgroups of a container that has no process any more. False: they are still there. */
bool oci_remains_ungroup(const struct cell *c);
/* Those of containers whose record was lost, when they are old and empty. */
void oci_remains_sweep(void);

/* ---- aside.c ---- */

/* A thread of ours, which none of the caller's signals go to. */
struct oci_aside {
	pthread_t thread;
	bool runs;
	pid_t owner; /* a fork has no threads but its own */
};
bool oci_aside(struct oci_aside *a, void *(*fn)(void *arg), void *arg); /* false: it does not run */
void oci_aside_done(struct oci_aside *a);				/* waits for it */
#define auto_aside __attribute__((cleanup(oci_aside_done)))

/* ---- stir.c ---- */

/* Have the kernel make ready for processes that change their cgroup, while the caller goes on. */
void oci_stir(struct oci_aside *s);

/* ---- freeze.c ---- */

#define OCI_FROZEN "frozen" /* note: it was, once */

int oci_pause(struct cell *c, bool is_on, struct cell_error *err);
/* Let a frozen one go on, so that it can be killed. */
void oci_thaw(const struct cell *c);

/* ---- walls.c ---- */

int oci_walls(const struct cell_backend *self, cell_wall_fn fn, void *user);
