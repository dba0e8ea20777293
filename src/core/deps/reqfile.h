/* SPDX-License-Identifier: Apache-2.0 */
/* reqfile.h: requirements files as pip reads them, as far as they name packages: one requirement a line, comments, lines that go on,
 * --hash. Other options are errors that say what to do instead: nothing is passed over. Pure. */
#pragma once
#include <jansson.h>

#include "core/deps/requirement.h"

/* Appends to *requirements (texts) and, when there are hashes, to *hashes ({name: [hex]}, made when first needed). */
int reqfile_read(const char *text, json_t *requirements, json_t **hashes, struct cell_error *err);
