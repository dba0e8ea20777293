/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

struct net_tls {
	SSL_CTX *ctx;
	char *cert_file, *key_file;
};

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* A message with OpenSSL's reason, and the hint. */
static int tls_fail(struct cell_error *err, const char *what, const char *file, const char *hint)
{
	unsigned long e = ERR_peek_error();
	const char *why = ERR_reason_error_string(e);
	int r;

	if (access(file, R_OK) < 0)
		r = cell_fail_errno(err, errno, "read the %s '%s'", what, file);
	else
		r = cell_fail(err, CELL_EINVAL, 0, "read the %s '%s': %s", what, file,
			why ? why : "not usable");
	ERR_clear_error();
	return cell_error_hint(err, r, "%s", hint);
}

/* A key that asks for a passphrase would stop the server at a prompt. */
static int no_passphrase(char *p, int n, int is_writing, void *arg)
{
	(void)p;
	(void)n;
	(void)is_writing;
	(void)arg;
	return 0;
}

static int load(const char *cert_file, const char *key_file, SSL_CTX **ret, struct cell_error *err)
{
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int r;

	if (!ctx)
		return cell_fail_errno(err, ENOMEM, "prepare TLS");
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		r = cell_fail(err, CELL_EINTERNAL, 0, "prepare TLS 1.2");
	else if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
		r = tls_fail(err, "certificate", cert_file,
			"give a PEM file with the server's certificate first, then those between "
			"it and its authority");
	else if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1)
		r = tls_fail(err, "private key", key_file,
			"give the PEM file of the key, without a passphrase, that belongs to the "
			"certificate");
	else if (SSL_CTX_check_private_key(ctx) != 1)
		r = tls_fail(err, "private key", key_file,
			"it does not belong to the certificate: renew both together");
	else {
		*ret = ctx;
		return 0;
	}
	SSL_CTX_free(ctx);
	return r;
}

int net_tls_new(const char *cert_file, const char *key_file, struct net_tls **ret,
	struct cell_error *err)
{
	struct net_tls *t = calloc(1, sizeof *t);

	if (!t || !(t->cert_file = strdup(cert_file)) || !(t->key_file = strdup(key_file))) {
		net_tls_free(t);
		return cell_fail_errno(err, ENOMEM, "prepare TLS");
	}
	int r = load(cert_file, key_file, &t->ctx, err);
	if (r < 0) {
		net_tls_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

int net_tls_reload(struct net_tls *t, struct cell_error *err)
{
	SSL_CTX *ctx;
	int r = load(t->cert_file, t->key_file, &ctx, err);

	if (r < 0)
		return r;
	SSL_CTX_free(t->ctx); /* connections hold it as long as they need it */
	t->ctx = ctx;
	return 0;
}

void net_tls_free(struct net_tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	free(t->cert_file);
	free(t->key_file);
	free(t);
}

long long net_tls_not_after(const struct net_tls *t)
{
	X509 *cert = SSL_CTX_get0_certificate(t->ctx);
	struct tm tm;

	if (!cert || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1)
		return 0;
	return timegm(&tm);
}

struct ssl_ctx_st *net_tls_ctx(struct net_tls *t)
{
	return t->ctx;
}
