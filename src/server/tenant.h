/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.h: the parties that share a server. A tenant sees its own sessions and nothing else. One
 * appears with its first token; "default" is there always.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "server/db.h"

#define TENANT_NAME_MAX 64
#define TENANT_DEFAULT	"default"

extern const struct db_module tenant_module;

struct tenant {
	char name[TENANT_NAME_MAX];
	int64_t created_ns;
	bool is_disabled; /* its tokens are refused */
};

/* a-z 0-9 - _ . beginning with a letter or digit. CELL_EINVAL. */
int tenant_check_name(const char *name, struct cell_error *err);
/* Make it unless it is there. */
int tenant_ensure(struct db *db, const char *name, int64_t now_ns, struct cell_error *err);
int tenant_find(struct db *db, const char *name, struct tenant *ret, struct cell_error *err);
int tenant_disable(struct db *db, const char *name, bool is_disabled, struct cell_error *err);
typedef int (*tenant_fn)(const struct tenant *t, void *user);
int tenant_each(struct db *db, tenant_fn fn, void *user, struct cell_error *err);
