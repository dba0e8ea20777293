/* SPDX-License-Identifier: Apache-2.0 */
/* cell context: the interpreters of a cell that keep variables between runs of code. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/spec.h"
#include "cli/units.h"
#include "core/code_language.h"

#define DEFAULT_CONTEXT "python"

/* The cell of the first operand; the second names a context, python when it is left out. */
static int begin(const struct cli_args *args, size_t min, size_t max, struct cell **ret,
	const char **ret_context, struct cell_error *err)
{
	int r = cli_args_count(args, min, max, err);

	if (r < 0)
		return r;
	*ret_context = args->n_operands > 1 ? args->operands[1] : DEFAULT_CONTEXT;
	cli_signals_catch();
	cli_signals_patience(0); /* nothing of ours is to be put back: the first Ctrl-C ends it */
	return cli_cell_open(args->operands[0], ret, err);
}

/* ---- ls ---- */

struct listing {
	const struct cli *cli;
	struct cli_table table;
	json_t *list;
};

static const char *state_of(const struct cell_context_info *info)
{
	return info->is_busy ? "busy" : info->pid ? "idle" : "off";
}

static void add_row(struct listing *l, const struct cell_context_info *info)
{
	char text[CLI_UNIT_MAX];

	cli_table_add(&l->table, info->name);
	cli_table_add(&l->table, info->language);
	cli_table_add(&l->table, *info->version ? info->version : "-");
	cli_table_add_styled(&l->table, info->is_busy ? CLI_GOOD : CLI_PLAIN, state_of(info));
	cli_table_addf(&l->table, "%" PRIu32, info->waiting);
	cli_table_addf(&l->table, "%" PRIu64, info->execution_count);
	if (info->pid)
		cli_table_addf(&l->table, "%" PRId64, info->pid);
	else
		cli_table_add(&l->table, "-");
	cli_table_add(&l->table, info->rss_bytes ? cli_format_size(text, info->rss_bytes) : "-");
}

static int add(const struct cell_context_info *info, void *user)
{
	struct listing *l = user;
	json_t *o;

	if (l->cli->is_quiet && !l->cli->is_json) {
		cli_print_line(info->name);
		return 0;
	}
	if (!l->cli->is_json) {
		add_row(l, info);
		return 0;
	}
	o = json_object();
	cli_json_string(o, "name", info->name);
	cli_json_string(o, "language", info->language);
	cli_json_string(o, "version", info->version);
	cli_json_string(o, "state", state_of(info));
	json_object_set_new(o, "pid", info->pid ? json_integer(info->pid) : json_null());
	json_object_set_new(o, "waiting", json_integer(info->waiting));
	json_object_set_new(o, "execution_count", json_integer((json_int_t)info->execution_count));
	json_object_set_new(o, "started_unix_ms", json_integer((json_int_t)info->started_unix_ms));
	json_object_set_new(o, "rss_bytes", json_integer((json_int_t)info->rss_bytes));
	json_array_append_new(l->list, o);
	return 0;
}

static int ls(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {"CONTEXT", "LANGUAGE", "VERSION", "STATE", "WAITING",
		"RUNS", "PID", "MEMORY", NULL};
	auto_(cli_cell_close) struct cell *c = NULL;
	struct listing l = {.cli = cli};
	struct cell_error err = {0};
	const char *ignored;

	if (begin(args, 1, 1, &c, &ignored, &err) < 0)
		return cli_fail(cli, &err);
	cli_table_init(&l.table, titles);
	l.list = json_array();
	if (cells->context_list(c, add, &l, &err) < 0) {
		cli_table_done(&l.table);
		json_decref(l.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "contexts", l.list));
	json_decref(l.list);
	if (!cli->is_quiet)
		cli_table_print(&l.table, cli);
	return cli_flush(cli);
}

static const struct cli_verb verb_ls = {
	.name = "ls",
	.of = "context",
	.usage = "[OPTION...] CELL",
	.summary = "list the interpreters of a cell",
	.about = "Lists the contexts of a cell: name, language, version, whether it is busy, how "
		 "many "
		 "runs wait and how many were done. With --quiet only the names.",
	.examples = "cell context ls work",
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = ls,
};

/* ---- create ---- */

