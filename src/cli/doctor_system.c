/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_system.c: what the kernel and the state directory allow. Each look tries the thing itself
 * where that has no effect, and reads the switch that governs it where it has. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/doctor.h"
#include "cli/memory.h"
#include "cli/units.h"

#ifndef LANDLOCK_CREATE_RULESET_VERSION
#define LANDLOCK_CREATE_RULESET_VERSION (1U << 0)
#endif

static void found(struct cli_check *c, enum cli_health health, const char *fix, const char *fmt,
	...) __attribute__((format(printf, 4, 5)));

static void found(struct cli_check *c, enum cli_health health, const char *fix, const char *fmt,
	...)
{
	va_list ap;

	c->health = health;
	(void)snprintf(c->fix, sizeof(c->fix), "%s", fix);
	va_start(ap, fmt);
	(void)vsnprintf(c->detail, sizeof(c->detail), fmt, ap);
	va_end(ap);
}

/* The number in a file of /proc/sys, or `otherwise` when there is none. */
static long read_switch(const char *path, long otherwise)
{
	auto_file FILE *f = fopen(path, "re");
	long value;

	return f && fscanf(f, "%ld", &value) == 1 ? value : otherwise;
}

static void look_kernel(struct cli_check *c)
{
	struct utsname u;

	if (uname(&u) < 0)
		found(c, CLI_HEALTH_BAD, "", "uname: %s", strerror(errno));
	else
		found(c, CLI_HEALTH_OK, "", "%s %s, %s", u.sysname, u.release, u.machine);
}

/* Where the core would keep cells: $CELL_STATE_DIR, /var/lib/cell, or below the home directory. */
static char *state_dir(void)
{
	const char *dir = getenv("CELL_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (dir && *dir)
		return cli_strdup(dir);
	if (geteuid() == 0)
		return cli_strdup("/var/lib/cell");
	if (xdg && *xdg == '/')
		return cli_format("%s/cell", xdg);
	return cli_format("%s/.local/state/cell", home ? home : "");
}

/* The longest part of the path that exists. */
static void existing_part(char *path)
{
	struct stat st;

	while (stat(path, &st) < 0 && errno == ENOENT) {
		char *slash = strrchr(path, '/');
		if (!slash || slash == path) {
			path[1] = 0;
			return;
		}
		*slash = 0;
	}
}

static void look_state_dir(struct cli_check *c)
{
	auto_free char *dir = state_dir(), *there = cli_strdup(dir);
	struct statvfs fs;
	char room[CLI_UNIT_MAX];

	existing_part(there);
	if (access(there, W_OK | X_OK) < 0) {
		found(c, CLI_HEALTH_BAD, "export CELL_STATE_DIR=$HOME/.local/state/cell",
			"%s: cannot write to %s: %s", dir, there, strerror(errno));
		return;
	}
	if (statvfs(there, &fs) < 0) {
		found(c, CLI_HEALTH_WARN, "", "%s: %s", dir, strerror(errno));
		return;
	}
	uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (bytes < (64u << 20))
		found(c, CLI_HEALTH_WARN, "cell prune", "%s: only %s left on this disk", dir,
			cli_format_size(room, bytes));
	else
		found(c, CLI_HEALTH_OK, "", "%s, %s free", dir, cli_format_size(room, bytes));
}

static void look_openat2(struct cli_check *c)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	auto_fd int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

	if (fd >= 0)
		found(c, CLI_HEALTH_OK, "", "paths cannot leave a directory, by the kernel");
	else
		found(c, CLI_HEALTH_WARN,
			"use Linux 5.6 or later, or allow openat2 in the seccomp profile",
			"openat2: %s; paths are walked name by name", strerror(errno));
}

static void look_pidfd(struct cli_check *c)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0)
		found(c, CLI_HEALTH_OK, "",
			"processes are ended without mistaking one for another");
	else
		found(c, CLI_HEALTH_WARN, "use Linux 5.3 or later", "pidfd_open: %s",
			strerror(errno));
}

static void look_memfd(struct cli_check *c)
{
	auto_fd int fd = memfd_create("cell-doctor", MFD_CLOEXEC);
	long noexec = read_switch("/proc/sys/vm/memfd_noexec", 0);

	if (fd < 0)
		found(c, CLI_HEALTH_WARN, "", "memfd_create: %s; the guest is run from a file",
			strerror(errno));
	else if (noexec > 0)
		found(c, CLI_HEALTH_WARN, "sysctl vm.memfd_noexec=0",
			"vm.memfd_noexec is %ld; the guest is run from a file", noexec);
	else
		found(c, CLI_HEALTH_OK, "", "the guest is run from memory");
}

