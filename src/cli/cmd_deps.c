/* SPDX-License-Identifier: Apache-2.0 */
/* cell deps: packages for the code of a cell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/deps.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"

#define FILE_BYTES_MAX (16u << 20)

struct showing {
	const struct cli *cli;
	struct cli_progress bar;
	char title[80];
	bool is_drawn;
};

static int show(const struct cell_deps_progress *p, void *user)
{
	struct showing *s = user;

	if (p->step == CELL_DEPS_FETCH) {
		if (!s->is_drawn || strncmp(s->title, p->name, sizeof s->title - 1) != 0) {
			(void)snprintf(s->title, sizeof s->title, "%s", p->name);
			cli_progress_init(&s->bar, s->cli, s->title, p->total);
			s->is_drawn = true;
		}
		cli_progress_update(&s->bar, p->bytes);
	} else if (s->is_drawn) {
		cli_progress_end(&s->bar);
		s->is_drawn = false;
	}
	if (p->step == CELL_DEPS_UNPACK)
		cli_tell(s->cli, "unpacking %s", p->name);
	if (p->step == CELL_DEPS_RESOLVE)
		cli_tell(s->cli, "looking for %s", p->name);
	return cli_signals_stop() ? 1 : 0;
}

/* "-" is stdin. */
static int read_text(const char *path, char **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(FILE_BYTES_MAX);
	auto_fd int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	char piece[65536];
	ssize_t n;

	if (fd < 0)
		return cell_fail_errno(err, errno, "open '%.200s'", path);
	while ((n = read(fd, piece, sizeof piece)) > 0)
		if (buf_add(&b, piece, (size_t)n) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "'%.200s' is too large", path);
	if (n < 0)
		return cell_fail_errno(err, errno, "read '%.200s'", path);
	if (memchr(buf_str(&b), 0, b.len))
		return cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no text", path);
	*ret = buf_steal(&b);
	return 0;
}

static bool is_file(const char *word)
{
	size_t n = strlen(word);

	return (n > 4 && !strcmp(word + n - 4, ".whl")) || (n > 4 && !strcmp(word + n - 4, ".tgz"));
}

/* Words are requirements, files, or with the cell's name before a colon files of its workspace. */
struct asked {
	const char **packages, **files, **inside;
	char *text;
};

static void asked_done(struct asked *a)
{
	free(a->packages);
	free(a->files);
	free(a->inside);
	free(a->text);
}

static int sort_words(const struct cli_args *args, struct asked *ret, struct cell_error *err)
{
	const char *cell = args->operands[0], *list = cli_args_value(args, "requirement");
	size_t n_packages = 0, n_files = 0, n_inside = 0, name = strlen(cell);

	ret->packages = cli_calloc(args->n_operands + 1, sizeof *ret->packages);
	ret->files = cli_calloc(args->n_operands + 1, sizeof *ret->files);
	ret->inside = cli_calloc(args->n_operands + 1, sizeof *ret->inside);
	for (size_t i = 1; i < args->n_operands; i++) {
		const char *word = args->operands[i];
		if (!is_file(word))
			ret->packages[n_packages++] = word;
		else if (!strncmp(word, cell, name) && word[name] == ':')
			ret->inside[n_inside++] = word + name + 1;
		else
			ret->files[n_files++] = word;
	}
	if (list)
		return read_text(list, &ret->text, err);
	if (args->n_operands > 1)
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "deps %s: which packages?", args->verb->name);
	return cell_error_hint(err, -EINVAL, "name some, or give a list with -r FILE");
}

static int list_one(const struct cell_dep *d, void *user)
{
	return json_array_append_new(user,
		       json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "language", d->language, "name",
			       d->name, "version", d->version, "hash", d->hash, "file", d->file,
			       "requested", d->is_requested)) < 0
		       ? -ENOMEM
		       : 0;
}

