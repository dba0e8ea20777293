/* SPDX-License-Identifier: Apache-2.0 */
/* cell help: made from the tables of verbs and options. With --json the tables themselves, from
 * which the man pages are made. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/help.h"
#include "cli/output.h"

#define COLUMNS	  80
#define LEFT_SIDE 29

static void heading(const struct cli *cli, const char *text)
{
	printf("\n%s%s%s\n", cli_style(cli->color_out, CLI_BOLD), text,
		cli_style(cli->color_out, CLI_PLAIN));
}

/* A term and what it means, in two columns, wrapped. */
static void print_pair(const char *term, const char *text)
{
	size_t used = strlen(term) + 2, column;

	printf("  %s", term);
	if (used + 2 > LEFT_SIDE) {
		(void)putchar('\n');
		used = 0;
	}
	printf("%*s", (int)(LEFT_SIDE - used), "");
	column = LEFT_SIDE;
	while (*text) {
		size_t word = strcspn(text, " ");
		if (column > LEFT_SIDE && column + 1 + word > COLUMNS) {
			printf("\n%*s", LEFT_SIDE, "");
			column = LEFT_SIDE;
		} else if (column > LEFT_SIDE) {
			(void)putchar(' ');
			column++;
		}
		(void)fwrite(text, 1, word, stdout);
		column += word;
		text += word + (text[word] == ' ');
	}
	(void)putchar('\n');
}

static void print_option(const struct cli_option *o)
{
	char term[80];

	(void)snprintf(term, sizeof(term), "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
		o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name, o->arg ? " " : "",
		o->arg ? o->arg : "");
	print_pair(term, o->help);
}

static const char *group_title(const struct cli_option *group)
{
	return group == cli_spec_options      ? "What the cell should be"
	       : group == cli_command_options ? "How the command is run"
					      : "Options";
}

static void print_verbs(const struct cli *cli, const struct cli_verb *const *verbs,
	const char *title)
{
	heading(cli, title);
	for (; *verbs; verbs++)
		if (!(*verbs)->is_hidden)
			print_pair((*verbs)->name, (*verbs)->summary);
}

static void print_examples(const struct cli *cli, const char *examples)
{
	heading(cli, "Examples");
	while (*examples) {
		size_t len = strcspn(examples, "\n");
		printf("  %.*s\n", (int)len, examples);
		examples += len + (examples[len] == '\n');
	}
}

int cli_help_verb(const struct cli *cli, const struct cli_verb *verb)
{
	char title[CLI_TITLE_MAX];

	printf("usage: %s%s%s\n\n", cli_verb_title(verb, title), *verb->usage ? " " : "",
		verb->usage);
	cli_print_wrapped(verb->about, 0);
	for (size_t g = 0; g < CLI_GROUPS_MAX && verb->groups[g]; g++) {
		heading(cli, group_title(verb->groups[g]));
		for (const struct cli_option *o = verb->groups[g]; o->name; o++)
			print_option(o);
	}
	if (verb->verbs)
		print_verbs(cli, verb->verbs, "Verbs");
	heading(cli, "Options of every command");
	for (const struct cli_option *o = cli_global_options; o->name; o++)
		print_option(o);
	if (verb->examples)
		print_examples(cli, verb->examples);
	return cli_flush(cli);
}

int cli_help_all(const struct cli *cli)
{
	printf("usage: cell [OPTION...] VERB ...\n\n");
	cli_print_wrapped("Runs commands in cells: isolated places with the walls that were asked "
			  "for, "
			  "or an error.",
		0);
	print_verbs(cli, cli->verbs, "Verbs");
	heading(cli, "Options of every command");
	for (const struct cli_option *o = cli_global_options; o->name; o++)
		print_option(o);
	heading(cli, "Exit codes");
	print_pair("the command's own", "of run, exec, shell, attach");
	print_pair("0, 1", "of the others: yes and no");
	print_pair("124", "the deadline passed");
	print_pair("125", "Cell failed, or was called wrongly");
	print_pair("126, 127", "the command cannot be run, is not there");
	print_pair("128+N", "ended by signal N");
	print_examples(cli, "cell run -- python3 -c 'print(6 * 7)'\n"
			    "cell create web && cell exec web -- make test\n"
			    "cell help run");
	return cli_flush(cli);
}

static json_t *options_json(const struct cli_option *group)
{
	json_t *list = json_array();

	for (const struct cli_option *o = group; o->name; o++) {
		char letter[2] = {o->letter, 0};
		json_t *item = json_object();
		cli_json_string(item, "name", o->name);
		cli_json_string(item, "letter", o->letter ? letter : NULL);
		cli_json_string(item, "argument", o->arg);
		cli_json_string(item, "help", o->help);
		cli_json_string(item, "key", o->key);
		cli_json_string(item, "choices", o->choices);
		json_array_append_new(list, item);
	}
	return list;
}

static json_t *verb_json(const struct cli_verb *verb)
{
	json_t *o = json_object(), *groups = json_array(), *verbs = json_array();

	for (size_t g = 0; g < CLI_GROUPS_MAX && verb->groups[g]; g++)
		json_array_append_new(groups,
			json_pack("{s:s, s:o}", "title", group_title(verb->groups[g]), "options",
				options_json(verb->groups[g])));
	for (const struct cli_verb *const *v = verb->verbs; v && *v; v++)
		json_array_append_new(verbs, verb_json(*v));
	cli_json_string(o, "name", verb->name);
	cli_json_string(o, "usage", verb->usage);
	cli_json_string(o, "summary", verb->summary);
	cli_json_string(o, "about", verb->about);
	cli_json_string(o, "examples", verb->examples);
	json_object_set_new(o, "groups", groups);
	json_object_set_new(o, "verbs", verbs);
	return o;
}

static int tables_json(const struct cli *cli)
{
	json_t *verbs = json_array();

	for (const struct cli_verb *const *v = cli->verbs; *v; v++)
		if (!(*v)->is_hidden)
			json_array_append_new(verbs, verb_json(*v));
	return cli_print_json(cli,
		json_pack("{s:s, s:o, s:o}", "version", cell_version(), "options",
			options_json(cli_global_options), "verbs", verbs));
}

static int help(struct cli *cli, const struct cli_args *args)
{
	const struct cli_verb *const *verbs = cli->verbs;
	const struct cli_verb *verb = NULL;
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 2, &err) < 0)
		return cli_fail(cli, &err);
	for (size_t i = 0; i < args->n_operands; i++) {
		if (cli_verb_find(verbs, verb, args->operands[i], &verb, &err) < 0)
			return cli_fail(cli, &err);
		verbs = verb->verbs;
	}
	if (verb)
		return cli->is_json ? cli_print_json(cli, verb_json(verb))
				    : cli_help_verb(cli, verb);
	return cli->is_json ? tables_json(cli) : cli_help_all(cli);
}

const struct cli_verb cli_verb_help = {
	.name = "help",
	.usage = "[VERB [VERB]]",
	.summary = "show help on a verb",
	.about = "Shows what a verb does, its options and examples; 'cell VERB --help' does the "
		 "same. "
		 "With --json, the tables behind it.",
	.examples = "cell help run\n"
		    "cell help file grep",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = help,
};
