/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the built-in profiles let through, said a second time and independently of the lists they
 * are made from: each program is run by hand for every number and the arguments that matter, on
 * both architectures. test_seccomp_live.c tries them on the kernel.
 */
#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/bpf_run.h"
#include "base/syscalls.h"
#include "launcher/seccomp_profiles.h"
#include "test.h"

#define ALLOW	  SECCOMP_RET_ALLOW
#define KILL	  SECCOMP_RET_KILL_PROCESS
#define ERR(e)	  (SECCOMP_RET_ERRNO | (e))
#define HIGH_BITS 0xabcdef0100000000u

static const uint32_t arches[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};

static uint32_t verdict(const char *profile, uint32_t arch, const char *name, const uint64_t *args)
{
	struct seccomp_data d = {.arch = arch};
	int nr = syscall_number(arch, name);

	CHECK_(nr != -ENOENT, "there is no %s", name);
	if (nr < 0)
		return 0;
	d.nr = nr;
	memcpy(d.args, args, sizeof d.args);
	return bpf_run(seccomp_profile_for(profile, arch), &d);
}

static const char no_such_call[] =
	" clone3 openat2 io_uring_setup io_uring_enter io_uring_register userfaultfd add_key "
	"keyctl "
	"request_key io_setup"
	" bpf perf_event_open fanotify_init fanotify_mark open_by_handle_at lookup_dcookie "
	"kexec_load"
	" kexec_file_load reboot acct swapon swapoff quotactl quotactl_fd init_module finit_module"
	" delete_module create_module get_kernel_syms query_module iopl ioperm modify_ldt "
	"nfsservctl"
	" vserver uselib ustat sysfs _sysctl afs_syscall getpmsg putpmsg security tuxcall "
	"epoll_ctl_old"
	" epoll_wait_old statmount listmount listns lsm_get_self_attr lsm_set_self_attr"
	" lsm_list_modules ";
static const char not_permitted[] =
	" mount umount2 pivot_root chroot mount_setattr move_mount open_tree open_tree_attr fsopen"
	" fsconfig fsmount fspick setns sethostname setdomainname syslog settimeofday clock_settime"
	" vhangup move_pages migrate_pages kcmp pidfd_getfd ";
/* With all arguments zero. */
static const char by_argument[] = " socket socketpair ";

static bool has_word(const char *list, const char *word)
{
	char padded[64];

	(void)snprintf(padded, sizeof padded, " %s ", word);
	return strstr(list, padded) != NULL;
}

static uint32_t expect_default(const char *name)
{
	if (!name || has_word(no_such_call, name))
		return ERR(ENOSYS);
	if (has_word(not_permitted, name))
		return ERR(EPERM);
	return has_word(by_argument, name) ? ERR(EAFNOSUPPORT) : ALLOW;
}

TEST(default_answers_every_number_as_listed)
{
	for (size_t a = 0; a < 2; a++) {
		const struct sock_fprog *p = seccomp_profile_for("default", arches[a]);
		unsigned allowed = 0;
		ASSERT(p && bpf_is_sound(p));
		for (int nr = 0; nr < 5000; nr++) {
			const char *name = syscall_name(arches[a], (unsigned)nr);
			struct seccomp_data d = {.arch = arches[a], .nr = nr};
			uint32_t want = expect_default(name), got = bpf_run(p, &d);
			CHECK_(got == want, "%s (%d) is %#x, not %#x", name ? name : "?", nr, got,
				want);
			allowed += got == ALLOW;
		}
		ASSERT(allowed > 240);
	}
}

TEST(debug_is_default_with_kcmp_and_pidfd_getfd)
{
	for (size_t a = 0; a < 2; a++) {
		const struct sock_fprog *p = seccomp_profile_for("debug", arches[a]);
		ASSERT(p && bpf_is_sound(p));
		for (int nr = 0; nr < 5000; nr++) {
			const char *name = syscall_name(arches[a], (unsigned)nr);
			struct seccomp_data d = {.arch = arches[a], .nr = nr};
			uint32_t want =
				name && (!strcmp(name, "kcmp") || !strcmp(name, "pidfd_getfd"))
					? ALLOW
					: expect_default(name);
			CHECK_(bpf_run(p, &d) == want, "%s (%d)", name ? name : "?", nr);
		}
	}
}

