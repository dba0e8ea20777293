/* SPDX-License-Identifier: Apache-2.0 */
/* profiles.c: hands out the programs that gen.c printed. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "launcher/seccomp_profiles.h"
#include "seccomp_programs.inc"

/* The kernel's struct has no const though nothing writes to it. */
#define PROGRAM(a)                                                                             \
	{                                                                                      \
		.len = sizeof(a) / sizeof *(a), .filter = (struct sock_filter *)(uintptr_t)(a) \
	}

const char *const seccomp_profile_names[] = {"default", "strict", "debug", NULL};

static const struct {
	const char *name;
	struct sock_fprog x86_64, aarch64;
} programs[] = {
	{"default", PROGRAM(x86_64_default), PROGRAM(aarch64_default)},
	{"strict", PROGRAM(x86_64_strict), PROGRAM(aarch64_strict)},
	{"debug", PROGRAM(x86_64_debug), PROGRAM(aarch64_debug)},
	{"floor", PROGRAM(x86_64_floor), PROGRAM(aarch64_floor)},
};

const struct sock_fprog *seccomp_profile_for(const char *name, uint32_t arch)
{
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		if (strcmp(programs[i].name, name) != 0)
			continue;
		if (arch == AUDIT_ARCH_X86_64)
			return &programs[i].x86_64;
		return arch == AUDIT_ARCH_AARCH64 ? &programs[i].aarch64 : NULL;
	}
	return NULL;
}

const struct sock_fprog *seccomp_profile(const char *name)
{
	return seccomp_profile_for(name, SYSCALL_ARCH_NATIVE);
}

const struct sock_fprog *seccomp_chosen(const char *name)
{
	name = name ? name : "default";
	for (size_t i = 0; seccomp_profile_names[i]; i++)
		if (!strcmp(seccomp_profile_names[i], name))
			return seccomp_profile(name);
	return NULL;
}

int seccomp_load(const struct sock_fprog *prog)
{
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, prog) == 0)
		return 0;
	if (errno != ENOSYS)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, prog, 0, 0) < 0 ? -errno : 0;
}
