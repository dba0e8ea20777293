/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_door.h: for back ends whose place is made by another program on this machine (a container engine, an OCI
 * runtime), which can show the place a directory of ours but pass it no file descriptor.
 *
 * The door is that directory: the guest's program and a socket. The guest, started there as
 *
 *	<door>/guest --filter <door>/filter --call <door>/sock --workspace DIR ...
 *
 * comes to the socket once and is given its end of the stream. From then on it is a guest like any other of this
 * machine (guest_process.h): no byte goes through who started it.
 */
#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/backend.h"

struct guest_door {
	char *path; /* of the directory, on the host */
	int listen_fd;
};

#define GUEST_DOOR_INIT         \
	{                       \
		.listen_fd = -1 \
	}

/* In the cell's directory; mount it read-only. filter: what the guest is to take upon itself. Who may come in is who sees the directory: the cell's own is 0700. */
int guest_door_open(struct cell *c, const struct sock_fprog *filter, struct guest_door *ret,
	struct cell_error *err);
void guest_door_done(struct guest_door *d);
#define auto_door __attribute__((cleanup(guest_door_done)))
/* After the guest has come, or will not: nothing is left of it on the host. */
void guest_door_remove(struct cell *c);

/* Wait for the guest and give it its end of the stream and the limits of each process. Fills what guest_options.start
 * does. is_alive (may be NULL) is asked now and then: false ends the wait, with -ECHILD and *err as it left it. */
int guest_door_answer(struct guest_door *d, const char *title, int stream_fd,
	const struct cell_limits *limits, bool (*is_alive)(void *user, struct cell_error *err),
	void *user, pid_t *ret_pid, int *ret_pidfd, struct cell_error *err);
