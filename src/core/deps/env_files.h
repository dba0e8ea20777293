/* SPDX-License-Identifier: Apache-2.0 */
/* env_files.h: the files of a package into an environment that is being made. */
#pragma once
#include "core/deps/env.h"

/* Its files are linked where the cell has the environment read-only, else cloned or copied. Scripts get the environment's interpreter. A
 * file that another package has brought already, with other content, is CELL_EEXISTS. */
int env_add_package(const struct env *e, int gen, const char *site, const struct env_package *p,
	struct cell_error *err);
/* pip and others: those of the environment, or what says why not. After the packages. */
int env_make_installers(const struct env *e, int gen, const char *site, struct cell_error *err);
/* A new file. */
int env_write_file(int at, const char *path, const void *text, size_t n, unsigned mode,
	struct cell_error *err);
