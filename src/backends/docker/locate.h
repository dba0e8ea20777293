/* SPDX-License-Identifier: Apache-2.0 */
/* locate.h: which engine the `docker` program would use, and with whose credentials. */
#pragma once
#include "backends/engine/engine.h"

int docker_locate(struct engine_address *ret, struct cell_error *err);
int docker_auth_file(unsigned i, char *ret, size_t size);
