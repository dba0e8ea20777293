/* SPDX-License-Identifier: Apache-2.0 */
/* cell file: files of a cell's workspace. The table, and what its verbs share; the verbs themselves
 * are in file_content.c, file_tree.c and file_search.c. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/file.h"
#include "cli/signals.h"
#include "cli/units.h"

int cli_file_begin(const struct cli_args *args, size_t min, size_t max, struct cell **ret,
	struct cell_error *err)
{
	int r = cli_args_count(args, min, max, err);

	if (r < 0)
		return r;
	cli_signals_catch();
	cli_signals_patience(1);
	return cli_cell_open(args->operands[0], ret, err);
}

int cli_file_end(const struct cli *cli, int r, const struct cell_error *err)
{
	if (r >= 0)
		return CLI_EXIT_OK;
	if (cli_signals_stop())
		return CLI_EXIT_SIGNAL + cli_signals_stop();
	if (r == -EPIPE && !err->code)
		return CLI_EXIT_SIGNAL + SIGPIPE;
	return cli_fail(cli, err);
}

const char *cli_file_type(enum cell_file_type type)
{
	switch (type) {
	case CELL_FILE_REGULAR:
		return "file";
	case CELL_FILE_DIRECTORY:
		return "directory";
	case CELL_FILE_SYMLINK:
		return "symlink";
	case CELL_FILE_OTHER:
		break;
	}
	return "other";
}

const char *cli_file_mode(const struct cell_file_info *info, char out[11])
{
	static const char letters[] = "rwxrwxrwx";

	out[0] = info->type == CELL_FILE_DIRECTORY ? 'd'
		 : info->type == CELL_FILE_SYMLINK ? 'l'
		 : info->type == CELL_FILE_REGULAR ? '-'
						   : '?';
	for (int i = 0; i < 9; i++)
		out[i + 1] = info->mode & (0400u >> i) ? letters[i] : '-';
	if (info->mode & 04000)
		out[3] = out[3] == 'x' ? 's' : 'S';
	if (info->mode & 02000)
		out[6] = out[6] == 'x' ? 's' : 'S';
	if (info->mode & 01000)
		out[9] = out[9] == 'x' ? 't' : 'T';
	out[10] = 0;
	return out;
}

json_t *cli_file_json(const struct cell_file_info *info)
{
	json_t *o = json_object();

	cli_json_string(o, "path", info->path);
	cli_json_string(o, "type", cli_file_type(info->type));
	json_object_set_new(o, "size", json_integer((json_int_t)info->size));
	json_object_set_new(o, "mode", json_sprintf("%04o", info->mode));
	json_object_set_new(o, "uid", json_integer(info->uid));
	json_object_set_new(o, "gid", json_integer(info->gid));
	json_object_set_new(o, "mtime_ns", json_integer(info->mtime_ns));
	if (info->type == CELL_FILE_SYMLINK)
		cli_json_string(o, "target", info->target);
	return o;
}

int cli_file_list_one(const struct cell_file_info *info, void *user)
{
	struct cli_file_listing *l = user;
	char mode[11], when[CLI_UNIT_MAX];

	l->n++;
	if (l->list) {
		json_array_append_new(l->list, cli_file_json(info));
	} else {
		uint64_t unix_ms = info->mtime_ns > 0 ? (uint64_t)info->mtime_ns / 1000000 : 0;
		if (l->is_long)
			printf("%s %5u %5u %12" PRIu64 " %s ", cli_file_mode(info, mode), info->uid,
				info->gid, info->size, cli_format_time(when, unix_ms));
		if (l->end)
			cli_print_name(info->path);
		else
			(void)fputs(info->path, stdout);
		if (l->is_long && info->type == CELL_FILE_SYMLINK) {
			(void)fputs(" -> ", stdout);
			cli_print_name(info->target);
		}
		(void)putchar(l->end);
		if (ferror(stdout))
			return -EPIPE;
	}
	return cli_signals_stop() ? -EINTR : 0;
}

static const struct cli_verb *const verbs[] = {&cli_file_read, &cli_file_write, &cli_file_append,
	&cli_file_edit, &cli_file_ls, &cli_file_stat, &cli_file_exists, &cli_file_mkdir,
	&cli_file_mv, &cli_file_rm, &cli_file_glob, &cli_file_grep, &cli_file_watch, NULL};

const struct cli_verb cli_verb_file = {
	.name = "file",
	.usage = "VERB [OPTION...] CELL [ARGUMENT...]",
	.summary = "read, write, search and watch files of a cell",
	.about = "Works on the files of a cell's workspace. Paths are relative to it. No path and "
		 "no "
		 "symbolic link leads out of it. Writes are atomic: a reader sees the old file or "
		 "the "
		 "new one. 'cell cp' copies whole files and directories.",
	.examples = "cell file read web notes.txt\n"
		    "echo hello | cell file write web notes.txt\n"
		    "cell file grep web 'TODO|FIXME' src\n"
		    "cell file edit web config.py --old 'DEBUG = True' --new 'DEBUG = False'",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
