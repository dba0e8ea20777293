/* SPDX-License-Identifier: Apache-2.0 */
/* api.h: what the handlers share. */
#pragma once
#include "server/call.h"

/* The session of the path's first parameter, of the caller's tenant (an admin: of any). False: the call was answered. */
bool api_session(struct call *c);
/* And it can be used. */
bool api_ready_session(struct call *c);

/* api_keep.c: what a paused session takes, which its guest cannot be asked. */
void api_paused_stats(struct call *c);

/* api_execs.c, for commands and runs of code. */
struct exec;
/* A client's own id; NULL is fine. */
int exec_check_id(const char *id, struct cell_error *err);
/* The same key again: 1 and the first one's command or run; 0: there is none. */
int exec_find_first(struct call *c, const char *id, struct exec **ret, struct cell_error *err);
/* Those of the call's session whose `member` is `wanted` (NULL: any). */
json_t *exec_list_json(struct call *c, bool is_runs, const char *member, const char *wanted);