TEST(strict_denies_what_a_plain_program_does_not_need)
{
	static const char *const refused[] = {"ptrace", "process_vm_readv", "process_vm_writev",
		"process_madvise", "process_mrelease", "kcmp", "pidfd_getfd", "shmget", "shmat",
		"semget", "msgget", "mq_open", "io_setup", "io_submit", "mbind", "set_mempolicy",
		"name_to_handle_at", "unshare", "remap_file_pages", "splice", "tee", "vmsplice",
		"memfd_secret", "cachestat", "adjtimex", "clock_adjtime", "ioprio_set",
		"set_mempolicy_home_node"};
	static const char *const needed[] = {"read", "write", "openat", "close", "mmap", "mprotect",
		"brk", "clone", "execve", "execveat", "wait4", "exit_group", "futex",
		"rt_sigaction", "rt_sigreturn", "epoll_wait", "epoll_pwait", "pipe2", "getrandom",
		"rseq", "set_robust_list", "statx", "newfstatat", "connect", "bind", "listen",
		"accept4", "sendmsg", "recvmsg", "setsockopt", "getsockopt", "shutdown",
		"memfd_create", "seccomp", "landlock_restrict_self", "sched_setaffinity",
		"prlimit64", "faccessat2", "close_range", "kill", "tgkill", "setsid", "fchmodat2",
		"inotify_init1", "copy_file_range", "sendfile", "futex_waitv", "prctl", "ioctl",
		"restart_syscall", "uname", "getcwd"};
	static const uint64_t zero[6];

	for (size_t a = 0; a < 2; a++) {
		for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
			uint32_t v = verdict("strict", arches[a], refused[i], zero);
			CHECK_(v == 0 || (v & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO,
				"%s: %#x", refused[i], v);
		}
		for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
			uint32_t v = verdict("strict", arches[a], needed[i], zero);
			CHECK_(v == 0 || v == ALLOW, "%s: %#x", needed[i], v);
		}
		ASSERT(verdict("default", arches[a], "ptrace", zero) == ALLOW);
		ASSERT(verdict("default", arches[a], "process_vm_readv", zero) == ALLOW);
		ASSERT(verdict("strict", arches[a], "ptrace", zero) == ERR(EPERM));
		ASSERT(verdict("strict", arches[a], "splice", zero) == ERR(EINVAL));
		ASSERT(verdict("strict", arches[a], "memfd_secret", zero) == ERR(ENOSYS));
	}
}

