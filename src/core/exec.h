/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h: what the server and runs of code ask of a command besides include/cell/exec.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cell/exec.h"

struct buf;

/* Has the guest said that it knows it? With no_wait that comes some time after the start. */
bool cell_exec_has_begun(const struct cell_exec *x);
/* Something that comes as a command does, by another operation. is_waiting: for the guest's word that it knows it. */
int cell_exec_begin(struct cell *c, uint16_t op, const struct buf *fields, bool is_waiting,
	struct cell_exec **ret, struct cell_error *err);
void cell_exec_take_stdin(struct cell_exec *x);
