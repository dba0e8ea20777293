/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guest_door.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_process.h"
#include "core/process.h"
#include "wire/lease.h"

#define DOOR	  "door"
#define ASK_MS	  200
#define ANSWER_MS 60000

void guest_door_done(struct guest_door *d)
{
	free(d->path);
	cell_closep(&d->listen_fd);
	*d = (struct guest_door)GUEST_DOOR_INIT;
}

void guest_door_remove(struct cell *c)
{
	auto_fd int dir = openat(cell_directory_fd(c), DOOR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	(void)unlinkat(dir, "sock", 0);
	(void)unlinkat(dir, "guest", 0);
	(void)unlinkat(dir, "filter", 0);
	(void)unlinkat(dir, "floor", 0);
	(void)unlinkat(cell_directory_fd(c), DOOR, AT_REMOVEDIR);
}

static int put_guest(struct cell *c, int dir, struct cell_error *err)
{
	auto_fd int from = cell_guest_image(cell_directory_fd(c), err);
	struct stat st;
	off_t at = 0;

	if (from < 0)
		return from;
	auto_fd int to = openat(dir, "guest", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0555);
	if (to < 0 || fstat(from, &st) < 0 || fchmod(to, 0555) < 0)
		return cell_fail_errno(err, errno, "put the guest into '%s'", cell_directory(c));
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));
		if (n < 0 && errno != EINTR) {
			int r = cell_fail_errno(err, errno, "put the guest into '%s'",
				cell_directory(c));
			return cell_error_hint(err, r,
				"free some space, or set CELL_STATE_DIR elsewhere");
		}
	}
	return 0;
}

static int put_filter(int dir, const char *name, const struct sock_fprog *program,
	struct cell_error *err)
{
	size_t size = program->len * sizeof *program->filter;
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);

	if (fd < 0 || write(fd, program->filter, size) != (ssize_t)size || fchmod(fd, 0444) < 0)
		return cell_fail_errno(err, errno, "write the syscall filter");
	return 0;
}

/* By our own fd: the path may be longer than a socket's address. */
static int listen_in(int dir, struct cell_error *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	/* not blocking: a guest that does not come is an error, not an endless wait */
	auto_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)unlinkat(dir, "sock", 0);
	(void)snprintf(sa.sun_path, sizeof sa.sun_path, "/proc/self/fd/%d/sock", dir);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 4) < 0 ||
		fchmodat(dir, "sock", 0666, 0) < 0)
		return cell_fail_errno(err, errno, "listen for the guest");
	return steal_fd(fd);
}

int guest_door_open(struct cell *c, const struct sock_fprog *filter, const struct sock_fprog *floor,
	struct guest_door *ret, struct cell_error *err)
{
	auto_door struct guest_door d = GUEST_DOOR_INIT;

	if (mkdirat(cell_directory_fd(c), DOOR, 0755) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make a directory for the guest");
	auto_fd int dir = openat(cell_directory_fd(c), DOOR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0755) < 0)
		return cell_fail_errno(err, errno, "make a directory for the guest");
	if (asprintf(&d.path, "%s/" DOOR, cell_directory(c)) < 0) {
		d.path = NULL;
		return cell_fail_errno(err, ENOMEM, "make a directory for the guest");
	}
	int r = put_guest(c, dir, err);
	if (r == 0)
		r = put_filter(dir, "filter", filter, err);
	if (r == 0 && floor)
		r = put_filter(dir, "floor", floor, err);
	if (r == 0)
		r = d.listen_fd = listen_in(dir, err);
	if (r < 0)
		return r;
	*ret = d;
	d = (struct guest_door)GUEST_DOOR_INIT;
	return 0;
}

static int wait_for_guest(struct guest_door *d, const struct guest_maker *maker,
	struct cell_error *err)
{
	struct pollfd p[2] = {{.fd = d->listen_fd, .events = POLLIN}, {.events = POLLIN}};

	for (int waited_ms = 0; waited_ms < ANSWER_MS; waited_ms += ASK_MS) {
		p[1].fd = maker->news_fd ? *maker->news_fd : -1;
		p[0].revents = p[1].revents = 0;
		int n = poll(p, 2, ASK_MS);
		if (p[0].revents)
			break;
		if (n < 0 && errno != EINTR)
			return cell_fail_errno(err, errno, "wait for the guest");
		/* once more after bad news: it may have come and gone meanwhile */
		if (!maker->is_there(maker->user, err) && poll(p, 1, 0) <= 0)
			return -ECHILD;
		if (n > 0)
			waited_ms -= ASK_MS; /* which told us at once */
	}
	int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		return fd;
	int r = cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT, "the guest did not come to its socket");
	return cell_error_hint(err, r,
		"a machine under much load, or a security module that keeps containers from "
		"sockets");
}

struct visit {
	struct guest_door *door;
	const struct cell_limits *limits;
	const struct guest_maker *maker;
};

/* guest_options.start */
static int receive(void *user, const char *title, int stream_fd, pid_t *ret_pid, int *ret_pidfd,
	struct cell_error *err)
{
	const struct visit *v = user;
	const struct cell_limits *limits = v->limits;
	struct lease l = {.magic = LEASE_MAGIC,
		.files = limits->files,
		.file_size = limits->file_size_bytes,
		.memory = limits->process_memory_bytes,
		.cpu_s = limits->cpu_time_s};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {&l, sizeof l};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	struct ucred peer = {0};
	socklen_t n = sizeof peer;
	int r = v->maker->start(v->maker->user, err);
	auto_fd int fd = r < 0 ? r : wait_for_guest(v->door, v->maker, err);

	if (fd < 0)
		return fd;
	(void)snprintf(l.title, sizeof l.title, "%s", title);
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof stream_fd);
	memcpy(CMSG_DATA(h), &stream_fd, sizeof stream_fd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.pid <= 0) {
		r = cell_fail(err, CELL_EBACKEND, 0, "the guest's process is not in our sight");
		return cell_error_hint(err, r,
			"its engine runs in another pid namespace, on this machine");
	}
	/* held before it can end: its pid stays its own */
	auto_fd int pidfd = cell_process_open(peer.pid, cell_process_start_time(peer.pid));
	if (pidfd < 0 || sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)sizeof l)
		return cell_fail_errno(err, pidfd < 0 ? -pidfd : errno,
			"give the guest its stream");
	*ret_pid = peer.pid;
	*ret_pidfd = steal_fd(pidfd);
	return 0;
}

int guest_door_start(struct cell *c, struct guest_door *d, const struct cell_limits *limits,
	const struct guest_maker *maker, struct cell_error *err)
{
	struct visit v = {.door = d, .limits = limits, .maker = maker};
	struct guest_options o = {.start = receive, .user = &v};

	return cell_guest_start(c, &o, err);
}
