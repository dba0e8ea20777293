/* SPDX-License-Identifier: Apache-2.0 */
/* cell code: run code in a cell: a line, a file, a notebook, or what is typed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/code/job.h"
#include "cli/code/notebook_run.h"
#include "cli/code/place.h"
#include "cli/code/repl.h"
#include "cli/command.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "core/code_language.h"
#include "core/run_gather.h"

#define CODE_MAX (16u << 20)

/* What is asked for, from the command line. */
struct wish {
	const char *notebook; /* a file, or NULL */
	struct buf text;      /* the code */
	bool has_text;
	bool is_from_stdin, is_repl;
	const char *language, *context; /* NULL: not said */
	const char *output;
	uint64_t timeout_ms, grace_ms, max_output;
};

static void wish_done(struct wish *w)
{
	buf_done(&w->text);
}

static int read_fd(int fd, const char *name, struct buf *into, struct cell_error *err)
{
	char piece[65536];
	ssize_t n;

	while ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && buf_add(into, piece, (size_t)n) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "'%.100s': more than 16 MiB of code",
				name);
	return n < 0 ? cell_fail_errno(err, errno, "read '%s'", name) : 0;
}

static int read_file(const char *path, struct buf *into, struct cell_error *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd >= 0)
		return read_fd(fd, path, into, err);
	int r = cell_fail_errno(err, errno, "read '%s'", path);
	return cell_error_hint(err, r, "code itself is given with -c: cell code -c '1 + 1'");
}

static bool has_suffix(const char *path, const char *suffix)
{
	size_t n = strlen(path), k = strlen(suffix);

	return n > k && !strcmp(path + n - k, suffix);
}

static int exclude(const char *a, const char *b, struct cell_error *err)
{
	cell_fail(err, CELL_EINVAL, 0, "code: %s and %s exclude each other", a, b);
	return cell_error_hint(err, -EINVAL, "'cell code --help' shows examples");
}

/* Where the code comes from. */
static int read_source(const struct cli *cli, const struct cli_args *args, struct wish *w,
	struct cell_error *err)
{
	const char *file = args->n_operands ? args->operands[0] : NULL;
	const char *line = cli_args_value(args, "code"), *guess = NULL;
	bool is_interactive = cli_args_has(args, "interactive");
	int r = 0;

	w->notebook = cli_args_value(args, "notebook");
	if (line && file)
		return exclude("-c CODE", "a file", err);
	if (w->notebook && (line || file))
		return exclude("--notebook", line ? "-c CODE" : "a file", err);
	if (file && has_suffix(file, ".ipynb"))
		w->notebook = file;
	if (w->notebook)
		return is_interactive ? exclude("--notebook", "--interactive", err) : 0;
	if (line) {
		r = buf_addz(&w->text, line);
	} else if (file && strcmp(file, "-") != 0) {
		r = read_file(file, &w->text, err);
		guess = r == 0 ? code_language_guess(file, buf_str(&w->text), w->text.len) : NULL;
	} else if (file || !isatty(STDIN_FILENO)) {
		w->is_from_stdin = true;
		r = read_fd(STDIN_FILENO, "stdin", &w->text, err);
		guess = r == 0 ? code_language_guess(NULL, buf_str(&w->text), w->text.len) : NULL;
	} else {
		is_interactive = true;
	}
	w->has_text = line || file || w->is_from_stdin;
	w->is_repl = is_interactive;
	if (!w->language && !w->context)
		w->language = guess;
	if (r == 0 && w->is_repl && cli->is_json)
		r = exclude("--json", "typing at a terminal", err);
	if (r == 0 && w->is_repl && !isatty(STDIN_FILENO)) {
		cell_fail(err, CELL_EINVAL, 0, "--interactive: stdin is not a terminal");
		r = cell_error_hint(err, -EINVAL, "drop -i");
	}
	return r;
}

static int read_wish(const struct cli *cli, const struct cli_args *args, struct wish *w,
	struct cell_error *err)
{
	int r = cli_args_count(args, 0, 1, err);

