/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h: cells as the verbs see them, wherever they are. The table has the C API's own functions, with its types and its contracts:
 * on this machine they are libcell's (cells_local.c), with --server they are requests (remote/). A verb is written once, over the table,
 * and a handle goes only to the table that gave it out.
 */
#pragma once
#include "cell/cell.h"
#include "cell/code.h"
#include "cell/deps.h"

#include "base/error.h"

struct cells {
	/* NULL: on this machine; else what the server is called in messages. */
	const char *server;

	int (*open)(const struct cell_spec *spec, struct cell **ret, struct cell_error *err);
	int (*reopen)(const char *name, struct cell **ret, struct cell_error *err);
	int (*close)(struct cell *c, struct cell_error *err);
	int (*destroy)(struct cell *c, struct cell_error *err);
	int (*remove)(const char *name, struct cell_error *err);
	int (*pause)(const char *name, struct cell_error *err);
	int (*resume)(const char *name, struct cell_error *err);
	int (*stats)(const char *name, struct cell_stats *ret, struct cell_error *err);
	int (*snapshot)(const char *cell, const char *name, struct cell_error *err);
	int (*snapshot_list)(cell_snapshot_fn fn, void *user, struct cell_error *err);
	int (*snapshot_remove)(const char *name, struct cell_error *err);
	const char *(*name)(const struct cell *c);
	const char *(*backend_of)(const struct cell *c);
	bool (*supports)(const struct cell *c, enum cell_cap cap);
	cell_caps (*degraded)(const struct cell *c);
	int (*poll_fd)(const struct cell *c);
	short (*poll_events)(const struct cell *c);
	int (*list)(cell_info_fn fn, void *user, struct cell_error *err);
	int (*inspect)(const char *name, cell_info_fn fn, void *user, struct cell_error *err);
	int (*prune)(cell_info_fn fn, void *user, struct cell_error *err);
	int (*platform)(struct cell *c, cell_platform_fn fn, void *user, struct cell_error *err);
	int (*tools)(struct cell *c, const char *const *names, cell_tool_fn fn, void *user,
		struct cell_error *err);
	/* Every known back end, probed. */
	int (*backends)(struct cell_backend_info *ret, size_t max, size_t *ret_n,
		struct cell_error *err);
	int (*backend_probe)(const char *name, struct cell_backend_info *ret,
		struct cell_error *err);

	int (*exec_start)(struct cell *c, const struct cell_exec_opts *opts, struct cell_exec **ret,
		struct cell_error *err);
	int (*exec_attach)(struct cell *c, const char *id, const struct cell_attach_opts *opts,
		struct cell_exec **ret, struct cell_error *err);
	int (*exec_next)(struct cell_exec *x, int timeout_ms, struct cell_event *ret,
		struct cell_error *err);
	int (*exec_patience_ms)(const struct cell_exec *x);
	ssize_t (*exec_write)(struct cell_exec *x, const void *p, size_t n, int timeout_ms,
		struct cell_error *err);
	int (*exec_close_stdin)(struct cell_exec *x, struct cell_error *err);
	int (*exec_resize)(struct cell_exec *x, uint16_t rows, uint16_t cols,
		struct cell_error *err);
	int (*exec_signal)(struct cell_exec *x, int signal, struct cell_error *err);
	int (*exec_kill)(struct cell_exec *x, struct cell_error *err);
	const char *(*exec_id)(const struct cell_exec *x);
	void (*exec_free)(struct cell_exec *x);
	int (*signal)(struct cell *c, const char *id, int signal, bool tree,
		struct cell_error *err);
	int (*ps)(struct cell *c, cell_exec_info_fn fn, void *user, struct cell_error *err);

