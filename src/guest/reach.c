/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.c: how a guest and its client come together where the client could pass no file descriptor: in a container
 * that an engine started.
 *
 * On one machine the guest *calls*: a directory of the client's is in the container, with a socket in it that the
 * client listens on. The guest gets its lease there (wire/lease.h), and with it the stream or the listening socket
 * that a guest beside its client has from the start. From then on nothing differs, and no byte goes
 * through the engine.
 *
 * Elsewhere the guest listens on a socket of the container's, and each client has the engine run this program once
 * more as a relay between its stream and that socket.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "guest/guest.h"

#define FIRST_CLIENT_MS 120000 /* for the client of an ephemeral cell to come */
#define PATIENCE_MS	20000  /* for the guest to listen */
#define BACKLOG		128
#define CHUNK		65536

static int address(const char *path, struct sockaddr_un *ret)
{
	size_t n = strlen(path);

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (n >= sizeof ret->sun_path)
		return -ENAMETOOLONG;
	memcpy(ret->sun_path, path, n);
	return 0;
}

int guest_call(const char *path)
{
	struct sockaddr_un sa;
	int r = address(path, &sa);
	int fd = r < 0 ? r : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (r < 0 || fd < 0)
		return r < 0 ? r : -errno;
	while (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0) {
		if (errno == EINTR)
			continue;
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int guest_listen(const char *path)
{
	struct sockaddr_un sa;
	int r = address(path, &sa);
	int fd = r < 0 ? r : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (r < 0 || fd < 0)
		return r < 0 ? r : -errno;
	(void)unlink(path);
	mode_t old = umask(0177); /* for this user only */
	r = bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
	(void)umask(old);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

int guest_first_client(const char *path)
{
	int fd, listener = guest_listen(path);
	struct pollfd p = {.fd = listener, .events = POLLIN};

	if (listener < 0)
		return listener;
	do
		fd = poll(&p, 1, FIRST_CLIENT_MS);
	while (fd < 0 && errno == EINTR);
	fd = fd > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
	if (fd < 0)
		fd = p.revents ? -errno : -ETIMEDOUT;
	close(listener);
	(void)unlink(path);
	return fd;
}

/* ---- the relay ---- */

static int connect_patiently(const char *path)
{
	const struct timespec pause = {.tv_nsec = 5 * 1000000};
	struct sockaddr_un sa;
	int r = address(path, &sa);
	int fd = r < 0 ? r : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (r < 0 || fd < 0)
		return r < 0 ? r : -errno;
	for (int waited_ms = 0;; waited_ms += 5) {
		if (connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
			return fd;
		if ((errno != ENOENT && errno != ECONNREFUSED && errno != EINTR) ||
			waited_ms >= PATIENCE_MS)
			return -errno;
		(void)nanosleep(&pause, NULL);
	}
}

struct way {
	int from, to;
	char bytes[CHUNK];
	size_t at, n;
	bool is_over;
};

/* One step of one direction; false when it has ended. */
static bool step(struct way *w, short readable, short writable)
{
	if (w->at == w->n && readable) {
		ssize_t n = read(w->from, w->bytes, sizeof w->bytes);
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return false;
		w->at = 0;
		w->n = n > 0 ? (size_t)n : 0;
	} else if (w->at < w->n && writable) {
		ssize_t n = write(w->to, w->bytes + w->at, w->n - w->at);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		w->at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

int guest_relay(const char *path)
{
	static struct way ways[2];
	int fd = connect_patiently(path);

	(void)signal(SIGPIPE, SIG_IGN);
	if (fd < 0) {
		(void)fprintf(stderr, "cell-guest: reach the guest: %s\n", strerror(-fd));
		return 125;
	}
	ways[0].from = STDIN_FILENO;
	ways[0].to = ways[1].from = fd;
	ways[1].to = STDOUT_FILENO;
	while (!ways[1].is_over) {
		struct pollfd p[4];
		for (int i = 0; i < 2; i++) {
			const struct way *w = &ways[i];
			bool is_full = w->at < w->n;
			p[2 * i] = (struct pollfd){w->is_over || is_full ? -1 : w->from, POLLIN, 0};
			p[2 * i + 1] =
				(struct pollfd){w->is_over || !is_full ? -1 : w->to, POLLOUT, 0};
		}
		if (poll(p, 4, -1) < 0 && errno != EINTR)
			break;
		for (int i = 0; i < 2; i++) {
			if (ways[i].is_over ||
				step(&ways[i], p[2 * i].revents, p[2 * i + 1].revents))
				continue;
			ways[i].is_over = true;
			if (i == 0)
				(void)shutdown(fd, SHUT_WR);
		}
	}
	return 0;
}
