/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_json.h: a user's own system call filter, in the format Docker and the OCI runtimes read.
 *
 * Compiled by our own compiler (base/scfilter.h), the one the built-in profiles are made with, so
 * that Cell needs no libseccomp where it runs. What a profile says it means as it does there: rules
 * whose `includes` ask for capabilities do not apply, since a cell has none; a rule without
 * conditions wins over rules with some; two conditions on one argument are alternatives; rules that
 * repeat the default are passed over; calls newer than any the profile names do not exist (ENOSYS).
 *
 * In three things it is stricter. Other architectures kill, also those of `subArchitectures`.
 * Arguments the kernel takes as an int are compared by their low half: a rule "socket, argument 0
 * greater than 40" lets through every family there, to whoever sets a high bit. And a name that is
 * no system call is an error where the rule would have refused it; where it would have been allowed
 * it is passed over, since names come with kernels. SCMP_ACT_NOTIFY is refused: nobody listens.
 */
#pragma once
#include <linux/filter.h>
#include <stddef.h>

#include "cell/error.h"

#define SECCOMP_JSON_MAX_BYTES (1024u * 1024)

/* For the architecture and kernel we run on. ret->filter is to be freed. Errors say where: line and
 * column of a syntax error, else a path such as syscalls[3].args[0].op. */
int seccomp_from_json(const char *json_text, size_t len, struct sock_fprog *ret,
	struct cell_error *err);
