/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp_file.h: a system call filter that a user has in a file, in Docker's JSON format: read whole, from a file and nothing else. */
#pragma once
#include <linux/filter.h>

#include "cell/error.h"

/* For a guest to take upon itself (seccomp_json.h); one that it could not live under is refused. ret->filter is to be freed. */
int seccomp_file_compile(const char *path, struct sock_fprog *ret, struct cell_error *err);
/* For who compiles it himself: its text, as short as it can be, read but not understood. The caller's. */
int seccomp_file_text(const char *path, char **ret, struct cell_error *err);
