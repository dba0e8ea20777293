/* SPDX-License-Identifier: Apache-2.0 */
/* complete.c: what could come next on a command line, from the tables of verbs and options and from
 * the cells there are. */
#include "cli/complete.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/copy_arg.h"
#include "cli/memory.h"
#include "cli/signals.h"

struct state {
	const struct cli_verb *const *verbs;
	const struct cli_verb *verb;
	const char *typed;		 /* the word to complete */
	const char *prefix;		 /* what stands before it in the same word: "--color=" */
	const struct cli_option *option; /* the word is this one's argument */
	const char *first;		 /* the first operand */
	size_t n_operands;
	bool is_past_options;
	cli_candidate_fn fn;
	void *user;
};

static void offer(struct state *s, const char *word, const char *about)
{
	auto_free char *whole = NULL;

	if (strncmp(word, s->typed, strlen(s->typed)) != 0)
		return;
	whole = cli_format("%s%s", s->prefix, word);
	s->fn(whole, about ? about : "", s->user);
}

static void offer_choices(struct state *s, const char *choices)
{
	auto_free char *copy = cli_strdup(choices);

	for (char *word = copy, *rest; word; word = rest) {
		rest = strchr(word, ' ');
		if (rest)
			*rest++ = 0;
		offer(s, word, "");
	}
}

static int offer_cell(const struct cell_info *info, void *user)
{
	if (!info->is_ephemeral)
		offer(user, info->name, info->backend);
	return 0;
}

static int offer_cell_colon(const struct cell_info *info, void *user)
{
	auto_free char *word = cli_format("%s:", info->name);

	if (!info->is_ephemeral)
		offer(user, word, info->backend);
	return 0;
}

static int offer_exec(const struct cell_exec_info *info, void *user)
{
	offer(user, info->id, info->command);
	return 0;
}

static void offer_execs(struct state *s)
{
	auto_(cli_cell_close) struct cell *c = NULL;

	if (s->first && cells->reopen(s->first, &c, NULL) == 0)
		(void)cells->ps(c, offer_exec, s, NULL);
}

static void offer_backends(struct state *s)
{
	auto_free struct cell_backend_info *list = NULL;
	size_t n;

	(void)cli_backends(&list, &n, NULL);
	for (size_t i = 0; i < n; i++)
		if (list[i].is_built)
			offer(s, list[i].name, list[i].summary);
}

struct remote {
	struct state *s;
	const char *cell;
	char *directory; /* as typed, with its slash */
};

static int offer_remote(const struct cell_file_info *info, void *user)
{
	struct remote *r = user;
	auto_free char *word = cli_format("%s:%s%s%s", r->cell, r->directory, info->path,
		info->type == CELL_FILE_DIRECTORY ? "/" : "");

	if (!strpbrk(info->path, "\n\t"))
		offer(r->s, word, "");
	return 0;
}

/* "web:src/ma": the entries of src in the cell web. */
static void offer_copy(struct state *s)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cli_copy_arg arg;
	struct remote r = {.s = s};
	const char *path, *slash;

	if (!*s->typed || cli_copy_arg_parse(s->typed, &arg, NULL) < 0 ||
		arg.place != CLI_PLACE_CELL) {
		(void)cells->list(offer_cell_colon, s, NULL);
		offer(&(struct state){.typed = "", .prefix = "", .fn = s->fn, .user = s->user},
			":files", "");
		return;
	}
	path = strchr(s->typed, ':') + 1;
	slash = strrchr(path, '/');
	r.cell = arg.cell;
	r.directory = cli_strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
	if (cells->reopen(arg.cell, &c, NULL) == 0)
		(void)cells->file_list(c, *r.directory ? r.directory : ".", 1, offer_remote, &r,
			NULL);
	free(r.directory);
}

