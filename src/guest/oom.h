/* SPDX-License-Identifier: Apache-2.0 */
/* oom.h: noticing that the kernel killed for want of memory. The back end hands in what tells it. */
#pragma once

/* An eventfd registered with memory.oom_control (cgroup v1). Takes the fd; negative errno. */
int oom_watch_eventfd(int fd);
/* memory.events of the cell's cgroup, open for reading (cgroup v2). */
int oom_watch_events(int fd);
