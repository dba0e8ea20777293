/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h: between the parts of the runner. */
#pragma once
#include <stdbool.h>

#include "cell/cell.h"

/* One line of TAP; skip NULL: none. */
void escape_result(bool is_ok, const char *mode, const char *name, const char *skip,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
struct cell *escape_open(const char *workspace, const struct cell_limits *limits);

#define ESCAPE_MORE 5 /* results of the two below, for each mode */
void escape_neighbours(const char *mode, const char *workspace);
void escape_leftovers(const char *mode, const char *workspace);
