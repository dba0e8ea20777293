/* SPDX-License-Identifier: Apache-2.0 */
/* permit.h: may it be done? The rules of the configuration, then, where it is asked, the guard. */
#pragma once
#include "server/policy.h"

struct server;

/* fn is told on the loop: before this returns when nobody needs to be asked, later otherwise. What the request points to is
 * needed during the call only. A guard that cannot be asked has not agreed. */
void permit_ask(struct server *srv, const struct policy_request *request,
	void (*fn)(const struct policy_decision *d, void *arg), void *arg);
