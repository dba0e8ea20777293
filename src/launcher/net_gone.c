/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_gone.c: marks (net_host.c) of network namespaces that are no more. The rules ended with their
 * namespace, as those of a container do; only the file that spoke of them is left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/net.h"

#define FIRST_PID_NS \
	0xEFFFFFFCu /* the number of the machine's first pid namespace, on every kernel */

static bool is_mounted(uint64_t ns_id)
{
	char line[1024], part[48];
	auto_file FILE *f = fopen("/proc/1/mountinfo", "re");

	(void)snprintf(part, sizeof part, " net:[%" PRIu64 "] ", ns_id);
	while (f && fgets(line, sizeof line, f))
		if (strstr(line, part))
			return true;
	return !f;
}

/* true when that cannot be said: of a process that may do more than we may. But the first one is where the
 * kernel's own threads are. */
static bool is_anybodys(uint64_t ns_id)
{
	auto_dir DIR *d = opendir("/proc");
	struct stat st;

	for (struct dirent *e; d && (e = readdir(d));) {
		char path[40];

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		(void)snprintf(path, sizeof path, "/proc/%.12s/ns/net", e->d_name);
		if (stat(path, &st) == 0 ? st.st_ino == ns_id
					 : errno == EACCES && strcmp(e->d_name, "1") != 0)
			return true;
	}
	return !d || is_mounted(ns_id);
}

/* Only who sees every process of the machine can say that a namespace is nobody's. */
static bool sees_all(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == FIRST_PID_NS;
}

void net_forget_gone(uint64_t own_id)
{
	int copy = openat(host.slots_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);

	for (struct dirent *e; d && (e = readdir(d));) {
		uint64_t ns_id = 0;
		char end;

		if (sscanf(e->d_name, NET_MARK "%" SCNu64 "%c", &ns_id, &end) == 1 &&
			ns_id != own_id && sees_all() && !is_anybodys(ns_id))
			(void)unlinkat(host.slots_fd, e->d_name, 0);
	}
}