static int print_list(const struct cli *cli, struct cell *c, const char *language,
	struct cell_error *err)
{
	static const char *const titles[] = {"PACKAGE", "VERSION", "LANGUAGE", "WHY", NULL};
	json_t *list = json_array(), *d;
	struct cli_table t;
	size_t i;
	int r = cells->deps_list(c, language, list_one, list, err);

	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "packages", list));
	cli_table_init(&t, titles);
	json_array_foreach (list, i, d) {
		cli_table_add(&t, json_string_value(json_object_get(d, "name")));
		cli_table_add(&t, json_string_value(json_object_get(d, "version")));
		cli_table_add(&t, json_string_value(json_object_get(d, "language")));
		cli_table_add(&t, json_is_true(json_object_get(d, "requested"))
					  ? "asked for"
					  : "needed by another");
	}
	if (i)
		cli_table_print(&t, cli);
	else
		cli_note(cli, "no packages are installed");
	cli_table_done(&t);
	json_decref(list);
	return cli_flush(cli);
}

static int change(struct cli *cli, const struct cli_args *args,
	int (*fn)(struct cell *c, const struct cell_deps_opts *o, struct cell_error *err))
{
	auto_(cli_cell_close) struct cell *c = NULL;
	auto_(asked_done) struct asked a = {0};
	struct cell_error err = {0};
	struct showing s = {.cli = cli};
	struct cell_deps_opts o = {.language = cli_args_value(args, "lang"),
		.upgrade = cli_args_has(args, "upgrade"),
		.progress = show,
		.user = &s};
	int r = cli_args_count(args, 1, CLI_MANY, &err);

	if (r == 0)
		r = sort_words(args, &a, &err);
	cli_signals_catch();
	if (r == 0)
		r = cli_cell_open(args->operands[0], &c, &err);
	o.packages = a.packages;
	o.files = a.files;
	o.inside = a.inside;
	o.requirements = a.text;
	if (r == 0)
		r = fn(c, &o, &err);
	if (s.is_drawn)
		cli_progress_end(&s.bar);
	if (r < 0 && cli_signals_stop())
		return CLI_EXIT_SIGNAL + cli_signals_stop();
	if (r < 0)
		return cli_fail(cli, &err);
	return cli->is_quiet ? CLI_EXIT_OK : print_list(cli, c, o.language, &err);
}

static int deps_add(struct cli *cli, const struct cli_args *args)
{
	return change(cli, args, cells->deps_add);
}

static int deps_sync(struct cli *cli, const struct cli_args *args)
{
	return change(cli, args, cells->deps_sync);
}

static int deps_list(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};

	if (cli_args_count(args, 1, 1, &err) < 0 || cli_cell_open(args->operands[0], &c, &err) < 0)
		return cli_fail(cli, &err);
	return print_list(cli, c, cli_args_value(args, "lang"), &err);
}

static int deps_remove(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	const char *language = cli_args_value(args, "lang");

	if (cli_args_count(args, 2, CLI_MANY, &err) < 0 ||
		cli_cell_open(args->operands[0], &c, &err) < 0 ||
		cells->deps_remove(c, language, args->operands + 1, &err) < 0)
		return cli_fail(cli, &err);
	return cli->is_quiet ? CLI_EXIT_OK : print_list(cli, c, language, &err);
}