enum {
	D = 1,
	S = 2,
	G = 4,
	ALL = 7
};
static const struct {
	unsigned profiles;
	const char *name;
	uint64_t args[4];
	uint32_t want;
	unsigned ints; /* bit n: argument n is an int to the kernel */
} cases[] = {
	{ALL, "clone", {0x01200011}, ALLOW, 1},	     /* fork */
	{ALL, "clone", {0x003d0f00}, ALLOW, 1},	     /* a thread */
	{ALL, "clone", {0x00004111}, ALLOW, 1},	     /* vfork */
	{ALL, "clone", {0x00000091}, ALLOW, 1},	     /* 0x80 is signal here, not NEWTIME */
	{ALL, "clone", {0x00020011}, ERR(EPERM), 1}, /* NEWNS */
	{ALL, "clone", {0x02000011}, ERR(EPERM), 1}, /* NEWCGROUP */
	{ALL, "clone", {0x04000011}, ERR(EPERM), 1}, /* NEWUTS */
	{ALL, "clone", {0x08000011}, ERR(EPERM), 1}, /* NEWIPC */
	{ALL, "clone", {0x10000011}, ERR(EPERM), 1}, /* NEWUSER */
	{ALL, "clone", {0x20000011}, ERR(EPERM), 1}, /* NEWPID */
	{ALL, "clone", {0x40000011}, ERR(EPERM), 1}, /* NEWNET */
	{D | G, "unshare", {0x400}, ALLOW, 0},	     /* FILES */
	{D | G, "unshare", {0x200}, ALLOW, 0},	     /* FS */
	{D | G, "unshare", {0x40000}, ALLOW, 0},     /* SYSVSEM */
	{D | G, "unshare", {0x50f00}, ALLOW, 0},     /* and VM, SIGHAND, THREAD */
	{S, "unshare", {0x400}, ERR(EPERM), 0},
	{ALL, "unshare", {0x10000000}, ERR(EPERM), 1},
	{ALL, "unshare", {0x10000400}, ERR(EPERM), 1},
	{ALL, "unshare", {0x80}, ERR(EPERM), 1}, /* NEWTIME */
	{ALL, "unshare", {0x20000}, ERR(EPERM), 1},
	{ALL, "unshare", {0x40000000}, ERR(EPERM), 1},
	{ALL, "unshare", {0x100000000}, ERR(EPERM), 0}, /* a flag yet to come */
	{ALL, "socket", {AF_UNIX, SOCK_STREAM, 0}, ALLOW, 7},
	{ALL, "socket", {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0}, ALLOW, 7},
	{ALL, "socket", {AF_UNIX, SOCK_SEQPACKET, 0}, ALLOW, 7},
	{ALL, "socket", {AF_INET, SOCK_STREAM, 0}, ALLOW, 7},
	{ALL, "socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 6}, ALLOW, 7},
	{ALL, "socket", {AF_INET6, SOCK_STREAM, 6}, ALLOW, 7},
	{ALL, "socket", {AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0}, ALLOW, 7},
	{ALL, "socket", {AF_INET, SOCK_DGRAM, 0}, ALLOW, 7},
	{ALL, "socket", {AF_INET, SOCK_DGRAM, 17}, ALLOW, 7},
	{ALL, "socket", {AF_INET, SOCK_DGRAM, 1}, ALLOW, 7}, /* ping */
	{ALL, "socket", {AF_INET6, SOCK_DGRAM, 58}, ALLOW, 7},
	{ALL, "socket", {AF_INET, SOCK_RAW, 1}, ERR(EPERM), 7},
	{ALL, "socket", {AF_INET, SOCK_RAW, 255}, ERR(EPERM), 7},
	{ALL, "socket", {AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58}, ERR(EPERM), 7},
	{ALL, "socket", {AF_INET, 10, 0x300}, ERR(EPROTONOSUPPORT), 7},		  /* SOCK_PACKET */
	{ALL, "socket", {AF_INET, SOCK_SEQPACKET, 132}, ERR(EPROTONOSUPPORT), 7}, /* SCTP */
	{ALL, "socket", {AF_INET, SOCK_STREAM, 132}, ERR(EPROTONOSUPPORT), 7},	  /* SCTP */
	{ALL, "socket", {AF_INET, SOCK_STREAM, 262}, ERR(EPROTONOSUPPORT), 7},	  /* MPTCP */
	{ALL, "socket", {AF_INET, SOCK_STREAM, 256}, ERR(EPROTONOSUPPORT), 7},	  /* SMC */
	{ALL, "socket", {AF_INET, SOCK_DGRAM, 136}, ERR(EPROTONOSUPPORT), 7},	  /* UDP-Lite */
	{ALL, "socket", {AF_INET, SOCK_DCCP, 33}, ERR(EPROTONOSUPPORT), 7},
	{ALL, "socket", {AF_INET, SOCK_DGRAM, 6}, ERR(EPROTONOSUPPORT), 7},
	{D | G, "socket", {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}, ALLOW, 7}, /* ROUTE */
	{D | G, "socket", {AF_NETLINK, SOCK_DGRAM, 0}, ALLOW, 7},
	{S, "socket", {AF_NETLINK, SOCK_RAW, 0}, ERR(EAFNOSUPPORT), 7},
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 4}, ERR(EAFNOSUPPORT), 7},  /* SOCK_DIAG */
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 6}, ERR(EAFNOSUPPORT), 7},  /* XFRM */
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 9}, ERR(EAFNOSUPPORT), 7},  /* AUDIT */
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 12}, ERR(EAFNOSUPPORT), 7}, /* NETFILTER */
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 15}, ERR(EAFNOSUPPORT), 7}, /* UEVENT */
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 16}, ERR(EAFNOSUPPORT), 7}, /* GENERIC */
	{ALL, "socket", {AF_NETLINK, SOCK_RAW, 21}, ERR(EAFNOSUPPORT), 7}, /* CRYPTO */
	{ALL, "socketpair", {AF_UNIX, SOCK_STREAM, 0}, ALLOW, 7},
	{ALL, "socketpair", {AF_INET, SOCK_STREAM, 0}, ERR(EAFNOSUPPORT), 7},
	{ALL, "socketpair", {AF_TIPC, SOCK_SEQPACKET, 0}, ERR(EAFNOSUPPORT), 7},
	{ALL, "chmod", {0, 0755}, ALLOW, 2},
	{ALL, "chmod", {0, 01777}, ALLOW, 2},
	{ALL, "chmod", {0, 04755}, ERR(EPERM), 2},
	{ALL, "chmod", {0, 02755}, ERR(EPERM), 2},
	{ALL, "fchmod", {0, 06755}, ERR(EPERM), 2},
	{ALL, "fchmodat", {0, 0, 0644}, ALLOW, 4},
	{ALL, "fchmodat", {0, 0, 04000}, ERR(EPERM), 4},
	{ALL, "fchmodat2", {0, 0, 02000}, ERR(EPERM), 4},
	{ALL, "creat", {0, 0600}, ALLOW, 2},
	{ALL, "creat", {0, 04600}, ERR(EPERM), 2},
	{ALL, "mknod", {0, 0100644}, ALLOW, 2},
	{ALL, "mknod", {0, 0104755}, ERR(EPERM), 2},
	{ALL, "mknodat", {0, 0, 0102755}, ERR(EPERM), 4},
	{ALL, "open", {0, 0101, 0644}, ALLOW, 6},
	{ALL, "open", {0, 0101, 04755}, ERR(EPERM), 6},
	{ALL, "open", {0, 0, 04755}, ALLOW, 6}, /* no O_CREAT: the mode means nothing */
	{ALL, "openat", {0, 0, 0101, 0644}, ALLOW, 12},
	{ALL, "openat", {0, 0, 0101, 04644}, ERR(EPERM), 12},
	{ALL, "openat", {0, 0, 0101, 02644}, ERR(EPERM), 12},
	{ALL, "openat", {0, 0, 020200002, 04755}, ERR(EPERM), 12}, /* O_TMPFILE */
	{ALL, "openat", {0, 0, 0, 04755}, ALLOW, 12},
	{ALL, "ioctl", {0, 0x5401}, ALLOW, 2},	    /* TCGETS */
	{ALL, "ioctl", {0, 0x5413}, ALLOW, 2},	    /* TIOCGWINSZ, one past TIOCSTI */
	{ALL, "ioctl", {0, 0x5421}, ALLOW, 2},	    /* FIONBIO */
	{ALL, "ioctl", {0, 0x5424}, ALLOW, 2},	    /* TIOCGETD */
	{ALL, "ioctl", {0x5412, 0}, ALLOW, 2},	    /* an fd of that number */
	{ALL, "ioctl", {0, 0x5412}, ERR(EPERM), 2}, /* TIOCSTI */
	{ALL, "ioctl", {0, 0x541c}, ERR(EPERM), 2}, /* TIOCLINUX */
	{ALL, "ioctl", {0, 0x541d}, ERR(EPERM), 2}, /* TIOCCONS */
	{ALL, "ioctl", {0, 0x5423}, ERR(EPERM), 2}, /* TIOCSETD */
	{ALL, "fcntl", {0, 1024}, ERR(EINVAL), 2},  /* SETLEASE */
	{ALL, "fcntl", {0, 1025}, ALLOW, 2},	    /* GETLEASE */
	{ALL, "fcntl", {0, 1030}, ALLOW, 2},	    /* DUPFD_CLOEXEC */
	{ALL, "mmap", {0, 4096, 3, 0x22}, ALLOW, 8},
	{ALL, "mmap", {0, 4096, 3, 0x40022}, ERR(ENOMEM), 8}, /* HUGETLB */
	{ALL, "memfd_create", {0, 1}, ALLOW, 2},
	{ALL, "memfd_create", {0, 5}, ERR(EINVAL), 2}, /* HUGETLB */
	{D | G, "shmget", {0, 4096, 01600}, ALLOW, 4},
	{ALL, "shmget", {0, 4096, 05600}, ERR(EPERM), 4}, /* HUGETLB */
	{ALL, "personality", {0}, ALLOW, 1},
	{ALL, "personality", {0xffffffff}, ALLOW, 1},
	{D | G, "personality", {0x8}, ALLOW, 1},
	{D | G, "personality", {0x20000}, ALLOW, 1},
	{D | G, "personality", {0x20008}, ALLOW, 1},
	{D | G, "personality", {0x40000}, ALLOW, 1},
	{S, "personality", {0x40000}, ERR(EPERM), 1},
	{G, "personality", {0x240008}, ALLOW, 1},
	{D | S, "personality", {0x240008}, ERR(EPERM), 1},
	{ALL, "personality", {0x100000}, ERR(EPERM), 1}, /* MMAP_PAGE_ZERO */
	{ALL, "personality", {0x1}, ERR(EPERM), 1},
	{ALL, "personality", {0xfffffffe}, ERR(EPERM), 1},
	{D | G, "prctl", {35}, ALLOW, 1},
	{S, "prctl", {35}, ERR(EPERM), 1},	   /* SET_MM */
	{S, "prctl", {62}, ERR(EPERM), 1},	   /* SCHED_CORE */
	{S, "prctl", {0x59616d61}, ERR(EPERM), 1}, /* SET_PTRACER */
	{ALL, "prctl", {15}, ALLOW, 1},		   /* SET_NAME */
	{ALL, "prctl", {38}, ALLOW, 1},		   /* NO_NEW_PRIVS */
	{ALL, "mknod", {0, 0010644}, ALLOW, 2},
	{S, "mknod", {0, 0020644}, ERR(EPERM), 2},
	{S, "mknod", {0, 0060644}, ERR(EPERM), 2},
	{ALL, "mknodat", {0, 0, 0100644}, ALLOW, 4},
	{ALL, "mknodat", {0, 0, 0010644}, ALLOW, 4},
	{S, "mknodat", {0, 0, 0020644}, ERR(EPERM), 4},
	{S, "mknodat", {0, 0, 0060644}, ERR(EPERM), 4},
};