static void offer_kind(struct state *s, enum cli_kind kind, const char *choices)
{
	switch (kind) {
	case CLI_FILE:
		if (choices)
			offer_choices(s, choices);
		s->fn(":files", "", s->user);
		break;
	case CLI_COMMAND:
		s->fn(":files", "", s->user);
		break;
	case CLI_DIRECTORY:
		s->fn(":directories", "", s->user);
		break;
	case CLI_CHOICE:
		offer_choices(s, choices);
		break;
	case CLI_CELL:
		(void)cells->list(offer_cell, s, NULL);
		break;
	case CLI_EXEC:
		offer_execs(s);
		break;
	case CLI_BACKEND:
		offer_backends(s);
		break;
	case CLI_CAP:
		for (int cap = 0; cap < CELL_CAP_COUNT; cap++)
			offer(s, cell_cap_name(cap), cell_cap_meaning(cap));
		break;
	case CLI_SIGNAL:
		for (int i = 1; i < NSIG; i++)
			if (cli_signal_name(i))
				offer(s, cli_signal_name(i), "");
		break;
	case CLI_COPY:
		offer_copy(s);
		break;
	case CLI_VERB:
		for (const struct cli_verb *const *v = s->verbs; v && *v; v++)
			if (!(*v)->is_hidden)
				offer(s, (*v)->name, (*v)->summary);
		break;
	case CLI_ANY:
		break;
	}
}

static int offer_option(const struct cli_option *o, void *user)
{
	auto_free char *word = cli_format("--%s", o->name);

	offer(user, word, o->help);
	return 0;
}

struct by_letter {
	char letter;
	const struct cli_option *found;
};

static int match_letter(const struct cli_option *o, void *user)
{
	struct by_letter *b = user;

	if (o->letter != b->letter)
		return 0;
	b->found = o;
	return 1;
}

/* The option whose argument the next word is, or NULL. */
static const struct cli_option *pending(const struct state *s, const char *word)
{
	const struct cli_option *o;
	struct by_letter b;

	if (!strncmp(word, "--", 2)) {
		o = cli_option_find(s->verb, word + 2);
		return o && o->arg ? o : NULL;
	}
	for (const char *p = word + 1; *p; p++) {
		b = (struct by_letter){.letter = *p};
		cli_options_each(s->verb, match_letter, &b);
		if (b.found && b.found->arg)
			return p[1] ? NULL : b.found;
	}
	return NULL;
}

static void take_operand(struct state *s, const char *word)
{
	const struct cli_verb *const *verbs = s->verb ? s->verb->verbs : s->verbs;

	for (const struct cli_verb *const *v = verbs; v && *v; v++)
		if (!strcmp((*v)->name, word)) {
			s->verb = *v;
			return;
		}
	if (!s->n_operands++)
		s->first = word;
	if (s->verb && s->verb->head >= 0 && s->n_operands > (size_t)s->verb->head)
		s->is_past_options = true;
}

static void take_word(struct state *s, const char *word)
{
	if (s->option)
		s->option = NULL;
	else if (s->is_past_options || word[0] != '-' || !word[1])
		take_operand(s, word);
	else if (!strcmp(word, "--"))
		s->is_past_options = true;
	else
		s->option = pending(s, word);
}

static void offer_operand(struct state *s)
{
	static const size_t last = CLI_OPERANDS_MAX - 1;
	size_t i = s->n_operands < last ? s->n_operands : last;

	if (!s->verb || s->verb->verbs) {
		s->verbs = s->verb ? s->verb->verbs : s->verbs;
		offer_kind(s, CLI_VERB, NULL);
		return;
	}
	while (i && s->verb->operands[i] == CLI_ANY)
		i--;
	offer_kind(s, s->verb->operands[i], s->verb->choices);
}

void cli_complete(const struct cli_verb *const *verbs, const char *const *words, size_t n,
	cli_candidate_fn fn, void *user)
{
	struct state s = {
		.verbs = verbs, .typed = words[n - 1], .prefix = "", .fn = fn, .user = user};
	auto_free char *prefix = NULL;
	const char *equals;

	for (size_t i = 0; i + 1 < n; i++)
		take_word(&s, words[i]);
	if (!s.option && !s.is_past_options && !strncmp(s.typed, "--", 2) &&
		(equals = strchr(s.typed, '='))) {
		prefix = cli_strndup(s.typed, (size_t)(equals - s.typed));
		s.option = pending(&s, prefix);
		free(prefix);
		prefix = cli_strndup(s.typed, (size_t)(equals - s.typed) + 1);
		s.prefix = prefix;
		s.typed = equals + 1;
	}
	if (s.option)
		offer_kind(&s, s.option->kind, s.option->choices);
	else if (!s.is_past_options && s.typed[0] == '-')
		cli_options_each(s.verb, offer_option, &s);
	else
		offer_operand(&s);
}
