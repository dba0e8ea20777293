/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h: where and why making a cell failed; travels from the first process to the client. */
#pragma once
#include <stdint.h>

#include "launcher/request.h"

struct failure {
	uint16_t step; /* enum launcher_step */
	int32_t sys_errno;
	char text[160];
};

/* Fill *f (may be NULL) and return -1. `what` and `name` are joined: "open '/x'". errno is taken. */
int fail(struct failure *f, enum launcher_step step, const char *what, const char *name);
int fail_with(struct failure *f, enum launcher_step step, int sys_errno, const char *what,
	const char *name);