static void check_case(size_t i, const char *profile)
{
	for (size_t a = 0; a < 2; a++) {
		for (unsigned high = 0; high < 16; high++) {
			uint64_t args[6] = {0};
			if ((high & cases[i].ints) != high)
				continue;
			for (unsigned k = 0; k < 4; k++)
				args[k] = cases[i].args[k] | (high & 1u << k ? HIGH_BITS : 0);
			uint32_t got = verdict(profile, arches[a], cases[i].name, args);
			CHECK_(got == cases[i].want || got == 0,
				"%s %#x: %s(%#llx, %#llx, %#llx) is %#x", profile, arches[a],
				cases[i].name, (unsigned long long)args[0],
				(unsigned long long)args[1], (unsigned long long)args[2], got);
		}
	}
}

TEST(arguments_decide_as_listed_whatever_the_high_half_of_an_int)
{
	static const char *const names[] = {"default", "strict", "debug"};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (unsigned p = 0; p < 3; p++) {
			if (cases[i].profiles & 1u << p)
				check_case(i, names[p]);
		}
	}
}

TEST(only_four_address_families_exist)
{
	for (size_t p = 0; seccomp_profile_names[p]; p++) {
		for (uint64_t family = 0; family < 256; family++) {
			uint64_t args[6] = {family, SOCK_STREAM, 0};
			bool is_known = family == AF_UNIX || family == AF_INET ||
					family == AF_INET6 || (family == AF_NETLINK && p != 1);
			uint32_t want = is_known ? ALLOW : ERR(EAFNOSUPPORT);
			for (size_t a = 0; a < 2; a++) {
				CHECK_(verdict(seccomp_profile_names[p], arches[a], "socket",
					       args) == want,
					"family %llu", (unsigned long long)family);
				args[0] |= HIGH_BITS;
				ASSERT(verdict(seccomp_profile_names[p], arches[a], "socket",
					       args) == want);
				args[0] = family;
			}
		}
	}
}

