/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h: who may. A token reads cell_<id>_<secret>: 12 and 52 letters of a-z2-7. Only the
 * SHA-256 of the secret is kept. The secret is 256 random bits, not a password: nobody can try
 * them out, so a slow hash would protect nothing and cost each request its time. Comparing takes
 * the same time whatever differs, and an id that does not exist costs the same work.
 *
 * Nothing is cached: a token revoked by another process is refused at once.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "server/db.h"
#include "server/tenant.h"

#define TOKEN_PREFIX	 "cell_"
#define TOKEN_ID_LEN	 12
#define TOKEN_SECRET_LEN 52
#define TOKEN_TEXT_MAX	 (5 + TOKEN_ID_LEN + 1 + TOKEN_SECRET_LEN + 1)
#define TOKEN_LABEL_MAX	 128
#define TOKEN_ID_CONFIG	 "configured" /* the id of auth_token */

extern const struct db_module token_module;

enum token_role {
	TOKEN_READ_ONLY, /* look at the tenant's own */
	TOKEN_USER,	 /* and change it */
	TOKEN_ADMIN,	 /* and tokens, tenants, other tenants' sessions, audit, usage */
};
const char *token_role_name(enum token_role role); /* "read-only", "user", "admin" */
int token_role_find(const char *name);		   /* -1: no such role */

struct token {
	char id[TOKEN_ID_LEN + 1];
	char tenant[TENANT_NAME_MAX];
	enum token_role role;
	char label[TOKEN_LABEL_MAX];
	int64_t created_ns;
	int64_t expires_ns;   /* 0: never */
	int64_t revoked_ns;   /* 0: not */
	int64_t last_used_ns; /* to the minute; 0: never */
};

struct token_spec {
	const char *tenant; /* NULL: "default" */
	enum token_role role;
	const char *label; /* may be NULL */
	int64_t expires_ns;
};
/* ret_text is the only copy of the secret there will ever be: wipe it after use. */
int token_create(struct db *db, const struct token_spec *spec, int64_t now_ns, struct token *ret,
	char ret_text[TOKEN_TEXT_MAX], struct cell_error *err);
/* By id. CELL_ENOTFOUND; revoking twice is no error. */
int token_revoke(struct db *db, const char *id, int64_t now_ns, struct cell_error *err);
typedef int (*token_fn)(const struct token *t, void *user);
/* tenant NULL: all. */
int token_each(struct db *db, const char *tenant, token_fn fn, void *user, struct cell_error *err);

/* Whose is it? CELL_EDENIED for anything that is no valid token, always with the same words; the
 * API makes 401 of it. `configured` is auth_token of the configuration (admin of the default
 * tenant), or NULL. */
int token_check(struct db *db, const char *text, const char *configured, int64_t now_ns,
	struct token *ret, struct cell_error *err);
