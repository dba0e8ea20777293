/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launcher.h: the launcher's own types. One process, one thread, no heap: a cell's first process is
 * a copy of it, so it stays small.
 *
 *	serve.c   requests and the table of cells
 *	freeze.c  cells that stand still
 *	slot.c    what a cell holds exclusively: a number, ids, cgroups
 *	stage.c   the launcher's own mount namespace and the root template
 *	spare.c   network, ipc and host name namespaces made ahead
 *	park.c    whole cells made ahead, up to a guest that waits
 *	features.c, split.c  what this kernel has, and what is done where it has less
 *	mount.c, mount_classic.c, submounts.c  mounting, by new calls and by old
 *	net.c     an open cell's way to the network, and what it may not reach
 *	birth.c   from a request to a running guest: the launcher's half
 *	inside.c  the first process's half: mounts
 *	seal.c    the first process's half: giving up everything
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/cgroup.h"
#include "launcher/fail.h"
#include "launcher/request.h"

#define CELL_UID       1000u /* inside; the only id there is */
#define CELL_GID       1000u
#define CELL_HOME      "/home/cell"
#define CELL_WORKSPACE "/workspace"

#define MAX_CELLS 16384

/* What this machine allows, found once. */
struct host {
	bool is_rootful;
	bool has_new_mounts;		 /* open_tree, move_mount, mount_setattr, fsopen ... */
	bool has_idmap;			 /* idmapped mounts, and ids to map to */
	bool has_clone3, has_clone_into; /* the latter: born in its cgroup */
	bool has_openat2, has_close_range;
	bool may_exempt_oom; /* CAP_SYS_RESOURCE */
	uint32_t max_pids;   /* of a cell that asks for no limit */
	bool has_full_proc;  /* may mount the whole of /proc, not only /proc/PID */
	int landlock_abi;
	uid_t uid; /* the launcher's, in the namespace it was started in */
	gid_t gid;
	uint32_t first_uid,
		n_uids;	  /* ids for slots; n_uids 0: none of our own, use the launcher's */
	int outer_mnt_fd; /* mount namespace the clients' fds come from */
	int stage_mnt_fd; /* ours */
	int slots_fd;	  /* directory of lock files */
	struct cgroups cgroups;
};
extern struct host host;

/* What one cell has to itself while it lives. */
struct slot {
	uint32_t number;
	bool is_held;
	bool has_title; /* its lock says whose it is */
	int lock_fd;
	uint32_t uid, gid; /* on the host */
	struct cgroup_slot cgroup;
	struct slot_idmap { /* user namespaces for idmapped mounts of an owner's files */
		int fd;
		uint32_t uid, gid;
	} idmaps[2];
};

/* What lets the first process go, and what it then tells the client. */
struct birth_go {
	int32_t pid; /* as the launcher sees it */
	uint32_t slot, enforced;
};

/* A cell being made: everything its first process needs, by value or as an fd. */
struct birth {
	const struct launcher_request *rq;
	struct slot *slot;
	int go_fd;     /* child reads its go, writes its failure */
	int parent_fd; /* the launcher's end of that */
	struct birth_go go;
	uint32_t uid, gid; /* of the cell on the host */
	bool has_own_id;   /* nobody else has that uid */
	int root_fd;	   /* detached root tree; -1: an overlay over layers */
	int layer_fds[LAUNCHER_MAX_LAYERS];
	int workspace_fd;
	int mount_fds[LAUNCHER_MAX_MOUNTS];
	int scratch_fd; /* detached tree of the disk directory; -1: memory */
	int oom_fd;
	bool has_full_proc; /* found while mounting it */
	bool has_overlay;   /* TRIAL: one could be mounted */
};

/* Flags of a request that only we set: the parser refuses them. */
#define BIRTH_PARKED	      (1u << 31) /* nobody has asked yet; the stream is where its lease will come */
#define BIRTH_WORKSPACE_LATER (1u << 30) /* with the lease */
_Static_assert(!((BIRTH_PARKED | BIRTH_WORKSPACE_LATER) & LAUNCHER_FLAGS_ALL), "ours alone");

/* What a first process says when only exec is left. */
#define BIRTH_READY	      'x'
#define BIRTH_READY_FULL_PROC 'p'

/* ---- slot.c ---- */
struct slot *slot_take(struct failure *f);
/* By number, whoever made it: for REMOVE. NULL without failure when it is no longer the cell's of this
 * title, or never was: a cell that is not kept leaves no title. What nobody holds is swept then. */