TEST(calls_of_another_architecture_kill)
{
	static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_PPC64LE, 0};

	for (size_t p = 0; seccomp_profile_names[p]; p++) {
		for (size_t a = 0; a < 2; a++) {
			const struct sock_fprog *prog =
				seccomp_profile_for(seccomp_profile_names[p], arches[a]);
			struct seccomp_data d = {.arch = arches[1 - a]};
			for (d.nr = -1; d.nr < 600; d.nr++)
				ASSERT(bpf_run(prog, &d) == KILL);
			for (size_t i = 0; i < 4; i++) {
				d = (struct seccomp_data){.arch = others[i], .nr = 1};
				ASSERT(bpf_run(prog, &d) == KILL);
			}
		}
	}
}

TEST(x32_numbers_kill_and_numbers_nobody_knows_do_not_exist)
{
	for (size_t p = 0; seccomp_profile_names[p]; p++) {
		const struct sock_fprog *x86 =
			seccomp_profile_for(seccomp_profile_names[p], AUDIT_ARCH_X86_64);
		const struct sock_fprog *arm =
			seccomp_profile_for(seccomp_profile_names[p], AUDIT_ARCH_AARCH64);
		struct seccomp_data x = {.arch = AUDIT_ARCH_X86_64},
				    y = {.arch = AUDIT_ARCH_AARCH64};
		for (int nr = 0; nr < 1000; nr++) {
			x.nr = 0x40000000 + nr;
			y.nr = x.nr;
			ASSERT(bpf_run(x86, &x) == KILL);
			ASSERT(bpf_run(arm, &y) == ERR(ENOSYS));
		}
		x.nr = y.nr = (int)0x80000000;
		ASSERT(bpf_run(x86, &x) == KILL && bpf_run(arm, &y) == ERR(ENOSYS));
		x.nr = y.nr = -1; /* how a tracer skips a call */
		ASSERT(bpf_run(x86, &x) == ERR(ENOSYS) && bpf_run(arm, &y) == ERR(ENOSYS));
		x.nr = y.nr = 472;
		ASSERT(bpf_run(x86, &x) == ERR(ENOSYS) && bpf_run(arm, &y) == ERR(ENOSYS));
		x.nr = y.nr = 0x3fffffff;
		ASSERT(bpf_run(x86, &x) == ERR(ENOSYS) && bpf_run(arm, &y) == ERR(ENOSYS));
	}
}

