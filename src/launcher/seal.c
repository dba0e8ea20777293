/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.c: the first process gives up everything it has, for itself and for all that will ever come
 * from it. The order matters: what needs a capability before they are dropped, the filter last.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/capsets.h"
#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/seccomp_profiles.h"
#include "launcher/sys.h"

#define QUEUE_BYTES 819200u /* of POSIX messages; what a user has by default */

static struct sock_filter own_filter[LAUNCHER_MAX_FILTER];
static struct sock_fprog filter;

/* The client's own filter, or a built-in one. Read while its fd is still open. */
int seal_read_filter(const struct launcher_request *rq, struct failure *f)
{
	const char *name = rq->texts[LAUNCHER_TEXT_PROFILE];
	struct stat st;

	if (rq->filter_fd < 0) {
		const struct sock_fprog *p = seccomp_profile(*name ? name : "default");

		if (!p)
			return fail_with(f, LAUNCHER_STEP_FILTER, ENOENT, "there is no profile",
				name);
		filter = *p;
		return 0;
	}
	if (fstat(rq->filter_fd, &st) < 0 || st.st_size <= 0 ||
		st.st_size % (off_t)sizeof *own_filter || st.st_size > (off_t)sizeof own_filter)
		return fail_with(f, LAUNCHER_STEP_FILTER, EINVAL,
			"the given filter has an odd size", NULL);
	if (pread(rq->filter_fd, own_filter, (size_t)st.st_size, 0) != st.st_size)
		return fail(f, LAUNCHER_STEP_FILTER, "read the given filter", NULL);
	filter = (struct sock_fprog){
		.len = (unsigned short)((size_t)st.st_size / sizeof *own_filter),
		.filter = own_filter};
	return 0;
}

/* At most this; what we were given less of stays so. */
static int limit(int resource, uint64_t soft, uint64_t hard)
{
	struct rlimit now, rl = {soft, hard};

	if (setrlimit(resource, &rl) == 0)
		return 0;
	if (errno != EPERM || getrlimit(resource, &now) < 0)
		return -1;
	if (rl.rlim_max > now.rlim_max)
		rl.rlim_max = now.rlim_max;
	if (rl.rlim_cur > rl.rlim_max)
		rl.rlim_cur = rl.rlim_max;
	return setrlimit(resource, &rl);
}

int seal_limits(const struct birth *b, struct failure *f)
{
	const struct launcher_request *rq = b->rq;
	/* a parked one's own comes with its lease: a limit can be lowered, never raised again */
	uint32_t pids =
		rq->head.pids && !(rq->head.flags & BIRTH_PARKED) ? rq->head.pids : host.max_pids;
	/* without root they are taken from the user's own */
	uint32_t queues = host.is_rootful ? QUEUE_BYTES : QUEUE_BYTES / 4;

	/* 1, not 0: with a core_pattern that is a pipe, 0 still feeds the host's handler (core(5)) */
	if (limit(RLIMIT_CORE, 1, 1) < 0)
		return fail(f, LAUNCHER_STEP_LIMITS, "set", "RLIMIT_CORE");
	/* stops a fork bomb where there is no pids cgroup; not where it would count the user's own
	 * processes too */
	if ((b->has_own_id || host.cgroups.has_own_nproc) && limit(RLIMIT_NPROC, pids, pids) < 0)
		return fail(f, LAUNCHER_STEP_LIMITS, "set", "RLIMIT_NPROC");
	/* kernel memory that is charged to nobody, priorities that starve the neighbours */
	if (limit(RLIMIT_MEMLOCK, 8u << 20, 8u << 20) < 0 ||
		limit(RLIMIT_MSGQUEUE, queues, queues) < 0 ||
		limit(RLIMIT_SIGPENDING, 4096, 4096) < 0 || limit(RLIMIT_NICE, 0, 0) < 0 ||
		limit(RLIMIT_RTPRIO, 0, 0) < 0 || limit(RLIMIT_NOFILE, 4096, 65536) < 0)
		return fail(f, LAUNCHER_STEP_LIMITS, "set", "rlimits");
	return 0;
}

int seal_session(struct failure *f)
{
	/* own session: no controlling terminal of the host to push keys into (CVE-2017-5226) */
	if (setsid() < 0 && errno != EPERM)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "make a session", NULL);
	return 0;
}

int seal_privileges(bool is_keep, struct failure *f)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	/* the bounding set came back full with the user namespace; inheritable capabilities left set
	 * were CVE-2022-24769 and CVE-2022-27650 */
	if (capsets_drop_bounding() < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "drop a capability of the bounding set",
			NULL);
	/* uid 0 means nothing here, now and for ever */
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "lock the secure bits", NULL);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "clear the ambient set", NULL);
	if (capsets_drop_own() < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "drop all capabilities", NULL);
	/* no exec gives anything back: setuid, file capabilities */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "set no_new_privs", NULL);
	/* after the ids and capabilities: the kernel forgets it when those change */
	if (!is_keep && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "die with the launcher", NULL);
	return 0;
}

/* The head of the kernel's struct landlock_ruleset_attr as of ABI 6. */
struct landlock_scopes {
	uint64_t handled_access_fs, handled_access_net, scoped;
};
#define LANDLOCK_ABSTRACT_UNIX_SOCKET 1u
#define LANDLOCK_SIGNAL		      2u

int seal_landlock(struct failure *f)
{
	struct landlock_scopes a = {.scoped = LANDLOCK_ABSTRACT_UNIX_SOCKET | LANDLOCK_SIGNAL};

	if (host.landlock_abi < 6)
		return 0;
	/* a second wall behind the network and pid namespaces: abstract sockets and signals */
	auto_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof a, 0);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return fail(f, LAUNCHER_STEP_LANDLOCK, "restrict", NULL);
	return 0;
}

int seal_filter(struct failure *f)
{
	if (!filter.len)
		return fail_with(f, LAUNCHER_STEP_FILTER, EINVAL, "the filter is empty", NULL);
	/* of two filters the stricter answer counts: what the client's own allows too much, this
	 * does not */
	if (filter.filter == own_filter) {
		const struct sock_fprog *floor = seccomp_profile("floor");

		if (!floor || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, floor) < 0)
			return fail(f, LAUNCHER_STEP_FILTER, "load the filter below it", NULL);
	}
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
		return fail(f, LAUNCHER_STEP_FILTER, "load the filter", NULL);
	return 0;
}
