/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_keeper.c: holds the program that carries a cell's packets where there is no root: pasta. It is
 * the launcher's image, started by the client under another name, because the launcher has left the
 * host's network for good and the client may end before the cell.
 *
 * The keeper is the first process of a pid namespace in which pasta is the other one. It watches the
 * cell's first process, and ends with it: then the kernel ends pasta. If the keeper is killed, the
 * kernel ends pasta too. There is no way to kill one of the three that leaves another behind, but for
 * the cell, which then has no network.
 *
 *	cell-net PID PASTA ARGUMENT...      fd 3: a socket, on it the cell's pidfd and the user
 *					    namespace that its network belongs to
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/net.h"
#include "launcher/sys.h"

#define MAX_ARGUMENTS 40

/* What the client waits for: nothing in it means that all is well. */
__attribute__((noreturn)) static void refuse(const char *what, const char *detail)
{
	char text[400];
	int n = snprintf(text, sizeof text, "%s: %s", what, detail);

	(void)send(LAUNCHER_SOCKET_FD, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
		MSG_NOSIGNAL);
	_exit(1);
}

static void receive(int *ret_pidfd, int *ret_userns)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control};
	int fds[2];

	if (recvmsg(LAUNCHER_SOCKET_FD, &m, MSG_CMSG_CLOEXEC) != 1)
		_exit(1); /* the client is gone */
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fds))
		refuse("take over from the client", "no file descriptors");
	memcpy(fds, CMSG_DATA(c), sizeof fds);
	*ret_pidfd = fds[0];
	*ret_userns = fds[1];
}

/* pasta, in the foreground: it says that it is ready by writing its pid. */
static pid_t start(int argc, char **argv, int ready_fd, int error_fd)
{
	const char *v[MAX_ARGUMENTS + 8] = {argv[1]};
	char self[16] = "", ready[48], target[48];
	int n = 1;
	/* by the number that /proc here knows us under: it is that of another pid namespace */
	ssize_t len = readlink("/proc/self", self, sizeof self - 1);

	if (len <= 0)
		return -1;
	(void)snprintf(ready, sizeof ready, "/proc/%.15s/fd/%d", self, ready_fd);
	(void)snprintf(target, sizeof target, "/proc/%.15s/ns/net", argv[0]);
	for (int i = 2; i < argc && n < MAX_ARGUMENTS; i++)
		v[n++] = argv[i];
	v[n++] = "--foreground";
	v[n++] = "--pid";
	v[n++] = ready;
	v[n++] = "--netns-only"; /* we are in the right user namespace already */
	v[n++] = "--netns";
	v[n++] = target;
	pid_t pid = fork();
	if (pid == 0) {
		static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

		(void)signal(SIGPIPE, SIG_DFL); /* it takes another for a failure */
		(void)dup2(error_fd, 1);
		(void)dup2(error_fd, 2);
		(void)execve(argv[1], (char *const *)(uintptr_t)v, (char *const *)(uintptr_t)env);
		(void)dprintf(2, "execute %s: %s\n", argv[1], strerror(errno));
		_exit(127);
	}
	return pid;
}

static void add_text(int fd, char *text, size_t size)
{
	char part[512];
	ssize_t n = read(fd, part, sizeof part - 1);
	size_t len = strlen(text);

	for (ssize_t i = 0; i < n && len + 1 < size; i++)
		text[len++] = part[i] == '\n' ? ';' : part[i] < 0x20 ? ' ' : part[i];
	text[len] = '\0';
}

/* Until it is ready, or not going to be. */
static void await(int ready_fd, int error_fd, int pidfd)
{
	struct pollfd p[] = {{.fd = ready_fd, .events = POLLIN}, {.fd = error_fd, .events = POLLIN},
		{.fd = pidfd, .events = POLLIN}};
	char text[300] = "";

	for (;;) {
		char byte;

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			_exit(1);
		if (p[2].revents)
			_exit(0); /* no cell any more */
		if (p[0].revents & POLLIN && read(ready_fd, &byte, 1) == 1)
			return;
		if (p[1].revents & POLLIN)
			add_text(error_fd, text, sizeof text);
		else if (p[1].revents & POLLHUP)
			break;
	}
	refuse("pasta does not start", text);
}

/* The keeper needs none; pasta, as uid 0 of this user namespace, gets its own by exec. And pasta opens
 * our end of a pipe by its name in /proc, which nobody may who has fewer privileges. */
static void drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	if (syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		refuse("drop privileges", strerror(errno));
}

__attribute__((noreturn)) static void keep(int argc, char **argv, int pidfd)
{
	int ready[2], errors[2];

	(void)setsid();
	(void)prctl(PR_SET_NAME, NET_KEEPER);
	drop_privileges();
	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0)
		refuse("make a pipe", strerror(errno));
	pid_t pid = start(argc, argv, ready[1], errors[1]);
	if (pid < 0)
		refuse("start a process", strerror(errno));
	close(errors[1]);
	await(ready[0], errors[0], pidfd);
	close(ready[0]);
	close(ready[1]);
	if (send(LAUNCHER_SOCKET_FD, "", 1, MSG_NOSIGNAL) != 1)
		_exit(0); /* nobody waits for it any more */
	close(LAUNCHER_SOCKET_FD);

	struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = errors[0], .events = POLLIN}};
	for (;;) {
		char text[512];

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			_exit(1);
		if (p[0].revents)
			_exit(0);
		/* what it has to say is nobody's; its end is ours */
		if (p[1].revents && read(errors[0], text, sizeof text) <= 0)
			_exit(0);
	}
}

void net_keeper(int argc, char **argv)
{
	int pidfd, userns;

	receive(&pidfd, &userns);
	if (setns(userns, CLONE_NEWUSER) < 0)
		refuse("join the launcher's user namespace", strerror(errno));
	close(userns);
	if (unshare(CLONE_NEWPID) < 0)
		refuse("make a pid namespace", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		refuse("start a process", strerror(errno));
	if (pid == 0)
		keep(argc - 1, argv + 1, pidfd);
	_exit(0);
}
