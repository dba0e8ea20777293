/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h: what the built-in profiles say, as input of the filter compiler. Build time only. */
#pragma once
#include "base/scfilter.h"

/* *f is initialised, to be released by scf_done. 0, -ENOENT for no such profile, -EINVAL for a name
 * in the lists that is no system call (a mistake in rules.c), -ENOMEM. */
int seccomp_rules_build(const char *profile, uint32_t arch, struct scf *f);
