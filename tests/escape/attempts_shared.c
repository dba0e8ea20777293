/* SPDX-License-Identifier: Apache-2.0 */
/* attempts_shared.c: what the kernel has few of, for the whole machine or for a user, and how to disturb others by it. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"

#define MANY_TERMINALS	300
#define IOPRIO_WHO_USER 3
#define IOPRIO_IDLE	(3 << 13)
#define NS_OWNER	_IO(0xb7, 0x1)
#define HUGE_MEMFD	4u
#define LAST_FAMILY	46
#define LAST_NETLINK	22

static int one_inotify(void)
{
	return inotify_init1(IN_CLOEXEC);
}

/* Its name is gone at once; what it counts for stays until it is closed. */
static int one_queue(void)
{
	char name[48];
	static int n;

	(void)snprintf(name, sizeof name, "/cell-escape-%d-%d", (int)getpid(), n++);
	mqd_t fd = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
	if (fd >= 0)
		(void)mq_unlink(name);
	return (int)fd;
}

static enum result take_all(int (*take)(void))
{
	int n = 0;

	while (n < 100000 && take() >= 0)
		n++;
	say("ready: %d", n);
	(void)getchar();
	return DID_IT;
}

static enum result take_all_inotify(const char *arg)
{
	(void)arg;
	return take_all(one_inotify);
}

static enum result take_all_queues(const char *arg)
{
	(void)arg;
	return take_all(one_queue);
}

static enum result take_inotify(const char *arg)
{
	(void)arg;
	return outcome(one_inotify());
}

static enum result take_queue(const char *arg)
{
	(void)arg;
	return outcome(one_queue());
}

/* Everybody of the same user, the call says. */
static enum result slow_down_others(const char *arg)
{
	(void)arg;
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_USER, getuid(), IOPRIO_IDLE);
	return outcome(setpriority(PRIO_USER, 0, 19));
}

static enum result take_terminals(const char *arg)
{
	struct rlimit files;
	int n = 0;

	(void)arg;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	while (n < MANY_TERMINALS && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
		n++;
	say("%d terminals", n);
	return n == MANY_TERMINALS ? DID_IT : REFUSED;
}

static enum result take_aio(const char *arg)
{
	unsigned long context = 0;

	(void)arg;
	return outcome(syscall(SYS_io_setup, 1, &context));
}

static enum result take_huge_pages(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_memfd_create, "x", HUGE_MEMFD));
}

/* Whoever opens a file with a lease on it waits, 45 s by default. */
static enum result make_others_wait(const char *arg)
{
	int fd = open("lease", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	(void)arg;
	(void)unlink("lease");
	return fd < 0 ? CANNOT : outcome(fcntl(fd, F_SETLEASE, F_WRLCK));
}

static enum result rare_families(const char *arg)
{
	const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
	int n = 0;

	(void)arg;
	for (int family = 1; family <= LAST_FAMILY; family++)
		for (int i = 0; i < 4; i++) {
			if (family == AF_UNIX || family == AF_NETLINK ||
				((family == AF_INET || family == AF_INET6) && i < 2))
				continue;
			int fd = socket(family, types[i], 0);
			if (fd < 0)
				continue;
			say("family %d, type %d", family, types[i]);
			close(fd);
			n++;
		}
	return n ? DID_IT : REFUSED;
}

static enum result rare_netlink(const char *arg)
{
	int n = 0;

	(void)arg;
	for (int protocol = 1; protocol <= LAST_NETLINK; protocol++) {
		int fd = socket(AF_NETLINK, SOCK_RAW, protocol);
		if (fd < 0)
			continue;
		say("netlink %d", protocol);
		close(fd);
		n++;
	}
	return n ? DID_IT : REFUSED;
}

/* The user namespace that a cell's network belongs to is not the cell's. */
static enum result owner_of_network(const char *arg)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	(void)arg;
	return fd < 0 ? REFUSED : outcome(ioctl(fd, NS_OWNER));
}

const struct attempt attempts_shared[] = {
	{"take-all-inotify", take_all_inotify},
	{"take-all-queues", take_all_queues},
	{"inotify", take_inotify},
	{"queue", take_queue},
	{"slow-down-others", slow_down_others},
	{"terminals", take_terminals},
	{"aio", take_aio},
	{"huge-pages", take_huge_pages},
	{"lease", make_others_wait},
	{"families", rare_families},
	{"netlink", rare_netlink},
	{"owner-of-network", owner_of_network},
	{0},
};
