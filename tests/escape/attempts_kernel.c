/* SPDX-License-Identifier: Apache-2.0 */
/* attempts_kernel.c: privileges, namespaces, other processes, calls that have been ways into the kernel. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"

/* Any capability in any set, or no_new_privs off, or no filter. */
static enum result privileges(const char *arg)
{
	char line[256];
	unsigned long long v;
	bool is_free = false;
	FILE *f = fopen("/proc/self/status", "re");

	(void)arg;
	while (f && fgets(line, sizeof line, f)) {
		if (!strncmp(line, "Cap", 3) && sscanf(line + 7, "%llx", &v) == 1 && v)
			is_free = true;
		else if (!strncmp(line, "NoNewPrivs:", 11) && strtol(line + 11, NULL, 10) != 1)
			is_free = true;
		else if (!strncmp(line, "Seccomp:", 8) && strtol(line + 8, NULL, 10) != 2)
			is_free = true;
		else
			continue;
		if (is_free) {
			say("%s", line);
			return DID_IT;
		}
	}
	return f ? REFUSED : DID_IT;
}

static enum result in_child(int (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn() >= 0 ? DID_IT : REFUSED);
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? (enum result)WEXITSTATUS(status) : REFUSED;
}

static int unshare_user(void)
{
	return unshare(CLONE_NEWUSER);
}

static int unshare_net(void)
{
	return unshare(CLONE_NEWNET);
}

static int unshare_mount(void)
{
	return unshare(CLONE_NEWNS);
}

static enum result try_unshare_user(const char *arg)
{
	(void)arg;
	return in_child(unshare_user);
}

static enum result try_unshare_net(const char *arg)
{
	(void)arg;
	return in_child(unshare_net);
}

static enum result try_unshare_mount(const char *arg)
{
	(void)arg;
	return in_child(unshare_mount);
}

static enum result clone_user(const char *arg)
{
	(void)arg;
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0);
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return outcome(pid);
}

static enum result clone3_user(const char *arg)
{
	uint64_t args[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};

	(void)arg;
	long pid = syscall(SYS_clone3, args, sizeof args);
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return outcome(pid);
}

static enum result join_own_net(const char *arg)
{
	(void)arg;
	int fd = open("/proc/self/ns/net", O_RDONLY);
	return outcome(setns(fd, 0));
}

static enum result become_root(const char *arg)
{
	(void)arg;
	return outcome(setresuid(0, 0, 0));
}

static enum result set_groups(const char *arg)
{
	gid_t g = 0;

	(void)arg;
	return outcome(setgroups(1, &g));
}

static enum result write_uid_map(const char *arg)
{
	(void)arg;
	/* outside: a process in a new user namespace may */
	if (unshare(CLONE_NEWUSER) < 0 && errno != EPERM && errno != ENOSPC)
		return CANNOT;
	int fd = open("/proc/self/uid_map", O_WRONLY);
	return fd < 0 ? REFUSED : outcome(write(fd, "0 0 1", 5));
}

static enum result trace(const char *pid)
{
	return outcome(ptrace(PTRACE_SEIZE, (pid_t)strtol(pid, NULL, 10), NULL, NULL));
}

static enum result read_memory(const char *pid)
{
	char here[8];
	struct iovec local = {here, sizeof here}, remote = {(void *)0x400000, 8};
	long r = syscall(SYS_process_vm_readv, (pid_t)strtol(pid, NULL, 10), &local, 1, &remote, 1,
		0);

	/* allowed, but nothing is mapped there */
	return r < 0 && errno == EFAULT ? DID_IT : outcome(r);
}

static enum result look_into(const char *pid)
{
	static const char *const names[] = {
		"environ", "maps", "mem", "fd", "root", "cwd", "exe", "auxv", NULL};
	char path[64], text[64];

	for (int i = 0; names[i]; i++) {
		(void)snprintf(path, sizeof path, "/proc/%s/%s", pid, names[i]);
		int fd = open(path, O_RDONLY);
		if (fd >= 0 || readlink(path, text, sizeof text) > 0) {
			say("%s can be opened", path);
			return DID_IT;
		}
	}
	return REFUSED;
}

static enum result take_fd(const char *pid)
{
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(pid, NULL, 10), 0);

	if (fd < 0)
		return REFUSED;
	return outcome(syscall(SYS_pidfd_getfd, fd, 0, 0));
}

/* Is a process of this name to be seen? */
static enum result see_process(const char *name)
{
	DIR *d = opendir("/proc");
	char path[300], comm[32];

	for (struct dirent *e; d && (e = readdir(d));) {
		(void)snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
		FILE *f = fopen(path, "re");
		bool is_it = f && fgets(comm, sizeof comm, f) && !strncmp(comm, name, strlen(name));
		if (f)
			(void)fclose(f);
		if (is_it)
			return DID_IT;
	}
	return REFUSED;
}

static enum result signal_process(const char *pid)
{
	return outcome(kill((pid_t)strtol(pid, NULL, 10), 0));
}

static enum result kernel_knobs(const char *arg)
{
	static const char *const paths[] = {"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/hostname",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/file-max",
		"/proc/irq/default_smp_affinity", NULL};

	(void)arg;
	for (int i = 0; paths[i]; i++)
		if (open(paths[i], O_WRONLY) >= 0) {
			say("%s can be written", paths[i]);
			return DID_IT;
		}
	return REFUSED;
}