	*w = (struct wish){.text = BUF_INIT(CODE_MAX),
		.language = cli_args_value(args, "lang"),
		.context = cli_args_value(args, "context"),
		.output = cli_args_value(args, "output")};
	if (w->language)
		w->language = code_language(w->language);
	if (r == 0)
		r = cli_args_duration_ms(args, "timeout", 0, &w->timeout_ms, err);
	if (r == 0)
		r = cli_args_duration_ms(args, "grace", 0, &w->grace_ms, err);
	if (r == 0)
		r = cli_args_size(args, "max-output", CLI_JSON_OUTPUT_BYTES, &w->max_output, err);
	if (r == 0 && cli_args_has(args, "stream") && !cli->is_json) {
		cell_fail(err, CELL_EINVAL, 0, "--stream goes with --json");
		r = cell_error_hint(err, -EINVAL, "text is shown as it comes anyway");
	}
	return r < 0 ? r : read_source(cli, args, w, err);
}

static struct cell_code_opts opts_of(const struct wish *w)
{
	return (struct cell_code_opts){.language = w->language,
		.context = w->context,
		.timeout_ms = w->timeout_ms,
		.grace_ms = w->grace_ms};
}

/* The context's name as the guest has it. */
static const char *context_of(const struct wish *w)
{
	return w->context ? w->context : w->language ? w->language : "python";
}

/* ---- one piece ---- */

static int gather(const struct cell_code_event *e, void *user)
{
	return run_gather_add(user, e);
}

static json_t *result_json(const struct code_job *j, const struct run_gather *g)
{
	json_t *o = run_gather_json(g);

	cli_json_string(o, "id", cells->code_id(j->run));
	cli_json_string(o, "cell", cells->name(j->cell));
	cli_json_string(o, "backend", cells->backend_of(j->cell));
	cli_json_string(o, "context", j->context);
	cli_json_bytes(o, "stdout", g->out.data, g->out.len);
	cli_json_bytes(o, "stderr", g->err.data, g->err.len);
	if (cells->degraded(j->cell))
		json_object_set_new(o, "degraded", cli_json_caps(cells->degraded(j->cell)));
	return o;
}

/* With --json pictures are in the result; files only when they are asked for. */
static int save_pictures(struct code_screen *s, const struct run_gather *g, struct cell_error *err)
{
	json_t *item;
	size_t i;
	int r = 0;

	s->is_lines = false;
	json_array_foreach (g->results, i, item) {
		auto_free char *text = json_dumps(item, JSON_COMPACT);
		const json_t *data = json_object_get(item, "data");
		bool has_picture = false;
		for (const char *const *m = picture_types; *m; m++)
			has_picture |= json_object_get(data, *m) != NULL;
		if (r == 0 && text && has_picture)
			r = code_screen_event(s,
				&(struct cell_code_event){.type = CELL_CODE_DISPLAY,
					.data = text,
					.len = strlen(text)},
				err);
	}
	return r;
}

static int run_text(struct cli *cli, const struct cli_args *args, struct wish *w,
	struct code_place *place, struct code_screen *screen, json_t **ret_json,
	struct cell_error *err)
{
	bool is_result = cli->is_json && !cli_args_has(args, "stream");
	bool has_input = !w->is_from_stdin && !(cli->is_json && isatty(STDIN_FILENO));
	struct code_input input = {.ahead = BUF_INIT(1u << 20)};
	struct run_gather g;
	struct code_job j = {.cli = cli,
		.cell = place->cell,
		.opts = opts_of(w),
		.context = context_of(w),
		.screen = is_result ? NULL : screen,
		.input = has_input ? &input : NULL,
		.is_sole = !place->is_kept && !w->is_repl};
	bool has_failed, is_exit;
	int code, exit_code = 0;

	if (run_gather_init(&g, is_result ? (size_t)w->max_output : 0) < 0)
		return cell_fail_errno(err, ENOMEM, "keep the result");
	j.opts.code = buf_str(&w->text);
	j.opts.code_len = w->text.len;
	if (is_result) {
		j.take = gather;
		j.user = &g;
	}
	code = code_job_run(&j, err);
	has_failed = is_result ? g.error != NULL : screen->has_error;
	is_exit = is_result ? code_error_is_exit(g.error, &exit_code) : screen->is_exit;
	if (is_exit && !is_result)
		exit_code = screen->exit_code;
	if (code == 0 && is_result) {
		*ret_json = result_json(&j, &g);
		if (screen->directory)
			code = save_pictures(screen, &g, err);
	}
	if (code == 0)
		code = is_exit ? exit_code : code_job_exit(&j, has_failed);
	code_job_done(&j);
	run_gather_done(&g);
	buf_done(&input.ahead);
	return code;
}

/* ---- typing ---- */

struct search {
	const char *name;
	char language[32];
};

