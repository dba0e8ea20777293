/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h: SHA-256, HMAC and random bytes that cannot fail half-way. OpenSSL's one-call functions
 * allocate, and a digest that was not computed for want of memory looks like one of zeros: two of
 * those are equal, which must never decide who may come in. Nothing here allocates.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_BYTES 32

void hash_sha256(const void *p, size_t n, uint8_t out[HASH_BYTES]);
/* HMAC-SHA-256 (RFC 2104). The key has at most 64 bytes. */
void hash_hmac(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[HASH_BYTES]);
/* Takes the same time wherever they differ. */
bool hash_is_equal(const void *a, const void *b, size_t n);
/* From the kernel; -EIO or another errno. */
int hash_random(void *out, size_t n);
/* 2 * n digits, lower case, and NUL. */
void hash_hex(const uint8_t *p, size_t n, char *out);
