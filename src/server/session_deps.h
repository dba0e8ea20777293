/* SPDX-License-Identifier: Apache-2.0 */
/* session_deps.h: packages of sessions: where they come from is the server's business, which ones the client's. */
#pragma once
#include "server/server.h"

struct cell_config;
struct cell_spec;

/* May a client who is no admin ask for it? Places of this machine and other indexes: no. */
int session_deps_check(const struct server *srv, const struct cell_spec *spec,
	struct cell_error *err);
/* What the server's configuration says, under what the session says; but what it forbids stays forbidden. */
int session_deps_complete(const struct server *srv, struct cell_config *cfg,
	const struct cell_spec *spec, struct cell_error *err);
