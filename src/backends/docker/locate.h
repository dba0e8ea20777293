/* SPDX-License-Identifier: Apache-2.0 */
/* locate.h: which engine the `docker` program would use. */
#pragma once
#include "backends/engine/engine.h"

int docker_locate(struct engine_address *ret, struct cell_error *err);
