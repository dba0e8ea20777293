/* SPDX-License-Identifier: Apache-2.0 */
/* file_tree.c: cell file ls, stat, exists, mkdir, mv, rm. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/file.h"
#include "cli/units.h"

static int file_ls(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct cli_file_listing l = {.cli = cli,
		.is_long = cli_args_has(args, "long"),
		.end = cli_args_has(args, "null") ? 0 : '\n'};
	uint64_t depth;
	int r = cli_args_number(args, "depth", cli_args_has(args, "recursive") ? 0 : 1, &depth,
		&err);

	if (r == 0 && depth > UINT32_MAX)
		r = cell_fail(&err, CELL_EINVAL, 0, "ls: --depth %" PRIu64 " is too deep", depth);
	if (r == 0)
		r = cli_file_begin(args, 1, 2, &c, &err);
	if (r == 0) {
		l.list = cli->is_json ? json_array() : NULL;
		r = cells->file_list(c, args->n_operands > 1 ? args->operands[1] : ".",
			(uint32_t)depth, cli_file_list_one, &l, &err);
	}
	if (r < 0) {
		json_decref(l.list);
		return cli_file_end(cli, r, &err);
	}
	return cli->is_json ? cli_print_json(cli, json_pack("{s:o}", "files", l.list))
			    : cli_flush(cli);
}

struct stat_output {
	const struct cli *cli;
	const char *path;
	json_t *list;
};

static int stat_one(const struct cell_file_info *info, void *user)
{
	struct stat_output *s = user;
	struct cell_file_info shown = *info;
	char mode[11], when[CLI_UNIT_MAX], size[CLI_UNIT_MAX];

	shown.path = s->path;
	if (s->list) {
		json_array_append_new(s->list, cli_file_json(&shown));
		return 0;
	}
	cli_print_name(s->path);
	printf("\n  type   %s\n  size   %" PRIu64 " (%s)\n  mode   %04o (%s)\n  owner  %u:%u\n",
		cli_file_type(info->type), info->size, cli_format_size(size, info->size),
		info->mode, cli_file_mode(info, mode), info->uid, info->gid);
	printf("  mtime  %s\n",
		cli_format_time(when, info->mtime_ns > 0 ? (uint64_t)info->mtime_ns / 1000000 : 0));
	if (info->type == CELL_FILE_SYMLINK) {
		(void)fputs("  target ", stdout);
		cli_print_name(info->target);
		(void)putchar('\n');
	}
	return 0;
}

static int file_stat(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct stat_output s = {.cli = cli};
	json_t *first;
	int r = cli_file_begin(args, 2, CLI_MANY, &c, &err);

	s.list = cli->is_json ? json_array() : NULL;
	for (size_t i = 1; i < args->n_operands && r == 0; i++) {
		s.path = args->operands[i];
		r = cells->file_stat(c, s.path, stat_one, &s, &err);
	}
	if (r < 0) {
		json_decref(s.list);
		return cli_file_end(cli, r, &err);
	}
	if (!cli->is_json)
		return cli_flush(cli);
	if (args->n_operands > 2)
		return cli_print_json(cli, json_pack("{s:o}", "files", s.list));
	first = json_incref(json_array_get(s.list, 0));
	json_decref(s.list);
	return cli_print_json(cli, first);
}

static int file_exists(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	int r = cli_file_begin(args, 2, 2, &c, &err);

	if (r == 0)
		r = cells->file_exists(c, args->operands[1], &err);
	if (r < 0)
		return cli_file_end(cli, r, &err);
	if (cli->is_json) {
		int code = cli_print_json(cli, json_pack("{s:b}", "exists", r > 0));
		if (code)
			return code;
	}
	return r > 0 ? CLI_EXIT_OK : CLI_EXIT_NO;
}

/* Verbs without output of their own say {"ok": true}, so that --json always gives an object. */
static int end_quietly(const struct cli *cli, int r, const struct cell_error *err)
{
	if (r < 0)
		return cli_file_end(cli, r, err);
	return cli->is_json ? cli_print_json(cli, json_pack("{s:b}", "ok", 1)) : CLI_EXIT_OK;
}

