/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor_jail.c: the least that walls like the jail's cost: one straight program that makes every
 * namespace in one clone3, a root of tmpfs and read-only binds, /proc, /dev, drops everything and
 * executes a program, with no daemon, protocol, request or check. Nothing is kept from one to the next
 * but a cgroup. For each byte on stdin it makes one and prints the nanoseconds from clone to wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/if.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/seccomp_profiles.h"

struct args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
		set_tid_size, cgroup;
};

#define UID 0x6ffffff0u

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

static void attach(const char *from, const char *to, unsigned long flags)
{
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0 ||
		(flags && mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | flags, NULL) < 0))
		die(from);
}

static void make_root(void)
{
	static const char *const dirs[] = {"usr", "etc", "dev", "proc", "tmp", "home", "home/cell",
		"workspace", "run", "var", "etc/alternatives", "etc/ssl", "etc/ssl/certs",
		"dev/pts", "dev/shm", "root", NULL};
	static const char *const links[][2] = {{"usr/bin", "bin"}, {"usr/sbin", "sbin"},
		{"usr/lib", "lib"}, {"usr/lib64", "lib64"}, {"/proc/self/fd", "dev/fd"},
		{"/proc/self/fd/0", "dev/stdin"}, {"/proc/self/fd/1", "dev/stdout"},
		{"/proc/self/fd/2", "dev/stderr"}, {"pts/ptmx", "dev/ptmx"}};
	static const char *const devices[] = {
		"null", "zero", "full", "random", "urandom", "tty", NULL};
	static const char *const masks[] = {"acpi", "bus", "driver", "fs", "irq", "interrupts",
		"softirqs", "diskstats", "kallsyms", "cmdline", "keys", "key-users", "locks", NULL};
	const unsigned long plain = MS_NOSUID | MS_NODEV;
	char from[64], to[64];

	if (mount("tmpfs", "/sys", "tmpfs", plain, "mode=0755,size=1g") < 0 || chdir("/sys") < 0)
		die("tmpfs");
	for (int i = 0; dirs[i]; i++)
		if (mkdir(dirs[i], 0755) < 0)
			die(dirs[i]);
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			die(links[i][1]);
	for (int i = 0; i < 2; i++) { /* passwd and group */
		int fd = open(i ? "etc/group" : "etc/passwd", O_WRONLY | O_CREAT, 0644);
		if (fd < 0 || write(fd, "cell:x:1000:\n", 13) != 13)
			die("etc");
		close(fd);
	}
	attach("/usr", "usr", plain | MS_RDONLY);
	attach("/etc/alternatives", "etc/alternatives", plain | MS_RDONLY);
	attach("/etc/ssl/certs", "etc/ssl/certs", plain | MS_RDONLY);
	for (int i = 0; devices[i]; i++) {
		(void)snprintf(from, sizeof from, "/dev/%s", devices[i]);
		(void)snprintf(to, sizeof to, "dev/%s", devices[i]);
		if (mknod(to, S_IFREG | 0644, 0) < 0)
			die(to);
		attach(from, to, 0);
	}
	if (mount("proc", "proc", "proc", plain | MS_NOEXEC | MS_RDONLY, NULL) < 0 ||
		mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
			"newinstance,ptmxmode=0666") < 0)
		die("proc");
	for (int i = 0; masks[i]; i++) {
		struct stat st;
		(void)snprintf(to, sizeof to, "proc/%s", masks[i]);
		if (stat(to, &st) == 0)
			attach(S_ISDIR(st.st_mode) ? "root" : "dev/null", to, 0);
	}
	if (mount("tmpfs", "tmp", "tmpfs", plain, "mode=1777,size=1g") < 0)
		die("tmp");
	attach("tmp", "dev/shm", 0);
	attach("tmp", "home/cell", 0);
	attach("tmp", "workspace", 0);
	if (mount(NULL, ".", NULL, MS_BIND | MS_REMOUNT | plain | MS_RDONLY, NULL) < 0 ||
		syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
		chdir("/") < 0)
		die("pivot_root");
}

static void inside(int go, char **argv)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};
	struct rlimit one = {1, 1};
	char c;

	if (read(go, &c, 1) != 1 || setresgid(1000, 1000, 1000) < 0 ||
		setresuid(1000, 1000, 1000) < 0)
		die("go");
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &ifr) < 0 || sethostname("cell", 4) < 0)
		die("lo");
	put("/proc/sys/user/max_user_namespaces", "0");
	make_root();
	(void)setsid();
	(void)syscall(SYS_keyctl, 1 /* join a session keyring */, NULL);
	(void)setrlimit(RLIMIT_CORE, &one);
	for (unsigned long i = 0; prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0; i++)
		;
	if (syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		seccomp_load(seccomp_profile("default")) < 0)
		die("seal");
	(void)syscall(SYS_close_range, 3, ~0u, 0);
	execv(argv[0], argv);
	die(argv[0]);
}

static uint64_t one(int cgroup, char **argv)
{
	char path[48], text[48];
	struct timespec a, b;
	int pidfd = -1, go[2], status;
	struct args args = {.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
				     CLONE_NEWIPC | CLONE_NEWUTS | 0x02000000 /* cgroup */ |
				     0x1000 /* pidfd */ |
				     (cgroup < 0 ? 0 : 0x200000000u) /* into */,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = cgroup < 0 ? 0 : (uint64_t)cgroup};

	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	if (pipe2(go, O_CLOEXEC) < 0)
		die("pipe");
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0)
		inside(go[0], argv);
	if (pid < 0)
		die("clone3");
	(void)snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
	put(path, "deny");
	(void)snprintf(text, sizeof text, "1000 %u 1", geteuid() ? geteuid() : UID);
	(void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
	put(path, text);
	(void)snprintf(text, sizeof text, "1000 %u 1", geteuid() ? getegid() : UID);
	(void)snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
	put(path, text);
	if (write(go[1], "g", 1) != 1)
		die("go");
	close(go[0]);
	close(go[1]);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		die("the program failed");
	close(pidfd);
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	return (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000u + (uint64_t)b.tv_nsec -
	       (uint64_t)a.tv_nsec;
}

static char group[] = "/sys/fs/cgroup/unified/cell-bench";

static int open_group(void)
{
	static const char *const places[] = {
		"/sys/fs/cgroup/unified/cell-bench", "/sys/fs/cgroup/cell-bench"};

	for (size_t i = 0; i < 2; i++) {
		if (mkdir(places[i], 0755) < 0 && errno != EEXIST)
			continue;
		memcpy(group, places[i], strlen(places[i]) + 1);
		return open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

int main(int argc, char **argv)
{
	char c;

	if (argc < 2)
		return 2;
	if (argc == 3 &&
		!strcmp(argv[1], "--filter")) { /* the jail's own, for other programs to load */
		const struct sock_fprog *p = seccomp_profile("default");
		size_t n = p->len * sizeof *p->filter;

		return write((int)strtol(argv[2], NULL, 10), p->filter, n) == (ssize_t)n ? 0 : 1;
	}
	int cgroup = open_group();
	while (read(0, &c, 1) == 1) {
		printf("%llu\n", (unsigned long long)one(cgroup, argv + 1));
		(void)fflush(stdout);
	}
	if (cgroup >= 0)
		(void)rmdir(group);
	return 0;
}
