/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stir.c: the time that runtimes lose at cgroups. Before a process may change its group the kernel waits until every processor has been
 * through a quiet moment, some 10 ms, and for those who come within a short time after it has nothing to wait for. That a runtime's program has
 * to start takes as long. So the wait begins before it: our own process moves to where it is.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/cleanup.h"

/* The file of one line of /proc/self/cgroup, "N:WHICH:PATH", opened for writing; negative: we do not see it, or may not. */
static int open_group(char *line)
{
	char *which = strchr(line, ':'), *path = which ? strchr(which + 1, ':') : NULL;
	char file[PATH_MAX];

	if (!path)
		return -1;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	which += 1 + (strncmp(which + 1, "name=", 5) ? 0 : 5);
	/* version 2 has no word; beside version 1 it is below it */
	for (const char *const *in = (const char *const[]){which, *which ? NULL : "unified", NULL};
		*in; in++) {
		(void)snprintf(file, sizeof file, "/sys/fs/cgroup/%s%s/cgroup.procs", *in, path);
		int fd = open(file, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static void *move(void *arg)
{
	int fd = (int)(intptr_t)arg;

	(void)!write(fd, "0", 1);
	close(fd);
	return NULL;
}

void oci_stir(struct oci_aside *s)
{
	auto_file FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	int fd = -1;

	while (fd < 0 && f && fgets(line, sizeof line, f))
		fd = open_group(line);
	if (fd >= 0 && !oci_aside(s, move, (void *)(intptr_t)fd))
		close(fd);
}
