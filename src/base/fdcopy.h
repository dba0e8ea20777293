/* SPDX-License-Identifier: Apache-2.0 */
/* fdcopy.h: move bytes between file descriptors, inside the kernel where it can. libc only. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* All of it. 0 or negative errno. */
int fd_write_all(int fd, const void *p, size_t n);
/* Up to `limit` bytes (UINT64_MAX: to the end) from in to out. *ret (may be NULL): how many, on
 * failure too. Blocks, also on descriptors that are set not to. */
int fd_copy(int in, int out, uint64_t limit, uint64_t *ret);
