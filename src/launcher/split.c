/* SPDX-License-Identifier: Apache-2.0 */
/* split.c: see split.h. */
#include "launcher/split.h"

#include <errno.h>

#include "launcher/sys.h"

static bool has_clone3, has_cgroup;

void split_probe(bool *ret_has_clone3, bool *ret_has_cgroup)
{
	/* no such signal, so it never succeeds: EINVAL. A kernel that does not know the last field finds
	 * it set and says E2BIG before it looks at anything (Linux before 5.7). ENOSYS before 5.3, and by
	 * the filters of containers, which cannot look at its flags; EPERM by old ones */
	struct clone3_args a = {.exit_signal = 255, .cgroup = 1};

	errno = 0;
	has_clone3 = sys_clone3(&a) < 0 && (errno == EINVAL || errno == E2BIG);
	has_cgroup = has_clone3 && errno == EINVAL;
	*ret_has_clone3 = has_clone3;
	*ret_has_cgroup = has_cgroup;
}

/* The call before clone3: namespaces and pidfd (Linux 5.2) by it too, the group not. */
static pid_t split_classic(unsigned flags, int *ret_pidfd)
{
	/* on both architectures the third argument is where the pidfd goes; without a stack it is a
	 * fork */
	return (pid_t)syscall(SYS_clone, (unsigned long)(flags | CLONE_PIDFD), NULL, ret_pidfd,
		NULL, NULL);
}

pid_t split(unsigned flags, int cgroup_fd, int *ret_pidfd, bool *ret_is_in_cgroup)
{
	struct clone3_args a = {
		.flags = flags | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)ret_pidfd};

	if (ret_is_in_cgroup)
		*ret_is_in_cgroup = false;
	if (!has_clone3)
		return split_classic(flags, ret_pidfd);
	if (cgroup_fd < 0 || !has_cgroup)
		return (pid_t)sys_clone3(&a);
	a.flags |= CLONE_INTO_CGROUP;
	a.cgroup = (uint64_t)cgroup_fd;
	pid_t pid = (pid_t)sys_clone3(&a);
	if (pid < 0 && errno != EAGAIN && errno != ENOSPC) {
		/* the group itself may refuse: it is entered a moment later, with an error that says
		 * which */
		a.flags &= ~CLONE_INTO_CGROUP;
		a.cgroup = 0;
		return (pid_t)sys_clone3(&a);
	}
	if (ret_is_in_cgroup)
		*ret_is_in_cgroup = pid >= 0;
	return pid;
}
