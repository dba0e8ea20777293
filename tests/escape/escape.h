/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h: between the parts of the runner. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "cell/cell.h"

/* One line of TAP; skip NULL: none. */
void escape_result(bool is_ok, const char *mode, const char *name, const char *skip,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
struct cell *escape_open(const char *workspace, const struct cell_limits *limits);

#define ESCAPE_MORE 15 /* results of the four below, for each mode */
void escape_neighbours(const char *mode, const char *workspace);
void escape_leftovers(const char *mode, const char *workspace);
/* program: that of the attempts, on the host. The controls need root, before any mode. */
void escape_shared(const char *mode, const char *workspace, const char *program);
void escape_shared_controls(const char *program);
void escape_parked(const char *mode, const char *workspace);

/* The launcher this process has started; 0: none. */
pid_t escape_launcher_of(pid_t owner);
