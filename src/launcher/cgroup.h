/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h: limits and the second way to kill. Works with cgroup v2, v1, and both at once (limits
 * on v1, tracking and killing on v2). Everything is under one group `cell`, made where we may.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/fail.h"
#include "launcher/request.h"

enum cgroup_controller {
	CG_MEMORY,
	CG_CPU,
	CG_PIDS,
	CG_IO,
	CG_CPUSET,
	CG_COUNT
};

/* One hierarchy where we have a group `cell`. */
struct cgroup_tree {
	int above_fd; /* the directory `cell` is in, -1: not there */
	int fd;	      /* `cell` itself */
};

struct cgroups {
	struct cgroup_tree v2;
	unsigned v2_withheld;	 /* those that the group above `cell` has besides */
	unsigned v2_controllers; /* bit per controller, as leaves of `cell` have it */
	struct cgroup_tree v1[CG_COUNT];
	bool has_kill, has_freeze;
	bool has_memsw, has_swap;
	bool has_own_nproc; /* RLIMIT_NPROC counts each user namespace by itself (Linux 5.14) */
	uint32_t can;	    /* LAUNCHER_CAN_MEMORY ... CLONE_INTO */
};

/* A cell's own groups; kept when the cell ends, for the next one. */
struct cgroup_slot {
	int v2_fd; /* -1: not made */
	int v1_fd[CG_COUNT];
	unsigned used; /* v1 groups this cell is in, bit per controller */
	uint64_t memory_bytes;
	uint32_t cpu_millis, pids, io_weight;
	uint32_t cpu_weight;
	uint64_t reserved_bytes;
	bool is_dedicated;   /* has CPUs of its own */
	uint64_t oom_before; /* kills counted before this cell */
	bool was_killed;     /* cgroup.kill was used: not to be entered by clone3 any more */
};

void cgroup_slot_init(struct cgroup_slot *s);
/* Find what there is and make `cell`. Never fails: what is missing is missing in cg->can. */
void cgroup_init(struct cgroups *cg, bool is_rootful);
/* Make the groups this request needs and set its limits. *ret_enforced: LAUNCHER_CAN_* bits of the
 * limits in force. Without LAUNCHER_BEST_EFFORT a limit that cannot be had is a failure. */
int cgroup_prepare(struct cgroups *cg, struct cgroup_slot *s, uint32_t number,
	const struct launcher_request *rq, uint32_t *ret_enforced, struct failure *f);
/* Put a process into the v1 groups; v2 is entered by clone3, or here when is_v2_too. */
int cgroup_enter(struct cgroup_slot *s, pid_t pid, bool is_v2_too, struct failure *f);
/* Something pollable that tells of an out-of-memory kill: an eventfd (v1: readable) or the file
 * memory.events (v2: EPOLLPRI when it changes). -1 when there is no memory limit. */
int cgroup_oom_fd(struct cgroup_slot *s);
bool cgroup_oom_is_eventfd(const struct cgroup_slot *s);
/* Processes killed for lack of memory in this cell. */
uint32_t cgroup_oom_kills(const struct cgroup_slot *s);
/* Let what was killed end at full speed: a process that may not run cannot even die. */
void cgroup_unthrottle(const struct cgroups *cg, struct cgroup_slot *s);
/* The same for groups of another launcher, whose limits are not known. */
void cgroup_lift_quota(const struct cgroups *cg, struct cgroup_slot *s);
/* SIGKILL everything in it, in one go where the kernel can. */
void cgroup_kill(const struct cgroups *cg, struct cgroup_slot *s);
/* Empty and without limits again. */
void cgroup_reset(struct cgroups *cg, struct cgroup_slot *s);
/* Remove; what is left in it has been killed before. false: something still lives there. */
bool cgroup_remove(struct cgroups *cg, struct cgroup_slot *s, uint32_t number);
/* Groups of a slot that another launcher made. */
void cgroup_adopt(struct cgroups *cg, struct cgroup_slot *s, uint32_t number);
/* Let go of the fds, and of nothing else. */
void cgroup_close(struct cgroup_slot *s);
/* The numbers of all groups there are: fn for each. */
void cgroup_each(struct cgroups *cg, void (*fn)(uint32_t number));
void cgroup_done(struct cgroups *cg);

/* ---- cgroup_model.c: weights, CPUs of one's own, reserved memory ---- */

#define CGROUP_REST "rest" /* v1: where cells without CPUs of their own are when others have some */
/* What the request asks for beyond limits; adds to *enforced. */
int cgroup_model_prepare(struct cgroups *cg, struct cgroup_slot *s, uint32_t number,
	const struct launcher_request *rq, uint32_t *enforced, struct failure *f);
/* Keep a new process of a cell off the CPUs that are others'. After it is in its v2 group: who claims
 * CPUs later finds it there. */
bool cgroup_model_enter(struct cgroups *cg, struct cgroup_slot *s, pid_t pid);
/* The slot's CPUs are everybody's again, whoever claimed them. */
void cgroup_model_release(struct cgroups *cg, struct cgroup_slot *s, uint32_t number);
/* The same for slots whose holders crashed. */
void cgroup_model_sweep(struct cgroups *cg);
void cgroup_model_reset(struct cgroups *cg, struct cgroup_slot *s);
/* After a group was removed: what it had reserved is reserved no more. */
void cgroup_model_settle(struct cgroups *cg);
void cgroup_model_find(struct cgroups *cg);
void cgroup_model_done(struct cgroups *cg);

/* ---- of cgroup.c, for cgroup_model.c ---- */
bool cgroup_put(int fd, const char *name, const char *text);
bool cgroup_put_u64(int fd, const char *name, uint64_t v);
ssize_t cgroup_get(int fd, const char *name, char *ret, size_t size);
/* The group that carries this controller; made when missing. -1: cannot be had. */
int cgroup_group_for(struct cgroups *cg, struct cgroup_slot *s, int c, uint32_t number);

/* ---- cgroup_find.c: reading what the kernel says ---- */

struct cgroup_mount {
	char path[256]; /* where it is mounted */
	char root[256]; /* which part of the hierarchy that is */
	bool is_v2;
	unsigned controllers; /* v1: bit per controller */
};
/* One line of /proc/self/mountinfo. false: no cgroup mount that is of use. */
bool cgroup_parse_mount(const char *line, struct cgroup_mount *ret);
/* One line of /proc/self/cgroup: is it the one for this controller (-1: v2)? Then its path. */
bool cgroup_parse_own(const char *line, int controller, char *ret, size_t size);
/* A group's path in the hierarchy as a path under the mount; false when it is not in it. */
bool cgroup_under_mount(const struct cgroup_mount *m, const char *group, char *ret, size_t size);
unsigned cgroup_parse_controllers(const char *words);
/* Make `cell` once more: a launcher that left took it away while it was empty. */
bool cgroup_make_again(struct cgroups *cg, struct cgroup_tree *t);
extern const char *const cgroup_names[CG_COUNT];
extern const uint32_t cgroup_bits[CG_COUNT]; /* LAUNCHER_CAN_* */
