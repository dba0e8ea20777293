/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_profiles.h: the system call filters that are built in, compiled while building
 * (seccomp/rules.c says what they allow and why), ready to be loaded.
 *
 *   default  denies by list: what no program needs in a cell, and what has been a way out
 *   strict   allows by list: plain computing, files, sockets, threads; no ptrace, no SysV IPC
 *   debug    default and what else debuggers need: kcmp, pidfd_getfd, more of personality
 *   floor    allows all but what no filter of a user's own may open: set-id files on the host's disk,
 *            keyrings, vsock, typing into terminals, and io_uring, which would lead around it. Loaded
 *            below such a filter; not for choosing
 *
 * Whatever the profile: calls of another architecture (i386, x32, 32-bit ARM) kill the process, and
 * calls newer than our table do not exist (ENOSYS). ptrace is allowed in `default` and `debug` on
 * two conditions the loader must keep: every process in the cell has the same filter, and PID 1
 * is not dumpable. libc only.
 */
#pragma once
#include <linux/filter.h>
#include <stdint.h>

/* The program for the architecture this was compiled for; NULL when there is no such profile.
 * Never freed. */
const struct sock_fprog *seccomp_profile(const char *name);

/* The one that a spec names, NULL for the default. NULL: none of that name can be chosen, so it is a file of the user's. */
const struct sock_fprog *seccomp_chosen(const char *name);

/* seccomp_profile() for AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64: for tests. */
const struct sock_fprog *seccomp_profile_for(const char *name, uint32_t arch);

/* The names to choose from, in the order above, NULL at the end. */
extern const char *const seccomp_profile_names[];

/* Put the calling thread under prog for good. Needs no_new_privs. Async-signal-safe; the
 * mitigations against speculation stay on. 0 or negative errno. */
int seccomp_load(const struct sock_fprog *prog);
