/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h: where a service is and how it is trusted, in one value that can be kept and used again. */
#pragma once
#include <stdbool.h>

#include "net/client.h"

struct net_endpoint {
	char url[512]; /* unix:/path, http://host:port, https://host:port */
	char cert_dir
		[512]; /* ca.pem, and cert.pem with key.pem for one that asks who we are; "": none */
	bool is_insecure; /* do not verify its certificate */
};

int net_endpoint_client(const struct net_endpoint *e, struct http_client **ret,
	struct cell_error *err);
