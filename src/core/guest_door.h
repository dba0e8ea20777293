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

#include "core/backend.h"

struct guest_door {
	char *path; /* of the directory, on the host */
	int listen_fd;
};

#define GUEST_DOOR_INIT         \
	{                       \
		.listen_fd = -1 \
	}

/* In the cell's directory; mount it read-only. filter: what the guest is to take upon itself; floor: before that, NULL: nothing. Who may come in is who sees the directory: the cell's own is 0700. */
int guest_door_open(struct cell *c, const struct sock_fprog *filter, const struct sock_fprog *floor,
	struct guest_door *ret, struct cell_error *err);
void guest_door_done(struct guest_door *d);
#define auto_door __attribute__((cleanup(guest_door_done)))
/* After the guest has come, or will not: nothing is left of it on the host. */
void guest_door_remove(struct cell *c);

/* Who makes the place. */
struct guest_maker {
	int (*start)(void *user, struct cell_error *err);
	/* Is it still there? Asked now and then while the guest is waited for; false ends the wait, with *err as it left it. */
	bool (*is_there)(void *user, struct cell_error *err);
	const int *news_fd; /* readable when it is to be asked at once; NULL, or of -1: none */
	void *user;
};
/* cell_guest_start() with a guest that comes to the door: it is given its end of the stream, and the limits of each process. */
int guest_door_start(struct cell *c, struct guest_door *d, const struct cell_limits *limits,
	const struct guest_maker *maker, struct cell_error *err);
