/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup2.h: a part of cgroup2's tree that was delegated to us. A group with processes of its own cannot hand controllers down, so
 * whoever begins to use such a part moves what is there into a group beside.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The highest group from `own` upwards whose processes are ours to move, not above the first `floor` characters. False: none. */
bool cgroup2_find_top(const char *own, size_t floor, char *ret, size_t size);
/* Whether processes in it keep a group from handing controllers down. */
bool cgroup2_is_in_the_way(int fd);
/* Those move into a group beside the others. */
void cgroup2_step_aside(int fd);
/* Let groups below have each controller that is of use for limits; what is refused is missing. */
void cgroup2_hand_down(int fd);
/* Has the group this controller, for itself? */
bool cgroup2_has(int fd, const char *controller);
