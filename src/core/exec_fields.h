/* SPDX-License-Identifier: Apache-2.0 */
/* exec_fields.h: an exec's options, completed by the cell's defaults, as the fields of a request.
 */
#pragma once
#include <stdbool.h>

#include "cell/exec.h"

#include "base/buf.h"
#include "base/error.h"

struct cell;

/* Between TERM and KILL at the deadline. */
uint64_t exec_grace_ms(const struct cell_exec_opts *o);
int exec_fields(const struct cell *c, const struct cell_exec_opts *o, bool is_quiet, struct buf *b,
	struct cell_error *err);
/* All but the command itself. */
int exec_surroundings(const struct cell *c, const struct cell_exec_opts *o, bool is_quiet,
	struct buf *b, struct cell_error *err);
/* An id of the caller's own; NULL is fine. `what` is being done. */
int exec_id_check(const char *id, const char *what, struct cell_error *err);
