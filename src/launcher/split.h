/* SPDX-License-Identifier: Apache-2.0 */
/* split.h: a new process in new namespaces, known by a pidfd. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* What of clone3 there is; asked once, when the launcher starts. */
void split_probe(bool *ret_has_clone3, bool *ret_has_cgroup);
/* Like fork, with CLONE_NEW* flags; no signal tells of its end (waitid with __WALL). cgroup_fd (-1:
 * none): the v2 group to be born in; *ret_is_in_cgroup (may be NULL without one) says whether it was,
 * else it is the caller's to put it there before letting it do anything. -1: errno. */
pid_t split(unsigned flags, int cgroup_fd, int *ret_pidfd, bool *ret_is_in_cgroup);
