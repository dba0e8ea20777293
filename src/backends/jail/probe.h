/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "core/backend.h"

/* Really makes a cell, all but its last step. Asked once for each process. */
void jail_probe(struct cell_probe *p);
