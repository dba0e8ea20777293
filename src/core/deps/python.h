/* SPDX-License-Identifier: Apache-2.0 */
/* python.h: the interpreters a cell has. */
#pragma once
#include <jansson.h>

#include "core/deps/tags.h"

struct cell;

/* Find the one asked for ("3.11"; NULL: python3) and note it in the environment's state ("python": its path). None, and none
 * asked for: nothing is noted. CELL_ENOTFOUND says which there are. */
int python_find(struct cell *c, const char *version, json_t *state, struct cell_error *err);
/* Ask it what it is, once: noted in the state too. CELL_ENOTFOUND when the cell has none. */
int python_describe(struct cell *c, json_t *state, struct interpreter *ret, struct cell_error *err);
