/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.c: the built-in profiles.
 *
 * How a call is refused matters as much as that it is: programs probe, and fall back when told
 * ENOSYS but give up on EPERM (clone3 with EPERM: no threads with any recent glibc; io_uring with a
 * kill: no Node). So: ENOSYS for what programs can do without, EPERM for what needs privileges the
 * cell never has, a kill for nothing but another architecture's calls.
 */
#include "launcher/seccomp/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/syscalls.h"

#define ALLOW SECCOMP_RET_ALLOW
#define DENY  SCF_ERRNO(EPERM)
#define NONE  SCF_ERRNO(ENOSYS)

#define FIRST_FALLBACK_NR 424 /* from here on (Linux 5.1) programs know how to do without */

/* Calls nobody in a cell gets. */
static const char *const missing[] = {
	"clone3",  /* its flags lie behind a pointer, where no filter sees them; glibc uses clone */
	"openat2", /* and so does its mode, see set-id below; who knows it knows openat too */
	"io_uring_setup", "io_uring_enter", "io_uring_register", /* does calls past any filter */
	"io_setup",			    /* the machine has few of what it takes, for all */
	"userfaultfd",			    /* widens every race in the kernel */
	"add_key", "keyctl", "request_key", /* keyrings have no namespace */
	"bpf", "perf_event_open", "fanotify_init",
	"fanotify_mark",		       /* large surface, need privileges */
	"open_by_handle_at", "lookup_dcookie", /* reach files without a path */
	"kexec_load", "kexec_file_load", "reboot", "acct", "swapon", "swapoff", "quotactl",
	"quotactl_fd", "init_module", "finit_module", "delete_module", "create_module",
	"get_kernel_syms", "query_module", "iopl", "ioperm", "modify_ldt", /* 16-bit segments */
	"nfsservctl", "vserver", "uselib", "ustat", "sysfs", "_sysctl", "afs_syscall", "getpmsg",
	"putpmsg", "security", "tuxcall", "epoll_ctl_old", "epoll_wait_old", "statmount",
	"listmount", "listns", /* name mounts and namespaces that are not the cell's */
	"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"};

/* What even a filter of the user's own does not open, see `floor`: roads to the host itself, and what
 * would lead around the floor. */
static const char *const never[] = {"openat2", "io_uring_setup", "io_uring_enter",
	"io_uring_register", "add_key", "keyctl", "request_key"};

/* Calls that need privileges. They would fail anyway; this way the kernel's code is not reached. */
static const char *const denied[] = {"mount", "umount2", "pivot_root", "chroot", "mount_setattr",
	"move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick",
	"setns", "sethostname", "setdomainname", "syslog", "settimeofday", "clock_settime",
	"vhangup", "move_pages", "migrate_pages"};

/* Look into or take from other processes; a debugger's business. */
static const char *const denied_but_debug[] = {"kcmp", "pidfd_getfd"};

/* All that `strict` lets through besides the calls with rules on their arguments. */
static const char *const strict[] = {"accept", "accept4", "access", "alarm", "arch_prctl", "bind",
	"brk", "capget", "capset", "chdir", "chmod", "chown", "clock_getres", "clock_gettime",
	"clock_nanosleep", "close", "close_range", "connect", "copy_file_range", "creat", "dup",
	"dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2",
	"epoll_wait", "eventfd", "eventfd2", "execve", "execveat", "exit", "exit_group",
	"faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat",
	"fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock",
	"fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futex",
	"futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "futimesat", "get_robust_list",
	"getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid", "getgroups",
	"getitimer", "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
	"getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "getsockname",
	"getsockopt", "gettid", "gettimeofday", "getuid", "getxattr", "inotify_add_watch",
	"inotify_init", "inotify_init1", "inotify_rm_watch", "ioprio_get", "kill",
	"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lchown",
	"lgetxattr", "link", "linkat", "listen", "listxattr", "llistxattr", "lremovexattr", "lseek",
	"lsetxattr", "lstat", "madvise", "map_shadow_stack", "membarrier", "memfd_create",
	"mincore", "mkdir", "mkdirat", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap",
	"mseal", "msync", "munlock", "munlockall", "munmap", "nanosleep", "newfstatat", "open",
	"openat", "pause", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2", "pkey_alloc",
	"pkey_free", "pkey_mprotect", "poll", "ppoll", "pread64", "preadv", "preadv2", "prlimit64",
	"pselect6", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
	"readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg", "removexattr", "rename",
	"renameat", "renameat2", "restart_syscall", "rmdir", "rseq", "rseq_slice_yield",
	"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
	"rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
	"sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
	"sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
	"sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select", "sendfile",
	"sendmmsg", "sendmsg", "sendto", "set_robust_list", "set_tid_address", "setgid",
	"setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid",
	"setreuid", "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "shutdown",
	"sigaltstack", "signalfd", "signalfd4", "stat", "statfs", "statx", "symlink", "symlinkat",
	"sync", "sync_file_range", "syncfs", "sysinfo", "tgkill", "time", "timer_create",
	"timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
	"timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask", "uname",
	"unlink", "unlinkat", "uprobe", "uretprobe", "utime", "utimensat", "utimes", "vfork",
	"wait4", "waitid", "write", "writev"};

