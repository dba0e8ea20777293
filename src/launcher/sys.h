/* SPDX-License-Identifier: Apache-2.0 */
/* sys.h: system calls and constants that the C library at hand may not know yet. Nothing but thin
 * wrappers: each returns what the kernel gave, errno set. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree		    428
#define SYS_move_mount		    429
#define SYS_fsopen		    430
#define SYS_fsconfig		    431
#define SYS_fsmount		    432
#define SYS_pidfd_open		    434
#define SYS_clone3		    435
#define SYS_close_range		    436
#define SYS_openat2		    437
#define SYS_mount_setattr	    442
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self  446
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self  446
#endif

#define TREE_CLONE     1u
#define TREE_CLOEXEC   ((unsigned)O_CLOEXEC)
#define TREE_RECURSIVE 0x8000u /* AT_RECURSIVE */

#define MOVE_F_EMPTY 0x4u
#define MOVE_T_EMPTY 0x40u

#define ATTR_RDONLY	 0x1u
#define ATTR_NOSUID	 0x2u
#define ATTR_NODEV	 0x4u
#define ATTR_NOEXEC	 0x8u
#define ATTR_NOATIME	 0x10u
#define ATTR_IDMAP	 0x00100000u
#define ATTR_NOSYMFOLLOW 0x00200000u

struct mount_attributes { /* struct mount_attr, which glibc and linux headers both define */
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

#define FS_CLOEXEC    1u
#define FS_SET_FLAG   0u
#define FS_SET_STRING 1u
#define FS_CMD_CREATE 6u
#define FS_CMD_RECONF 7u
#define FSMOUNT_CLOEX 1u

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size, cgroup;
};

static inline int sys_open_tree(int fd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, fd, path, flags);
}

static inline int sys_move_mount(int from, int to_fd, const char *to, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, "", to_fd, to, flags | MOVE_F_EMPTY);
}

static inline int sys_mount_setattr(int fd, unsigned flags, struct mount_attributes *a)
{
	return (int)syscall(SYS_mount_setattr, fd, "", flags | AT_EMPTY_PATH, a, sizeof *a);
}

static inline int sys_fsopen(const char *type)
{
	return (int)syscall(SYS_fsopen, type, FS_CLOEXEC);
}

static inline int sys_fsconfig(int fd, unsigned cmd, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, 0);
}

static inline int sys_fsmount(int fd, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fd, FSMOUNT_CLOEX, attr);
}

static inline int sys_openat2(int fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};

	return (int)syscall(SYS_openat2, fd, path, &how, sizeof how);
}

static inline int sys_clone3(struct clone3_args *a)
{
	return (int)syscall(SYS_clone3, a, sizeof *a);
}

static inline int sys_pivot_root(const char *to, const char *old)
{
	return (int)syscall(SYS_pivot_root, to, old);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_pidfd_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}
