/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h: what the server asks of a command besides include/cell/exec.h. */
#pragma once
#include <stdbool.h>

#include "cell/exec.h"

/* Has the guest said that it knows it? With no_wait that comes some time after the start. */
bool cell_exec_has_begun(const struct cell_exec *x);