struct slot *slot_adopt(uint32_t number, const char *title, struct failure *f);
/* Does anybody hold it, here or elsewhere? */
bool slot_is_alive(uint32_t number);
/* Keep it warm for the next cell, or give it back to the machine. */
void slot_recycle(struct slot *s);
void slot_free(struct slot *s);
void slot_free_all(void);
/* More are kept warm than there is use for: give one back when asked to. */
bool slot_trim(bool is_asked);
/* Slots that nobody holds any more: free what they left. */
void slot_sweep(void);
/* The same in passing: of those that have a name, as many as take no time to look at. */
void slot_sweep_some(void);
/* The same for one number; one that is in use is left alone. */
void slot_sweep_one(uint32_t number);
/* Whose it is, for REMOVE from another process. */
void slot_name_owner(struct slot *s, const char *title);
bool slot_is_owned_by(uint32_t number, const char *title);
/* A user namespace that maps owner ids on disk to this slot's; cached in the slot. */
int slot_idmap(struct slot *s, uint32_t owner_uid, uint32_t owner_gid, struct failure *f);

/* ---- stage.c ---- */
int stage_init(struct failure *f);
/* A detached copy of the template of the host's own programs. */
int stage_clone_host(struct failure *f);
/* A detached copy of a client's directory or file, with these attributes; idmap_fd -1: none. */
int stage_clone_fd(int fd, unsigned attr, int idmap_fd, enum launcher_step step, struct failure *f);

/* ---- spare.c ---- */
/* Be in fresh network, ipc and uts namespaces that no cell has used. */
int spare_ready(struct failure *f);
/* A cell was born into them: they are its own now. */
void spare_given(void);
bool spare_is_ready(void);
int spare_write_proc(const char *path, const char *text); /* under our own /proc */

/* ---- birth.c ---- */
struct newborn {
	pid_t pid;
	int pidfd;
	int status_fd; /* readable: a struct failure, or the end, which is good news */
	int oom_fd;
	uint32_t enforced; /* limits, LAUNCHER_CAN_* */
	bool is_open;	   /* has a network */
	int lease_fd;	   /* parked: where its lease is sent */
	int mnt_fd;	   /* parked: its mount namespace, torn down when nobody waits for that */
};
#define NEWBORN_INIT                                                                   \
	{                                                                              \
		.pid = -1, .pidfd = -1, .status_fd = -1, .oom_fd = -1, .lease_fd = -1, \
		.mnt_fd = -1                                                           \
	}
/* On failure *ret may still hold a process and fds: they are the caller's to end. */
int birth_begin(const struct launcher_request *rq, struct slot *slot, struct newborn *ret,
	struct failure *f);
int birth_go(const struct newborn *n, uint32_t slot);
/* Make a parked cell the one that was asked for. */
int birth_lease(const struct launcher_request *rq, struct slot *slot, struct newborn *n,
	struct failure *f);

/* ---- park.c ---- */
#define PARK_MAX	 64
#define PARK_LEARNED_MAX 4 /* without being told to */
/* Answer a FREEZE or a THAW. */
void freeze_slot(const struct launcher_request *rq, int control_fd);

/* Learn from a request what the next one may be like. true: what is parked is of no use any more. */
bool park_learn(const struct launcher_request *rq);
/* Have this many of its kind ready from now on, whatever else is asked for. false: it cannot be. */
bool park_pin(const struct launcher_request *rq, size_t n);
/* Can what is parked serve it? */
bool park_serves(const struct launcher_request *rq);
/* There was nothing parked although there might have been: have more. And: it was quiet, have less. */
void park_missed(void);
void park_calm(void);
/* One could not be made, or died by itself: after some of these there are no more. */
void park_failed(void);
void park_served(void); /* one was of use */
size_t park_wanted(void);
size_t park_least(void); /* however quiet it is */
/* A request for a cell like the last ones, and the end where its lease will be sent. */
const struct launcher_request *park_request(int *ret_lease_fd, int *ret_their_fd);

/* ---- inside.c, seal.c ---- */
/* The first process, until exec. Does not return. */
__attribute__((noreturn)) void inside_main(struct birth *b);
int seal_read_filter(const struct launcher_request *rq, struct failure *f);
int seal_limits(const struct birth *b, struct failure *f);
int seal_session(struct failure *f);
int seal_privileges(bool is_keep, struct failure *f);
int seal_landlock(struct failure *f);
int seal_filter(struct failure *f);
