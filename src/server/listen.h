/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h: where the server is reached, from words such as "127.0.0.1:7070" or "unix:/run/cell.sock". */
#pragma once
#include <stdbool.h>

#include "base/error.h"

struct http_server;
struct net_tls;

struct listen_place {
	bool is_unix, is_loopback; /* is_loopback: nobody but this machine reaches it */
	char host[256];		   /* "": every address */
	char path[200];		   /* of a unix socket */
	unsigned port;
};
int listen_parse(const char *text, struct listen_place *ret, struct cell_error *err);
int listen_open(struct http_server *http, const struct listen_place *place, struct net_tls *tls,
	struct cell_error *err);
