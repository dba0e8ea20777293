/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spare.c: the network, ipc and uts namespaces of the next cell, and its session keyring. The launcher itself sits in them: a
 * cell's first process inherits them without clone3 having to make any, which takes the most expensive
 * one off the way of a request. Each is given to one cell and never used again.
 *
 * They belong to the launcher's user namespace, not to the cell's: even a process that got every
 * capability inside its cell could not configure them (nf_tables and its like: 43 % of the kernel
 * bugs that user namespaces opened, 2020-2025).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/sys.h"

static bool is_ready;

int spare_write_proc(const char *path, const char *text)
{
	auto_fd int fd = openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static int loopback_up(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &ifr);
}

bool spare_is_ready(void)
{
	return is_ready;
}

int spare_ready(struct failure *f)
{
	if (is_ready)
		return 0;
	/* own network: nothing of the host's can be reached, abstract sockets included;
	 * own ipc: no shared memory or queue of another cell has a name here */
	if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return fail(f, LAUNCHER_STEP_NAMESPACES, "unshare network, ipc and uts", NULL);
	if (loopback_up() < 0)
		return fail(f, LAUNCHER_STEP_NET, "bring the loopback up", NULL);
	/* a segment nobody is attached to is freed at once, not by a worker some time after the cell
	 * (nsjail-shm-dos: 1 TB in 5 minutes past every limit). Kernels before 6.9 let only the
	 * machine's root do it. */
	if (spare_write_proc("/proc/sys/kernel/shm_rmid_forced", "1") < 0 && host.is_rootful)
		return fail(f, LAUNCHER_STEP_NAMESPACES, "set", "kernel.shm_rmid_forced");
	/* own session keyring: the client's keys and those of other cells are out of reach */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
		errno != EPERM)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "make a session keyring", NULL);
	is_ready = true;
	return 0;
}

void spare_given(void)
{
	is_ready = false;
}
