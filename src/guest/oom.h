/* SPDX-License-Identifier: Apache-2.0 */
/* oom.h: noticing that the kernel killed for want of memory. The back end hands in what tells it. */
#pragma once

/* An eventfd registered with memory.oom_control (cgroup v1). Takes the fd; negative errno. */
int oom_watch_eventfd(int fd);
/* memory.events of the cell's cgroup, open for reading (cgroup v2). */
int oom_watch_events(int fd);
/* Look now, not when the kernel gets round to waking us. */
void oom_look(void);
/* A command is about to start and none runs: what was said before is not about it. */
void oom_forget_the_past(void);
/* Who is killed first when memory ends: a child born between the two calls, and all that come from it,
 * before the guest. Without oom_open_score they do nothing. */
void oom_open_score(void);
void oom_raise_score(void);
void oom_restore_score(void);
