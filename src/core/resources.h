/* SPDX-License-Identifier: Apache-2.0 */
/* resources.h: what a resource model says about limits that a spec does not name. */
#pragma once
#include "cell/spec.h"

#include "base/error.h"

/* Complete spec->limits for spec->resources:
 *
 *	limited     memory, CPUs and processes are all limited: 512m, 1 and 256 unless named
 *	burstable   limits.cpus (1 unless named) is a share, not a ceiling
 *	dedicated   limits.cpus (1 unless named) CPUs of its own: a whole number
 *
 * CELL_EINVAL for values the model has no use for. */
int cell_resources_complete(struct cell_spec *spec, struct cell_error *err);
/* "shared"; "" for the default. */
const char *cell_resources_name(enum cell_resource_model model);
