/* SPDX-License-Identifier: Apache-2.0 */
/* fds.c: see fds.h. */
#include "launcher/fds.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/sys.h"

/* What is open says /proc. Numbers are collected in rounds: closing while listing may skip some. */
static int close_listed(unsigned first, unsigned last)
{
	unsigned found[256], n;

	do {
		auto_dir DIR *d = opendir("/proc/self/fd");

		if (!d)
			return -1;
		n = 0;
		for (struct dirent *e; n < 256 && (e = readdir(d));) {
			char *end;
			unsigned long fd = strtoul(e->d_name, &end, 10);

			if (end != e->d_name && !*end && fd >= first && fd <= last &&
				fd != (unsigned long)dirfd(d))
				found[n++] = (unsigned)fd;
		}
		for (unsigned i = 0; i < n; i++)
			(void)close((int)found[i]);
	} while (n == 256);
	return 0;
}

void fds_close(unsigned first, unsigned last)
{
	struct rlimit files;

	if (sys_close_range(first, last, 0) == 0)
		return;
	/* Linux before 5.9, and containers whose filter does not know close_range (Docker before
	 * 20.10.10). A number above the limit cannot have been opened: the launcher has raised its own
	 * to the hard one before it opened anything */
	if (close_listed(first, last) == 0)
		return;
	unsigned end = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < 1u << 20
			       ? (unsigned)files.rlim_max
			       : 1u << 20;
	for (unsigned fd = first; fd < end && fd <= last; fd++)
		(void)close((int)fd);
}
