/* SPDX-License-Identifier: Apache-2.0 */
/* file_content.c: cell file read, write, append, edit. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/file.h"
#include "cli/fileio.h"
#include "cli/memory.h"

#define EDIT_MAX (1u << 20) /* bytes of --old-file and --new-file: they travel in one message */

static int read_collected(const struct cli *cli, const struct cli_args *args, struct cell *c,
	uint64_t offset, uint64_t limit, struct cell_error *err)
{
	struct cli_fd_target t = {0};
	const char *path = args->operands[1];
	uint64_t max;
	json_t *o;
	int r = cli_args_size(args, "max-output", CLI_JSON_OUTPUT_BYTES, &max, err);

	if (r < 0)
		return r;
	/* One byte more tells whether there was more. */
	if (!limit || limit > max)
		limit = max + 1;
	cli_sink_collect(&t.sink, max);
	r = cells->file_read(c, path, offset, limit, cli_fd_target, &t, err);
	if (r == 0) {
		o = json_object();
		cli_json_string(o, "path", path);
		json_object_set_new(o, "offset", json_integer((json_int_t)offset));
		json_object_set_new(o, "bytes", json_integer((json_int_t)t.sink.waiting.len));
		json_object_set_new(o, "truncated", json_boolean(t.sink.is_truncated));
		cli_json_bytes(o, "content", t.sink.waiting.data, t.sink.waiting.len);
		r = cli_print_json(cli, o) ? -EPIPE : 0;
	}
	cli_sink_done(&t.sink);
	return r;
}

static int file_read(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct cli_fd_target t = {0};
	uint64_t offset, limit;
	int r = cli_args_size(args, "offset", 0, &offset, &err);

	if (r == 0)
		r = cli_args_size(args, "limit", 0, &limit, &err);
	if (r == 0)
		r = cli_file_begin(args, 2, 2, &c, &err);
	if (r == 0 && cli->is_json) {
		r = read_collected(cli, args, c, offset, limit, &err);
	} else if (r == 0) {
		cli_sink_fd(&t.sink, STDOUT_FILENO, cli_args_has(args, "raw"), 0);
		r = cells->file_read(c, args->operands[1], offset, limit, cli_fd_target, &t, &err);
		r = cli_fd_target_end(&t, r, &err);
	}
	return cli_file_end(cli, r, &err);
}

/* --text, --from FILE, or stdin. *ret_fd is what to close afterwards, -1 if nothing. */
static int open_source(const struct cli_args *args, struct cli_fd_source *s, int *ret_fd,
	struct cell_error *err)
{
	const char *text = cli_args_value(args, "text"), *from = cli_args_value(args, "from");

	if (text && from) {
		cell_fail(err, CELL_EINVAL, 0, "--text and --from exclude each other");
		return cell_error_hint(err, -EINVAL, "give one of them, or neither to read stdin");
	}
	*s = (struct cli_fd_source){.fd = STDIN_FILENO, .text = text};
	s->text_len = text ? strlen(text) : 0;
	if (!from || !strcmp(from, "-"))
		return 0;
	*ret_fd = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (*ret_fd < 0)
		return cell_fail_errno(err, errno, "open '%.200s'", from);
	s->fd = *ret_fd;
	return 0;
}

static int store(struct cli *cli, const struct cli_args *args, uint32_t flags)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct cli_fd_source source = {0};
	auto_fd int fd = -1;
	uint64_t size = 0;
	uint32_t mode = 0;
	int r = open_source(args, &source, &fd, &err);

	if (r == 0)
		r = cli_args_mode(args, "mode", &mode, &err);
	if (r == 0)
		r = cli_file_begin(args, 2, 2, &c, &err);
	if (r == 0)
		r = cells->file_write(c, args->operands[1], mode, flags, cli_fd_source, &source,
			&size, &err);
	if (r < 0 && source.sys_errno)
		cell_fail_errno(&err, source.sys_errno, "read what is to be written");
	if (r < 0)
		return cli_file_end(cli, r, &err);
	if (!cli->is_json)
		return CLI_EXIT_OK;
	json_t *o = json_object();
	cli_json_string(o, "path", args->operands[1]);
	json_object_set_new(o, "size", json_integer((json_int_t)size));
	return cli_print_json(cli, o);
}

static int file_write(struct cli *cli, const struct cli_args *args)
{
	uint32_t flags = cli_args_has(args, "exclusive") ? CELL_WRITE_EXCLUSIVE : 0;

	return store(cli, args, flags | (cli_args_has(args, "parents") ? CELL_WRITE_PARENTS : 0));
}

static int file_append(struct cli *cli, const struct cli_args *args)
{
	uint32_t flags = CELL_WRITE_APPEND;

	return store(cli, args, flags | (cli_args_has(args, "parents") ? CELL_WRITE_PARENTS : 0));
}

/* The text of --old or --new, or the content of --old-file or --new-file. Caller frees. */
static int edit_text(const struct cli_args *args, const char *name, char **ret, size_t *ret_len,
	struct cell_error *err)
{
	auto_free char *file_name = cli_format("%s-file", name);
	const char *text = cli_args_value(args, name), *path = cli_args_value(args, file_name);
	auto_buf struct buf b = BUF_INIT(EDIT_MAX);
	auto_fd int fd = -1;
	ssize_t n;

