/* SPDX-License-Identifier: Apache-2.0 */
/* killtree.h: signals for every descendant of a process, however it detached itself. */
#pragma once
#include <sys/types.h>

/* Send sig to every descendant of root, root itself excepted. How many were found, or negative
 * errno when /proc cannot be read. SIGKILL stops each one first, so that a fork bomb cannot outrun
 * the scan. */
int killtree(pid_t root, int sig);
/* How many descendants it has. */
int killtree_count(pid_t root);