/* In a child: a process that has threads or is root may answer differently otherwise. */
static int try_user_namespace(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static void look_user_namespaces(struct cli_check *c)
{
	int e = try_user_namespace();

	if (e == 0)
		found(c, CLI_HEALTH_OK, "", "may be made without privileges");
	else if (read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
		found(c, CLI_HEALTH_WARN,
			"as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
			"restricted by AppArmor");
	else if (read_switch("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		found(c, CLI_HEALTH_WARN, "as root: sysctl -w kernel.unprivileged_userns_clone=1",
			"switched off for users");
	else if (read_switch("/proc/sys/user/max_user_namespaces", 1) == 0)
		found(c, CLI_HEALTH_WARN, "as root: sysctl -w user.max_user_namespaces=15000",
			"switched off");
	else
		found(c, CLI_HEALTH_WARN,
			"run outside a container, or allow unshare in its seccomp profile",
			"unshare: %s", strerror(e));
}

static void look_cgroups(struct cli_check *c)
{
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs) < 0)
		found(c, CLI_HEALTH_WARN, "mount -t cgroup2 none /sys/fs/cgroup",
			"/sys/fs/cgroup: %s", strerror(errno));
	else if ((unsigned long)fs.f_type == CGROUP2_SUPER_MAGIC)
		found(c, CLI_HEALTH_OK, "", "version 2%s",
			access("/sys/fs/cgroup/cgroup.procs", W_OK) == 0 ? ", writable" : "");
	else if (access("/sys/fs/cgroup/unified", F_OK) == 0)
		found(c, CLI_HEALTH_WARN, "boot with systemd.unified_cgroup_hierarchy=1",
			"hybrid: limits are set through version 1");
	else
		found(c, CLI_HEALTH_WARN, "boot with systemd.unified_cgroup_hierarchy=1",
			"version 1");
}

static void look_landlock(struct cli_check *c)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi > 0)
		found(c, CLI_HEALTH_OK, "", "version %ld", abi);
	else
		found(c, CLI_HEALTH_WARN, "boot with lsm=landlock,... on Linux 5.13 or later",
			"landlock: %s", strerror(errno));
}

static void look_seccomp(struct cli_check *c)
{
	unsigned action = SECCOMP_RET_KILL_PROCESS;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
		found(c, CLI_HEALTH_OK, "", "system calls can be filtered");
	else
		found(c, CLI_HEALTH_WARN, "use a kernel with CONFIG_SECCOMP_FILTER", "seccomp: %s",
			strerror(errno));
}

static void look_kvm(struct cli_check *c)
{
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		found(c, CLI_HEALTH_OK, "", "/dev/kvm can be used");
	else if (errno == ENOENT)
		found(c, CLI_HEALTH_WARN, "", "no /dev/kvm: virtual machines would be emulated");
	else
		found(c, CLI_HEALTH_WARN, "usermod -aG kvm $USER", "/dev/kvm: %s", strerror(errno));
}

static void look_inotify(struct cli_check *c)
{
	long n = read_switch("/proc/sys/fs/inotify/max_user_watches", -1);

	if (n < 0)
		found(c, CLI_HEALTH_WARN, "", "files cannot be watched: no inotify");
	else if (n < 8192)
		found(c, CLI_HEALTH_WARN, "sysctl fs.inotify.max_user_watches=524288",
			"only %ld directories can be watched", n);
	else
		found(c, CLI_HEALTH_OK, "", "%ld directories can be watched", n);
}

size_t cli_doctor_system(struct cli_check *ret, size_t max)
{
	static const struct {
		const char *name;
		void (*look)(struct cli_check *c);
	} looks[] = {
		{"kernel", look_kernel},
		{"state directory", look_state_dir},
		{"openat2", look_openat2},
		{"pidfd", look_pidfd},
		{"memfd exec", look_memfd},
		{"user namespaces", look_user_namespaces},
		{"cgroups", look_cgroups},
		{"landlock", look_landlock},
		{"seccomp", look_seccomp},
		{"kvm", look_kvm},
		{"inotify", look_inotify},
	};
	size_t n = 0;

	for (; n < sizeof(looks) / sizeof(looks[0]) && n < max; n++) {
		ret[n] = (struct cli_check){.name = looks[n].name};
		looks[n].look(&ret[n]);
	}
	return n;
}
