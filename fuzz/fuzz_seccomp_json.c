/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_seccomp_json.c: a user's profile. What is accepted must be a program the kernel takes and
 * that has a verdict for every number. */
#include <linux/audit.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bpf_run.h"
#include "base/syscalls.h"
#include "core/seccomp_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sock_fprog p = {0};
	struct cell_error err = {0};

	int r = seccomp_from_json((const char *)data, size, &p, &err);
	if ((r < 0) != (err.code != CELL_OK) || (r < 0) != !p.filter)
		abort();
	if (r < 0)
		return 0;
	if (!bpf_is_sound(&p))
		abort();
	for (int nr = -1; nr < 600; nr++) {
		struct seccomp_data d = {.arch = SYSCALL_ARCH_NATIVE,
			.nr = nr,
			.args = {(uint64_t)nr * 77, UINT64_MAX, 38, 0x5412, 1ull << 32}};
		if (bpf_run(&p, &d) == BPF_RUN_BAD)
			abort();
		d.arch = AUDIT_ARCH_I386;
		if (bpf_run(&p, &d) != SECCOMP_RET_KILL_PROCESS)
			abort();
	}
	free(p.filter);
	return 0;
}
