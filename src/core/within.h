/* SPDX-License-Identifier: Apache-2.0 */
/*
 * within.h: what a spec names of the host must be where it may be (spec.within). Asked of what is open: a directory's name may be a link by
 * the next moment, if somebody in another cell can write beside it.
 */
#pragma once
#include <stdbool.h>

#include "cell/spec.h"

#include "base/error.h"

/* Both absolute, without links. */
bool cell_path_is_within(const char *path, const char *root);
/* fd is path, opened. 0, or CELL_EDENIED. */
int cell_within(const struct cell_spec *spec, const char *what, const char *path, int fd,
	struct cell_error *err);
/* All of a spec's paths as they are now, so that nothing is begun for nothing. */
int cell_within_spec(const struct cell_spec *spec, struct cell_error *err);
