/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h: a server's tokens, audit and usage, as the functions that read them on its own machine. */
#pragma once
#include <jansson.h>

#include "base/error.h"
#include "server/audit.h"
#include "server/token.h"

int remote_token_create(const struct token_spec *spec, int64_t now_ns, struct token *ret,
	char text[TOKEN_TEXT_MAX], struct cell_error *err);
int remote_token_each(const char *tenant, int (*fn)(const struct token *t, void *user), void *user,
	struct cell_error *err);
int remote_token_revoke(const char *id, struct cell_error *err);

/* As audit_query(). */
int remote_audit_query(const struct audit_filter *f,
	int (*fn)(json_t *record, const char *line, size_t len, void *user), void *user,
	struct cell_error *err);

/* The answer of GET /v1/usage; times as given on the command line. */
int remote_usage(const char *by, const char *since, const char *until, const char *tenant,
	const char *session, const char *backend, const char *operation, json_t **ret,
	struct cell_error *err);
