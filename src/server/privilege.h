/* SPDX-License-Identifier: Apache-2.0 */
/* privilege.h: becoming an ordinary user, with the launcher left behind as the one program that still may make cells. */
#pragma once
#include "base/error.h"

/* user: a name, or uid[:gid]. As root: starts the launcher, gives the state directory to that user, and then is that user for
 * good: no capability, none to be had again. Before any thread is started. Somebody who is that user already has nothing to do. */
int privilege_drop(const char *user, struct cell_error *err);
