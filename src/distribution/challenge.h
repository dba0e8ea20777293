/* SPDX-License-Identifier: Apache-2.0 */
/* challenge.h: WWW-Authenticate: what a registry wants to see before it answers. Pure. */
#pragma once
#include <stdbool.h>

struct challenge {
	bool is_bearer; /* else Basic */
	char realm[1024], service[256], scope[512];
};

/* The first challenge of the header that we can answer. False: there is none. */
bool challenge_parse(const char *header, struct challenge *ret);
