/* SPDX-License-Identifier: Apache-2.0 */
/* process.h: processes of this machine that may be somebody else's children: telling them apart
 * from later users of the same pid, starting one without copying this process, ending one for good.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When it started, in clock ticks since boot; 0 when there is no such process or it is a zombie.
 * With the boot id that names one process for ever. */
uint64_t cell_process_start_time(pid_t pid);
/* The kernel's id of this boot, 36 characters; "" when /proc does not say. */
void cell_process_boot_id(char ret[64]);

struct cell_spawn {
	int image_fd; /* what to execute */
	char *const *argv;
	char *const *envp;
	int pass_fd;	  /* becomes fd CELL_SPAWN_FD; every other fd but 0, 1, 2 is closed */
	bool is_detached; /* not our child: its parent is init */
	int (*enter)(void *user); /* in the child, before exec; async-signal-safe; 0 or -errno */
	void *user;

	/* filled: */
	pid_t pid;
	bool has_entered; /* on failure: it was exec that failed, not enter */
};
#define CELL_SPAWN_FD 3

/* Start it in a session of its own with default signals, /dev/null as stdin, stdout and stderr and
 * / as its directory. The parent's memory is shared until exec, so the size of this process does
 * not matter. */
int cell_process_spawn(struct cell_spawn *s);

/* A pidfd of the process that started at start_time; -ESRCH when it is gone. For these functions only: where
 * pidfd_open is forbidden it is another fd, which cannot be polled. */
int cell_process_open(pid_t pid, uint64_t start_time);
/* Wait until it has ended; false when time is up. */
bool cell_process_wait(int pidfd, int timeout_ms);
int cell_process_kill(int pidfd);

/* Every process whose argv[0] is this text: call fn with a pidfd of it. Returns how many. */
size_t cell_process_each(const char *argv0, void (*fn)(int pidfd));
