/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h: the cells of a server (see cells.h). One connection for requests, kept open; a WebSocket for each command that is shown.
 *
 *	client.c    the server, the token, one request: errors, Idempotency-Key, trying again
 *	token.c     where the token comes from
 *	body.c      a spec as the JSON of POST /v1/sessions
 *	keep.c      pause, resume, stats, snapshots
 *	session.c   open, reopen, remove, list, inspect, platform, back ends
 *	exec.c      start, attach, follow, resume; ps and signals
 *	code.c      runs of code
 *	context.c   interpreters and their variables
 *	files.c     files of a cell
 *	transfer.c  files and directories between here and a cell
 *	doctor.c    is the server there, and does it take us
 *	table.c     all of it as a struct cells
 *
 * Nothing here is safe for threads: it is one process for one verb.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "net/client.h"
#include "net/json_lines.h"

/* From now on `cells` is the server at `url`; nothing is sent yet. */
struct remote_settings {
	const char *url; /* http://, https://, unix:/path */
	const char
		*token_file;   /* --token-file; NULL: from the environment or the user's own file */
	const char *ca_file;   /* PEM; NULL: the system's */
	bool has_server_paths; /* paths of a spec are the server's own, and meant */
};
int remote_use(const struct cli *cli, const struct remote_settings *s, struct cell_error *err);

/* token.c: "" when there is none. */
int remote_token(const char *file, char **ret, struct cell_error *err);

/* ---- client.c ---- */

struct remote_request {
	const char *method; /* NULL: GET */
	const char *target; /* encoded */
	json_t *body;	    /* stolen; NULL: none */
	bool is_change; /* carries an Idempotency-Key, so that sending it again never does it twice */

	bool is_once; /* never sent again: the server would do it twice */

	/* Instead of a JSON answer: bytes to a sink, bytes from a source. Such a request is sent once. */
	int (*sink)(void *arg, const void *p, size_t n);
	ssize_t (*source)(void *arg, void *p, size_t max);
	void *arg;
	const char *range; /* "bytes=0-9" */
	bool (*is_cancelled)(void);
};
/* *ret (may be NULL): the answer's JSON, NULL when it has none. An answer that is an error is one here, with the server's code, message and
 * hint. */
int remote_call(const struct remote_request *q, json_t **ret, struct cell_error *err);

/* A path of the API: "/v1/sessions/%s/files" and further parameters (name, value, ... NULL; a NULL value is left out), all encoded. Caller frees. */
char *remote_target(const char *session, const char *what, ...) __attribute__((sentinel));

/* An error of the server's as ours. */
int remote_error(const json_t *o, struct cell_error *err);
int remote_socket(const char *target, struct ws_client **ret, struct cell_error *err);
/* After a failure: is it worth trying again? The server is away, or just starting. */
bool remote_is_away(void);
void remote_set_away(void); /* a connection made by remote_socket() broke */
/* How long to wait before attempt n (from 1) to reach it again; -1: no more. */
int remote_delay_ms(unsigned attempt);
/* Say once that the connection is lost, and once that it is back. */
void remote_tell_lost(void);

/* ---- line.c ---- */

/* A WebSocket that is made again when it breaks. */
struct remote_line {
	struct ws_client *ws; /* NULL: lost, or there never was one */
	bool is_over;	      /* nothing more will come */
	unsigned attempt;
	uint64_t retry_at_ms;
};
int remote_line_fd(const struct remote_line *l); /* -1: none now */
/* Until rejoin has something to do; -1: it has not. */
int remote_line_patience_ms(const struct remote_line *l);
void remote_line_lose(struct remote_line *l);
/* Now, or when its time has come: 0 also while it is lost and will be tried again. */
int remote_line_rejoin(struct remote_line *l, int (*join)(void *user, struct cell_error *err),
	void *user, struct cell_error *err);
void remote_tell_back(void);
const struct cli *remote_cli(void);
bool remote_has_server_paths(void);
/* {id, tenant, role, version}; kept for the process. */
int remote_whoami(json_t **ret, struct cell_error *err);
uint64_t remote_now_ms(void);

/* ---- values ---- */

const char *remote_text(const json_t *o, const char *name); /* "" when it is not there */
int64_t remote_int(const json_t *o, const char *name);
cell_caps remote_caps(const json_t *words);
/* NAME, or the bytes of NAME_base64. *ret_own is to be freed. */
const char *remote_bytes(const json_t *o, const char *name, char **ret_own, size_t *ret_len);
json_t *remote_base64(const void *p, size_t n);

