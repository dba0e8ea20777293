/* SPDX-License-Identifier: Apache-2.0 */
/* cellinfo.h: cells and back ends as JSON and as words, for ls, inspect, prune, backends and
 * doctor. */
#pragma once
#include <jansson.h>

#include "cell/cell.h"

const char *cli_state_name(enum cell_state state);
json_t *cli_cell_json(const struct cell_info *info);
json_t *cli_backend_json(const struct cell_backend_info *info);
/* "yes", "no" or "not built" */
const char *cli_backend_state(const struct cell_backend_info *info);

#define CLI_BACKENDS_MAX 64
/* Every known back end, probed. *ret is never NULL; caller frees, also after an error. */
int cli_backends(struct cell_backend_info **ret, size_t *ret_n, struct cell_error *err);
