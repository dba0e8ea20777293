/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.c: a guest that was started before anybody asked for its cell. It has done all that is the same for
 * every cell, a keeper included, and waits for its lease (wire/lease.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/kernel.h"
#include "guest/user.h"
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

static struct source waiting = {.fd = -1};
static struct lease got;
static int got_fd = -1;

static void on_lease(struct source *s, uint32_t events)
{
	(void)events;
	got_fd = receive(s->fd, &got);
	if (got_fd < 0)
		_exit(0);
	loop_stop();
}

/* With interpreters about there is more to look after than the lease. */
static void await(int wait_fd)
{
	if (kernel_first()) {
		waiting = (struct source){.fd = wait_fd, .events = EPOLLIN, .fn = on_lease};
		if (loop_add(&waiting) < 0 || loop_run() < 0)
			_exit(125);
		loop_remove(&waiting);
	} else {
		got_fd = receive(wait_fd, &got);
	}
	if (got_fd < 0)
		_exit(0);
	close(wait_fd);
}

int guest_await_lease(int wait_fd, char *argv0)
{
	int keeper = keeper_park(guest.report_fd);
	struct user self;

	(void)user_resolve(NULL, &self, NULL); /* so that the first command finds it known */
	await(wait_fd);
	be_called(argv0, got.title);
	add_limit(RLIMIT_NOFILE, got.files);
	add_limit(RLIMIT_FSIZE, got.file_size);
	add_limit(RLIMIT_AS, got.memory);
	add_limit(RLIMIT_CPU, got.cpu_s);
	if (got.pids) {
		const struct rlimit rl = {got.pids, got.pids};

		if (setrlimit(RLIMIT_NPROC, &rl) < 0)
			_exit(125);
	}
	/* it was forked before these were known, and would not pass them on */
	if (keeper > 0 && (got.pids || guest.n_rlimits))
		keeper_forget(keeper);
	spare_limit(got.pids);
	/* until now it died with the launcher */
	if (got.is_kept && prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0)
		_exit(125);
	guest.has_listener = got.is_kept;
	return got_fd;
}
