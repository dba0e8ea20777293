/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.h: the process between the guest and a command.
 *
 * Each running command has one. It is the command's parent and a subreaper, so that every
 * descendant, however it detached itself, stays in its tree; it watches the deadline, ends the
 * tree, waits for all of it, and reports. When the guest dies it ends the tree by itself. It holds
 * no fd but its socket to the guest and the report pipe. One that has nothing left to keep waits
 * for the next command: that saves a fork, which would be the larger part of a short command's
 * time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What to run. Everything is resolved beforehand; the child only makes system calls. */
struct launch {
	uint32_t number;
	char **argv;
	char **env;
	int cwd_fd;
	int stdio[3];
	int extra[2]; /* for fds 3 and 4 of an interpreter; -1: none */
	bool is_tty;  /* stdio are a terminal's slave: make it the controlling one */
	bool has_ids;
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t n_groups;
	uint64_t timeout_ms, grace_ms;
};

/* One report; smaller than PIPE_BUF, so writes do not mix. */
struct keeper_report {
	uint32_t number;
	int32_t status; /* as wait4 gave it, when has_exited */
	uint64_t cpu_ns, max_rss, wall_ns;
	uint8_t has_exited; /* the command has ended */
	uint8_t is_gone;    /* and nothing of it is left; the keeper is free again */
	uint8_t timed_out;
	uint8_t reserved[5];
};

/* What a keeper and the guest share besides messages: where to look up the command's pid. */
struct keeper_slot {
	volatile pid_t leader; /* 0: none */
};

/* Once, before anything else here. */
int keeper_init(void);
/* Have it kept, by an idle keeper or a new one. The keeper's pid, or negative errno. */
pid_t keeper_start(const struct launch *l, int report_fd);
/* A keeper made ahead, idle. Its pid, or negative errno. */
pid_t keeper_park(int report_fd);
/* A signal for what it keeps: the whole tree (SIGKILL then repeats until it is gone), or only the
 * command's process group. Negative errno. */
int keeper_signal(pid_t pid, int sig, bool tree);
/* The command's pid, 0 when it is not known. */
pid_t keeper_leader(pid_t pid);
bool keeper_is_known(pid_t pid);
/* Its command is gone: it is idle now, or dismissed when there are enough. */
void keeper_release(pid_t pid);
/* It died. */
void keeper_forget(pid_t pid);
/* The guest leaves: see the idle ones off, so that nothing of it is left when it is gone. */
void keeper_dismiss_all(void);

/* In the keeper's process. Runs the command and returns when nothing of it is left. fds from
 * first_unneeded_fd on are closed once the command has them. */
void keeper_run(const struct launch *l, struct keeper_slot *slot, int report_fd,
	int first_unneeded_fd);
void keeper_close_from(int first);

/* The value of SIGRTMIN, from the guest: a signal, KEEPER_TREE, and which command it is for. A keeper has one after the other: what was
 * sent for the last one may come when it has the next, and what is for the next before it has begun. */
#define KEEPER_TREE	   0x100
#define KEEPER_FOR(number) ((int)(((number)&0x3fffffu) << 9))
