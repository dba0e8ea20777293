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

/* api_exec_calls.c: for commands and runs of code. */
struct exec;
/* A client's own id; NULL is fine. */
int exec_check_id(const char *id, struct cell_error *err);
/* The same key again: 1 and the first one's command or run; 0: there is none. */
int exec_find_first(struct call *c, const char *id, struct exec **ret, struct cell_error *err);
/* Those of the call's session whose `member` is `wanted` (NULL: any). */
json_t *exec_list_json(struct call *c, bool is_runs, const char *member, const char *wanted);
/* The command (or run) of the path's second parameter; one that runs. False: the call was answered. */
bool exec_of(struct call *c, bool is_run, struct exec **ret);
bool exec_running(struct call *c, bool is_run, struct exec **ret);
/* c->begin() was permitted: as soon as there is room and a cell for it. */
void exec_begin(struct call *c);
/* What is to be done to it is put to the rules. */
void exec_permit(struct call *c, void (*go)(struct call *c));
/* An order was given to it, or r says why not: on its way at once, and answered. Takes the reference. */
void exec_ordered(struct call *c, struct exec *e, int r, const struct cell_error *err);