/* `strict` answers EINVAL, "not for these files": what copiers fall back from. Several exploits of
 * the page cache began with a splice. */
static const char *const strict_invalid[] = {"splice", "tee", "vmsplice"};

/* A rule on 32-bit arguments. */
#define IS(a, v)                                                      \
	{                                                             \
		.arg = (a), .op = SCF_EQ, .is_32 = true, .value = (v) \
	}
#define MASKED(a, m, v)                                                                   \
	{                                                                                 \
		.arg = (a), .op = SCF_MASKED_EQ, .is_32 = true, .mask = (m), .value = (v) \
	}

enum profiles {
	IN_DEFAULT = 1,
	IN_STRICT = 2,
	IN_DEBUG = 4,
	LOOSE = IN_DEFAULT | IN_DEBUG,
	ALL = LOOSE | IN_STRICT,
	IN_FLOOR = 8,
	ALWAYS = ALL | IN_FLOOR,
};

struct arg_rule {
	const char *name;
	unsigned profiles;
	uint32_t action;
	struct scf_cond conds[3];
	size_t n_conds; /* 0: what holds when none of the rules above did */
};

#define CLONE_NAMESPACES                                                               \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)
#define UNSHARE_HARMLESS \
	(CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)
/* AF_INET and AF_INET6, which differ in one bit. */
#define IS_INET	    MASKED(0, ~(uint32_t)(AF_INET ^ AF_INET6), AF_INET &AF_INET6)
#define IS_TYPE(t)  MASKED(1, 0xfu, t) /* less SOCK_CLOEXEC and SOCK_NONBLOCK */
#define NETLINK_RT  0u
#define PROTO_ICMP  1u
#define PROTO_TCP   6u
#define PROTO_UDP   17u
#define PROTO_ICMP6 58u
#define ASKS_ONLY   0xffffffffu
#define NO_ASLR	    0x0040000u
/* PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE, ADDR_COMPAT_LAYOUT, READ_IMPLIES_EXEC */
#define DEBUG_PERSONALITY (0x8u | 0x0020000u | NO_ASLR | 0x0200000u | 0x0400000u)

#define IS_TMPFILE 020000000u /* of O_TMPFILE, without O_DIRECTORY */
/* A mode in argument a with either bit. */
#define SET_ID(name, a)                                              \
	{name, ALWAYS, DENY, {MASKED(a, S_ISUID, S_ISUID)}, 1},      \
	{                                                            \
		name, ALWAYS, DENY, {MASKED(a, S_ISGID, S_ISGID)}, 1 \
	}
/* Only with this flag in argument a is there a mode, in the next one. */
#define CREATE_SET_ID(name, a, flag)                                                              \
	{name, ALWAYS, DENY, {MASKED(a, flag, flag), MASKED((a) + 1, S_ISUID, S_ISUID)}, 2},      \
	{                                                                                         \
		name, ALWAYS, DENY, {MASKED(a, flag, flag), MASKED((a) + 1, S_ISGID, S_ISGID)}, 2 \
	}

