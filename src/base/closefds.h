/* SPDX-License-Identifier: Apache-2.0 */
/* closefds.h: letting go of file descriptors, also between fork and exec: no allocation, no locks. */
#pragma once

/* Close every open one from first to last (~0u: all there are), in one call where there is one. */
void close_fds(unsigned first, unsigned last);
