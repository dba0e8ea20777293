/* SPDX-License-Identifier: Apache-2.0 */
/* file_search.c: cell file glob, grep, watch. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/file.h"
#include "cli/signals.h"
#include "cli/text.h"

static int read_limit(const struct cli_args *args, uint32_t *ret, struct cell_error *err)
{
	uint64_t limit;
	int r = cli_args_number(args, "limit", 0, &limit, err);

	if (r == 0 && limit > UINT32_MAX)
		r = cell_fail(err, CELL_EINVAL, 0, "option '--limit': %" PRIu64 " is too large",
			limit);
	*ret = (uint32_t)limit;
	return r;
}

static int file_glob(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct cli_file_listing l = {.cli = cli,
		.is_long = cli_args_has(args, "long"),
		.end = cli_args_has(args, "null") ? 0 : '\n'};
	bool is_truncated = false;
	uint32_t limit;
	int r = read_limit(args, &limit, &err);

	if (r == 0)
		r = cli_file_begin(args, 2, 2, &c, &err);
	if (r == 0) {
		l.list = cli->is_json ? json_array() : NULL;
		r = cells->file_glob(c, cli_args_value(args, "path"), args->operands[1], limit,
			cli_file_list_one, &l, &is_truncated, &err);
	}
	if (r < 0) {
		json_decref(l.list);
		return cli_file_end(cli, r, &err);
	}
	if (cli->is_json)
		r = cli_print_json(cli,
			json_pack("{s:o, s:b}", "files", l.list, "truncated", is_truncated));
	else
		r = cli_flush(cli);
	if (is_truncated)
		cli_note(cli, "more files match; --limit raises the limit");
	return r ? r : l.n ? CLI_EXIT_OK : CLI_EXIT_NO;
}

struct grep_output {
	const struct cli *cli;
	json_t *list;
	size_t n;
};

static void print_line(const struct cell_grep_match *m)
{
	auto_buf struct buf b = BUF_INIT(1u << 20);

	if (isatty(STDOUT_FILENO) && cli_visible(m->line, m->line_len, &b) == 0)
		(void)fwrite(buf_str(&b), 1, b.len, stdout);
	else
		(void)fwrite(m->line, 1, m->line_len, stdout);
}

static int grep_one(const struct cell_grep_match *m, void *user)
{
	struct grep_output *g = user;

	g->n++;
	if (g->list) {
		json_t *o = json_object();
		cli_json_string(o, "path", m->path);
		json_object_set_new(o, "line", json_integer((json_int_t)m->line_number));
		cli_json_bytes(o, "text", m->line, m->line_len);
		json_array_append_new(g->list, o);
	} else {
		cli_print_name(m->path);
		printf(":%" PRIu64 ":", m->line_number);
		print_line(m);
		(void)putchar('\n');
		if (ferror(stdout))
			return -EPIPE;
	}
	return cli_signals_stop() ? -EINTR : 0;
}

static int file_grep(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct grep_output g = {.cli = cli};
	struct cell_grep_opts opts = {.is_fixed = cli_args_has(args, "fixed"),
		.ignore_case = cli_args_has(args, "ignore-case"),
		.glob = cli_args_value(args, "glob")};
	bool is_truncated = false;
	int r = read_limit(args, &opts.limit, &err);

	if (r == 0)
		r = cli_file_begin(args, 2, 3, &c, &err);
	if (r == 0) {
		opts.pattern = args->operands[1];
		opts.path = args->n_operands > 2 ? args->operands[2] : NULL;
		g.list = cli->is_json ? json_array() : NULL;
		r = cells->file_grep(c, &opts, grep_one, &g, &is_truncated, &err);
	}
	if (r < 0) {
		json_decref(g.list);
		return cli_file_end(cli, r, &err);
	}
	if (cli->is_json)
		r = cli_print_json(cli,
			json_pack("{s:o, s:b}", "matches", g.list, "truncated", is_truncated));
	else
		r = cli_flush(cli);
	if (is_truncated)
		cli_note(cli, "there are more matches; --limit raises the limit");
	return r ? r : g.n ? CLI_EXIT_OK : CLI_EXIT_NO;
}

static const char *event_name(enum cell_watch_type type)
{
	switch (type) {
	case CELL_WATCH_CREATED:
		return "created";
	case CELL_WATCH_MODIFIED:
		return "modified";
	case CELL_WATCH_REMOVED:
		return "removed";
	case CELL_WATCH_MOVED_FROM:
		return "moved_from";
	case CELL_WATCH_MOVED_TO:
		return "moved_to";
	case CELL_WATCH_OVERFLOW:
		return "overflow";
	case CELL_WATCH_READY:
		return "ready";
	}
	return "unknown";
}

struct watch_output {
	const struct cli *cli;
	uint64_t count, seen; /* 0: any number */
};

