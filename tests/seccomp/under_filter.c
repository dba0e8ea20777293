/* SPDX-License-Identifier: Apache-2.0 */
/*
 * under_filter.c: runs a command under a built-in system call filter and nothing else of a jail.
 *
 *	under_filter PROFILE|none COMMAND [ARGUMENT...]
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launcher/seccomp_profiles.h"

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "none") != 0) {
		const struct sock_fprog *p = seccomp_profile(argv[1]);
		int r = -ENOENT;
		if (p && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
			r = seccomp_load(p);
		if (r < 0) {
			(void)fprintf(stderr, "filter '%s': %s\n", argv[1], strerror(-r));
			return 125;
		}
	}
	execvp(argv[2], argv + 2);
	(void)fprintf(stderr, "exec '%s': %s\n", argv[2], strerror(errno));
	return 127;
}
