/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse.h: what stands in the place of pip, npm and their like in a cell whose spec says `allow_runtime_deps: false`: programs and
 * modules that say why not. That nothing can be installed is the read-only mount's doing; this is so that whoever tries learns the reason.
 */
#pragma once
#include "cell/error.h"

#include "core/deps/place.h"

#define REFUSE_DIR "refuse" /* in the environment's directory: pip/, ensurepip/, npm/ */

/* Make the directory in env_fd. */
int refuse_make(int env_fd, struct cell_error *err);
/* The programs, into a bin directory. */
int refuse_programs(int bin_fd, struct cell_error *err);
/* Where pip and npm are in a root tree ("" is the host's), for each fn gets the name in REFUSE_DIR and the path in the tree. */
typedef int (*refuse_fn)(const char *what, const char *target, void *user);
int refuse_targets(const char *root, refuse_fn fn, void *user);
