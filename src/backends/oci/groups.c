/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.c: where a container may have cgroups. Root's runtime makes them below the root of every hierarchy. An ordinary user's makes one in the
 * part of version 2's tree that was delegated to the user, where there is one: in version 1 nothing can be.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/cgroup2.h"
#include "base/cleanup.h"

#define MOUNT "/sys/fs/cgroup"

/* Our own group's directory. False: in none that is in our sight. */
static bool find_own(char *ret, size_t size)
{
	auto_file FILE *f = fopen("/proc/self/cgroup", "re");
	char line[OCI_GROUP_PATH];
	int n = 0;

	while (f && n == 0 && fgets(line, sizeof line, f))
		if (!strncmp(line, "0::/", 4) && !strstr(line, "/.."))
			n = snprintf(ret, size, MOUNT "%.*s", (int)strcspn(line + 3, "\n"),
				line + 3);
	return n > 0 && (size_t)n < size;
}

static void find_delegated(struct oci_groups *ret)
{
	struct statfs fs;
	char own[OCI_GROUP_PATH];

	if (statfs(MOUNT, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC ||
		!find_own(own, sizeof own) ||
		!cgroup2_find_top(own, sizeof MOUNT - 1, ret->dir, sizeof ret->dir))
		return;
	auto_fd int fd = open(ret->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* what is in our own group can be moved aside */
	if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ||
		(strcmp(own, ret->dir) != 0 && cgroup2_is_in_the_way(fd)))
		return;
	ret->is_there = true;
	ret->has_memory = cgroup2_has(fd, "memory");
	ret->has_cpu = cgroup2_has(fd, "cpu");
	ret->has_pids = cgroup2_has(fd, "pids");
}

void oci_groups_find(struct oci_groups *ret)
{
	bool is_root = geteuid() == 0;

	*ret = (struct oci_groups){.is_there = is_root,
		.has_memory = is_root,
		.has_cpu = is_root,
		.has_pids = is_root};
	if (!is_root)
		find_delegated(ret);
}

void oci_groups_begin(const struct oci_groups *g)
{
	auto_fd int fd =
		g->is_there && *g->dir ? open(g->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	if (cgroup2_is_in_the_way(fd))
		cgroup2_step_aside(fd);
	if (!cgroup2_is_in_the_way(fd))
		cgroup2_hand_down(fd);
}

const char *oci_groups_name(const struct oci_groups *g, const char *id, char *ret, size_t size)
{
	int n = snprintf(ret, size, "%s/" OCI_GROUP "%s", *g->dir ? g->dir + sizeof MOUNT - 1 : "",
		id);

	return n > 0 && (size_t)n < size ? ret : NULL;
}
