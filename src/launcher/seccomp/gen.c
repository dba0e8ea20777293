/* SPDX-License-Identifier: Apache-2.0 */
/* gen.c: runs while building and prints the built-in profiles, compiled, as C. */
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/seccomp/rules.h"

static const char *const profiles[] = {"default", "strict", "debug", "floor"};
static const struct {
	const char *name;
	uint32_t arch;
} arches[] = {{"x86_64", AUDIT_ARCH_X86_64}, {"aarch64", AUDIT_ARCH_AARCH64}};

static int print_program(const char *profile, const char *arch_name, uint32_t arch)
{
	struct sock_fprog prog = {0};
	struct scf f;

	int r = seccomp_rules_build(profile, arch, &f);
	if (r == 0)
		r = scf_compile(&f, &prog);
	scf_done(&f);
	if (r < 0) {
		(void)fprintf(stderr, "seccomp filter %s for %s: %s\n", profile, arch_name,
			strerror(-r));
		return r;
	}
	printf("static const struct sock_filter %s_%s[] = {\n", arch_name, profile);
	for (unsigned i = 0; i < prog.len; i++)
		printf("\t{0x%02x, %u, %u, 0x%08x},\n", prog.filter[i].code, prog.filter[i].jt,
			prog.filter[i].jf, prog.filter[i].k);
	printf("};\n");
	free(prog.filter);
	return 0;
}

int main(void)
{
	for (size_t a = 0; a < sizeof arches / sizeof *arches; a++) {
		for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++) {
			if (print_program(profiles[p], arches[a].name, arches[a].arch) < 0)
				return 1;
		}
	}
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
