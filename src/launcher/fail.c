/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fail.h"

#include <errno.h>
#include <stdio.h>

int fail_with(struct failure *f, enum launcher_step step, int sys_errno, const char *what,
	const char *name)
{
	if (f) {
		f->step = (uint16_t)step;
		f->sys_errno = sys_errno;
		(void)snprintf(f->text, sizeof f->text, name ? "%s '%.100s'" : "%s", what, name);
	}
	errno = sys_errno;
	return -1;
}

int fail(struct failure *f, enum launcher_step step, const char *what, const char *name)
{
	return fail_with(f, step, errno, what, name);
}
