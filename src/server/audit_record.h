/* SPDX-License-Identifier: Apache-2.0 */
/* audit_record.h: an event as the bytes of a line. For audit.c and its fuzzer. */
#pragma once
#include "base/buf.h"
#include "server/audit.h"

/* Appends the whole line with its newline; `hash` is that of the record before and becomes that
 * of this one. -ENOMEM. */
int audit_record_write(const struct audit_event *event, struct redact *redact, uint64_t seq,
	int64_t unix_ns, char hash[AUDIT_HASH_TEXT], struct buf *out);