static int note_language(const struct cell_context_info *info, void *user)
{
	struct search *s = user;

	if (!strcmp(info->name, s->name))
		(void)snprintf(s->language, sizeof s->language, "%s", info->language);
	return 0;
}

/* Its interpreter begins while the user still reads; one that is there already is fine. */
static int run_repl(struct cli *cli, struct wish *w, struct code_place *place,
	struct code_screen *screen, struct cell_error *err)
{
	struct search s = {.name = context_of(w)};
	struct cell_context_opts o = {.name = s.name, .language = w->language};
	struct cell_error why = {0};
	char name[CELL_CONTEXT_MAX];
	int r = cells->context_create(place->cell, &o, name, &why);

	if (r < 0 && why.code != CELL_EEXISTS) {
		*err = why;
		return r;
	}
	r = cells->context_list(place->cell, note_language, &s, err);
	if (r < 0)
		return r;
	struct code_repl repl = {.cli = cli,
		.cell = place->cell,
		.language = *s.language ? s.language : "python",
		.context = s.name,
		.opts = opts_of(w),
		.screen = screen,
		.is_sole = !place->is_kept};
	return code_repl_run(&repl, err);
}

/* ---- notebooks ---- */

static int run_notebook(struct cli *cli, const struct cli_args *args, struct wish *w,
	json_t **ret_json, struct cell_error *err)
{
	const char *output = w->output ? w->output : "-";
	struct code_place place = {0};
	struct notebook nb;
	int code, r;

	if (cli->is_json && !strcmp(output, "-")) {
		cell_fail(err, CELL_EINVAL, 0, "--json: the notebook itself goes to stdout");
		return cell_error_hint(err, -EINVAL, "give --output FILE.ipynb");
	}
	r = notebook_read(w->notebook, &nb, err);
	if (r < 0)
		return r;
	if (!w->language && !w->context)
		w->language = notebook_language(&nb);
	cli_signals_catch();
	cli_signals_patience(1);
	r = code_place_open(cli, args, &place, err);
	cli_signals_patience(CLI_PATIENT);
	struct notebook_run run = {.cli = cli,
		.cell = place.cell,
		.opts = opts_of(w),
		.context = context_of(w),
		.goes_on = cli_args_has(args, "keep-going")};
	code = r < 0 ? r : notebook_run(&run, &nb, err);
	if (code >= 0) {
		notebook_set_language(&nb, w->language ? w->language : "python");
		r = notebook_write(&nb, output, err);
		code = r < 0 ? r : code;
	}
	code_place_close(cli, &place);
	if (code >= 0 && cli->is_json)
		*ret_json = json_pack("{s:s, s:i, s:i, s:i}", "notebook", output, "executed",
			(int)run.n_run, "failed", (int)run.n_failed, "cells",
			(int)json_array_size(nb.cells));
	notebook_done(&nb);
	return code;
}

/* ---- all of it ---- */

static int run_code(struct cli *cli, const struct cli_args *args, struct wish *w, json_t **ret_json,
	struct cell_error *err)
{
	const char *how = cli_args_value(args, "pictures");
	struct code_place place = {0};
	struct code_screen screen;
	int code = 0;

	code_screen_init(&screen, cli, cli->is_json, cli_args_has(args, "raw"));
	screen.directory = w->output;
	if (picture_way_parse(how ? how : "auto", !cli->is_json && isatty(STDOUT_FILENO),
		    &screen.way) < 0) {
		cell_fail(err, CELL_EINVAL, 0, "--pictures: '%.40s' is not known", how);
		code = cell_error_hint(err, -EINVAL, "write auto, kitty, iterm2, file or none");
	}
	cli_signals_catch();
	cli_signals_patience(1);
	if (code == 0)
		code = code_place_open(cli, args, &place, err);
	cli_signals_patience(CLI_PATIENT);
	if (code == 0 && cli_signals_stop())
		code = CLI_EXIT_SIGNAL + cli_signals_stop();
	else if (code == 0 && w->has_text)
		code = run_text(cli, args, w, &place, &screen, ret_json, err);
	if (code >= 0 && w->is_repl && !screen.is_exit)
		code = run_repl(cli, w, &place, &screen, err);
	code_place_close(cli, &place);
	code_screen_done(&screen);
	return code;
}

