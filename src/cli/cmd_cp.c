/* SPDX-License-Identifier: Apache-2.0 */
/* cell cp: files and directories between the host and a cell, both ways. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/copy_arg.h"
#include "cli/fileio.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"

struct copy {
	const struct cli *cli;
	struct cell *cell;
	struct cli_progress progress;
	uint64_t bytes;
	bool is_tar;
};

static int on_progress(uint64_t bytes, void *user)
{
	struct copy *k = user;

	k->bytes = bytes;
	cli_progress_update(&k->progress, bytes);
	return cli_signals_stop() ? -EINTR : 0;
}

static int note_stat(const struct cell_file_info *info, void *user)
{
	struct stat *st = user;

	st->st_size = (off_t)info->size;
	st->st_mode = info->type == CELL_FILE_DIRECTORY ? S_IFDIR
		      : info->type == CELL_FILE_REGULAR ? S_IFREG
							: 0;
	return 0;
}

/* `dest` itself, or the source's name below it when it is a directory. Caller frees. */
static char *final_path(const char *dest, const char *source, bool is_directory)
{
	char name[256];
	size_t len = strlen(dest);
	bool has_slash = len && dest[len - 1] == '/';

	cli_copy_name(source, name, sizeof(name));
	if (!*name || (!is_directory && !has_slash))
		return cli_strdup(dest);
	if (!strcmp(dest, "."))
		return cli_strdup(name);
	return cli_format("%s%s%s", dest, has_slash ? "" : "/", name);
}

static int needs_directory(const char *dest, bool is_directory, size_t n_sources,
	struct cell_error *err)
{
	if (n_sources < 2 || is_directory)
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "cp: several sources, but '%.120s' is no directory", dest);
	return cell_error_hint(err, -EINVAL, "make it first: cell file mkdir, or mkdir");
}

