/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscalls.h: names and numbers of system calls on the architectures Cell runs on. A table of our
 * own, since filters are compiled where headers and libraries may be older than the kernel that
 * will run them. Architectures are AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64; others have none.
 * libc only.
 */
#pragma once
#include <stdint.h>

#if defined(__x86_64__)
#define SYSCALL_ARCH_NATIVE 0xc000003eu /* AUDIT_ARCH_X86_64 */
#elif defined(__aarch64__)
#define SYSCALL_ARCH_NATIVE 0xc00000b7u /* AUDIT_ARCH_AARCH64 */
#else
#error "no system call table for this architecture"
#endif

/* The number, -ENOSYS for a call of Linux that this architecture lacks, -ENOENT for no such name.
 */
int syscall_number(uint32_t arch, const char *name);
/* NULL when no call we know has that number. */
const char *syscall_name(uint32_t arch, unsigned nr);
/* One more than the highest number we know. */
unsigned syscall_count(uint32_t arch);
