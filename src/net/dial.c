/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ASK_MS 200 /* how often is_cancelled is asked */

uint64_t dial_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int dial_wait_for(int fd, short events, const struct dial_wait *w)
{
	uint64_t begin_ms = dial_now_ms();

	for (;;) {
		uint64_t now_ms = dial_now_ms(), until_ms = w->deadline_ms;
		int wait_ms = -1;

		if (w->is_cancelled && w->is_cancelled(w->arg))
			return -EINTR;
		if (w->stall_ms && (!until_ms || begin_ms + w->stall_ms < until_ms))
			until_ms = begin_ms + w->stall_ms;
		if (until_ms && now_ms >= until_ms)
			return -ETIMEDOUT;
		if (until_ms)
			wait_ms = until_ms - now_ms > 60000 ? 60000 : (int)(until_ms - now_ms);
		if (w->is_cancelled && (wait_ms < 0 || wait_ms > ASK_MS))
			wait_ms = ASK_MS;
		struct pollfd p = {.fd = fd, .events = events};
		int n = poll(&p, 1, wait_ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* --- TLS --- */

int dial_tls(const char *ca_file, bool is_insecure, struct ssl_ctx_st **ret, struct cell_error *err)
{
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (!ctx)
		return cell_fail_errno(err, ENOMEM, "prepare TLS");
	(void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_verify(ctx, is_insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	int is_ok = ca_file ? SSL_CTX_load_verify_file(ctx, ca_file)
			    : SSL_CTX_set_default_verify_paths(ctx);
	if (is_ok != 1 && !is_insecure) {
		const char *why = ERR_reason_error_string(ERR_peek_last_error());
		int r = ca_file && access(ca_file, R_OK) < 0
				? cell_fail_errno(err, errno, "read the certificates in '%s'",
					  ca_file)
				: cell_fail(err, CELL_EINVAL, 0,
					  "read the certificates in '%s': %s",
					  ca_file ? ca_file : "the system's store",
					  why ? why : "not usable");
		ERR_clear_error();
		SSL_CTX_free(ctx);
		return cell_error_hint(err, r, "give a PEM file of certificates");
	}
	ERR_clear_error();
	*ret = ctx;
	return 0;
}

int dial_tls_identity(struct ssl_ctx_st *ctx, const char *cert_file, const char *key_file,
	struct cell_error *err)
{
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) == 1 &&
		SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) == 1)
		return 0;
	const char *why = ERR_reason_error_string(ERR_peek_last_error());
	int r = cell_fail(err, CELL_EINVAL, 0, "read our certificate '%s' and its key '%s': %s",
		cert_file, key_file, why ? why : "not usable");

	ERR_clear_error();
	return cell_error_hint(err, r, "both are PEM files, and belong together");
}

void dial_tls_free(struct ssl_ctx_st *ctx)
{
	SSL_CTX_free(ctx);
}

static int shake_hands(struct net_stream *s, const struct dial_wait *w, struct cell_error *err)
{
	for (;;) {
		int r = net_stream_handshake(s, err);
		if (r != -EAGAIN)
			return r;
		r = dial_wait_for(s->fd, s->read_needs_write ? POLLOUT : POLLIN, w);
		if (r < 0)
			return cell_fail_errno(err, -r, "wait for its TLS handshake");
	}
}

/* --- connecting --- */

static int connect_to(const struct sockaddr *a, socklen_t len, const struct dial_wait *w)
{
	const int on = 1;
	int e = 0;
	socklen_t e_len = sizeof e;
	auto_fd int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (a->sa_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	while (connect(fd, a, len) < 0) {
		if (errno == EAGAIN && a->sa_family == AF_UNIX) {
			/* Its queue is full; there is nothing to poll for. */
			(void)poll(NULL, 0, 10);
			int r = w->deadline_ms && dial_now_ms() >= w->deadline_ms ? -ETIMEDOUT
				: w->is_cancelled && w->is_cancelled(w->arg)	  ? -EINTR
										  : 0;
			if (r < 0)
				return r;
			continue;
		}
		if (errno != EINPROGRESS && errno != EINTR)
			return -errno;
		int r = dial_wait_for(fd, POLLOUT, w);
		if (r < 0)
			return r;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &e_len) < 0)
			return -errno;
		if (e)
			return -e;
		break;
	}
	return steal_fd(fd);
}

static int connect_tcp(const struct net_url *url, const struct dial_wait *w, struct cell_error *err)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
	struct addrinfo *all = NULL;
	char port[8];
	int fd = -ENOENT;

	(void)snprintf(port, sizeof port, "%u", url->port);
	int e = getaddrinfo(url->host, port, &hints, &all);
	if (e == EAI_NONAME || e == EAI_ADDRFAMILY) {
		/* Numeric addresses work also where no interface has such an address. */
		hints.ai_flags = AI_NUMERICSERV;
		e = getaddrinfo(url->host, port, &hints, &all);
	}
	if (e != 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EBACKEND, ENOENT, "find the address of '%s': %s",
				url->host, gai_strerror(e)),
			"check the spelling of the host name");
	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = connect_to(a->ai_addr, a->ai_addrlen, w);
		if (fd == -EINTR || fd == -ETIMEDOUT)
			break;
	}
	freeaddrinfo(all);
	return fd;
}

