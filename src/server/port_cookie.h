/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_cookie.h: cookies of a program in a cell, which shares its origin with the server and with every other cell. On the way out a cookie
 * is given a name that only such cookies have, and the path of the port it comes from; on the way in, cookies of that kind get their
 * own names back, and no other passes: neither those of a proxy in front of the server, nor of pages beside it.
 */
#pragma once
#include "base/buf.h"

#define PORT_COOKIE "cell-port-"

/* A Set-Cookie's value for the client. 0; 1: it is none, and left out; negative errno. */
int port_cookie_out(const char *value, const char *prefix, struct buf *ret);
/* A Cookie's value for the program, behind what is in ret already. 0, or negative errno. */
int port_cookie_in(const char *value, struct buf *ret);
