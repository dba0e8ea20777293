/* SPDX-License-Identifier: Apache-2.0 */
/* http_listen.c: where connections come from, and what happens when there are no descriptors left for
 * them. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "net/http_internal.h"

#define BACKLOG		  1024
#define ACCEPTS_IN_A_ROW  64
#define REFUSALS_IN_A_ROW 16
#define ACCEPT_PAUSE_MS	  100

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
	struct sockaddr_storage room;
};

/* --- accepting --- */

static void on_accept_again(uv_timer_t *t)
{
	listeners_resume(t->data);
}

void listeners_pause(struct http_server *s)
{
	if (s->is_accept_paused)
		return;
	s->is_accept_paused = true;
	s->stats.accept_pauses++;
	for (struct listener *l = s->listeners; l; l = l->next)
		(void)net_watch_set(l->watch, 0);
	(void)uv_timer_start(&s->accept_again, on_accept_again, ACCEPT_PAUSE_MS, 0);
}

void listeners_resume(struct http_server *s)
{
	if (!s->is_accept_paused || s->stats.connections >= s->o.limits.connections)
		return;
	s->is_accept_paused = false;
	(void)uv_timer_stop(&s->accept_again);
	for (struct listener *l = s->listeners; l; l = l->next)
		(void)net_watch_set(l->watch, NET_READABLE);
}

/* No descriptor is left. Those who wait are told so with the one kept for this; then accepting rests a
 * while, or the loop would spin on a listener that stays ready. */
static void refuse_some(struct http_server *s, struct listener *l)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
				   "Connection: close\r\nContent-Length: 0\r\n\r\n";

	for (int i = 0; i < REFUSALS_IN_A_ROW && s->reserve_fd >= 0; i++) {
		close(s->reserve_fd);
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			if (!l->tls)
				(void)!send(fd, text, sizeof text - 1, MSG_NOSIGNAL);
			(void)shutdown(fd, SHUT_WR);
			close(fd);
			s->stats.refused++;
		}
		s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			break;
	}
}

static void on_listener(void *arg, int events)
{
	struct listener *l = arg;
	struct http_server *s = l->s;

	(void)events;
	for (int i = 0; i < ACCEPTS_IN_A_ROW; i++) {
		if (s->stats.connections >= s->o.limits.connections) {
			listeners_pause(s);
			return;
		}
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			(void)conn_new(s, fd, l->tls);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			if (s->reserve_fd < 0)
				s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
			refuse_some(s, l);
			listeners_pause(s);
			return;
		}
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

int http_serve_fd(struct http_server *s, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return conn_new(s, fd, NULL);
}

/* --- listening --- */

static int add_address(struct http_server *s, int fd, bool is_tls)
{
	union address a = {.any.sa_family = AF_UNSPEC};
	socklen_t len = sizeof a;
	char host[INET6_ADDRSTRLEN] = "", text[160];

	if (getsockname(fd, &a.any, &len) < 0)
		return -errno;
	if (a.any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof host);
		(void)snprintf(text, sizeof text, "http%s://[%s]:%u", is_tls ? "s" : "", host,
			ntohs(a.v6.sin6_port));
	} else if (a.any.sa_family == AF_INET) {
		(void)inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof host);
		(void)snprintf(text, sizeof text, "http%s://%s:%u", is_tls ? "s" : "", host,
			ntohs(a.v4.sin_port));
	} else {
		(void)snprintf(text, sizeof text, "unix:%.*s", (int)sizeof a.un.sun_path,
			a.un.sun_path);
	}
	char **more = realloc(s->addresses, (s->n_addresses + 1) * sizeof *more);
	if (!more)
		return -ENOMEM;
	s->addresses = more;
	char *copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	s->addresses[s->n_addresses++] = copy;
	return 0;
}

const char *http_address(const struct http_server *s, unsigned i)
{
	return i < s->n_addresses ? s->addresses[i] : NULL;
}

