/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c: see hash.h. The functions of OpenSSL used here are called deprecated because they
 * bypass its providers; that is what they are for. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "server/hash.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/random.h>

#define BLOCK 64

void hash_sha256(const void *p, size_t n, uint8_t out[HASH_BYTES])
{
	SHA256_CTX c;

	(void)SHA256_Init(&c);
	(void)SHA256_Update(&c, p, n);
	(void)SHA256_Final(out, &c);
}

void hash_hmac(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[HASH_BYTES])
{
	uint8_t inner[BLOCK] = {0}, outer[BLOCK], middle[HASH_BYTES];
	SHA256_CTX c;

	memcpy(inner, key, key_len < BLOCK ? key_len : BLOCK);
	for (size_t i = 0; i < BLOCK; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	(void)SHA256_Init(&c);
	(void)SHA256_Update(&c, inner, BLOCK);
	(void)SHA256_Update(&c, p, n);
	(void)SHA256_Final(middle, &c);
	(void)SHA256_Init(&c);
	(void)SHA256_Update(&c, outer, BLOCK);
	(void)SHA256_Update(&c, middle, sizeof middle);
	(void)SHA256_Final(out, &c);
	OPENSSL_cleanse(inner, sizeof inner);
	OPENSSL_cleanse(outer, sizeof outer);
	OPENSSL_cleanse(&c, sizeof c);
}

bool hash_is_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

int hash_random(void *out, size_t n)
{
	ssize_t got;

	do
		got = getrandom(out, n, 0);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : (size_t)got == n ? 0 : -EIO;
}

void hash_hex(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}
