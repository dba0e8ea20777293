/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in profiles on the real kernel. Each attempt is made twice in a child of its own:
 * without the filter, where it must fare differently (the control), and with it. Arguments are
 * chosen so that the control harms nothing and is refused, if at all, with another error than the
 * filter's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/syscalls.h"
#include "launcher/seccomp_profiles.h"
#include "test.h"

#define DIED(sig) (1000000 + (sig))

static void enter(const char *profile)
{
	if (!profile)
		return;
	ASSERT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	ASSERT_OK(seccomp_load(seccomp_profile(profile)));
}

/* What fn returns in a child under the profile (NULL: none), or DIED(signal). */
static int in_child(const char *profile, int (*fn)(const void *), const void *arg)
{
	int *result = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	    st;

	ASSERT(result != MAP_FAILED);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		enter(profile);
		*result = fn(arg);
		_exit(0);
	}
	ASSERT(waitpid(pid, &st, 0) == pid);
	int r = WIFSIGNALED(st) ? DIED(WTERMSIG(st)) : *result;
	munmap(result, 4096);
	return r;
}

struct call {
	const char *name;
	long args[6];
	int want; /* the filter's errno */
};

static int try_call(const void *arg)
{
	const struct call *c = arg;
	int nr = syscall_number(SYSCALL_ARCH_NATIVE, c->name);

	errno = 0;
	long r =
		syscall(nr, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], c->args[5]);
	return r < 0 ? errno : 0;
}

/* Bad pointers, bad flags, bad fds: what is not filtered fails in the kernel with its own error. */
#define FD_BAD (-1)
static const struct call refused[] = {
	{"clone3", {0, 0}, ENOSYS},
	{"clone3", {1, 88}, ENOSYS},
	{"io_uring_setup", {0, 0}, ENOSYS},
	{"io_uring_enter", {FD_BAD, 0, 0, 0xffff}, ENOSYS},
	{"io_uring_register", {FD_BAD, 0xffff}, ENOSYS},
	{"keyctl", {0, -1}, ENOSYS},
	{"add_key", {0, 0, 0, 1L << 40}, ENOSYS},
	{"request_key", {0}, ENOSYS},
	{"bpf", {0xffff, 0, 0}, ENOSYS},
	{"perf_event_open", {0}, ENOSYS},
	{"userfaultfd", {0x4000}, ENOSYS},
	{"fanotify_init", {-1}, ENOSYS},
	{"open_by_handle_at", {FD_BAD, 0, 0}, ENOSYS},
	{"quotactl", {-1, 0, 0, 0}, ENOSYS},
	{"init_module", {0, 0, 0}, ENOSYS},
	{"finit_module", {FD_BAD, 0, -1}, ENOSYS},
	{"mount", {1, 1, 1, 0, 0}, EPERM},
	{"umount2", {1, -1}, EPERM},
	{"pivot_root", {1, 1}, EPERM},
	{"chroot", {1}, EPERM},
	{"open_tree", {FD_BAD, 1, -1}, EPERM},
	{"move_mount", {FD_BAD, 1, FD_BAD, 1, -1}, EPERM},
	{"mount_setattr", {FD_BAD, 1, 0xffff, 1, 8}, EPERM},
	{"fsconfig", {FD_BAD, 0xffff}, EPERM},
	{"setns", {FD_BAD, 0}, EPERM},
	{"unshare", {CLONE_NEWUSER | CLONE_THREAD}, EPERM},
	{"unshare", {CLONE_NEWNET | (1L << 40)}, EPERM},
	{"clone", {CLONE_NEWUSER | CLONE_FS | SIGCHLD}, EPERM},
	{"clone", {CLONE_NEWNS | CLONE_FS | SIGCHLD | (1L << 40)}, EPERM},
	{"pidfd_getfd", {FD_BAD, 0, 0}, EPERM},
	{"kcmp", {1, 1, 0xffff}, EPERM},
	{"syslog", {0xffff}, EPERM},
	{"personality", {0x100000}, EPERM},
	{"personality", {0x100000 | (1L << 40)}, EPERM},
	{"socket", {AF_ALG, 0x7ffffff0, 0}, EAFNOSUPPORT},
	{"socket", {AF_VSOCK, 0x7ffffff0, 0}, EAFNOSUPPORT},
	{"socket", {AF_PACKET, 0x7ffffff0, 0}, EAFNOSUPPORT},
	{"socket", {AF_BLUETOOTH, 0x7ffffff0, 0}, EAFNOSUPPORT},
	{"socket", {AF_XDP, 0x7ffffff0, 0}, EAFNOSUPPORT},
	{"socket", {AF_ALG | (1L << 32), 0x7ffffff0, 0}, EAFNOSUPPORT},
	{"socket", {AF_NETLINK, 0x7ffffff3, 12}, EAFNOSUPPORT},
	{"socket", {AF_INET, 0x7ffffff3, 1}, EPERM},
	{"socket", {AF_INET, 0x7ffffff1, 132}, EPROTONOSUPPORT},
	{"socketpair", {AF_INET, 0x7ffffff1, 0, 0}, EAFNOSUPPORT},
	{"ioctl", {FD_BAD, 0x5412, 0}, EPERM},
	{"ioctl", {FD_BAD, 0x5412 | (1L << 32), 0}, EPERM},
	{"ioctl", {FD_BAD, 0x541c, 0}, EPERM},
	{"ioctl", {FD_BAD, 0x541c | (long)(1UL << 63), 0}, EPERM},
	{"ioctl", {FD_BAD, 0x5423, 0}, EPERM},
};

