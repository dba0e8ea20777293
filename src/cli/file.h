/* SPDX-License-Identifier: Apache-2.0 */
/* file.h: what the verbs of `cell file` share. cmd_file.c has the table, file_*.c the verbs. */
#pragma once
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/output.h"

extern const struct cli_verb cli_file_read, cli_file_write, cli_file_append, cli_file_edit,
	cli_file_ls, cli_file_stat, cli_file_exists, cli_file_mkdir, cli_file_mv, cli_file_rm,
	cli_file_glob, cli_file_grep, cli_file_watch;

/* Check the operands and open the cell named by the first one; signals are caught. */
int cli_file_begin(const struct cli_args *args, size_t min, size_t max, struct cell **ret,
	struct cell_error *err);
/* The exit code after r: says the error, or 128+n when a signal stopped us, or 141 when the reader
 * went. */
int cli_file_end(const struct cli *cli, int r, const struct cell_error *err);

const char *cli_file_type(enum cell_file_type type);
json_t *cli_file_json(const struct cell_file_info *info);
/* "drwxr-xr-x" */
const char *cli_file_mode(const struct cell_file_info *info, char out[11]);

/* What listings share: text as it comes, JSON gathered. */
struct cli_file_listing {
	const struct cli *cli;
	bool is_long;
	char end; /* after each name: newline, or NUL with --null */
	json_t *list;
	size_t n;
};
/* A cell_file_fn. */
int cli_file_list_one(const struct cell_file_info *info, void *user);
