/* SPDX-License-Identifier: Apache-2.0 */
/* test_jail_explain.c: from a failed step and this machine's settings to the blocker and what lifts it.
 * The settings are files of the test's own; what can be put in the way for real is tests/doctor's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/jail/client.h"
#include "backends/jail/settings.h"
#include "scratch.h"
#include "test.h"

static char root[256], reason[240], fix[240];

static void put(const char *path, const char *text)
{
	char full[512];

	(void)snprintf(full, sizeof full, "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		ASSERT(mkdir(full, 0700) == 0 || errno == EEXIST);
		*p = '/';
	}
	FILE *f = fopen(full, "we");
	ASSERT(f);
	ASSERT(fputs(text, f) >= 0);
	ASSERT_EQ(fclose(f), 0);
}

/* A machine like any other: nothing of it is in the way. */
static void machine(void)
{
	(void)snprintf(root, sizeof root, "%s", scratch_make());
	jail_settings_root = root;
	put("/proc/self/status", "Name:\tcell\nSeccomp:\t0\n");
	put("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
				    "2 1 0:9 / /sys/fs/cgroup rw - cgroup2 none rw\n");
	put("/proc/sys/user/max_user_namespaces", "15000\n");
}

static void explain(enum launcher_step step, int e)
{
	struct launcher_reply r = {.step = step, .sys_errno = e, .text = "unshare"};

	jail_explain_parts(&r, reason, fix);
}

TEST(what_is_not_known_names_the_step_and_where_to_look)
{
	machine();
	explain(LAUNCHER_STEP_USERNS, EPERM);
	ASSERT_HAS(reason, "make a user namespace");
	ASSERT_HAS(fix, "dmesg");
}

TEST(apparmor_is_named_with_its_profile)
{
	machine();
	put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
	explain(LAUNCHER_STEP_MAP_IDS, EPERM);
	ASSERT_HAS(reason, "kernel.apparmor_restrict_unprivileged_userns=1");
	ASSERT_HAS(fix, "apparmor_parser -r");
}

TEST(the_switch_of_debian_is_named)
{
	machine();
	put("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
	explain(LAUNCHER_STEP_USERNS, EPERM);
	ASSERT_HAS(fix, "sysctl -w kernel.unprivileged_userns_clone=1");
}

TEST(a_container_is_told_by_its_mark_and_its_filter)
{
	machine();
	put("/.dockerenv", "");
	explain(LAUNCHER_STEP_USERNS, EPERM);
	ASSERT_HAS(reason, "container");
	put("/proc/self/status", "Seccomp:\t2\n");
	explain(LAUNCHER_STEP_CLONE, EPERM);
	ASSERT_HAS(reason, "syscall filter");
	ASSERT_HAS(fix, "seccomp=unconfined");
}

TEST(a_kernel_without_namespaces_is_told)
{
	machine();
	explain(LAUNCHER_STEP_USERNS, EINVAL);
	ASSERT_HAS(fix, "CONFIG_USER_NS");
}

TEST(limits_of_a_user_are_systemds_to_give)
{
	machine();
	ASSERT_EQ(jail_cgroups(), JAIL_CGROUPS_V2);
	put("/run/systemd/system/x", "");
	ASSERT_HAS(jail_fix_limits(false, true), "systemd-run --user --scope -p Delegate=yes");
	ASSERT_HAS(jail_fix_limits(false, false), "Delegate=cpu cpuset io memory pids");
	ASSERT_HAS(jail_fix_unified(), "systemd.unified_cgroup_hierarchy=1");
}

TEST(version_one_cannot_be_given_to_users)
{
	machine();
	put("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
				    "2 1 0:9 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
				    "3 1 0:8 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n");
	ASSERT_EQ(jail_cgroups(), JAIL_CGROUPS_HYBRID);
	ASSERT_HAS(jail_fix_limits(false, true), "run as root");
}

TEST(read_only_cgroups_are_seen_in_the_mount_and_in_the_file_system)
{
	machine();
	ASSERT(!jail_cgroups_are_read_only());
	put("/proc/self/mountinfo", "2 1 0:9 / /sys/fs/cgroup ro,nosuid - cgroup2 none rw\n");
	ASSERT(jail_cgroups_are_read_only());
	put("/proc/self/mountinfo", "2 1 0:9 / /sys/fs/cgroup rw - cgroup2 none ro\n");
	ASSERT(jail_cgroups_are_read_only());
	ASSERT_HAS(jail_fix_limits(true, true), "remount,rw");
}

TEST(no_cgroups_at_all_are_a_mount_away)
{
	machine();
	put("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n");
	ASSERT_EQ(jail_cgroups(), JAIL_CGROUPS_NONE);
	ASSERT_HAS(jail_fix_limits(true, true), "mount -t cgroup2");
}
