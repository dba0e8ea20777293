/* SPDX-License-Identifier: Apache-2.0 */
/* The table of system calls against the kernel's headers and, where it is installed, libseccomp,
 * which knows AArch64 too. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <sys/syscall.h>

#include "base/syscalls.h"
#include "test.h"

TEST(names_have_the_numbers_of_the_headers_we_are_compiled_with)
{
	ASSERT(syscall_number(SYSCALL_ARCH_NATIVE, "read") == SYS_read);
	ASSERT(syscall_number(SYSCALL_ARCH_NATIVE, "clone3") == SYS_clone3);
	ASSERT(syscall_number(SYSCALL_ARCH_NATIVE, "openat2") == SYS_openat2);
	ASSERT(syscall_number(SYSCALL_ARCH_NATIVE, "_sysctl") ==
		(SYSCALL_ARCH_NATIVE == AUDIT_ARCH_X86_64 ? 156 : -ENOSYS));
}

TEST(names_that_are_known_elsewhere_differ_from_names_that_are_none)
{
	ASSERT_ERR(syscall_number(AUDIT_ARCH_X86_64, "socketcall"), -ENOSYS);
	ASSERT_ERR(syscall_number(AUDIT_ARCH_AARCH64, "open"), -ENOSYS);
	ASSERT_ERR(syscall_number(AUDIT_ARCH_X86_64, "prtace"), -ENOENT);
	ASSERT_ERR(syscall_number(AUDIT_ARCH_X86_64, ""), -ENOENT);
	ASSERT_ERR(syscall_number(AUDIT_ARCH_I386, "read"), -ENOSYS);
}

TEST(every_number_leads_back_to_its_name)
{
	static const uint32_t arches[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};

	for (size_t a = 0; a < 2; a++) {
		unsigned n = syscall_count(arches[a]), known = 0;
		ASSERT(n == 472);
		for (unsigned nr = 0; nr < n + 10; nr++) {
			const char *name = syscall_name(arches[a], nr);
			if (!name)
				continue;
			known++;
			CHECK_(syscall_number(arches[a], name) == (int)nr, "%s is not %u", name,
				nr);
		}
		ASSERT(known == (a == 0 ? 385 : 327));
	}
}

/* Loaded by hand: an oracle, not something to depend on. */
TEST(libseccomp_agrees_on_both_architectures)
{
	void *lib = dlopen("libseccomp.so.2", RTLD_NOW);
	unsigned compared = 0;

	if (!lib)
		SKIP("no libseccomp.so.2 here");
	int (*resolve)(uint32_t, const char *);
	char *(*name_of)(uint32_t, int);
	*(void **)&resolve = dlsym(lib, "seccomp_syscall_resolve_name_arch");
	*(void **)&name_of = dlsym(lib, "seccomp_syscall_resolve_num_arch");
	ASSERT(resolve && name_of);
	static const uint32_t arches[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};
	for (size_t a = 0; a < 2; a++) {
		for (unsigned nr = 0; nr < 600; nr++) {
			const char *ours = syscall_name(arches[a], nr);
			char *theirs = name_of(arches[a], (int)nr);
			if (theirs) {
				CHECK_(ours && !strcmp(ours, theirs), "%u: %s, theirs %s", nr,
					ours ? ours : "none", theirs);
				compared++;
			} else if (ours) {
				CHECK_(resolve(arches[a], ours) < 0, "%s", ours);
			}
			free(theirs);
		}
	}
	ASSERT(compared > 600);
}
