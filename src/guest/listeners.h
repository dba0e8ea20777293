/* SPDX-License-Identifier: Apache-2.0 */
/* listeners.h: what listens, from the text of /proc/net/tcp and tcp6. */
#pragma once
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>

struct listener {
	char address[INET6_ADDRSTRLEN]; /* "127.0.0.1", "0.0.0.0", "::" */
	uint16_t port;
	uint32_t uid;
};

/* Each listening socket to fn; what it returns when not 0 ends it and is returned. Lines that are none are passed over. */
int listeners_read(FILE *f, int (*fn)(const struct listener *l, void *user), void *user);
