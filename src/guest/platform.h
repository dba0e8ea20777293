/* SPDX-License-Identifier: Apache-2.0 */
/* platform.h: what kind of place this is, and which tools it has. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* OS, kernel, architecture, user, CPUs, memory ... as fields. */
void platform_put(struct buf *b);
/* Where `name` is in PATH (NULL: the guest's default); ret is "" when it is not there. */
void platform_find_tool(const char *path, const char *name, char *ret, size_t ret_size);

/* consumption.c: of the whole cell, where that can be told. */
struct consumption {
	uint64_t ticks, pages, processes;
};
/* The text of one process' /proc/PID/stat. -1: it is none. */
int consumption_add(const char *stat, struct consumption *c);
void consumption_put(struct buf *b);
