/* SPDX-License-Identifier: Apache-2.0 */
/* features.c: see features.h. Never by the kernel's version: containers' filters hide calls that are there. */
#include "launcher/features.h"

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/split.h"
#include "launcher/sys.h"

static bool has_openat2(void)
{
	auto_fd int fd = sys_openat2(AT_FDCWD, "/", O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);

	return fd >= 0;
}

void features_find(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* its version */);

	host.landlock_abi = abi > 0 ? (int)abi : 0;
	split_probe(&host.has_clone3, &host.has_clone_into);
	host.has_openat2 = has_openat2();
	host.has_close_range = sys_close_range(~0u, ~0u, 0) == 0;
	host.has_full_proc = true; /* tried by the first cell that needs it */
}