/* body.c: *ret is a new object. */
int remote_spec_json(const struct cell_spec *spec, json_t **ret, struct cell_error *err);
int remote_env_json(const char *const *env, json_t **ret, struct cell_error *err);
/* JSON has no place for other bytes: what is left out for them would be something else. NULL is fine. */
int remote_check_text(const char *what, const char *s, struct cell_error *err);

/* session.c */
struct remote_exec;
struct remote_run;
struct remote_cell {
	char id[64];
	char name[CELL_NAME_MAX];
	char backend[32];
	cell_caps degraded, caps;
	bool has_caps;
	bool is_temporary;    /* ours alone: it goes when we do */
	uint64_t renew_at_ms; /* a temporary one's time to live */
	struct remote_exec *shown;
	struct remote_run *running; /* code */
};
static inline struct remote_cell *remote_cell_of(const struct cell *c)
{
	return (struct remote_cell *)(uintptr_t)c;
}

int remote_open(const struct cell_spec *spec, struct cell **ret, struct cell_error *err);
int remote_reopen(const char *name, struct cell **ret, struct cell_error *err);
int remote_close(struct cell *c, struct cell_error *err);
int remote_destroy(struct cell *c, struct cell_error *err);
int remote_remove(const char *name, struct cell_error *err);
int remote_pause(const char *name, struct cell_error *err);
int remote_resume(const char *name, struct cell_error *err);
int remote_stats(const char *name, struct cell_stats *ret, struct cell_error *err);
int remote_snapshot(const char *cell, const char *name, struct cell_error *err);
int remote_snapshot_list(cell_snapshot_fn fn, void *user, struct cell_error *err);
int remote_snapshot_remove(const char *name, struct cell_error *err);
const char *remote_name(const struct cell *c);
const char *remote_backend_of(const struct cell *c);
bool remote_supports(const struct cell *c, enum cell_cap cap);
cell_caps remote_degraded(const struct cell *c);
int remote_poll_fd(const struct cell *c);
short remote_poll_events(const struct cell *c);
int remote_list(cell_info_fn fn, void *user, struct cell_error *err);
int remote_inspect(const char *name, cell_info_fn fn, void *user, struct cell_error *err);
int remote_prune(cell_info_fn fn, void *user, struct cell_error *err);
int remote_platform(struct cell *c, cell_platform_fn fn, void *user, struct cell_error *err);
int remote_tools(struct cell *c, const char *const *names, cell_tool_fn fn, void *user,
	struct cell_error *err);
int remote_backends(struct cell_backend_info *ret, size_t max, size_t *ret_n,
	struct cell_error *err);
int remote_backend_probe(const char *name, struct cell_backend_info *ret, struct cell_error *err);
void remote_tick(struct cell *c);

/* exec.c */
int remote_exec_start(struct cell *c, const struct cell_exec_opts *opts, struct cell_exec **ret,
	struct cell_error *err);
int remote_exec_attach(struct cell *c, const char *id, const struct cell_attach_opts *opts,
	struct cell_exec **ret, struct cell_error *err);
int remote_exec_next(struct cell_exec *x, int timeout_ms, struct cell_event *ret,
	struct cell_error *err);
int remote_exec_patience_ms(const struct cell_exec *x);
ssize_t remote_exec_write(struct cell_exec *x, const void *p, size_t n, int timeout_ms,
	struct cell_error *err);
int remote_exec_close_stdin(struct cell_exec *x, struct cell_error *err);
int remote_exec_resize(struct cell_exec *x, uint16_t rows, uint16_t cols, struct cell_error *err);
int remote_exec_signal(struct cell_exec *x, int signal, struct cell_error *err);
int remote_exec_kill(struct cell_exec *x, struct cell_error *err);
const char *remote_exec_id(const struct cell_exec *x);
void remote_exec_free(struct cell_exec *x);
int remote_exec_fd(const struct remote_exec *x);
int remote_signal(struct cell *c, const char *id, int signal, bool tree, struct cell_error *err);
int remote_ps(struct cell *c, cell_exec_info_fn fn, void *user, struct cell_error *err);

/* code.c */
int remote_code_start(struct cell *c, const struct cell_code_opts *opts, struct cell_code_run **ret,
	struct cell_error *err);
