/* SPDX-License-Identifier: Apache-2.0 */
/* port_proxy.h: one request that is answered by a program in a cell. */
#pragma once

struct call;

/* c->session is ready. Ends the call and the exchange, now or later. */
void port_proxy(struct call *c, unsigned port);
