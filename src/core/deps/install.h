/* SPDX-License-Identifier: Apache-2.0 */
/* install.h: what cell_open() needs of installing; the rest is <cell/deps.h>. */
#pragma once
#include "cell/error.h"
#include "cell/spec.h"

struct cell;

/* A new cell's environment: empty, or with what is to be preinstalled. */
int deps_install_first(struct cell *c, const struct cell_spec_deps *spec, struct cell_error *err);