static int deps_lock(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	auto_free char *text = NULL;
	struct cell_error err = {0};

	if (cli_args_count(args, 1, 1, &err) < 0 ||
		cli_cell_open(args->operands[0], &c, &err) < 0 ||
		cells->deps_lock(c, cli_args_value(args, "lang"), &text, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:s}", "lock", text));
	cli_print_lines(text);
	return cli_flush(cli);
}

#define LANG                                                               \
	{                                                                  \
		"lang", 0, "LANGUAGE", "python (default) or javascript",   \
			.kind = CLI_CHOICE, .choices = "python javascript" \
	}

static const struct cli_option change_options[] = {
	{"requirement", 'r', "FILE", "a requirements or lock file, - for stdin", .kind = CLI_FILE},
	{"upgrade", 'U', NULL, "take newer versions of what is there already, too"},
	LANG,
	{0},
};

static const struct cli_option look_options[] = {LANG, {0}};

#define SOURCES                                                                                    \
	"Packages come from where the cell's configuration says: deps.index, deps.find_links. "    \
	"They "                                                                                    \
	"are fetched and checked outside of the cell, which needs no network for it. Only wheels " \
	"are installed: nothing is built, and nothing of a package runs while it is installed."

static const struct cli_verb verb_add = {
	.name = "add",
	.of = "deps",
	.usage = "[OPTION...] CELL PACKAGE...",
	.summary = "install packages and what they need",
	.about = "A PACKAGE is a name with or without versions (six, 'six>=1.16'), a wheel of this "
		 "machine (dist/x.whl), or one of the cell's workspace (CELL:dist/x.whl). All of "
		 "them "
		 "are installed, or nothing is changed.\n\n" SOURCES,
	.examples = "cell deps add web 'requests>=2.31' six\n"
		    "cell deps add web -r requirements.txt\n"
		    "cell deps add web ./dist/mine-1.0-py3-none-any.whl",
	.groups = {change_options},
	.operands = {CLI_CELL, CLI_FILE},
	.head = CLI_NO_COMMAND,
	.run = deps_add,
};

static const struct cli_verb verb_sync = {
	.name = "sync",
	.of = "deps",
	.usage = "[OPTION...] CELL -r FILE",
	.summary = "install exactly what a list says, and remove the rest",
	.about = "With a list that has hashes, as 'cell deps lock' writes it, a file with another "
		 "hash is refused, and so is a package that is not in the list.\n\n" SOURCES,
	.examples = "cell deps sync web -r requirements.lock",
	.groups = {change_options},
	.operands = {CLI_CELL, CLI_FILE},
	.head = CLI_NO_COMMAND,
	.run = deps_sync,
};

static const struct cli_verb verb_list = {
	.name = "list",
	.of = "deps",
	.usage = "[OPTION...] CELL",
	.summary = "list the packages of a cell",
	.about = "Lists what 'cell deps' and the configuration installed. What code in the cell "
		 "installed by itself is its own: 'cell exec CELL pip list' shows it.",
	.examples = "cell deps list web",
	.groups = {look_options},
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = deps_list,
};

static const struct cli_verb verb_remove = {
	.name = "remove",
	.of = "deps",
	.usage = "[OPTION...] CELL PACKAGE...",
	.summary = "remove packages, and what only they needed",
	.about = "A package that another one needs cannot be removed before that.",
	.examples = "cell deps remove web requests",
	.groups = {look_options},
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = deps_remove,
};

static const struct cli_verb verb_lock = {
	.name = "lock",
	.of = "deps",
	.usage = "[OPTION...] CELL",
	.summary = "print all packages with versions and hashes",
	.about = "What is printed is a requirements file with hashes, for 'cell deps sync' and for "
		 "pip. It is for this kind of interpreter and machine.",
	.examples = "cell deps lock web > requirements.lock",
	.groups = {look_options},
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = deps_lock,
};

static const struct cli_verb *const verbs[] = {
	&verb_add, &verb_list, &verb_remove, &verb_lock, &verb_sync, NULL};

const struct cli_verb cli_verb_deps = {
	.name = "deps",
	.usage = "VERB [OPTION...] CELL [ARGUMENT...]",
	.summary = "packages for the code of a cell",
	.about = "Each cell that asks for it has an environment of its own, which goes with it: "
		 "make it "
		 "with --deps, or with a key of packages in its configuration. " SOURCES,
	.examples = "cell create --deps --find-links ./wheels web\n"
		    "cell deps add web six\n"
		    "cell exec web -- python3 -c 'import six'",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