static int upload(struct copy *k, const struct cli_copy_arg *from, const struct cli_copy_arg *to,
	size_t n_sources, struct cell_error *err)
{
	struct stat st, there = {0};
	auto_free char *path = NULL;
	bool is_directory;
	int r;

	if (stat(from->path, &st) < 0)
		return cell_fail_errno(err, errno, "copy '%.200s'", from->path);
	is_directory = cells->file_stat(k->cell, to->path, note_stat, &there, NULL) == 0 &&
		       S_ISDIR(there.st_mode);
	r = needs_directory(to->path, is_directory, n_sources, err);
	if (r < 0)
		return r;
	path = final_path(to->path, from->path, is_directory);
	cli_progress_init(&k->progress, k->cli, from->path,
		S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
	return cells->file_upload(k->cell, from->path, path, on_progress, k, err);
}

static int download(struct copy *k, const struct cli_copy_arg *from, const struct cli_copy_arg *to,
	size_t n_sources, struct cell_error *err)
{
	struct stat st = {0}, there;
	auto_free char *path = NULL;
	bool is_directory = stat(to->path, &there) == 0 && S_ISDIR(there.st_mode);
	int r = cells->file_stat(k->cell, from->path, note_stat, &st, err);

	if (r == 0)
		r = needs_directory(to->path, is_directory, n_sources, err);
	if (r < 0)
		return r;
	path = final_path(to->path, from->path, is_directory);
	cli_progress_init(&k->progress, k->cli, from->path,
		S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
	return cells->file_download(k->cell, from->path, path, on_progress, k, err);
}

static int note_source(uint64_t bytes, void *user)
{
	return on_progress(bytes, user);
}

static int from_stdin(struct copy *k, const struct cli_copy_arg *to, struct cell_error *err)
{
	struct cli_fd_source source = {.fd = STDIN_FILENO, .on_bytes = note_source, .user = k};
	int r;

	cli_progress_init(&k->progress, k->cli, "stdin", 0);
	if (k->is_tar)
		r = cells->file_untar(k->cell, to->path, cli_fd_source, &source, err);
	else
		r = cells->file_write(k->cell, to->path, 0, 0, cli_fd_source, &source, NULL, err);
	if (r < 0 && source.sys_errno)
		return cell_fail_errno(err, source.sys_errno, "read stdin");
	return r;
}

static int to_stdout(struct copy *k, const struct cli_copy_arg *from, struct cell_error *err)
{
	struct cli_fd_target target = {.on_bytes = note_source, .user = k};
	int r;

	if (isatty(STDOUT_FILENO) && k->is_tar) {
		cell_fail(err, CELL_EINVAL, 0, "cp: a tar archive does not belong on a terminal");
		return cell_error_hint(err, -EINVAL, "redirect it: > archive.tar");
	}
	cli_sink_fd(&target.sink, STDOUT_FILENO, false, 0);
	cli_progress_init(&k->progress, k->cli, from->path, 0);
	if (k->is_tar)
		r = cells->file_tar(k->cell, from->path, cli_fd_target, &target, err);
	else
		r = cells->file_read(k->cell, from->path, 0, 0, cli_fd_target, &target, err);
	return cli_fd_target_end(&target, r, err);
}

static int copy_one(struct copy *k, const struct cli_copy_arg *from, const struct cli_copy_arg *to,
	size_t n_sources, struct cell_error *err)
{
	int r;

	k->bytes = 0;
	if (from->place == CLI_PLACE_STDIO)
		r = from_stdin(k, to, err);
	else if (to->place == CLI_PLACE_STDIO)
		r = to_stdout(k, from, err);
	else if (to->place == CLI_PLACE_CELL)
		r = upload(k, from, to, n_sources, err);
	else
		r = download(k, from, to, n_sources, err);
	cli_progress_end(&k->progress);
	return r;
}

static int check_tar(const struct cli_copy_arg *ends, size_t n, bool is_tar, struct cell_error *err)
{
	if (!is_tar ||
		(n == 2 && (ends[0].place == CLI_PLACE_STDIO || ends[1].place == CLI_PLACE_STDIO)))
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "cp: --tar is for '-'");
	return cell_error_hint(err, -EINVAL, "directories are copied without it");
}

static int cp(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	size_t n = args->n_operands;
	auto_free struct cli_copy_arg *ends = cli_calloc(n + 1, sizeof(*ends));
	struct copy k = {.cli = cli, .is_tar = cli_args_has(args, "tar")};
	uint64_t total = 0;

	if (cli_args_count(args, 2, CLI_MANY, &err) < 0)
		return cli_fail(cli, &err);
	for (size_t i = 0; i < n; i++)
		if (cli_copy_arg_parse(args->operands[i], &ends[i], &err) < 0)
			return cli_fail(cli, &err);
	if (cli_copy_args_check(ends, n, &err) < 0 || check_tar(ends, n, k.is_tar, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	for (size_t i = 0; i + 1 < n; i++) {
		const char *name =
			ends[n - 1].place == CLI_PLACE_CELL ? ends[n - 1].cell : ends[i].cell;
		int r = 0;
		if (!c || strcmp(cells->name(c), name) != 0) {
			cli_cell_close(&c);
			r = cli_cell_open(name, &c, &err);
		}
		k.cell = c;
		if (r == 0)
			r = copy_one(&k, &ends[i], &ends[n - 1], n - 1, &err);
		if (r < 0 && cli_signals_stop())
			return CLI_EXIT_SIGNAL + cli_signals_stop();
		if (r == -EPIPE && ends[n - 1].place == CLI_PLACE_STDIO)
			return CLI_EXIT_SIGNAL + 13;
		if (r < 0)
			return cli_fail(cli, &err);
		total += k.bytes;
		cli_tell(cli, "%s: %" PRIu64 " bytes", args->operands[i], k.bytes);
	}
	if (cli->is_json && ends[n - 1].place != CLI_PLACE_STDIO)
		return cli_print_json(cli, json_pack("{s:I, s:I}", "copied", (json_int_t)(n - 1),
						   "bytes", (json_int_t)total));
	return CLI_EXIT_OK;
}

static const struct cli_option options[] = {
	{"tar", 0, NULL, "with '-': the stream is a tar archive of a directory"},
	{0},
};

const struct cli_verb cli_verb_cp = {
	.name = "cp",
	.usage = "[OPTION...] SOURCE... TARGET",
	.summary = "copy files and directories into and out of cells",
	.about =
		"One end is a path of the host, the other CELL:PATH, relative to the cell's "
		"workspace. Directories are copied whole. When TARGET is a directory, the copy "
		"goes "
		"into it under its own name; a SOURCE that ends in /. copies what is in it. '-' is "
		"stdin or stdout. A host path with a colon in it is written ./a:b.\n"
		"\n"
		"Nothing is written outside the workspace or outside TARGET, whatever links there "
		"are.",
	.examples = "cell cp model.bin web:data/\n"
		    "cell cp -q web:results ./out\n"
		    "cell cp a.csv b.csv web:in/\n"
		    "pg_dump db | cell cp - web:dump.sql\n"
		    "cell cp --tar web:src - | tar tf -",
	.groups = {options},
	.operands = {CLI_COPY, CLI_COPY},
	.head = CLI_NO_COMMAND,
	.run = cp,
};