static int code(struct cli *cli, const struct cli_args *args)
{
	auto_(wish_done) struct wish w = {0};
	struct cell_error err = {0};
	json_t *result = NULL;
	int r;

	if (read_wish(cli, args, &w, &err) < 0)
		return cli_fail(cli, &err);
	r = w.notebook ? run_notebook(cli, args, &w, &result, &err)
		       : run_code(cli, args, &w, &result, &err);
	if (r < 0) {
		json_decref(result);
		return cli_fail(cli, &err);
	}
	if (result) {
		int printed = cli_print_json(cli, result);
		return printed ? printed : r;
	}
	return r;
}

static const struct cli_option options[] = {
	{"code", 'c', "CODE", "the code itself, instead of a file"},
	{"lang", 0, "LANGUAGE",
		"python, javascript, shell or sql (default: what the file's name or first line "
		"says, else python)",
		.kind = CLI_CHOICE, .choices = "python javascript shell sql"},
	{"session", 's', "CELL", "a cell that stays and keeps variables; made when it is not there",
		.kind = CLI_CELL},
	{"context", 0, "NAME",
		"which of its interpreters (default: the one named like the language)"},
	{"interactive", 'i', NULL, "go on typing after the code has run"},
	{"grace", 0, "TIME", "between interrupt and KILL at the deadline (default: 2s)"},
	{"stream", 0, NULL, "with --json: each event as a line of its own, as it comes"},
	{"max-output", 0, "SIZE", "keep at most this much of each stream (with --json: 1M)"},
	{"output", 'o', "PATH", "save pictures in this directory; of a notebook: the file to write",
		.kind = CLI_FILE},
	{"pictures", 0, "HOW",
		"auto (on the terminal where it can, else files), kitty, iterm2, file or none",
		.kind = CLI_CHOICE, .choices = "auto kitty iterm2 file none"},
	{"notebook", 0, "FILE", "run the code cells of a notebook (.ipynb) into a new one",
		.kind = CLI_FILE},
	{"keep-going", 0, NULL, "of a notebook: go on after a cell that failed"},
	{"raw", 0, NULL, "do not neutralise control sequences on a terminal"},
	{0},
};

const struct cli_verb cli_verb_code = {
	.name = "code",
	.usage = "[OPTION...] [FILE]",
	.summary = "run code in a cell, keeping variables between runs",
	.about =
		"Runs code with an interpreter in a cell: CODE of -c, FILE, or stdin. The value of "
		"the last expression is printed, as in a notebook. Without code, on a terminal, it "
		"is typed: with history, completion by Tab, and lines that belong together.\n"
		"\n"
		"Without --session the cell is fresh and removed afterwards. With --session NAME "
		"the cell stays, and so do the variables: the next 'cell code --session NAME' "
		"finds them. 'cell rm NAME' removes it. 'cell context' manages the interpreters "
		"of such a cell.\n"
		"\n"
		"The exit code is 0; 1 after an error in the code; what sys.exit() or exit said; "
		"124 after --timeout, which interrupts first and keeps the variables when that "
		"works; 130 after Ctrl-C, which interrupts too (a second one kills); 128 + n when "
		"the interpreter was killed by signal n; 125 when Cell failed.\n"
		"\n"
		"Pictures are shown on terminals with kitty's or iTerm2's protocol, and saved as "
		"picture-N.png elsewhere. With --json one object is printed at the end: id, cell, "
		"backend, context, value, stdout, stderr, error (name, message, traceback), "
		"results (type, data by MIME type, metadata), execution_count, execution_time_ms, "
		"state (kept, lost or ended), ok, timed_out, interrupted, oom, signal, exit_code, "
		"truncated; with --stream also each event when it happens, one a line, instead.\n"
		"\n"
		"A notebook is run cell by cell into a new file with outputs. It stops at the "
		"first "
		"error unless --keep-going; a cell with the tag raises-exception may fail, one "
		"with "
		"skip-execution is left out; --timeout is each cell's.",
	.examples = "cell code -c '1 + 1'\n"
		    "cell code analysis.py --timeout 1m --memory 2g\n"
		    "cell code -s work -c 'x = 40'\n"
		    "cell code -s work -c 'x + 2'\n"
		    "echo 'select 6 * 7' | cell code --lang sql\n"
		    "cell code --notebook in.ipynb -o out.ipynb\n"
		    "cell code --json -c '1/0'",
	.groups = {options, cli_spec_options},
	.operands = {CLI_FILE},
	.head = CLI_NO_COMMAND,
	.run = code,
};