#define WATCH_DONE 1

static int watch_one(const struct cell_watch_event *e, void *user)
{
	struct watch_output *w = user;

	if (w->cli->is_json) {
		json_t *o = json_object();
		cli_json_string(o, "event", event_name(e->type));
		cli_json_string(o, "path", e->path);
		json_object_set_new(o, "directory", json_boolean(e->is_directory));
		auto_free char *text = cli_json_text(o, 0, STDOUT_FILENO);
		(void)puts(text ? text : "");
		json_decref(o);
	} else if (e->type != CELL_WATCH_READY || w->cli->is_verbose) {
		printf("%-10s ", event_name(e->type));
		cli_print_name(e->path);
		(void)fputs(e->is_directory ? "/\n" : "\n", stdout);
	}
	if (fflush(stdout) != 0)
		return -EPIPE;
	if (e->type != CELL_WATCH_READY && ++w->seen == w->count)
		return WATCH_DONE;
	return cli_signals_stop() ? -EINTR : 0;
}

static int file_watch(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct watch_output w = {.cli = cli};
	uint64_t timeout_ms = 0;
	int r = cli_args_duration_ms(args, "timeout", 0, &timeout_ms, &err);

	if (r == 0)
		r = cli_args_number(args, "count", 0, &w.count, &err);
	if (r == 0)
		r = cli_file_begin(args, 1, 2, &c, &err);
	if (r == 0) {
		int wait_ms = !timeout_ms ? -1 : timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
		/* It only ever waits: one signal is enough to end it. */
		cli_signals_patience(0);
		r = cells->file_watch(c, args->n_operands > 1 ? args->operands[1] : ".",
			cli_args_has(args, "recursive"), wait_ms, watch_one, &w, &err);
	}
	return cli_file_end(cli, r, &err);
}

static const struct cli_option glob_options[] = {
	{"path", 0, "DIR", "search below this directory"},
	{"limit", 0, "N", "at most so many files (default 1000)"},
	{"long", 'l', NULL, "mode, owner, size and time too"},
	{"null", '0', NULL, "end names with a NUL instead of a newline"},
	{0},
};

const struct cli_verb cli_file_glob = {
	.name = "glob",
	.of = "file",
	.usage = "[OPTION...] CELL PATTERN",
	.summary = "find files by name, newest first",
	.about = "* and ? match within a name, ** across directories; [a-z] and {a,b} work too. "
		 "Exits "
		 "with 1 when nothing matches.",
	.examples = "cell file glob web '**/*.py'\n"
		    "cell file glob --path src web '*.{c,h}'",
	.groups = {glob_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_glob,
};

static const struct cli_option grep_options[] = {
	{"fixed", 'F', NULL, "PATTERN is plain text"},
	{"ignore-case", 'i', NULL, "capital and small letters are the same"},
	{"glob", 'g', "PATTERN", "only files whose path matches"},
	{"limit", 0, "N", "at most so many matches (default 1000)"},
	{0},
};

const struct cli_verb cli_file_grep = {
	.name = "grep",
	.of = "file",
	.usage = "[OPTION...] CELL PATTERN [PATH]",
	.summary = "find lines by their content",
	.about = "PATTERN is a POSIX extended regular expression. Prints path:line:text for each "
		 "match in the file or below the directory PATH; binary files are passed over. "
		 "Exits "
		 "with 1 when nothing matches.",
	.examples = "cell file grep web 'TODO|FIXME' src\n"
		    "cell file grep -F -g '*.py' web 'print('",
	.groups = {grep_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_grep,
};

static const struct cli_option watch_options[] = {
	{"recursive", 'r', NULL, "directories below too"},
	{"timeout", 0, "TIME", "stop after this (default: never)"},
	{"count", 'n', "N", "stop after so many events"},
	{0},
};

const struct cli_verb cli_file_watch = {
	.name = "watch",
	.of = "file",
	.usage = "[OPTION...] CELL [PATH]",
	.summary = "report changes as they happen",
	.about = "Prints a line for each change below PATH until stopped. With --json each line is "
		 "an "
		 "object: event, path, directory; the first event is 'ready', and everything after "
		 "it "
		 "is seen. The event 'overflow' says that some were lost: look again.",
	.examples = "cell file watch -r web src\n"
		    "cell file watch --json --count 1 --timeout 30s web",
	.groups = {watch_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = file_watch,
};
