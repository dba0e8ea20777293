/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h: the one error type of the whole tree.
 *
 * A function that can fail returns 0 (or something positive) on success and a negative errno on
 * failure, and, when it has more to say, fills *err. `err` is always the last parameter, may be
 * NULL, is untouched on success, and is never read by the callee.
 */
#ifndef CELL_ERROR_H
#define CELL_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What kind of failure it is. Stable numbers: they travel over the wire and into SDKs. */
enum cell_code {
	CELL_OK = 0,
	CELL_EINVAL = 1,     /* the request is malformed                       HTTP 400 */
	CELL_EDENIED = 2,    /* policy, credentials or a wall forbid it        HTTP 403 */
	CELL_ENOTFOUND = 3,  /* no such cell, exec, file, back end             HTTP 404 */
	CELL_EEXISTS = 4,    /* the name is taken                              HTTP 409 */
	CELL_EBUSY = 5,	     /* wrong state for this call                      HTTP 409 */
	CELL_ETIMEOUT = 6,   /* the deadline passed                            HTTP 504 */
	CELL_ENOTSUP = 7,    /* the back end cannot promise that               HTTP 501 */
	CELL_EBACKEND = 8,   /* the engine or the kernel failed us             HTTP 502 */
	CELL_EINTERNAL = 9,  /* our bug                                        HTTP 500 */
	CELL_EGONE = 10,     /* the guest or its cell died                     HTTP 410 */
	CELL_ELIMIT = 11,    /* a limit or quota is reached                    HTTP 429 */
	CELL_ENOSPACE = 12,  /* the disk (or memory) is full                   HTTP 507 */
	CELL_EPROTOCOL = 13, /* the peer broke the protocol                    HTTP 502 */
	CELL_CODE_COUNT
};

/* An error never allocates, so running out of memory can be reported like anything else. */
struct cell_error {
	enum cell_code code;
	int sys_errno;	  /* 0 if none */
	char msg[400];	  /* what was attempted and what went wrong */
	char hint[300];	  /* what would help; empty if nothing is known to */
	char backend[32]; /* which back end, when one was involved */
};

/* "invalid", "denied", "not_found", ...: the word used in JSON. Never NULL. */
const char *cell_code_name(enum cell_code code);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