/* Takes the fd. */
static int add_listener(struct http_server *s, int fd, struct net_tls *tls, struct listener **ret,
	struct cell_error *err)
{
	struct listener *l = calloc(1, sizeof *l);

	if (!l) {
		close(fd);
		return cell_fail_errno(err, ENOMEM, "listen");
	}
	*l = (struct listener){.s = s, .fd = fd, .tls = tls};
	int r = net_watch_new(s->loop, fd, on_listener, l, &l->watch, err);
	if (r == 0) {
		r = add_address(s, fd, tls != NULL);
		if (r < 0)
			(void)cell_fail_errno(err, -r, "listen");
	}
	if (r == 0) {
		r = net_watch_set(l->watch, NET_READABLE);
		if (r < 0)
			(void)cell_fail_errno(err, -r, "listen");
	}
	if (r < 0) {
		net_watch_free(l->watch);
		close(fd);
		free(l);
		return r;
	}
	l->next = s->listeners;
	s->listeners = l;
	if (ret)
		*ret = l;
	return 0;
}

void listeners_close(struct http_server *s)
{
	while (s->listeners) {
		struct listener *l = s->listeners;
		struct stat st;

		s->listeners = l->next;
		net_watch_free(l->watch);
		close(l->fd);
		/* Only our own: another server may have taken the name since. */
		if (l->unix_path && lstat(l->unix_path, &st) == 0 && st.st_dev == l->dev &&
			st.st_ino == l->ino)
			(void)unlink(l->unix_path);
		free(l->unix_path);
		free(l);
	}
	(void)uv_timer_stop(&s->accept_again);
}

static int listen_address(struct http_server *s, const struct sockaddr *a, socklen_t len,
	bool is_dual, struct net_tls *tls, const char *what, struct cell_error *err)
{
	const int on = 1;
	int v6_only = !is_dual;
	auto_fd int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return cell_fail_errno(err, errno, "listen on %s", what);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (a->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
	if (bind(fd, a, len) < 0 || listen(fd, BACKLOG) < 0) {
		int e = errno, r = cell_fail_errno(err, e, "listen on %s", what);
		return cell_error_hint(err, r, "%s",
			e == EADDRINUSE
				? "another program has this port: choose another, or end that one"
			: e == EACCES ? "ports below 1024 need privileges: choose a higher one, or "
					"let systemd open it"
			: e == EADDRNOTAVAIL
				? "this machine has no such address: `ip address` shows what it has"
				: "see the message above");
	}
	return add_listener(s, steal_fd(fd), tls, NULL, err);
}

int http_listen_tcp(struct http_server *s, const char *host, unsigned port, struct net_tls *tls,
	struct cell_error *err)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *all = NULL;
	char service[8], what[300];
	int r = 0, n = 0;
	bool is_any = !host || !strcmp(host, "*");

	(void)snprintf(what, sizeof what, "'%s' port %u", is_any ? "*" : host, port);
	if (port > 65535)
		return cell_fail(err, CELL_EINVAL, 0, "listen on %s: no such port", what);
	if (is_any) {
		/* One socket for both families; where there is no IPv6, one for the other. */
		union address a = {.v6 = {.sin6_family = AF_INET6,
					   .sin6_addr = IN6ADDR_ANY_INIT,
					   .sin6_port = htons((uint16_t)port)}};
		r = listen_address(s, &a.any, sizeof a.v6, true, tls, what, NULL);
		if (r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL)
			return r == 0 ? 0
				      : listen_address(s, &a.any, sizeof a.v6, true, tls, what,
						err);
		a = (union address){
			.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
		return listen_address(s, &a.any, sizeof a.v4, false, tls, what, err);
	}
	(void)snprintf(service, sizeof service, "%u", port);
	int e = getaddrinfo(host, service, &hints, &all);
	if (e != 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "listen on %s: %s", what, gai_strerror(e)),
			"give an address of this machine, as 127.0.0.1 or ::1, or * for all");
	for (struct addrinfo *a = all; a; a = a->ai_next) {
		struct cell_error why = {0};
		int k = listen_address(s, a->ai_addr, a->ai_addrlen, false, tls, what, &why);
		/* "localhost" has an IPv6 address also where the machine has none. */
		if (k < 0 && (k == -EADDRNOTAVAIL || k == -EAFNOSUPPORT) && (n > 0 || a->ai_next))
			continue;
		if (k < 0) {
			r = k;
			if (err)
				*err = why;
			break;
		}
		n++;
	}
	freeaddrinfo(all);
	if (r == 0 && n == 0)
		r = cell_fail(err, CELL_EINVAL, EADDRNOTAVAIL, "listen on %s", what);
	return r;
}