	if (!text == !path) {
		cell_fail(err, CELL_EINVAL, 0, "edit: give either --%s or --%s", name, file_name);
		return cell_error_hint(err, -EINVAL,
			"example: cell file edit web a.py --old x --new y");
	}
	if (text) {
		*ret = cli_strdup(text);
		*ret_len = strlen(text);
		return 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return cell_fail_errno(err, errno, "open '%.200s'", path);
	for (;;) {
		char piece[8192];
		n = read(fd, piece, sizeof(piece));
		if (n <= 0)
			break;
		if (buf_add(&b, piece, (size_t)n) < 0)
			return cell_fail(err, CELL_ELIMIT, EFBIG,
				"read '%.200s': more than %u bytes", path, EDIT_MAX);
	}
	if (n < 0)
		return cell_fail_errno(err, errno, "read '%.200s'", path);
	*ret_len = b.len;
	*ret = buf_steal(&b);
	return *ret ? 0 : -ENOMEM;
}

static int file_edit(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	auto_free char *old_text = NULL, *new_text = NULL;
	size_t old_len = 0, new_len = 0;
	struct cell_error err = {0};
	uint64_t count = 0;
	int r = edit_text(args, "old", &old_text, &old_len, &err);

	if (r == 0)
		r = edit_text(args, "new", &new_text, &new_len, &err);
	if (r == 0)
		r = cli_file_begin(args, 2, 2, &c, &err);
	if (r == 0)
		r = cells->file_edit(c, args->operands[1], old_text, old_len, new_text, new_len,
			cli_args_has(args, "all"), &count, &err);
	if (r < 0)
		return cli_file_end(cli, r, &err);
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:I}", "replaced", (json_int_t)count));
	cli_tell(cli, "%" PRIu64 " replaced", count);
	return CLI_EXIT_OK;
}

static const struct cli_option read_options[] = {
	{"offset", 0, "N", "begin at this byte"},
	{"limit", 0, "N", "read at most this many bytes"},
	{"max-output", 0, "SIZE", "with --json: keep at most this much (default 1M)"},
	{"raw", 0, NULL, "do not neutralise control sequences on a terminal"},
	{0},
};

const struct cli_verb cli_file_read = {
	.name = "read",
	.of = "file",
	.usage = "[OPTION...] CELL PATH",
	.summary = "print a file",
	.about = "Prints the file as it is, any bytes, any size. With --json: path, offset, bytes, "
		 "truncated and content, or content_base64 when it is not UTF-8.",
	.examples = "cell file read web notes.txt\n"
		    "cell file read --offset 1M --limit 64k web big.log",
	.groups = {read_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_read,
};

static const struct cli_option write_options[] = {
	{"text", 0, "TEXT", "write this text instead of stdin"},
	{"from", 0, "FILE", "write the content of this file of the host", .kind = CLI_FILE},
	{"mode", 0, "MODE", "permission bits in octal (default: 644, or the old file's)"},
	{"parents", 'p', NULL, "make missing directories"},
	{"exclusive", 'x', NULL, "fail when the file is there already"},
	{0},
};

const struct cli_verb cli_file_write = {
	.name = "write",
	.of = "file",
	.usage = "[OPTION...] CELL PATH",
	.summary = "write a file from stdin, a text or a file of the host",
	.about = "Replaces the file at once: a reader sees the old content or the new. When stdin "
		 "breaks off, nothing is written.",
	.examples = "echo hello | cell file write web notes.txt\n"
		    "cell file write -p --mode 755 --from run.sh web bin/run.sh",
	.groups = {write_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_write,
};

static const struct cli_option append_options[] = {
	{"text", 0, "TEXT", "append this text instead of stdin"},
	{"from", 0, "FILE", "append the content of this file of the host", .kind = CLI_FILE},
	{"mode", 0, "MODE", "permission bits in octal when the file is new"},
	{"parents", 'p', NULL, "make missing directories"},
	{0},
};

const struct cli_verb cli_file_append = {
	.name = "append",
	.of = "file",
	.usage = "[OPTION...] CELL PATH",
	.summary = "add to the end of a file",
	.about = "Adds stdin, a text or a file of the host to the end of the file, which is made "
		 "when "
		 "it is not there.",
	.examples = "date | cell file append web log.txt",
	.groups = {append_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_append,
};

static const struct cli_option edit_options[] = {
	{"old", 0, "TEXT", "the text to replace"},
	{"new", 0, "TEXT", "what to put in its place"},
	{"old-file", 0, "FILE", "the text to replace is in this file of the host",
		.kind = CLI_FILE},
	{"new-file", 0, "FILE", "the replacement is in this file of the host", .kind = CLI_FILE},
	{"all", 'a', NULL, "replace every occurrence; otherwise there must be exactly one"},
	{0},
};

const struct cli_verb cli_file_edit = {
	.name = "edit",
	.of = "file",
	.usage = "[OPTION...] CELL PATH",
	.summary = "replace text in a file",
	.about = "The text must occur exactly once, so that an edit never hits the wrong place; "
		 "--all "
		 "replaces every occurrence.",
	.examples = "cell file edit web config.py --old 'DEBUG = True' --new 'DEBUG = False'",
	.groups = {edit_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_edit,
};
