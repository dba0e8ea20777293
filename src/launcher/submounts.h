/* SPDX-License-Identifier: Apache-2.0 */
/* submounts.h: what is mounted below a mount, for kernels that cannot act on a whole tree at once. */
#pragma once

/* Call fn with an O_PATH fd of every mount below the one that tree_fd is the root of. -1 when one
 * cannot be reached for certain: then fn may have been called for some. A mount that others cover
 * entirely cannot be reached by anybody and is left out. */
int submounts_each(int tree_fd, int (*fn)(int fd, void *arg), void *arg);