/* Rules of one call in the order they are tried. */
/* clang-format off */
static const struct arg_rule arg_rules[] = {
	/* The kernel looks at the low half of clone's flags only. The byte of CLONE_NEWTIME is the
	 * exit signal there. */
	{"clone", ALL, ALLOW, {MASKED(0, CLONE_NAMESPACES, 0)}, 1},
	{"clone", ALL, DENY, {{0}}, 0},
	/* All 64 bits, as a list of what is allowed: new kernels add flags. */
	{"unshare", LOOSE, ALLOW,
		{{.arg = 0, .op = SCF_MASKED_EQ, .mask = ~(uint64_t)UNSHARE_HARMLESS}}, 1},
	{"unshare", ALL, DENY, {{0}}, 0},

	/* AF_ALG wrote to other cells' page cache, AF_VSOCK reaches the host, AF_PACKET and most of
	 * the rare families have been ways into the kernel. */
	{"socket", ALL, ALLOW, {IS(0, AF_UNIX)}, 1},
	/* STREAM is TCP and DGRAM is UDP or ping. Not SCTP, DCCP, MPTCP, SMC, UDP-Lite: modules that
	 * load themselves and have been ways into the kernel. Not RAW, nor PACKET, which turns into
	 * AF_PACKET. */
	{"socket", ALL, ALLOW, {IS_INET, IS_TYPE(SOCK_STREAM), IS(2, 0)}, 3},
	{"socket", ALL, ALLOW, {IS_INET, IS_TYPE(SOCK_STREAM), IS(2, PROTO_TCP)}, 3},
	{"socket", ALL, ALLOW, {IS_INET, IS_TYPE(SOCK_DGRAM), IS(2, 0)}, 3},
	{"socket", ALL, ALLOW, {IS_INET, IS_TYPE(SOCK_DGRAM), IS(2, PROTO_UDP)}, 3},
	{"socket", ALL, ALLOW, {IS_INET, IS_TYPE(SOCK_DGRAM), IS(2, PROTO_ICMP)}, 3},
	{"socket", ALL, ALLOW, {IS_INET, IS_TYPE(SOCK_DGRAM), IS(2, PROTO_ICMP6)}, 3},
	{"socket", ALL, DENY, {IS_INET, IS_TYPE(SOCK_RAW)}, 2},
	{"socket", ALL, SCF_ERRNO(EPROTONOSUPPORT), {IS_INET}, 1},
	{"socket", LOOSE, ALLOW, {IS(0, AF_NETLINK), IS(2, NETLINK_RT)}, 2},
	{"socket", ALL, SCF_ERRNO(EAFNOSUPPORT), {{0}}, 0},
	{"socket", IN_FLOOR, SCF_ERRNO(EAFNOSUPPORT), {IS(0, AF_VSOCK)}, 1},
	{"socket", IN_FLOOR, ALLOW, {{0}}, 0},
	{"socketpair", ALL, ALLOW, {IS(0, AF_UNIX)}, 1},
	{"socketpair", ALL, SCF_ERRNO(EAFNOSUPPORT), {{0}}, 0},

	/* TIOCSTI and TIOCLINUX type into the terminal for whoever reads it next; TIOCCONS takes the
	 * console's output; TIOCSETD loads line disciplines (n_hdlc, n_gsm). */
	{"ioctl", ALWAYS, DENY, {IS(1, 0x5412)}, 1},
	{"ioctl", ALWAYS, DENY, {IS(1, 0x541c)}, 1},
	{"ioctl", ALWAYS, DENY, {IS(1, 0x541d)}, 1},
	{"ioctl", ALWAYS, DENY, {IS(1, 0x5423)}, 1},
	{"ioctl", ALWAYS, ALLOW, {{0}}, 0},

	/* F_SETLEASE on a file of the workspace: whoever opens it on the host waits, for 45 s. */
	{"fcntl", ALWAYS, SCF_ERRNO(EINVAL), {IS(1, 1024)}, 1},

	/* Huge pages are set aside by the host for its own, and no limit of memory counts them. */
	{"mmap", ALL, SCF_ERRNO(ENOMEM), {MASKED(3, 0x40000, 0x40000)}, 1},
	{"memfd_create", ALL, SCF_ERRNO(EINVAL), {MASKED(1, 0x4, 0x4)}, 1},
	{"shmget", ALL, DENY, {MASKED(2, 04000, 04000)}, 1},

	{"personality", ALL, ALLOW, {IS(0, 0)}, 1},
	{"personality", ALL, ALLOW, {IS(0, ASKS_ONLY)}, 1},
	{"personality", IN_DEFAULT, ALLOW, {IS(0, 0x8)}, 1},
	{"personality", IN_DEFAULT, ALLOW, {IS(0, 0x20000)}, 1},
	{"personality", IN_DEFAULT, ALLOW, {IS(0, 0x20008)}, 1},
	{"personality", IN_DEFAULT, ALLOW, {IS(0, NO_ASLR)}, 1}, /* gdb, sanitizers */
	{"personality", IN_DEBUG, ALLOW, {MASKED(0, ~DEBUG_PERSONALITY, 0)}, 1},
	{"personality", ALL, DENY, {{0}}, 0},

	/* PR_SET_MM rewrites what /proc says of a process, PR_SCHED_CORE joins another's core,
	 * PR_SET_PTRACER lets another process in. */
	{"prctl", IN_STRICT, DENY, {IS(0, 35)}, 1},
	{"prctl", IN_STRICT, DENY, {IS(0, 62)}, 1},
	{"prctl", IN_STRICT, DENY, {IS(0, 0x59616d61)}, 1},
	{"prctl", ALL, ALLOW, {{0}}, 0},

	/* Files in the workspace belong to whoever owns it on the host, root perhaps. A set-id one is
	 * worth nothing in the cell, but would make any user of the host its owner. */
	SET_ID("chmod", 1), SET_ID("fchmod", 1), SET_ID("fchmodat", 2), SET_ID("fchmodat2", 2),
	SET_ID("mknod", 1), SET_ID("mknodat", 2), SET_ID("creat", 1),
	CREATE_SET_ID("open", 1, O_CREAT), CREATE_SET_ID("open", 1, IS_TMPFILE),
	CREATE_SET_ID("openat", 2, O_CREAT), CREATE_SET_ID("openat", 2, IS_TMPFILE),

	/* Files, fifos and sockets: no device. */
	{"mknod", IN_STRICT, DENY, {MASKED(1, S_IFMT, S_IFCHR)}, 1},
	{"mknod", IN_STRICT, DENY, {MASKED(1, S_IFMT, S_IFBLK)}, 1},
	{"mknod", ALWAYS, ALLOW, {{0}}, 0},
	{"mknodat", IN_STRICT, DENY, {MASKED(2, S_IFMT, S_IFCHR)}, 1},
	{"mknodat", IN_STRICT, DENY, {MASKED(2, S_IFMT, S_IFBLK)}, 1},
	{"mknodat", ALWAYS, ALLOW, {{0}}, 0},
};
/* clang-format on */