static int file_mkdir(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	uint32_t mode;
	int r = cli_args_mode(args, "mode", &mode, &err);

	if (r == 0)
		r = cli_file_begin(args, 2, CLI_MANY, &c, &err);
	for (size_t i = 1; i < args->n_operands && r == 0; i++)
		r = cells->file_mkdir(c, args->operands[i], mode, cli_args_has(args, "parents"),
			&err);
	return end_quietly(cli, r, &err);
}

static int file_mv(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	int r = cli_file_begin(args, 3, 3, &c, &err);

	if (r == 0)
		r = cells->file_move(c, args->operands[1], args->operands[2],
			cli_args_has(args, "replace"), &err);
	return end_quietly(cli, r, &err);
}

static int file_rm(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	int r = cli_file_begin(args, 2, CLI_MANY, &c, &err);

	for (size_t i = 1; i < args->n_operands && r == 0; i++) {
		r = cells->file_remove(c, args->operands[i], cli_args_has(args, "recursive"), &err);
		if (r < 0 && err.code == CELL_ENOTFOUND && cli_args_has(args, "force"))
			r = 0;
	}
	return end_quietly(cli, r, &err);
}

static const struct cli_option ls_options[] = {
	{"long", 'l', NULL, "mode, owner, size and time too"},
	{"recursive", 'R', NULL, "everything below"},
	{"depth", 0, "N", "so many levels below"},
	{"null", '0', NULL, "end names with a NUL instead of a newline"},
	{0},
};

const struct cli_verb cli_file_ls = {
	.name = "ls",
	.of = "file",
	.usage = "[OPTION...] CELL [PATH]",
	.summary = "list a directory",
	.about = "Lists a directory of the workspace, sorted by name. On a terminal control bytes "
		 "in "
		 "names are made visible; elsewhere names are printed as they are.",
	.examples = "cell file ls web\n"
		    "cell file ls -l --depth 2 web src",
	.groups = {ls_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_ls,
};

const struct cli_verb cli_file_stat = {
	.name = "stat",
	.of = "file",
	.usage = "CELL PATH...",
	.summary = "show type, size, mode, owner and time of files",
	.about = "Shows what is known of each file. A symbolic link is shown itself, not what it "
		 "points to.",
	.examples = "cell file stat web notes.txt\n"
		    "cell file stat --json web notes.txt",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_stat,
};

const struct cli_verb cli_file_exists = {
	.name = "exists",
	.of = "file",
	.usage = "CELL PATH",
	.summary = "tell by the exit code whether a file is there",
	.about = "Exits with 0 when it is there and with 1 when not. Prints nothing, except with "
		 "--json.",
	.examples = "cell file exists web done.flag && echo done",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_exists,
};

static const struct cli_option mkdir_options[] = {
	{"parents", 'p', NULL, "make missing parents, and do not mind what is there"},
	{"mode", 0, "MODE", "permission bits in octal"},
	{0},
};

const struct cli_verb cli_file_mkdir = {
	.name = "mkdir",
	.of = "file",
	.usage = "[OPTION...] CELL PATH...",
	.summary = "make directories",
	.about = "Makes directories in the workspace.",
	.examples = "cell file mkdir -p web a/b/c",
	.groups = {mkdir_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_mkdir,
};

static const struct cli_option mv_options[] = {
	{"replace", 'f', NULL, "replace TO when it is there"},
	{0},
};

const struct cli_verb cli_file_mv = {
	.name = "mv",
	.of = "file",
	.usage = "[OPTION...] CELL FROM TO",
	.summary = "rename or move a file or directory",
	.about = "Moves FROM to TO, both in the workspace. TO is the new name, not a directory to "
		 "move into.",
	.examples = "cell file mv web draft.txt final.txt",
	.groups = {mv_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_mv,
};

static const struct cli_option rm_options[] = {
	{"recursive", 'r', NULL, "directories with all they hold"},
	{"force", 'f', NULL, "do not mind what is not there"},
	{0},
};

const struct cli_verb cli_file_rm = {
	.name = "rm",
	.of = "file",
	.usage = "[OPTION...] CELL PATH...",
	.summary = "remove files and directories",
	.about = "Removes files of the workspace. A symbolic link is removed itself, not what it "
		 "points to.",
	.examples = "cell file rm web old.txt\n"
		    "cell file rm -r web build",
	.groups = {rm_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_rm,
};
