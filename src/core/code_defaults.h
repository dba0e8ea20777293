/* SPDX-License-Identifier: Apache-2.0 */
/* code_defaults.h: what a spec says of code in general: its deadline, its languages. */
#pragma once
#include "cell/code.h"
#include "cell/spec.h"

#include "core/cell.h"

/* From the spec to the handle and its record, when the chain is known; and back from a record. */
int code_defaults_set(struct cell *c, const struct cell_spec *spec);
int code_defaults_load(struct cell *c);
/* The deadline of this run; 0: none. */
uint64_t code_deadline_ms(const struct cell *c, const struct cell_code_opts *opts);
/* CELL_EDENIED when the spec does not list it. language NULL: the context's own, or python when that is NULL too. */
int code_check_language(const struct cell *c, const char *language, const char *context,
	struct cell_error *err);
/* May SQL connect there? A file of the cell needs no permission. */
int code_check_database(const struct cell *c, const char *database, struct cell_error *err);
