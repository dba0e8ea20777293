/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel is made ready for changes of cgroups, and nothing is changed by it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "test.h"

static void read_groups(char *ret, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");

	ASSERT(f);
	ret[fread(ret, 1, size - 1, f)] = '\0';
	(void)fclose(f);
}

TEST(we_stay_in_our_groups)
{
	struct oci_aside s = {0};
	char before[8192], after[8192];
	sigset_t mask;

	read_groups(before, sizeof before);
	oci_stir(&s);
	if (!s.runs && (geteuid() != 0 || access("/sys/fs/cgroup", W_OK) < 0))
		SKIP("we may not write to the group we are in");
	ASSERT(s.runs);
	oci_aside_done(&s);
	read_groups(after, sizeof after);
	ASSERT_STR(after, before);
	ASSERT_EQ(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
	ASSERT_EQ(sigismember(&mask, SIGINT), 0);
	ASSERT_EQ(sigismember(&mask, SIGTERM), 0);
	oci_aside_done(&s); /* once more does nothing */
}
