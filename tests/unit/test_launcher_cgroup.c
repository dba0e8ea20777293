/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/cgroup.h"
#include "launcher/launcher.h"
#include "test.h"

struct host host;

TEST(cgroup_mounts_are_recognised)
{
	struct cgroup_mount m;

	ASSERT(cgroup_parse_mount(
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n", &m));
	ASSERT(m.is_v2);
	ASSERT_STR(m.path, "/sys/fs/cgroup/unified");
	ASSERT_STR(m.root, "/");
	ASSERT(cgroup_parse_mount("32 31 0:29 /a\\040b /sys/fs/cgroup/cpu,cpuacct rw shared:9 "
				  "master:2 - cgroup cgroup rw,cpu,cpuacct\n",
		&m));
	ASSERT(!m.is_v2);
	ASSERT_EQ(m.controllers, 1u << CG_CPU);
	ASSERT_STR(m.root, "/a b");
	ASSERT(cgroup_parse_mount("38 31 0:35 / /cg/blkio rw - cgroup cgroup rw,blkio", &m));
	ASSERT_EQ(m.controllers, 1u << CG_IO);
}

TEST(other_mounts_and_broken_lines_are_not)
{
	static const char *const lines[] = {"", "\n",
		"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
		"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd",
		"36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices",
		"41 31 0:38 / /x rw", "41 31", "41 31 0:38 / /x rw - ",
		"41 31 0:38 / /x rw - cgroup2"};
	struct cgroup_mount m;

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		ASSERT(!cgroup_parse_mount(lines[i], &m));
}

TEST(our_own_group_is_found_by_controller)
{
	char path[64];

	ASSERT(cgroup_parse_own("0::/user.slice/x\n", -1, path, sizeof path));
	ASSERT_STR(path, "/user.slice/x");
	ASSERT(!cgroup_parse_own("4:memory:/m\n", -1, path, sizeof path));
	ASSERT(cgroup_parse_own("4:memory:/m\n", CG_MEMORY, path, sizeof path));
	ASSERT_STR(path, "/m");
	ASSERT(cgroup_parse_own("3:cpuacct,cpu:/c", CG_CPU, path, sizeof path));
	ASSERT(!cgroup_parse_own("3:cpuset:/c", CG_CPU, path, sizeof path));
	ASSERT(!cgroup_parse_own("0::/", CG_CPU, path, sizeof path));
	ASSERT(!cgroup_parse_own("nonsense", -1, path, sizeof path));
	ASSERT(!cgroup_parse_own("0::relative", -1, path, sizeof path));
	ASSERT(!cgroup_parse_own("0::/much/too/long/for/the/room/that/there/is/for/it/in/here/"
				 "really",
		-1, path, 16));
}

TEST(a_group_is_placed_under_its_mount)
{
	struct cgroup_mount whole = {.path = "/cg", .root = "/"},
			    part = {.path = "/cg", .root = "/docker/1"};
	char path[64];

	ASSERT(cgroup_under_mount(&whole, "/", path, sizeof path));
	ASSERT_STR(path, "/cg");
	ASSERT(cgroup_under_mount(&whole, "/a/b", path, sizeof path));
	ASSERT_STR(path, "/cg/a/b");
	ASSERT(cgroup_under_mount(&part, "/docker/1/x", path, sizeof path));
	ASSERT_STR(path, "/cg/x");
	ASSERT(cgroup_under_mount(&part, "/docker/1", path, sizeof path));
	ASSERT_STR(path, "/cg");
	ASSERT(!cgroup_under_mount(&part, "/docker/12", path, sizeof path));
	ASSERT(!cgroup_under_mount(&part, "/", path, sizeof path));
	ASSERT(!cgroup_under_mount(&whole, "/../up", path, sizeof path));
	ASSERT(!cgroup_under_mount(&whole, "/a/b", path, 5));
}

TEST(lists_of_controllers_are_read)
{
	ASSERT_EQ(cgroup_parse_controllers("cpuset cpu io memory pids\n"),
		1u << CG_CPUSET | 1u << CG_CPU | 1u << CG_IO | 1u << CG_MEMORY | 1u << CG_PIDS);
	ASSERT_EQ(cgroup_parse_controllers(""), 0);
	ASSERT_EQ(cgroup_parse_controllers("hugetlb,misc"), 0);
}

/* What launchers do that end, one after the other. */
static pid_t start_removing(struct cgroups *cg)
{
	pid_t pid = fork();

	while (pid == 0) {
		cgroup_done(cg);
		(void)usleep(20);
	}
	return pid;
}

TEST(groups_are_found_while_others_remove_theirs)
{
	struct cgroups alone, now;
	int n_less = 0;

	if (geteuid() != 0)
		SKIP("needs root, to have a group for certain");
	cgroup_init(&alone, true);
	if (alone.v2.fd < 0 && alone.v1[CG_PIDS].fd < 0)
		SKIP("no cgroups here");
	pid_t pid = start_removing(&alone);
	for (int i = 0; i < 200; i++) {
		cgroup_init(&now, true);
		n_less += now.can != alone.can || now.v2_controllers != alone.v2_controllers;
		for (int c = -1; c < CG_COUNT; c++) {
			const struct cgroup_tree *t = c < 0 ? &now.v2 : &now.v1[c];
			close(t->fd);
			close(t->above_fd);
		}
	}
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	cgroup_done(&alone);
	ASSERT_EQ(n_less, 0);
}
