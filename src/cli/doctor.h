/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h: one look at this machine at a time. cmd_doctor.c prints what they find. */
#pragma once
#include <stddef.h>

enum cli_health {
	CLI_HEALTH_OK,
	CLI_HEALTH_WARN, /* something will not be possible */
	CLI_HEALTH_BAD,	 /* Cell does not work so */
};

struct cli_check {
	const char *name;
	enum cli_health health;
	char detail[200];
	char fix[200]; /* one command, or empty */
};

/* Every look of doctor_system.c, in order. Returns how many were written, at most `max`. */
size_t cli_doctor_system(struct cli_check *ret, size_t max);