static enum result kernel_facts(const char *arg)
{
	static const char *const paths[] = {"/proc/kcore", "/proc/kallsyms", "/proc/keys",
		"/proc/timer_list", "/proc/sched_debug", "/proc/interrupts", "/proc/kmsg",
		"/sys/firmware", "/sys/kernel", "/sys/class/powercap", "/dev/mem", "/dev/kmsg",
		"/proc/cmdline", "/sys/fs/cgroup/cgroup.procs", NULL};
	char text[16];

	(void)arg;
	for (int i = 0; paths[i]; i++) {
		int fd = open(paths[i], O_RDONLY | O_NONBLOCK);
		long n = fd < 0 ? -1 : read(fd, text, sizeof text);
		if (n > 0 || (n < 0 && fd >= 0 && errno == EISDIR)) {
			say("%s can be read", paths[i]);
			return DID_IT;
		}
	}
	return REFUSED;
}

static enum result try_bpf(const char *arg)
{
	union bpf_attr a = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

	(void)arg;
	return outcome(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}

static enum result try_perf(const char *arg)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_CPU_CLOCK};

	(void)arg;
	return outcome(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}

static enum result try_userfaultfd(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_userfaultfd, 0));
}

static enum result try_io_uring(const char *arg)
{
	char params[120] = {0};

	(void)arg;
	return outcome(syscall(SYS_io_uring_setup, 4, params));
}

static enum result try_key(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_add_key, "user", "cell-escape", "x", 1,
		-2 /* process keyring */));
}

static enum result try_keyctl(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_keyctl, 0 /* get the id of */, -4 /* the user's keyring */, 1));
}

static enum result try_syslog(const char *arg)
{
	(void)arg;
	return outcome(klogctl(10 /* size of the buffer */, NULL, 0) >= 0 &&
				       klogctl(3, (char[64]){0}, 64) >= 0
			       ? 0
			       : -1);
}

static enum result try_fanotify(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_fanotify_init, 0, 0));
}

static enum result try_module(const char *arg)
{
	(void)arg;
	long r = syscall(SYS_init_module, NULL, 0, "");
	/* who may is told that nothing is no module */
	return r < 0 && (errno == ENOEXEC || errno == EFAULT) ? DID_IT : outcome(r);
}

static enum result try_quota(const char *arg)
{
	(void)arg;
	long r = syscall(SYS_swapon, "/nonexistent", 0);
	return r < 0 && errno == ENOENT ? DID_IT : outcome(r);
}

static enum result realtime(const char *arg)
{
	struct sched_param p = {.sched_priority = 1};

	(void)arg;
	return outcome(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p));
}

static enum result more_priority(const char *arg)
{
	(void)arg;
	return outcome(setpriority(PRIO_PROCESS, 0, -5));
}

static enum result be_spared(const char *arg)
{
	(void)arg;
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	return fd < 0 ? outcome(-1) : outcome(write(fd, "-1", 2));
}

static enum result lock_memory(const char *arg)
{
	const size_t n = 64u << 20;

	(void)arg;
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return outcome(mlock(p, n));
}

static enum result old_calls(const char *arg)
{
	(void)arg;
#ifdef __x86_64__
	long r = 20; /* getpid of i386 */
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory");
	say("int 0x80 gave %ld, pid %d", r, getpid());
	return r == getpid() ? DID_IT : REFUSED;
#else
	return CANNOT;
#endif
}

static enum result x32_calls(const char *arg)
{
	(void)arg;
	return outcome(syscall(0x40000000 + SYS_getpid));
}

static enum result push_keys(const char *arg)
{
	char c = 'x';

	(void)arg;
	return outcome(ioctl(0, TIOCSTI, &c));
}

static enum result push_keys_high(const char *arg)
{
	char c = 'x';

	(void)arg;
	return outcome(syscall(SYS_ioctl, 0, 0x5412ul | 1ul << 32, &c));
}

const struct attempt attempts_kernel[] = {
	{"privileges", privileges},
	{"unshare-user", try_unshare_user},
	{"unshare-net", try_unshare_net},
	{"unshare-mount", try_unshare_mount},
	{"clone-user", clone_user},
	{"clone3-user", clone3_user},
	{"setns", join_own_net},
	{"setuid-0", become_root},
	{"setgroups", set_groups},
	{"uid-map", write_uid_map},
	{"ptrace", trace},
	{"vm-read", read_memory},
	{"look-into", look_into},
	{"take-fd", take_fd},
	{"see-process", see_process},
	{"kill", signal_process},
	{"knobs", kernel_knobs},
	{"facts", kernel_facts},
	{"bpf", try_bpf},
	{"perf", try_perf},
	{"userfaultfd", try_userfaultfd},
	{"io-uring", try_io_uring},
	{"add-key", try_key},
	{"keyctl", try_keyctl},
	{"syslog", try_syslog},
	{"fanotify", try_fanotify},
	{"module", try_module},
	{"swapon", try_quota},
	{"realtime", realtime},
	{"nice", more_priority},
	{"oom-score", be_spared},
	{"mlock", lock_memory},
	{"int80", old_calls},
	{"x32", x32_calls},
	{"tiocsti", push_keys},
	{"tiocsti-high", push_keys_high},
	{0},
};
