/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h: SHA-256 and how OCI writes it. The plain functions of libcrypto, which can be linked in
 * alone: the rest of it would be paid for at every start of the command. */
#pragma once
#define OPENSSL_API_COMPAT 10101
#include <openssl/sha.h>
#include <stdbool.h>
#include <stddef.h>

#define DIGEST_HEX 64

struct digest {
	SHA256_CTX ctx;
};

void digest_init(struct digest *d);
void digest_add(struct digest *d, const void *p, size_t n);
void digest_hex(struct digest *d, char ret[DIGEST_HEX + 1]);

/* The hex digits of "sha256:<64 lower-case hex digits>"; NULL when it is anything else. */
const char *digest_parse(const char *text);
bool digest_is_hex(const char *text); /* exactly 64 lower-case hex digits */
