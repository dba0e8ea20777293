/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h: certificates for listeners. TLS 1.2 and later, ALPN http/1.1, renegotiation and compression
 * off.
 */
#pragma once
#include "cell/error.h"

struct net_tls;
struct ssl_ctx_st;

/* Loads a PEM chain (the server's own certificate first) and its private key. An error says which
 * file, what is wrong with it (missing, no PEM, key does not belong to the certificate, expired is
 * accepted) and what would help. */
int net_tls_new(const char *cert_file, const char *key_file, struct net_tls **ret,
	struct cell_error *err);

/* Reads both files again. New connections use the new certificate; on failure the old one stays in
 * use. On the loop's thread. */
int net_tls_reload(struct net_tls *t, struct cell_error *err);

/* Connections that use it stay alive. NULL is fine. */
void net_tls_free(struct net_tls *t);

/* When the certificate in use ends, in seconds since 1970; 0 if unknown. */
long long net_tls_not_after(const struct net_tls *t);

struct ssl_ctx_st *net_tls_ctx(struct net_tls *t); /* borrowed */
