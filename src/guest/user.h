/* SPDX-License-Identifier: Apache-2.0 */
/* user.h: who a command runs as. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

#define USER_MAX_GROUPS 64

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_MAX_GROUPS];
	int n_groups;
	char name[64];
	char home[256];
	char shell[128];
	bool is_self; /* the guest's own: nothing to change */
};

/* `spec` is a name, a uid or uid:gid; NULL or "": the guest's own. CELL_ENOTFOUND for an unknown
 * name, CELL_EDENIED when the guest may not become it. */
int user_resolve(const char *spec, struct user *ret, struct cell_error *err);
