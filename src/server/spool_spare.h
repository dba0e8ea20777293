/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool_spare.h: empty files for spools, made ahead by a thread of the pool. To make a file can take longer than to run the command
 * whose output it is for: ext4 looks at every inode that was given up in the last minutes.
 */
#pragma once

struct net_pool;
struct spool_spares;

/* What a server that was killed has left in root_fd (borrowed, as is the pool) is removed. NULL: without memory each file is made when
 * it is wanted, which is all that callers have to expect anyway. */
struct spool_spares *spool_spares_new(int root_fd, struct net_pool *pool);
/* Removes them. After the loop of the pool, which finishes what was accepted. */
void spool_spares_free(struct spool_spares *s);

/* One of them under this name, which must not be taken: its fd, for reading and writing. Negative when there is none. */
int spool_spare_take(struct spool_spares *s, int dir_fd, const char *name);