static int create(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	auto_free const char **preload = cli_args_values(args, "preload");
	auto_(cli_strings_freep) char **env = NULL;
	const char *language = cli_args_value(args, "lang"), *ignored;
	struct cell_error err = {0};
	char name[CELL_CONTEXT_MAX] = "";
	struct cell_context_opts o = {
		.name = args->n_operands > 1 ? args->operands[1] : NULL,
		.language = language ? code_language(language) : NULL,
		.interpreter = cli_args_value(args, "interpreter"),
		.cwd = cli_args_value(args, "cwd"),
		.preload = preload,
		.database = cli_args_value(args, "database"),
	};

	if (cli_env_list(args, &env, &err) < 0 ||
		cli_args_duration_ms(args, "timeout", 0, &o.timeout_ms, &err) < 0)
		return cli_fail(cli, &err);
	o.env = (const char *const *)env;
	if (begin(args, 1, 2, &c, &ignored, &err) < 0 ||
		cells->context_create(c, &o, name, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:s}", "name", name));
	cli_print_line(name);
	return cli_flush(cli);
}

static const struct cli_option create_options[] = {
	{"lang", 0, "LANGUAGE", "python (default), javascript, shell or sql", .kind = CLI_CHOICE,
		.choices = "python javascript shell sql"},
	{"interpreter", 0, "PROGRAM", "a program in the cell, instead of what is found there"},
	{"cwd", 'C', "DIR", "directory to start in, relative to the workspace"},
	{"env", 'e', "NAME[=VALUE]", "set a variable, or pass on the host's; may be repeated"},
	{"preload", 0, "MODULE", "import this at the start; may be repeated"},
	{"database", 0, "FILE", "sql: a file in the workspace (default: in memory)"},
	{"timeout", 0, "TIME", "of a run that names none (1s, 5m)"},
	{0},
};

static const struct cli_verb verb_create = {
	.name = "create",
	.of = "context",
	.usage = "[OPTION...] CELL [NAME]",
	.summary = "start an interpreter in a cell",
	.about = "Makes a context and starts its interpreter. Prints its name; without NAME one is "
		 "made "
		 "up. Contexts work side by side: each has variables of its own, files are shared.",
	.examples = "cell context create work\n"
		    "cell context create --lang sql --database data.db work db\n"
		    "cell context create --preload numpy --preload pandas work analysis",
	.groups = {create_options},
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = create,
};

/* ---- reset, interrupt, rm ---- */

typedef int (*order_fn)(struct cell *c, const char *name, struct cell_error *err);

static int order(struct cli *cli, const struct cli_args *args, size_t min, order_fn fn)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	const char *name;

	if (begin(args, min, 2, &c, &name, &err) < 0 || fn(c, name, &err) < 0)
		return cli_fail(cli, &err);
	return cli->is_json ? cli_print_json(cli, json_pack("{s:s}", "name", name)) : CLI_EXIT_OK;
}

static int reset(struct cli *cli, const struct cli_args *args)
{
	return order(cli, args, 1, cells->context_reset);
}

static int interrupt(struct cli *cli, const struct cli_args *args)
{
	return order(cli, args, 1, cells->context_interrupt);
}

static int rm(struct cli *cli, const struct cli_args *args)
{
	return order(cli, args, 2, cells->context_delete);
}

static const struct cli_verb verb_reset = {
	.name = "reset",
	.of = "context",
	.usage = "[OPTION...] CELL [CONTEXT]",
	.summary = "forget all variables: a new interpreter",
	.about = "Ends the interpreter of CONTEXT (default: python) and whatever runs in it; the "
		 "next "
		 "run begins afresh. Files stay.",
	.examples = "cell context reset work",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = reset,
};

static const struct cli_verb verb_interrupt = {
	.name = "interrupt",
	.of = "context",
	.usage = "[OPTION...] CELL [CONTEXT]",
	.summary = "interrupt what runs, as Ctrl-C does",
	.about = "The code that runs in CONTEXT (default: python) gets a KeyboardInterrupt, or "
		 "what its "
		 "language has for it. Variables are kept, and runs that wait go on.",
	.examples = "cell context interrupt work",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = interrupt,
};

static const struct cli_verb verb_rm = {
	.name = "rm",
	.of = "context",
	.usage = "[OPTION...] CELL CONTEXT",
	.summary = "end an interpreter and forget it",
	.about = "Ends the interpreter of CONTEXT, whatever runs in it, and the context itself.",
	.examples = "cell context rm work db",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = rm,
};

/* ---- variables ---- */

static const char *text_of(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

/* A shape is a list, [3, 2], or nothing. */
static void add_shape(struct cli_table *t, const json_t *shape)
{
	auto_free char *text =
		shape && !json_is_null(shape) ? json_dumps(shape, JSON_ENCODE_ANY) : NULL;

	cli_table_add(t, text ? text : "-");
}

static int print_variables(const struct cli *cli, json_t *list)
{
	static const char *const titles[] = {"NAME", "TYPE", "SHAPE", "SIZE", "VALUE", NULL};
	struct cli_table t;
	char size[CLI_UNIT_MAX];
	json_t *v;
	size_t i;

	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "variables", list));
	cli_table_init(&t, titles);
	json_array_foreach (list, i, v) {
		const json_t *bytes = json_object_get(v, "size");
		if (cli->is_quiet) {
			cli_print_line(text_of(v, "name"));
			continue;
		}
		cli_table_add(&t, text_of(v, "name"));
		cli_table_add(&t, text_of(v, "type"));
		add_shape(&t, json_object_get(v, "shape"));
		cli_table_add(&t,
			json_is_integer(bytes)
				? cli_format_size(size, (uint64_t)json_integer_value(bytes))
				: "-");
		cli_table_add(&t, text_of(v, "repr"));
	}
	json_decref(list);
	if (!cli->is_quiet)
		cli_table_print(&t, cli);
	cli_table_done(&t);
	return cli_flush(cli);
}

