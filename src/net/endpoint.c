/* SPDX-License-Identifier: Apache-2.0 */
#include "net/endpoint.h"

#include <stdio.h>
#include <unistd.h>

int net_endpoint_client(const struct net_endpoint *e, struct http_client **ret,
	struct cell_error *err)
{
	static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};
	char files[3][sizeof e->cert_dir + 16];
	struct http_client_options o = {.is_insecure = e->is_insecure};

	for (size_t i = 0; i < 3; i++)
		(void)snprintf(files[i], sizeof files[i], "%s/%s", e->cert_dir, names[i]);
	if (*e->cert_dir) {
		o.ca_file = files[0];
		o.cert_file = access(files[1], F_OK) == 0 ? files[1] : NULL;
		o.key_file = files[2];
	}
	return http_client_new(e->url, &o, ret, err);
}