int remote_code_look(struct cell *c, const char *id, uint64_t offset, bool is_following,
	struct cell_code_run **ret, struct cell_error *err);
int remote_code_next(struct cell_code_run *x, int timeout_ms, struct cell_code_event *ret,
	struct cell_error *err);
int remote_code_patience_ms(const struct cell_code_run *x);
int remote_code_answer(struct cell_code_run *x, const char *line, struct cell_error *err);
int remote_code_interrupt(struct cell_code_run *x, struct cell_error *err);
const char *remote_code_id(const struct cell_code_run *x);
void remote_code_free(struct cell_code_run *x);
int remote_code_fd(const struct remote_run *x);

/* context.c */
int remote_context_create(struct cell *c, const struct cell_context_opts *opts,
	char ret_name[CELL_CONTEXT_MAX], struct cell_error *err);
int remote_context_list(struct cell *c, cell_context_fn fn, void *user, struct cell_error *err);
int remote_context_reset(struct cell *c, const char *name, struct cell_error *err);
int remote_context_interrupt(struct cell *c, const char *name, struct cell_error *err);
int remote_context_delete(struct cell *c, const char *name, struct cell_error *err);
int remote_context_vars(struct cell *c, const char *name, char **ret_json, struct cell_error *err);
int remote_context_get(struct cell *c, const char *name, const char *variable, char **ret_json,
	struct cell_error *err);
int remote_context_set(struct cell *c, const char *name, const char *variable, const char *json,
	struct cell_error *err);
int remote_context_complete(struct cell *c, const char *name, const char *code, size_t cursor,
	char **ret_json, struct cell_error *err);

/* files.c */
int remote_file_stat(struct cell *c, const char *path, cell_file_fn fn, void *user,
	struct cell_error *err);
int remote_file_exists(struct cell *c, const char *path, struct cell_error *err);
int remote_file_read(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
	cell_data_fn fn, void *user, struct cell_error *err);
int remote_file_write(struct cell *c, const char *path, uint32_t mode, uint32_t flags,
	cell_source_fn fn, void *user, uint64_t *ret_size, struct cell_error *err);
int remote_file_mkdir(struct cell *c, const char *path, uint32_t mode, bool parents,
	struct cell_error *err);
int remote_file_remove(struct cell *c, const char *path, bool recursive, struct cell_error *err);
int remote_file_move(struct cell *c, const char *from, const char *to, bool replace,
	struct cell_error *err);
int remote_file_list(struct cell *c, const char *path, uint32_t depth, cell_file_fn fn, void *user,
	struct cell_error *err);
int remote_file_glob(struct cell *c, const char *path, const char *pattern, uint32_t limit,
	cell_file_fn fn, void *user, bool *ret_truncated, struct cell_error *err);
int remote_file_grep(struct cell *c, const struct cell_grep_opts *opts, cell_grep_fn fn, void *user,
	bool *ret_truncated, struct cell_error *err);
int remote_file_edit(struct cell *c, const char *path, const void *old_text, size_t old_len,
	const void *new_text, size_t new_len, bool all, uint64_t *ret_count,
	struct cell_error *err);
int remote_file_tar(struct cell *c, const char *path, cell_data_fn fn, void *user,
	struct cell_error *err);
int remote_file_untar(struct cell *c, const char *path, cell_source_fn fn, void *user,
	struct cell_error *err);
int remote_file_watch(struct cell *c, const char *path, bool recursive, int timeout_ms,
	cell_watch_fn fn, void *user, struct cell_error *err);

/* deps.c */
int remote_deps_add(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err);
int remote_deps_sync(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err);
int remote_deps_remove(struct cell *c, const char *language, const char *const *names,
	struct cell_error *err);
int remote_deps_list(struct cell *c, const char *language, cell_dep_fn fn, void *user,
	struct cell_error *err);
int remote_deps_lock(struct cell *c, const char *language, char **ret, struct cell_error *err);

/* transfer.c */
int remote_file_upload(struct cell *c, const char *host_path, const char *path,
	cell_progress_fn progress, void *user, struct cell_error *err);
int remote_file_download(struct cell *c, const char *path, const char *host_path,
	cell_progress_fn progress, void *user, struct cell_error *err);

/* doctor.c: is the server there, and does it take us? How many were written. */
struct cli_check;
size_t remote_doctor(struct cli_check *ret, size_t max);