TEST(strict_allows_nothing_that_default_does_not_and_debug_all_that_default_does)
{
	static const uint64_t values[] = {0, 1, 2, 3, 10, 16, 0x5412, 0x541c, 0x40000, 0x10000011,
		0x01200011, 0xffffffff, 0x100000000, UINT64_MAX};
	enum {
		N = sizeof values / sizeof *values
	};
	unsigned long allowed[3] = {0};

	for (size_t a = 0; a < 2; a++) {
		struct seccomp_data d = {.arch = arches[a]};
		for (d.nr = 0; d.nr < 480; d.nr++) {
			for (size_t i = 0; i < (size_t)N * N * N; i++) {
				d.args[0] = values[i % N];
				d.args[1] = values[i / N % N];
				d.args[2] = values[i / N / N];
				bool is_ok[3];
				for (size_t p = 0; p < 3; p++) {
					is_ok[p] = bpf_run(seccomp_profile_for(seccomp_profile_names
										       [p],
								   arches[a]),
							   &d) == ALLOW;
					allowed[p] += is_ok[p];
				}
				CHECK_(!is_ok[1] || is_ok[0], "strict allows call %d", d.nr);
				CHECK_(!is_ok[0] || is_ok[2], "debug does not allow call %d", d.nr);
			}
		}
	}
	ASSERT(allowed[1] > 100000 && allowed[1] < allowed[0] && allowed[0] < allowed[2]);
}

TEST(there_is_no_other_profile)
{
	ASSERT(seccomp_profile("default") == seccomp_profile_for("default", SYSCALL_ARCH_NATIVE));
	ASSERT(!seccomp_profile("") && !seccomp_profile("none") && !seccomp_profile("DEFAULT"));
	ASSERT(!seccomp_profile_for("default", AUDIT_ARCH_I386));
}

TEST(the_floor_is_not_for_choosing)
{
	ASSERT(seccomp_profile("floor"));
	ASSERT(!seccomp_chosen("floor"));
	ASSERT(!seccomp_chosen("/a/file.json"));
	ASSERT(!seccomp_chosen(""));
	ASSERT(seccomp_chosen(NULL) == seccomp_profile("default"));
	ASSERT(seccomp_chosen("strict") == seccomp_profile("strict"));
	ASSERT(seccomp_chosen("debug") == seccomp_profile("debug"));
}