static int connect_any(const struct net_url *url, const struct dial_wait *w, struct cell_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (url->scheme != NET_UNIX)
		return connect_tcp(url, w, err);
	size_t n = strlen(url->host);
	if (n >= sizeof a.sun_path)
		return -ENAMETOOLONG;
	memcpy(a.sun_path, url->host, n + 1);
	return connect_to((struct sockaddr *)&a, sizeof a, w);
}

int dial(const struct net_url *url, struct ssl_ctx_st *ctx, const struct dial_wait *w,
	struct net_stream *ret, struct cell_error *err)
{
	struct cell_error why = {0};
	const char *name = url->scheme == NET_UNIX ? url->host : url->authority;
	int fd = connect_any(url, w, &why);

	if (fd < 0) {
		if (why.msg[0]) {
			if (err)
				*err = why;
			return fd;
		}
		int r = cell_fail(err,
			fd == -ETIMEDOUT ? CELL_ETIMEOUT
			: fd == -EACCES	 ? CELL_EDENIED
			: fd == -EINTR	 ? CELL_EBUSY
					 : CELL_EBACKEND,
			-fd, "connect to '%s'", name);
		return cell_error_hint(err, r, "%s",
			fd == -EACCES
				? "you may not use this socket: ask its owner, or use another user"
			: fd == -EINTR ? "it was interrupted"
				       : "is a server running there? Start one with `cell serve`, "
					 "or give another --server");
	}
	int r = net_stream_init(ret, fd, ctx, false, url->host, err);
	if (r < 0) {
		close(fd);
		return r;
	}
	r = shake_hands(ret, w, err);
	if (r < 0) {
		(void)cell_error_prefix(err, r, "connect to '%s'", name);
		net_stream_done(ret);
	}
	return r == -EPROTOTYPE ? -EPROTO : r;
}

/* --- bytes --- */

ssize_t dial_read(struct net_stream *s, void *p, size_t n, const struct dial_wait *w)
{
	for (;;) {
		ssize_t r = net_stream_read(s, p, n);
		if (r != -EAGAIN)
			return r;
		int k = dial_wait_for(s->fd, s->read_needs_write ? POLLOUT : POLLIN, w);
		if (k < 0)
			return k;
	}
}

int dial_write(struct net_stream *s, const void *p, size_t n, const struct dial_wait *w)
{
	const char *at = p;

	while (n > 0) {
		struct iovec iov = {(void *)(uintptr_t)at, n};
		ssize_t r = net_stream_write(s, &iov, 1);
		if (r == -EAGAIN)
			r = dial_wait_for(s->fd, s->write_needs_read ? POLLIN : POLLOUT, w);
		if (r < 0)
			return (int)r;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}