#define ADD_ALL(f, list, action) add_all(f, list, sizeof(list) / sizeof *(list), action)

/* One answer for each name; a call this architecture lacks is passed over. */
static int add_all(struct scf *f, const char *const *names, size_t n, uint32_t action)
{
	for (size_t i = 0; i < n; i++) {
		int nr = syscall_number(f->arch, names[i]);
		if (nr == -ENOENT)
			return -EINVAL;
		if (nr >= 0)
			f->calls[nr].otherwise = action;
	}
	return 0;
}

static int add_arg_rules(struct scf *f, unsigned profile)
{
	for (size_t i = 0; i < sizeof arg_rules / sizeof *arg_rules; i++) {
		const struct arg_rule *r = &arg_rules[i];
		int nr = syscall_number(f->arch, r->name);
		if (nr == -ENOENT)
			return -EINVAL;
		if (nr < 0 || !(r->profiles & profile))
			continue;
		if (r->n_conds == 0) {
			f->calls[nr].otherwise = r->action;
			continue;
		}
		int e = scf_add(f, (unsigned)nr, r->action, r->conds, r->n_conds);
		if (e < 0)
			return e;
	}
	return 0;
}

/* Before any list: known calls get what the profile says in general, holes in the table nothing. */
static void set_known(struct scf *f, bool is_strict)
{
	for (unsigned nr = 0; nr < f->n_calls; nr++) {
		if (!syscall_name(f->arch, nr))
			continue;
		f->calls[nr].otherwise =
			!is_strict ? ALLOW : (nr < FIRST_FALLBACK_NR ? DENY : NONE);
	}
}

int seccomp_rules_build(const char *profile, uint32_t arch, struct scf *f)
{
	unsigned p = strcmp(profile, "default") == 0  ? IN_DEFAULT
		     : strcmp(profile, "strict") == 0 ? IN_STRICT
		     : strcmp(profile, "debug") == 0  ? IN_DEBUG
		     : strcmp(profile, "floor") == 0  ? IN_FLOOR
						      : 0;
	*f = (struct scf){0};
	if (!p)
		return -ENOENT;
	int r = scf_init(f, arch, syscall_count(arch), NONE);
	if (r < 0)
		return r;
	set_known(f, p == IN_STRICT);
	if (p == IN_STRICT) {
		r = ADD_ALL(f, strict, ALLOW);
		if (r == 0)
			r = ADD_ALL(f, strict_invalid, SCF_ERRNO(EINVAL));
	}
	if (p == IN_FLOOR) {
		r = ADD_ALL(f, never, NONE);
		return r < 0 ? r : add_arg_rules(f, p);
	}
	if (r == 0)
		r = ADD_ALL(f, missing, NONE);
	if (r == 0)
		r = ADD_ALL(f, denied, DENY);
	if (r == 0)
		r = ADD_ALL(f, denied_but_debug, p == IN_DEBUG ? ALLOW : DENY);
	return r < 0 ? r : add_arg_rules(f, p);
}
