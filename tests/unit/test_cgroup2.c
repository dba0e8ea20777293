/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of cgroup2's tree is ours, on directories that look like it. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup2.h"
#include "scratch.h"

static void put(const char *path, const char *text)
{
	int fd = open(scratch_path("%s", path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT(fd >= 0);
	ASSERT_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void make_group(const char *path, bool is_ours)
{
	char procs[200];

	ASSERT_EQ(mkdir(scratch_path("%s", path), 0700), 0);
	(void)snprintf(procs, sizeof procs, "%s/cgroup.procs", path);
	if (is_ours)
		put(procs, "");
}

static const char *top_of(const char *own, const char *mount)
{
	static char top[300];
	char path[300];
	size_t floor = strlen(scratch_path("%s", mount));

	(void)snprintf(path, sizeof path, "%s", scratch_path("%s", own));
	return cgroup2_find_top(path, floor, top, sizeof top) ? top + floor : "none";
}

TEST(the_highest_group_that_is_ours_is_the_top)
{
	scratch_make();
	make_group("fs", true); /* the mount itself is nobody's to use */
	make_group("fs/a", false);
	make_group("fs/a/b", true);
	make_group("fs/a/b/c", true);
	make_group("fs/x", true);
	ASSERT_STR(top_of("fs/a/b/c", "fs"), "/a/b");
	ASSERT_STR(top_of("fs/a/b", "fs"), "/a/b");
	ASSERT_STR(top_of("fs/a", "fs"), "none");
	ASSERT_STR(top_of("fs/x", "fs"), "/x");
	ASSERT_STR(top_of("fs", "fs"), "none");
	ASSERT_STR(top_of("fs/not-there", "fs"), "none");
}

TEST(a_path_that_is_too_long_has_no_top)
{
	char small[8], path[5000];

	memset(path, 'a', sizeof path);
	path[0] = '/';
	path[sizeof path - 1] = '\0';
	ASSERT(!cgroup2_find_top("/proc/self/task", 0, small, sizeof small));
	ASSERT_STR(small, "");
	ASSERT(!cgroup2_find_top(path, 0, path + 1, sizeof path - 1));
}

TEST(controllers_are_found_by_whole_words)
{
	scratch_make();
	make_group("g", true);
	int fd = open(scratch_path("g"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT(!cgroup2_has(fd, "cpu")); /* no such file */
	put("g/cgroup.controllers", "cpuset memory pids\n");
	ASSERT(cgroup2_has(fd, "memory"));
	ASSERT(cgroup2_has(fd, "pids"));
	ASSERT(cgroup2_has(fd, "cpuset"));
	ASSERT(!cgroup2_has(fd, "cpu"));
	ASSERT(!cgroup2_has(fd, ""));
	close(fd);
}
