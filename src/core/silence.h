/* SPDX-License-Identifier: Apache-2.0 */
/* silence.h: a service of others that does not answer, in words: who, where, and what would help. */
#pragma once
#include "base/error.h"

struct silence {
	const char *who;    /* "Docker engine" */
	const char *where;  /* its address */
	const char *fix;    /* how it is started, or found */
	const char *denied; /* who may use it */
};
/* r: how connecting or speaking to it failed, with *err saying so. Never -ENOENT afterwards: that would be an answer. */
int silence_explain(const struct silence *s, int r, struct cell_error *err);
