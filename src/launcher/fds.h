/* SPDX-License-Identifier: Apache-2.0 */
/* fds.h: letting go of file descriptors. */
#pragma once

/* Close every open one from first to last (~0u: all there are), in one call where there is one. */
void fds_close(unsigned first, unsigned last);
