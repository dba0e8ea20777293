/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idempotency.h: Idempotency-Key. The same key with the same request is done once; who asks again gets the first answer, also after a
 * restart. Sessions and execs take their ids from the key, so that nothing can be made twice even when the server dies between doing
 * and remembering; all else remembers its answer here for a day.
 */
#pragma once
#include "server/call.h"

extern const struct db_module idempotency_module;

enum idempotency_verdict {
	IDEMPOTENCY_GO,	      /* do it */
	IDEMPOTENCY_ANSWERED, /* the call was answered (again, or refused) and ended */
};
/* Look at the header of a call whose body is known. */
enum idempotency_verdict idempotency_begin(struct call *c);
/* Its answer; kept when the call had a key. */
void idempotency_end(struct call *c, int status, const char *body, size_t len);
/* Forget what is older than a day. */
void idempotency_sweep(struct server *srv);

/* An id of letter + 24 of a-z2-7 made of the call's key, or random without one. */
void idempotency_id(const struct call *c, char letter, const char *scope, char ret[32]);
