/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: the launcher, the one program that ever holds privileges. The library starts it from a
 * copy embedded in itself, so that it is small however big the process that wants cells has grown,
 * and has nothing of that process in its memory. With root it uses root; without, it makes a user
 * namespace in which it may do the same things. There is no setuid bit anywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/closefds.h"
#include "launcher/features.h"
#include "launcher/launcher.h"
#include "launcher/net.h"
#include "launcher/serve.h"
#include "launcher/sys.h"

#define FIRST_UID 0x70000000u /* between systemd's containers and the signed end: nobody's */

struct host host = {.outer_mnt_fd = -1, .stage_mnt_fd = -1, .slots_fd = -1};

static bool has_cap(unsigned cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	return syscall(SYS_capget, &head, data) == 0 && (data[cap / 32].effective & 1u << cap % 32);
}

/* A range of ids to hand out: high ones where all are mapped, else the upper half of what is. */
static uint32_t free_ids(const char *map, uint32_t *ret_first)
{
	char line[128];
	uint64_t inside, outside, count, best = 0;
	auto_file FILE *f = fopen(map, "re");

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) !=
			3)
			continue;
		if (inside <= FIRST_UID &&
			inside + count >= (uint64_t)FIRST_UID + LAUNCHER_MAX_SLOTS) {
			*ret_first = FIRST_UID;
			return LAUNCHER_MAX_SLOTS;
		}
		if (count / 2 > best) {
			best = count / 2;
			*ret_first = (uint32_t)(inside + count - best);
		}
	}
	return best < 64 ? 0 : best > LAUNCHER_MAX_SLOTS ? LAUNCHER_MAX_SLOTS : (uint32_t)best;
}

static void find_ids(void)
{
	uint32_t first_gid = 0;
	uint32_t n_uids = free_ids("/proc/self/uid_map", &host.first_uid);
	uint32_t n_gids = free_ids("/proc/self/gid_map", &first_gid);

	host.n_uids = first_gid == host.first_uid ? (n_gids < n_uids ? n_gids : n_uids) : 0;
}

/* Processes of a cell that asks for no limit: so many that nobody minds, and so few that some cells together do
 * not take every number that the machine has. */
static uint32_t enough_pids(void)
{
	char line[32] = "";
	auto_file FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
	unsigned long all = f && fgets(line, sizeof line, f) ? strtoul(line, NULL, 10) : 0;

	return all / 8 > 16384 ? 16384 : all / 8 < 1024 ? 1024 : (uint32_t)(all / 8);
}

static int become_root_of_our_own(struct failure *f)
{
	char text[48];

	/* and a mount namespace that belongs to it: into the host's own there is no way back */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return fail(f, LAUNCHER_STEP_USERNS, "unshare(CLONE_NEWUSER)", NULL);
	if (spare_write_proc("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
		return fail(f, LAUNCHER_STEP_USERNS, "deny", "setgroups");
	/* as uid 0 of it: some settings of a namespace ask for that and for no capability */
	(void)snprintf(text, sizeof text, "0 %u 1", host.uid);
	if (spare_write_proc("/proc/self/uid_map", text) < 0)
		return fail(f, LAUNCHER_STEP_USERNS, "write", "/proc/self/uid_map");
	(void)snprintf(text, sizeof text, "0 %u 1", host.gid);
	if (spare_write_proc("/proc/self/gid_map", text) < 0)
		return fail(f, LAUNCHER_STEP_USERNS, "write", "/proc/self/gid_map");
	host.uid = host.gid = 0;
	return 0;
}

static int start(struct failure *f)
{
	struct rlimit files;

	host.uid = geteuid();
	host.gid = getegid();
	host.is_rootful = has_cap(CAP_SYS_ADMIN) && has_cap(CAP_SETUID) && has_cap(CAP_SETGID) &&
			  has_cap(CAP_SYS_CHROOT);
	host.may_exempt_oom = has_cap(CAP_SYS_RESOURCE);
	host.max_pids = enough_pids();
	features_find();
	if (host.is_rootful)
		find_ids();
	host.is_rootful = host.is_rootful && host.n_uids;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	/* birth.c changes our id for a moment, and no more than that */
	if (host.is_rootful && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "keep capabilities", NULL);
	/* groups of whoever started us are no business of a cell's */
	if (host.is_rootful && setgroups(0, NULL) < 0)
		return fail(f, LAUNCHER_STEP_PRIVILEGES, "drop supplementary groups", NULL);
	cgroup_init(&host.cgroups, host.is_rootful);
	if (!host.is_rootful && become_root_of_our_own(f) < 0)
		return -1;
	net_init();
	if (stage_init(f) < 0 || spare_ready(f) < 0)
		return -1;
	/* nobody of the same user may look into it; without root our own /proc files would be lost to us */
	if (host.is_rootful)
		(void)prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct failure broken = {0};
	sigset_t none;

	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		(void)dup2(null, fd);
	close_fds(LAUNCHER_SOCKET_FD + 1, ~0u);
	(void)fcntl(LAUNCHER_SOCKET_FD, F_SETFD, FD_CLOEXEC);
	(void)prctl(PR_SET_NAME, "cell-launcher");
	(void)setsid(); /* Ctrl-C in the client's terminal is for the client */
	(void)umask(022);
	for (int sig = 1; sig < 32; sig++)
		(void)signal(sig, sig == SIGPIPE ? SIG_IGN : SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (argc > 2 && !strcmp(argv[0], NET_KEEPER))
		net_keeper(argc, argv);
	if (start(&broken) == 0)
		broken.step = LAUNCHER_STEP_NONE;
	serve(LAUNCHER_SOCKET_FD, &broken);
}
