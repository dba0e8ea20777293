/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redact.h: secrets out of what is written down. Applied to everything that goes into the audit
 * log, before it is hashed. Redacted are
 *
 *	values under a name that says secret: PASSWORD=x, {"api_key": "x"}, --token x,
 *	--password=x, -u me:x
 *	credentials by their form: Bearer x, Basic x, scheme://user:x@host, PEM private keys,
 *	JWTs, cell_<id>_<secret>, and the
 *	forms well-known services give their keys (ghp_, sk-, AKIA...)
 *	words that match a configured pattern (a regular expression, base/ere.h)
 *
 * Better too much than too little: what is left is for reading, not for running again.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"

#define REDACTED     "***"
#define REDACT_RULES 64 /* patterns at most */

struct redact;
/* `patterns` is NULL-terminated and may be NULL. CELL_EINVAL names the pattern that is none. */
int redact_new(const char *const *patterns, struct redact **ret, struct cell_error *err);
void redact_free(struct redact *r);

/* A line of text: a command line, a header, a message. Appends to out. r may be NULL: no
 * patterns. Thread-safe. */
int redact_text(struct redact *r, const char *text, struct buf *out);
/* A value and all below it, in place: names of objects count as names of secrets, an array of
 * texts is taken for an argv. -ENOMEM. */
int redact_json(struct redact *r, json_t *value);
