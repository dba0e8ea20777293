/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attempt.h: a way out, tried. The program `attempt NAME [ARG]` tries one and says what came of it; it
 * is run outside of a cell too, where the same attempt has to succeed, or the refusal proves nothing.
 */
#pragma once

enum result {
	DID_IT = 10,  /* exit status: it worked */
	REFUSED = 11, /* it did not */
	CANNOT = 12,  /* this machine does not have what it takes */
};

struct attempt {
	const char *name;
	enum result (*fn)(const char *arg);
};
extern const struct attempt attempts_files[], attempts_kernel[], attempts_limits[], attempts_net[],
	attempts_shared[];

/* A syscall's outcome: DID_IT when it worked; CANNOT for errors that say the kernel does not have it at
 * all, which inside a cell count as a refusal. */
enum result outcome(long r);
/* Says what was found, for the log. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
