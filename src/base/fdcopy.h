/* SPDX-License-Identifier: Apache-2.0 */
/* fdcopy.h: move bytes between file descriptors, inside the kernel where it can. libc only. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* All of it. 0 or negative errno. */
int fd_write_all(int fd, const void *p, size_t n);
/* The same for a file that is new and written from front to back: blocks of zeros become holes,
 * which take no space. When all is written, fd_end_holes() gives it its length. */
int fd_write_holes(int fd, const void *p, size_t n);
int fd_end_holes(int fd);
/* Up to `limit` bytes (UINT64_MAX: to the end) from in to out. *ret (may be NULL): how many, on
 * failure too. Blocks, also on descriptors that are set not to. */
int fd_copy(int in, int out, uint64_t limit, uint64_t *ret);