	/* Code that remembers: see cell/code.h. */
	int (*code_start)(struct cell *c, const struct cell_code_opts *opts,
		struct cell_code_run **ret, struct cell_error *err);
	int (*code_look)(struct cell *c, const char *id, uint64_t offset, bool is_following,
		struct cell_code_run **ret, struct cell_error *err);
	int (*code_next)(struct cell_code_run *x, int timeout_ms, struct cell_code_event *ret,
		struct cell_error *err);
	/* When to ask again though nothing came: a connection is to be tried again. -1: never. May be NULL. */
	int (*code_patience_ms)(const struct cell_code_run *x);
	int (*code_answer)(struct cell_code_run *x, const char *line, struct cell_error *err);
	int (*code_interrupt)(struct cell_code_run *x, struct cell_error *err);
	const char *(*code_id)(const struct cell_code_run *x);
	void (*code_free)(struct cell_code_run *x);
	int (*context_create)(struct cell *c, const struct cell_context_opts *opts,
		char ret_name[CELL_CONTEXT_MAX], struct cell_error *err);
	int (*context_list)(struct cell *c, cell_context_fn fn, void *user, struct cell_error *err);
	int (*context_reset)(struct cell *c, const char *name, struct cell_error *err);
	int (*context_interrupt)(struct cell *c, const char *name, struct cell_error *err);
	int (*context_delete)(struct cell *c, const char *name, struct cell_error *err);
	int (*context_vars)(struct cell *c, const char *name, char **ret_json,
		struct cell_error *err);
	int (*context_get)(struct cell *c, const char *name, const char *variable, char **ret_json,
		struct cell_error *err);
	int (*context_set)(struct cell *c, const char *name, const char *variable, const char *json,
		struct cell_error *err);
	int (*context_complete)(struct cell *c, const char *name, const char *code, size_t cursor,
		char **ret_json, struct cell_error *err);

	/* Called at least once a second while a command is shown: what keeps the cell. May be NULL. */
	void (*tick)(struct cell *c);

	int (*file_stat)(struct cell *c, const char *path, cell_file_fn fn, void *user,
		struct cell_error *err);
	int (*file_exists)(struct cell *c, const char *path, struct cell_error *err);
	int (*file_read)(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
		cell_data_fn fn, void *user, struct cell_error *err);
	int (*file_write)(struct cell *c, const char *path, uint32_t mode, uint32_t flags,
		cell_source_fn fn, void *user, uint64_t *ret_size, struct cell_error *err);
	int (*file_mkdir)(struct cell *c, const char *path, uint32_t mode, bool parents,
		struct cell_error *err);
	int (*file_remove)(struct cell *c, const char *path, bool recursive,
		struct cell_error *err);
	int (*file_move)(struct cell *c, const char *from, const char *to, bool replace,
		struct cell_error *err);
	int (*file_list)(struct cell *c, const char *path, uint32_t depth, cell_file_fn fn,
		void *user, struct cell_error *err);
	int (*file_glob)(struct cell *c, const char *path, const char *pattern, uint32_t limit,
		cell_file_fn fn, void *user, bool *ret_truncated, struct cell_error *err);
	int (*file_grep)(struct cell *c, const struct cell_grep_opts *opts, cell_grep_fn fn,
		void *user, bool *ret_truncated, struct cell_error *err);
	int (*file_edit)(struct cell *c, const char *path, const void *old_text, size_t old_len,
		const void *new_text, size_t new_len, bool all, uint64_t *ret_count,
		struct cell_error *err);
	int (*file_tar)(struct cell *c, const char *path, cell_data_fn fn, void *user,
		struct cell_error *err);
	int (*file_untar)(struct cell *c, const char *path, cell_source_fn fn, void *user,
		struct cell_error *err);
	int (*file_upload)(struct cell *c, const char *host_path, const char *path,
		cell_progress_fn progress, void *user, struct cell_error *err);
	int (*file_download)(struct cell *c, const char *path, const char *host_path,
		cell_progress_fn progress, void *user, struct cell_error *err);
	int (*file_watch)(struct cell *c, const char *path, bool recursive, int timeout_ms,
		cell_watch_fn fn, void *user, struct cell_error *err);

	int (*deps_add)(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err);
	int (*deps_sync)(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err);
	int (*deps_remove)(struct cell *c, const char *language, const char *const *names,
		struct cell_error *err);
	int (*deps_list)(struct cell *c, const char *language, cell_dep_fn fn, void *user,
		struct cell_error *err);
	int (*deps_lock)(struct cell *c, const char *language, char **ret, struct cell_error *err);
};

/* Where the cells of this process are: chosen once, before a verb runs. Never NULL. */
extern const struct cells *cells;

extern const struct cells cells_local;
