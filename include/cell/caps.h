/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps.h: what a back end can promise. A spec is turned into the capabilities it needs; what the
 * chosen back end lacks is a typed error (CELL_ENOTSUP) that names it and who has it.
 */
#ifndef CELL_CAPS_H
#define CELL_CAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* X(NAME, "word", "meaning") */
#define CELL_CAPS(X)                                                                              \
	X(EXEC, "exec", "run commands, with stdin, signals and separate streams")                 \
	X(PTY, "pty", "terminals with resize")                                                    \
	X(FILES, "files", "read, write and search files of the workspace")                        \
	X(WATCH, "watch", "notice file changes as they happen")                                   \
	X(BACKGROUND, "background", "commands that outlive the client and can be attached again") \
	X(NAMED, "named", "cells that outlive the process that made them")                        \
	X(USER, "user", "run a command as another user of the cell")                              \
	X(DEFAULT_USER, "default-user", "commands run as the user that the spec names")           \
	X(WORKSPACE, "workspace", "a directory of the host as the cell's workspace")              \
	X(PRIVATE_HOME, "private-home", "HOME and TMPDIR of its own, removed afterwards")         \
	X(KILL_TREE, "kill-tree", "a deadline ends every descendant, double-forked ones too")     \
	X(HIDE_FILES, "hide-files", "files of the host are invisible")                            \
	X(HIDE_PROCESSES, "hide-processes", "processes of the host are invisible")                \
	X(SYSCALL_FILTER, "syscall-filter", "dangerous system calls are refused")                 \
	X(OWN_KERNEL, "own-kernel", "a kernel of its own (VM or user-space kernel)")              \
	X(ROOT_DIR, "root.dir", "a root tree given as a directory")                               \
	X(ROOT_TAR, "root.tar", "a root tree given as a tar archive")                             \
	X(IMAGE, "image", "container images")                                                     \
	X(PULL, "image.pull", "images are fetched from a registry")                               \
	X(RUNTIME, "runtime", "another OCI runtime than the usual one")                           \
	X(MOUNTS, "mounts", "further directories of the host, read-write or read-only")           \
	X(LIMIT_MEMORY, "limits.memory", "memory of the whole cell")                              \
	X(LIMIT_CPUS, "limits.cpus", "CPU time per second of the whole cell")                     \
	X(LIMIT_PIDS, "limits.pids", "number of processes")                                       \
	X(LIMIT_DISK, "limits.disk", "bytes written to disk")                                     \
	X(LIMIT_INODES, "limits.inodes", "number of files and directories made")                  \
	X(LIMIT_FILES, "limits.files", "open files per process")                                  \
	X(LIMIT_FILE_SIZE, "limits.file_size", "size of any one file written")                    \
	X(LIMIT_PROCESS_MEMORY, "limits.process_memory", "address space of each process")         \
	X(LIMIT_CPU_TIME, "limits.cpu_time", "CPU seconds of each process")                       \
	X(LIMIT_IO, "limits.io", "weight or rate of disk input and output")                       \
	X(DEDICATED, "resources.dedicated", "CPUs of its own")                                    \
	X(RESERVED_MEMORY, "resources.memory", "reserved memory")                                 \
	X(SCRATCH_MEMORY, "scratch.memory", "what it writes besides is in memory")                \
	X(SCRATCH_DISK, "scratch.disk", "what it writes besides is on disk")                      \
	X(NET_NONE, "network.none", "no network at all")                                          \
	X(NET_ALLOW, "network.allow", "network to named domains only")                            \
	X(NET_OPEN, "network.open", "network without a list of domains")                          \
	X(NET_PRIVATE, "network.private",                                                         \
		"an open network closed to host and private addresses, but for named ones")       \
	X(NET_NAMED, "network.named", "a network of the container engine by its name")            \
	X(GPU, "gpu", "a GPU")                                                                    \
	X(PAUSE, "pause", "freeze and thaw")                                                      \
	X(SNAPSHOT, "snapshot", "save and restore")                                               \
	X(FORK, "fork", "copy a live cell")                                                       \
	X(SECRETS, "secrets", "secrets that never enter the cell")                                \
	X(PORTS, "ports", "connections to programs that listen in the cell")

enum cell_cap {
#define X(name, word, meaning) CELL_CAP_##name,
	CELL_CAPS(X)
#undef X
	CELL_CAP_COUNT
};

/* A set of capabilities: bit n stands for capability n. */
typedef uint64_t cell_caps;
#define CELL_CAP_BIT(cap) (UINT64_C(1) << (cap))

/* The word ("limits.memory") and the meaning. NULL when cap is out of range. */
const char *cell_cap_name(enum cell_cap cap);
const char *cell_cap_meaning(enum cell_cap cap);
/* -1 when there is no capability of that name. */
int cell_cap_find(const char *word);

/* What is missing on this machine, why, and what would bring it. */
struct cell_lack {
	enum cell_cap cap;
	char reason[160];
	char fix[240];
};

#define CELL_LACKS_MAX 24

/* One back end as it is here and now. */
struct cell_backend_info {
	const char *name;
	const char *summary;			/* one line */
	const char *wall;			/* one sentence: what it keeps apart and what not */
	const char *needs, *take_for, *not_for; /* advice, in a line each; "" when there is none */
	int tier;	    /* 0 no wall ... 4, MISSION D; what a spec's `tier` is compared with */
	bool is_built;	    /* false: known by name, but not in this build */
	bool is_usable;	    /* probe said yes */
	char reason[240];   /* why not usable */
	char fix[240];	    /* what would make it so */
	cell_caps declared; /* what it can promise at best */
	cell_caps caps;	    /* what it can promise here */
	struct cell_lack lacks[CELL_LACKS_MAX];
	size_t n_lacks;
};

/* Probe every known back end (those not built too). Returns the number written, at most `max`. */
size_t cell_backends_probe(struct cell_backend_info *ret, size_t max);
/* Probe one, wrappers like "trace:local" included. -ENOENT when unknown. */
struct cell_error;
int cell_backend_probe(const char *name, struct cell_backend_info *ret, struct cell_error *err);

/* One wall of a back end as it is provided here. Strings are valid during the callback. */
struct cell_wall {
	const char *name;   /* "limits" */
	const char *how;    /* "cgroup v1: memory, cpu, pids" */
	const char *better; /* what another kernel or setting would give; NULL: nothing */
	const char *fix;    /* the one command for it; NULL: none */
	bool is_weak;	    /* something that a cell may ask for, or that others have, is missing */
};
typedef int (*cell_wall_fn)(const struct cell_wall *w, void *user);
/* Calls fn for each wall of a usable back end that can tell them; a non-zero return stops and is returned. */
int cell_backend_walls(const char *name, cell_wall_fn fn, void *user, struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