static int no_json(const struct cli *cli, struct cell_error *err)
{
	cell_fail(err, CELL_EPROTOCOL, 0, "the interpreter answered with no JSON");
	return cli_fail(cli, err);
}

static int vars(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	auto_free char *text = NULL;
	const char *name;

	if (begin(args, 1, 2, &c, &name, &err) < 0 || cells->context_vars(c, name, &text, &err) < 0)
		return cli_fail(cli, &err);
	json_t *list = json_loads(text, 0, NULL);
	return list ? print_variables(cli, list) : no_json(cli, &err);
}

static int get(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	auto_free char *text = NULL;
	const char *name;

	if (begin(args, 3, 3, &c, &name, &err) < 0 ||
		cells->context_get(c, name, args->operands[2], &text, &err) < 0)
		return cli_fail(cli, &err);
	json_t *o = json_loads(text, 0, NULL);
	if (!o)
		return no_json(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, o);
	const json_t *value = json_object_get(o, "value");
	const char *plain = text_of(json_object_get(o, "data"), "text/plain");
	auto_free char *json = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
	cli_print_line(json ? json : plain);
	json_decref(o);
	return cli_flush(cli);
}

static int set(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	json_error_t why;
	const char *name;

	if (cli_args_count(args, 4, 4, &err) < 0)
		return cli_fail(cli, &err);
	json_t *value = json_loads(args->operands[3], JSON_DECODE_ANY, &why);
	if (!value) {
		cell_fail(&err, CELL_EINVAL, 0, "'%.80s' is no JSON: %.80s", args->operands[3],
			why.text);
		cell_error_hint(&err, 0, "a string has quotes of its own: '\"text\"'");
		return cli_fail(cli, &err);
	}
	json_decref(value);
	if (begin(args, 4, 4, &c, &name, &err) < 0 ||
		cells->context_set(c, name, args->operands[2], args->operands[3], &err) < 0)
		return cli_fail(cli, &err);
	return cli->is_json ? cli_print_json(cli, json_pack("{s:s}", "name", args->operands[2]))
			    : CLI_EXIT_OK;
}

static const struct cli_verb verb_vars = {
	.name = "vars",
	.of = "context",
	.usage = "[OPTION...] CELL [CONTEXT]",
	.summary = "list variables with type, shape and size",
	.about = "Lists the variables of CONTEXT (default: python). Waits for what runs in it.",
	.examples = "cell context vars work\n"
		    "cell context vars --json work python",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = vars,
};

static const struct cli_verb verb_get = {
	.name = "get",
	.of = "context",
	.usage = "[OPTION...] CELL CONTEXT NAME",
	.summary = "print the value of a variable",
	.about = "Prints the variable as JSON where its value can be said in it, else as the "
		 "interpreter "
		 "shows it. With --json: type, data by MIME type, and value.",
	.examples = "cell context get work python x",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = get,
};

static const struct cli_verb verb_set = {
	.name = "set",
	.of = "context",
	.usage = "[OPTION...] CELL CONTEXT NAME JSON",
	.summary = "give a variable a value",
	.about = "Sets the variable to the value that JSON says.",
	.examples = "cell context set work python limit 10\n"
		    "cell context set work python names '[\"a\", \"b\"]'",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = set,
};

static const struct cli_verb *const verbs[] = {&verb_ls, &verb_create, &verb_reset, &verb_interrupt,
	&verb_rm, &verb_vars, &verb_get, &verb_set, NULL};

const struct cli_verb cli_verb_context = {
	.name = "context",
	.usage = "VERB [OPTION...] CELL [ARGUMENT...]",
	.summary = "manage the interpreters of a cell and their variables",
	.about = "A context is an interpreter in a cell that keeps its variables from one run of "
		 "code to "
		 "the next. 'cell code' makes one, named like the language, when it needs it; here "
		 "they "
		 "are listed, made, emptied, interrupted and removed, and their variables looked "
		 "at.",
	.examples = "cell context ls work\n"
		    "cell context vars work\n"
		    "cell context reset work python",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
