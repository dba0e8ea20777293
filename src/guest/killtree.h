/* SPDX-License-Identifier: Apache-2.0 */
/* killtree.h: signals for every descendant of a process, however it detached itself. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Send sig to every descendant of root, root itself excepted. How many were found, or negative
 * errno when /proc cannot be read. SIGKILL stops each one first, so that a fork bomb cannot outrun
 * the scan. */
int killtree(pid_t root, int sig);
/* The same, but spare the processes for which is_spared() says so, and all below them. */
int killtree_but(pid_t root, int sig, bool (*is_spared)(pid_t pid));
/* How many descendants it has. */
int killtree_count(pid_t root);
