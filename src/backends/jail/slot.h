/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h: asking the launcher about a cell that is there, by its record alone. */
#pragma once
#include "base/error.h"
#include "core/backend.h"
#include "launcher/request.h"

/* The socket its answer will come on. Without a slot in the record, REMOVE frees whatever crashed launchers left. */
int jail_slot_ask(struct cell *c, enum launcher_op op, struct cell_error *err);

/* ---- freeze.c ---- */

int jail_pause(struct cell *c, bool is_on, struct cell_error *err);
/* So that it can end: whoever stands still cannot be asked to, and who hardly runs takes long to die. */
void jail_release(struct cell *c);
/* Until a cgroup.events says that all of its group stand still: -ETIMEDOUT, or why it cannot be read (-ENODEV: the group is gone). */
int jail_await_frozen(int events_fd);
