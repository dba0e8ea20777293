/* SPDX-License-Identifier: Apache-2.0 */
/* pty.h: terminals, by ioctl alone, so that they work wherever /dev/ptmx does. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* A new terminal. 0, or negative errno. Both fds are the caller's, CLOEXEC. */
int pty_open(uint16_t rows, uint16_t cols, uid_t owner, int *ret_master, int *ret_slave);
int pty_resize(int master, uint16_t rows, uint16_t cols);
