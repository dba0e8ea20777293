/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

#define RECORD_BYTES 16384 /* of TLS */

int net_stream_init(struct net_stream *s, int fd, struct ssl_ctx_st *ctx, bool is_server,
	const char *server_name, struct cell_error *err)
{
	*s = (struct net_stream){.fd = fd, .is_handshaken = !ctx};
	if (!ctx)
		return 0;
	s->ssl = SSL_new(ctx);
	if (!s->ssl || SSL_set_fd(s->ssl, fd) != 1)
		goto failed;
	if (is_server) {
		SSL_set_accept_state(s->ssl);
	} else {
		SSL_set_connect_state(s->ssl);
		/* An address is checked as one and not sent as a name. */
		if (server_name &&
			X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), server_name) != 1 &&
			(SSL_set1_host(s->ssl, server_name) != 1 ||
				SSL_set_tlsext_host_name(s->ssl, (char *)(uintptr_t)server_name) !=
					1))
			goto failed;
	}
	ERR_clear_error();
	return 0;
failed:
	SSL_free(s->ssl);
	s->ssl = NULL;
	ERR_clear_error();
	return cell_fail_errno(err, ENOMEM, "prepare a TLS connection");
}

void net_stream_done(struct net_stream *s)
{
	SSL_free(s->ssl);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct net_stream){.fd = -1};
}

/* What a TLS call that returned r says, as an errno; notes which direction it waits for. */
static int tls_errno(struct net_stream *s, int r, bool is_reading)
{
	int saved = errno;

	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		s->write_needs_read = !is_reading;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->read_needs_write = is_reading;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return saved ? -saved : -ECONNRESET;
	default:
		return -EPROTO;
	}
}

int net_stream_handshake(struct net_stream *s, struct cell_error *err)
{
	if (s->is_handshaken)
		return 0;
	ERR_clear_error();
	s->read_needs_write = false;
	errno = 0;
	int r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		s->is_handshaken = true;
		return 0;
	}
	r = tls_errno(s, r, true);
	if (r == -EAGAIN)
		return r;
	long verified = SSL_get_verify_result(s->ssl);
	unsigned long e = ERR_peek_error();
	bool is_plain = ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) == SSL_R_HTTP_REQUEST;
	const char *why = ERR_reason_error_string(e);
	if (verified != X509_V_OK)
		(void)cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0, "its certificate is not accepted: %s",
				X509_verify_cert_error_string(verified)),
			"name the authority that signed it (--ca-file), or have it signed by a "
			"known one");
	else
		(void)cell_fail(err, CELL_EPROTOCOL, 0, "the TLS handshake failed: %s",
			why ? why : "the connection was closed");
	ERR_clear_error();
	return is_plain ? -EPROTOTYPE : -EPROTO;
}

ssize_t net_stream_read(struct net_stream *s, void *p, size_t n)
{
	ssize_t r;

	if (!s->ssl) {
		do
			r = recv(s->fd, p, n, 0);
		while (r < 0 && errno == EINTR);
		return r < 0 ? -errno : r;
	}
	ERR_clear_error();
	s->read_needs_write = false;
	errno = 0;
	int k = SSL_read(s->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n);
	return k > 0 ? k : tls_errno(s, k, true);
}

/* TLS takes one buffer: small pieces are put together so that a head and its body are one record. */
static ssize_t tls_write(struct net_stream *s, const struct iovec *iov, int n)
{
	char together[RECORD_BYTES];
	const char *p = iov[0].iov_base;
	size_t len = iov[0].iov_len, k = 0;

	if (n > 1 && len < sizeof together) {
		for (int i = 0; i < n && k < sizeof together; i++) {
			size_t more = iov[i].iov_len;
			if (more > sizeof together - k)
				more = sizeof together - k;
			memcpy(together + k, iov[i].iov_base, more);
			k += more;
		}
		p = together;
		len = k;
	}
	if (len == 0)
		return 0;
	if (len > RECORD_BYTES)
		len = RECORD_BYTES;
	ERR_clear_error();
	s->write_needs_read = false;
	errno = 0;
	int r = SSL_write(s->ssl, p, (int)len);
	if (r > 0)
		return r;
	r = tls_errno(s, r, false);
	return r == 0 ? -EPIPE : r;
}

ssize_t net_stream_write(struct net_stream *s, const struct iovec *iov, int n)
{
	ssize_t r;

	if (s->ssl)
		return tls_write(s, iov, n);
	struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
	do
		r = sendmsg(s->fd, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

bool net_stream_has_pending(const struct net_stream *s)
{
	return s->ssl && SSL_has_pending(s->ssl);
}

void net_stream_finish(struct net_stream *s)
{
	if (s->ssl && s->is_handshaken) {
		ERR_clear_error();
		(void)SSL_shutdown(s->ssl);
		ERR_clear_error();
	}
	(void)shutdown(s->fd, SHUT_WR);
}
