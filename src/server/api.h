/* SPDX-License-Identifier: Apache-2.0 */
/* api.h: what the handlers share. */
#pragma once
#include "server/call.h"

/* The session of the path's first parameter, of the caller's tenant (an admin: of any). False: the call was answered. */
bool api_session(struct call *c);
/* And it can be used. */
bool api_ready_session(struct call *c);
/* A JSON page: {items: [...], next: cursor or null}. */