TEST(what_the_profiles_refuse_is_refused_by_the_kernel)
{
	unsigned controls = 0, without = 0;

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		const struct call *c = &refused[i];
		if (syscall_number(SYSCALL_ARCH_NATIVE, c->name) < 0)
			continue;
		int control = in_child(NULL, try_call, c);
		if (control != c->want)
			controls++;
		else {
			printf("# %s: no control, this kernel itself says %s\n", c->name,
				strerror(c->want));
			without++;
		}
		for (size_t p = 0; seccomp_profile_names[p]; p++) {
			if (p == 2 && (!strcmp(c->name, "kcmp") || !strcmp(c->name, "pidfd_getfd")))
				continue;
			int got = in_child(seccomp_profile_names[p], try_call, c);
			CHECK_(got == c->want, "%s in %s: %d, not %d", c->name,
				seccomp_profile_names[p], got, c->want);
		}
	}
	ASSERT(controls > 2 * without);
}

#if defined(__x86_64__)
/* getpid by the 32-bit gate. */
static int call_i386(const void *arg)
{
	int r;

	(void)arg;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
	return r > 0 ? 1 : 0;
}

static int call_x32(const void *arg)
{
	(void)arg;
	return syscall(0x40000000 | SYS_getpid) > 0 || errno == ENOSYS;
}

TEST(calls_by_the_i386_gate_and_x32_numbers_kill)
{
	int control = in_child(NULL, call_i386, NULL);

	for (size_t p = 0; seccomp_profile_names[p]; p++) {
		ASSERT(in_child(seccomp_profile_names[p], call_x32, NULL) == DIED(SIGSYS));
		if (control == 1)
			ASSERT(in_child(seccomp_profile_names[p], call_i386, NULL) == DIED(SIGSYS));
	}
	ASSERT(in_child(NULL, call_x32, NULL) == 1);
	if (control != 1)
		SKIP("this kernel has no i386 gate");
}
#endif

static int call_unknown(const void *arg)
{
	(void)arg;
	return syscall(4000) < 0 ? errno : 0;
}

static int call_minus_one(const void *arg)
{
	(void)arg;
	return syscall(-1) < 0 ? errno : 0;
}

TEST(numbers_nobody_knows_do_not_exist)
{
	for (size_t p = 0; seccomp_profile_names[p]; p++) {
		ASSERT(in_child(seccomp_profile_names[p], call_unknown, NULL) == ENOSYS);
		ASSERT(in_child(seccomp_profile_names[p], call_minus_one, NULL) == ENOSYS);
	}
}

static void *add_one(void *p)
{
	__atomic_add_fetch((int *)p, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static int work(const void *arg)
{
	pthread_t threads[8];
	int n = 0, pair[2], st;

	(void)arg;
	for (int i = 0; i < 8; i++) {
		if (pthread_create(&threads[i], NULL, add_one, &n))
			return 1;
	}
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	if (n != 8)
		return 2;
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "echo x | cat >/dev/null; exit 7", (char *)NULL);
		_exit(1);
	}
	if (waitpid(pid, &st, 0) != pid || !WIFEXITED(st) || WEXITSTATUS(st) != 7)
		return 3;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || write(pair[0], "x", 1) != 1)
		return 4;
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (tcp < 0 || socket(AF_INET6, SOCK_DGRAM, 0) < 0)
		return errno == EAFNOSUPPORT ? 0 : 5; /* a kernel without IPv6 */
	return personality(0xffffffff) < 0 ? 6 : 0;
}

TEST(threads_processes_and_sockets_work_under_every_profile)
{
	ASSERT(in_child(NULL, work, NULL) == 0);
	for (size_t p = 0; seccomp_profile_names[p]; p++)
		ASSERT_ERR(in_child(seccomp_profile_names[p], work, NULL), 0);
}

static int peek_at_child(const void *arg)
{
	static volatile long secret = 1;
	long seen = 0;
	int st;

	(void)arg;
	pid_t pid = fork();
	if (pid == 0) {
		secret = 42;
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			_exit(errno);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(pid, &st, 0) != pid)
		return -1;
	if (WIFEXITED(st))
		return WEXITSTATUS(st);
	errno = 0;
	seen = ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)&secret, 0);
	struct iovec mine = {&seen, sizeof seen}, its = {(void *)(uintptr_t)&secret, sizeof secret};
	if (seen != 42 || process_vm_readv(pid, &mine, 1, &its, 1, 0) != sizeof seen)
		return -2;
	kill(pid, SIGKILL);
	return waitpid(pid, &st, 0) == pid && seen == 42 ? 0 : -3;
}

TEST(a_process_may_trace_its_own_child_but_not_in_strict)
{
	ASSERT(in_child(NULL, peek_at_child, NULL) == 0);
	ASSERT(in_child("default", peek_at_child, NULL) == 0);
	ASSERT(in_child("debug", peek_at_child, NULL) == 0);
	ASSERT(in_child("strict", peek_at_child, NULL) == EPERM);
}

static int stack_another(const void *arg)
{
	(void)arg;
	for (int i = 0; i < 8; i++) {
		if (seccomp_load(seccomp_profile("strict")) < 0)
			return errno;
	}
	return syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0) < 0 ? 0 : 1;
}

TEST(a_program_in_the_cell_may_add_filters_of_its_own)
{
	ASSERT(in_child("default", stack_another, NULL) == 0);
	ASSERT(in_child("strict", stack_another, NULL) == 0);
}

static int load_without_promise(const void *arg)
{
	(void)arg;
	if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 0;
	return seccomp_load(seccomp_profile("default"));
}

TEST(loading_without_no_new_privs_is_reported)
{
	ASSERT(in_child(NULL, load_without_promise, NULL) == -EACCES);
}
