/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h: the syscall filter a spec names, as the launcher takes it. */
#pragma once
#include "cell/error.h"

/* Compile a user's JSON file. An fd of struct sock_filter[], owned by the caller, or negative errno;
 * the error names the file and the place in it. */
int jail_filter_compile(const char *path, struct cell_error *err);
