/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hpack.h: the header blocks of HTTP/2 (RFC 7541), as far as a client without a table needs them. It announces
 * SETTINGS_HEADER_TABLE_SIZE 0, so no block refers to an earlier one. Of the static table only :status is told: what else a server
 * says in its words is not asked for. Pure.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define HPACK_NAME_MAX	64u
#define HPACK_VALUE_MAX 1024u /* longer ones are cut */

/* 0, -EPROTO for what is no header block, or what fn said. */
typedef int (*hpack_fn)(void *user, const char *name, const char *value);
int hpack_decode(const uint8_t *p, size_t n, hpack_fn fn, void *user);

/* A field, never indexed and not compressed; the name in small letters. */
int hpack_add(struct buf *b, const char *name, const char *value);
