/* SPDX-License-Identifier: Apache-2.0 */
/* test_jail_freeze.c: waiting for a group that does not come to stand still, since it is gone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/jail/slot.h"
#include "base/cleanup.h"
#include "test.h"

/* A group of our own in cgroup2; "" when there can be none. */
static void make_group(char ret[300])
{
	char line[512], at[256], type[32];
	auto_file FILE *f = fopen("/proc/mounts", "re");

	*ret = '\0';
	while (f && !*ret && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%*s %255s %31s", at, type) != 2 || strcmp(type, "cgroup2") != 0)
			continue;
		(void)snprintf(ret, 300, "%s/cell-test-XXXXXX", at);
		if (!mkdtemp(ret))
			*ret = '\0';
	}
}

TEST(a_group_that_is_gone_is_not_waited_for)
{
	char group[300], path[330];

	make_group(group);
	if (!*group)
		SKIP("no cgroup2 here that we may make groups in");
	(void)snprintf(path, sizeof path, "%s/cgroup.events", group);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_EQ(rmdir(group), 0);
	ASSERT_EQ(jail_await_frozen(fd), -ENODEV);
}

TEST(a_group_without_events_is_not_waited_for)
{
	ASSERT_EQ(jail_await_frozen(-1), -EBADF);
}
