/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c: programs of the cell that listen. CONNECT carries bytes between a stream and a socket connected to a port of the cell's own
 * loopback, never to another host; PORTS tells what listens. Both run in a worker process, like file operations: cancelling kills it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/fs_op.h"
#include "guest/listeners.h"

#define CONNECT_MS 10000 /* a full backlog may drain; a cell that is stuck does not */
#define LANE_BYTES 65536

/* One direction: what was read and is not written yet. */
struct lane {
	int from, to;
	uint8_t bytes[LANE_BYTES];
	size_t at, len;
	bool is_over;	 /* nothing more comes */
	bool is_dropped; /* nobody takes it any more */
};

static int connect_to(const struct sockaddr *a, socklen_t len)
{
	auto_fd int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;
	int e = 0;
	socklen_t n = sizeof e;

	if (fd < 0)
		return -errno;
	if (connect(fd, a, len) < 0) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		if (errno != EINPROGRESS)
			return -errno;
		int r;
		do {
			r = poll(&p, 1, CONNECT_MS);
		} while (r < 0 && errno == EINTR);
		if (r <= 0)
			return r == 0 ? -ETIMEDOUT : -errno;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0 || e)
			return e ? -e : -errno;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return steal_fd(fd);
}

/* A program may listen on either of the two. */
static int connect_loopback(uint16_t port)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = connect_to((const struct sockaddr *)&v4, sizeof v4);

	if (fd < 0 && fd != -ETIMEDOUT) {
		int second = connect_to((const struct sockaddr *)&v6, sizeof v6);
		if (second >= 0 || second == -ETIMEDOUT)
			fd = second;
	}
	return fd;
}

static bool is_later(int e)
{
	return e == EAGAIN || e == EINTR;
}

/* Read when empty, write when not. */
static void move(struct lane *l, bool is_to_socket)
{
	if (l->len == 0 && !l->is_over) {
		ssize_t n = read(l->from, l->bytes, sizeof l->bytes);
		if (n > 0)
			l->len = (size_t)n;
		else if (n == 0 || !is_later(errno))
			l->is_over = true;
		l->at = 0;
	}
	if (l->len > 0) {
		ssize_t n = is_to_socket ? send(l->to, l->bytes + l->at, l->len, MSG_NOSIGNAL)
					 : write(l->to, l->bytes + l->at, l->len);
		if (n > 0) {
			l->at += (size_t)n;
			l->len -= (size_t)n;
		} else if (n < 0 && !is_later(errno)) {
			l->len = 0;
			l->is_over = l->is_dropped = true;
		}
	}
}

/* Until the program in the cell has said everything: what it does not read any more is nobody's loss. */
static int carry(int socket_fd, int in_fd, int out_fd)
{
	static struct lane up, down;
	bool is_shut = false;

	up = (struct lane){.from = in_fd, .to = socket_fd};
	down = (struct lane){.from = socket_fd, .to = out_fd};
	(void)fcntl(in_fd, F_SETFL, O_NONBLOCK);
	(void)fcntl(out_fd, F_SETFL, O_NONBLOCK);
	while (!down.is_over || down.len) {
		struct pollfd p[3] = {{.fd = up.is_over || up.len ? -1 : in_fd, .events = POLLIN},
			{.fd = down.len ? out_fd : -1, .events = POLLOUT},
			{.fd = socket_fd,
				.events = (short)((down.is_over || down.len ? 0 : POLLIN) |
						  (up.len ? POLLOUT : 0))}};
		if (!p[2].events)
			p[2].fd = -1; /* a hang-up alone would be told for ever */
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents || (p[2].revents && up.len))
			move(&up, true);
		if (p[1].revents || (p[2].revents && !down.len))
			move(&down, false);
		if (up.is_over && !up.len && !is_shut) {
			(void)shutdown(socket_fd, SHUT_WR);
			is_shut = true;
			if (up.is_dropped) /* so that the sender is not kept waiting */
				close(in_fd);
		}
		if (down.is_dropped)
			return -EPIPE;
	}
	return 0;
}

int fs_connect(struct fs_call *call, struct cell_error *err)
{
	uint64_t port = fs_get_u64(call, WIRE_T_PORT, 0);

	(void)prctl(PR_SET_NAME, "cell-port");
	if (port < 1 || port > 65535)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"connect: a port is a number from 1 to 65535");
	auto_fd int fd = connect_loopback((uint16_t)port);
	if (fd == -ETIMEDOUT) {
		int r = cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
			"connect to port %u of the cell: no answer within %d s", (unsigned)port,
			CONNECT_MS / 1000);
		return cell_error_hint(err, r,
			"what listens there does not accept: is it busy or stopped?");
	}
	if (fd < 0) {
		int r = cell_fail(err, CELL_EBACKEND, -fd, "connect to port %u of the cell",
			(unsigned)port);
		return cell_error_hint(err, r,
			"nothing listens there on 127.0.0.1 or ::1: start the program first, and "
			"see what it bound to");
	}
	if (write(call->out_fd, "", 1) != 1) /* the first byte says that it is connected */
		return cell_fail_errno(err, errno, "connect");
	int r = carry(fd, call->in_fd, call->out_fd);
	return r < 0 ? cell_fail_errno(err, -r, "carry bytes to port %u", (unsigned)port) : 0;
}

static int tell(const struct listener *l, void *user)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_RECORD);

	(void)wire_put_u64(&b, WIRE_T_PORT, l->port);
	(void)wire_put_str(&b, WIRE_T_NAME, l->address);
	(void)wire_put_u64(&b, WIRE_T_UID, l->uid);
	return fs_out_record(user, &b);
}

int fs_ports(struct fs_call *call, struct cell_error *err)
{
	static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
	__attribute__((cleanup(fs_out_done))) struct fs_out out = FS_OUT_INIT(call->out_fd);
	int r = 0;

	for (size_t i = 0; r == 0 && i < 2; i++) {
		FILE *f = fopen(files[i], "re");
		if (!f && errno == ENOENT) /* a kernel without IPv6 */
			continue;
		if (!f)
			return cell_fail_errno(err, errno, "read '%s' in the cell", files[i]);
		r = listeners_read(f, tell, &out);
		(void)fclose(f);
	}
	if (r == 0)
		r = fs_out_flush(&out);
	return r < 0 ? cell_fail_errno(err, -r, "list ports") : 0;
}
