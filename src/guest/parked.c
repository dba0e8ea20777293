/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.c: a guest that was started before anybody asked for its cell. It has done all that is the same for
 * every cell, a keeper included, and waits for its lease (wire/lease.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/guest.h"
#include "guest/keeper.h"
#include "wire/lease.h"

/* One message, one fd. -1: whoever parked us has no use for us any more. */
static int receive(int wait_fd, struct lease *ret)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {ret, sizeof *ret};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	ssize_t n;
	int fd;

	do
		n = recvmsg(wait_fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (n != (ssize_t)sizeof *ret || ret->magic != LEASE_MAGIC || !c ||
		c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fd))
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

/* The cell's name where everybody looks for it: /proc/PID/cmdline. */
static void be_called(char *argv0, const char *title)
{
	size_t room = strlen(argv0), n = strnlen(title, LEASE_TITLE_SIZE - 1);

	if (n > room)
		n = room;
	memset(argv0, 0, room);
	memcpy(argv0, title, n);
}

static void add_limit(int resource, uint64_t value)
{
	if (value && guest.n_rlimits < GUEST_MAX_RLIMITS)
		guest.rlimits[guest.n_rlimits++] =
			(struct guest_rlimit){.resource = resource, .value = value};
}

int guest_await_lease(int wait_fd, char *argv0)
{
	struct lease l;
	int keeper = keeper_park(guest.report_fd);
	int fd = receive(wait_fd, &l);

	if (fd < 0)
		_exit(0);
	close(wait_fd);
	be_called(argv0, l.title);
	add_limit(RLIMIT_NOFILE, l.files);
	add_limit(RLIMIT_FSIZE, l.file_size);
	add_limit(RLIMIT_AS, l.memory);
	add_limit(RLIMIT_CPU, l.cpu_s);
	if (l.pids) {
		const struct rlimit rl = {l.pids, l.pids};

		if (setrlimit(RLIMIT_NPROC, &rl) < 0)
			_exit(125);
	}
	/* it was forked before these were known, and would not pass them on */
	if (keeper > 0 && (l.pids || guest.n_rlimits))
		keeper_forget(keeper);
	return fd;
}
