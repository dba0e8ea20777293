/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h: `cell serve`: from a configuration to a server that runs until it is told to leave. */
#pragma once
#include <stdbool.h>

#include "base/error.h"

struct cell_config;

struct serve_options {
	struct cell_config *cfg; /* borrowed for the whole run */
	const char *const *
		listen; /* "127.0.0.1:7070", "[::1]:80", "*:7070", "unix:/run/cell.sock"; NULL-terminated; over the
					   configuration's */
	bool is_dev;			/* loopback, a fresh token, hints */
	const char *tls_cert, *tls_key; /* over the configuration's */
	const char *user;		/* over the configuration's */
	bool is_verbose;
	/* The configuration once more, for SIGHUP; the caller's to free. */
	int (*reload)(struct cell_config **ret, void *arg, struct cell_error *err);
	/* Called once it answers: the addresses (NULL-terminated), and with is_dev the token. */
	void (*started)(const char *const *addresses, const char *token, void *arg);
	void *arg; /* of both */
};
/* Blocks until SIGTERM or SIGINT. 0, or negative with err. */
int serve(const struct serve_options *options, struct cell_error *err);