/* 0 when the name is free now; the file of a server that is gone is removed. */
static int make_room(const struct sockaddr_un *a, struct cell_error *err)
{
	struct stat st;
	auto_fd int fd = -1;

	if (lstat(a->sun_path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return cell_error_hint(err,
			cell_fail(err, CELL_EEXISTS, EEXIST, "listen on '%s': it is no socket",
				a->sun_path),
			"choose another path; nothing was removed");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cell_fail_errno(err, errno, "listen on '%s'", a->sun_path);
	if (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0 || errno != ECONNREFUSED)
		return cell_error_hint(err,
			cell_fail(err, CELL_EEXISTS, EADDRINUSE, "listen on '%s'", a->sun_path),
			"another server listens there: stop it, or choose another path");
	if (unlink(a->sun_path) < 0 && errno != ENOENT)
		return cell_fail_errno(err, errno, "remove the old socket '%s'", a->sun_path);
	return 0;
}

int http_listen_unix(struct http_server *s, const char *path, mode_t mode, struct cell_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct listener *l;
	struct stat st;
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof a.sun_path)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0,
				"listen on '%s': the path is empty or too long", path),
			"the path of a unix socket has at most %zu bytes", sizeof a.sun_path - 1);
	memcpy(a.sun_path, path, n + 1);
	int r = make_room(&a, err);
	if (r < 0)
		return r;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cell_fail_errno(err, errno, "listen on '%s'", path);
	/* The mode is set on the socket before it has a name: never, not even for a moment, does the file
	 * allow more. */
	if (fchmod(fd, mode & 0777) < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		r = cell_fail_errno(err, errno, "listen on '%s'", path);
		return cell_error_hint(err, r, "its directory must exist and be writable");
	}
	/* bind() takes the umask away from that; now nothing but our own mode counts. */
	if (chmod(a.sun_path, mode & 0777) < 0 || lstat(a.sun_path, &st) < 0 ||
		listen(fd, BACKLOG) < 0) {
		r = cell_fail_errno(err, errno, "listen on '%s'", a.sun_path);
		(void)unlink(a.sun_path);
		return r;
	}
	char *copy = strdup(path);
	if (!copy) {
		(void)unlink(path);
		return cell_fail_errno(err, ENOMEM, "listen on a unix socket");
	}
	r = add_listener(s, steal_fd(fd), NULL, &l, err);
	if (r < 0) {
		(void)unlink(path);
		free(copy);
		return r;
	}
	l->unix_path = copy;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

int http_listen_fd(struct http_server *s, int fd, struct net_tls *tls, struct cell_error *err)
{
	int is_listening = 0;
	socklen_t len = sizeof is_listening;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) < 0 || !is_listening) {
		int r = cell_fail(err, CELL_EINVAL, 0, "descriptor %d is no listening socket", fd);
		close(fd);
		return cell_error_hint(err, r,
			"in the .socket unit say ListenStream=, with Accept=no");
	}
	return add_listener(s, fd, tls, NULL, err);
}

int http_inherited_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	long n = 0;

	if (pid && fds && strtol(pid, NULL, 10) == (long)getpid())
		n = strtol(fds, NULL, 10);
	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	if (n < 0 || n > 64)
		n = 0;
	for (long i = 0; i < n; i++)
		(void)fcntl(3 + (int)i, F_SETFD, FD_CLOEXEC);
	return (int)n;
}
