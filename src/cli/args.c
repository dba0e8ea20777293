/* SPDX-License-Identifier: Apache-2.0 */
/* args.c: command lines against option tables, on top of getopt_long. Has no effect on anything but
 * getopt's own globals, which it sets anew for each parse. */
#include "cli/args.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/units.h"
#include "core/nearest.h"

#define OPTIONS_MAX 96
#define LONG_BASE   256 /* getopt values of options without a letter: LONG_BASE + index */

int cli_options_each(const struct cli_verb *verb, cli_option_fn fn, void *user)
{
	for (size_t g = 0; verb && g < CLI_GROUPS_MAX && verb->groups[g]; g++)
		for (const struct cli_option *o = verb->groups[g]; o->name; o++) {
			int r = fn(o, user);
			if (r)
				return r;
		}
	for (const struct cli_option *o = cli_global_options; o->name; o++) {
		int r = fn(o, user);
		if (r)
			return r;
	}
	return 0;
}

const char *cli_verb_title(const struct cli_verb *verb, char out[CLI_TITLE_MAX])
{
	if (!verb)
		snprintf(out, CLI_TITLE_MAX, "cell");
	else if (verb->of)
		snprintf(out, CLI_TITLE_MAX, "cell %s %s", verb->of, verb->name);
	else
		snprintf(out, CLI_TITLE_MAX, "cell %s", verb->name);
	return out;
}

struct find {
	const char *name;
	const struct cli_option *found;
};

static int match_name(const struct cli_option *o, void *user)
{
	struct find *f = user;

	if (strcmp(o->name, f->name) != 0)
		return 0;
	f->found = o;
	return 1;
}

const struct cli_option *cli_option_find(const struct cli_verb *verb, const char *name)
{
	struct find f = {.name = name};

	cli_options_each(verb, match_name, &f);
	return f.found;
}

/* The tables in getopt's form. */
struct parser {
	const struct cli_option *options[OPTIONS_MAX];
	struct option longs[OPTIONS_MAX + 1];
	char shorts[3 * OPTIONS_MAX + 4];
	size_t n, n_shorts;
	int argc;
	char **argv;
};

static int add_option(const struct cli_option *o, void *user)
{
	struct parser *p = user;

	if (p->n == OPTIONS_MAX)
		abort();
	p->options[p->n] = o;
	p->longs[p->n] = (struct option){.name = o->name,
		.has_arg = o->arg ? required_argument : no_argument,
		.val = LONG_BASE + (int)p->n};
	if (o->letter) {
		p->shorts[p->n_shorts++] = o->letter;
		if (o->arg)
			p->shorts[p->n_shorts++] = ':';
	}
	p->n++;
	return 0;
}

static const struct cli_option *by_value(const struct parser *p, int value)
{
	if (value >= LONG_BASE && value < LONG_BASE + (int)p->n)
		return p->options[value - LONG_BASE];
	for (size_t i = 0; i < p->n; i++)
		if (p->options[i]->letter == value)
			return p->options[i];
	return NULL;
}

struct slip {
	const char *word;
	const char *best;
	size_t distance;
};

static int offer(const struct cli_option *o, void *user)
{
	struct slip *s = user;

	s->best = cell_nearest(s->word, o->name, s->best, &s->distance);
	return 0;
}

static int unknown_option(const struct cli_verb *verb, const char *word, struct cell_error *err)
{
	char name[64], title[CLI_TITLE_MAX];
	struct slip s = {.word = name, .distance = NEAREST_START};

	cli_verb_title(verb, title);
	if (optopt) {
		cell_fail(err, CELL_EINVAL, 0, "unknown option '-%c'", optopt);
		return cell_error_hint(err, -EINVAL, "'%s --help' lists the options", title);
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	cell_fail(err, CELL_EINVAL, 0, "unknown option '--%s'", name);
	cli_options_each(verb, offer, &s);
	if (s.best)
		return cell_error_hint(err, -EINVAL,
			"did you mean --%s? '%s --help' lists the options", s.best, title);
	return cell_error_hint(err, -EINVAL, "'%s --help' lists the options", title);
}

/* Is a prefix of more than one long option? getopt says the same '?' for that. */
static int check_ambiguous(const struct parser *p, const char *word, struct cell_error *err)
{
	char matches[160] = "";
	size_t n = 0, used = 0, len = strcspn(word, "=");

	for (size_t i = 0; i < p->n; i++) {
		if (strncmp(p->options[i]->name, word, len) != 0)
			continue;
		int w = snprintf(matches + used, sizeof(matches) - used, "%s--%s", n ? ", " : "",
			p->options[i]->name);
		used += w > 0 ? (size_t)w : 0;
		if (used >= sizeof(matches))
			used = sizeof(matches) - 1;
		n++;
	}
	if (n < 2)
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "option '--%.*s' is ambiguous", (int)len, word);
	return cell_error_hint(err, -EINVAL, "it could be %s", matches);
}

static int bad_option(const struct cli_verb *verb, const struct parser *p, struct cell_error *err)
{
	const char *word = optind > 0 && optind <= p->argc ? p->argv[optind - 1] : "";

	if (optopt >= LONG_BASE) {
		const char *name = p->options[optopt - LONG_BASE]->name;
		cell_fail(err, CELL_EINVAL, 0, "option '--%s' takes no argument", name);
		return cell_error_hint(err, -EINVAL, "write --%s alone", name);
	}
	if (!optopt && (strncmp(word, "--", 2) != 0 || check_ambiguous(p, word + 2, err) < 0))
		return -EINVAL;
	return unknown_option(verb, word, err);
}

static void give(struct cli_args *a, const struct cli_option *o, const char *value)
{
	a->given = cli_realloc(a->given, a->n_given + 1, sizeof(*a->given));
	a->given[a->n_given++] = (struct cli_given){.option = o, .value = value};
}

/* Options up to the next word that is none, or all there are when permuting. 1 when a "--" ended
 * them, else 0. */
static int take_options(const struct cli_verb *verb, struct parser *p, struct cli_args *a,
	struct cell_error *err)
{
	const char *last;
	int value;

	optind = 0; /* begin anew */
	opterr = 0;
	while ((value = getopt_long(p->argc, p->argv, p->shorts, p->longs, NULL)) != -1) {
		const struct cli_option *o;
		if (value == '?')
			return bad_option(verb, p, err);
		o = by_value(p, value == ':' ? optopt : value);
		if (!o)
			abort();
		if (value == ':') {
			cell_fail(err, CELL_EINVAL, 0, "option '--%s' needs an argument", o->name);
			return cell_error_hint(err, -EINVAL, "write --%s %s", o->name, o->arg);
		}
		give(a, o, o->arg ? optarg : NULL);
	}
	if (optind < 2 || optind > p->argc)
		return 0;
	last = p->argv[optind - 1];
	/* In "-e -- x" the "--" is the argument of -e. */
	return !strcmp(last, "--") && !(a->n_given && a->given[a->n_given - 1].value == last);
}

static void add_operand(struct cli_args *a, const char *word)
{
	a->operands[a->n_operands++] = word;
	a->operands[a->n_operands] = NULL;
}

int cli_args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_args *ret,
	struct cell_error *err)
{
	bool permute = verb && verb->head == CLI_NO_COMMAND;
	size_t head = verb && verb->head > 0 ? (size_t)verb->head : 0;
	struct parser p = {.argc = argc, .argv = argv};
	size_t taken;
	int i = 0;

	*ret = (struct cli_args){.verb = verb};
	ret->operands = cli_calloc((size_t)argc + 2, sizeof(*ret->operands));
	if (!permute)
		p.shorts[p.n_shorts++] = '+';
	p.shorts[p.n_shorts++] = ':';
	cli_options_each(verb, add_option, &p);

	/* Options may stand before and after each operand of the head, up to the command. */
	for (;;) {
		int ended = take_options(verb, &p, ret, err);
		if (ended < 0)
			return ended;
		int at = optind < 1 ? 1 : optind;
		p.argv += at < p.argc ? at : p.argc;
		p.argc -= at < p.argc ? at : p.argc;
		if (ended || !p.argc || ret->n_operands == head)
			break;
		add_operand(ret, p.argv[0]);
	}
	taken = ret->n_operands;
	while (i < p.argc && ret->n_operands < head)
		add_operand(ret, p.argv[i++]);
	if (ret->n_operands > taken && i < p.argc && !strcmp(p.argv[i], "--"))
		i++;
	ret->n_head = ret->n_operands;
	while (i < p.argc)
		add_operand(ret, p.argv[i++]);
	return 0;
}

void cli_args_done(struct cli_args *a)
{
	free(a->given);
	free(a->operands);
	*a = (struct cli_args){0};
}

static const struct cli_given *last_given(const struct cli_args *a, const char *name)
{
	for (size_t i = a->n_given; i-- > 0;)
		if (!strcmp(a->given[i].option->name, name))
			return &a->given[i];
	if (!cli_option_find(a->verb, name))
		abort(); /* a verb asks for an option it does not have */
	return NULL;
}

bool cli_args_has(const struct cli_args *a, const char *name)
{
	return last_given(a, name) != NULL;
}

const char *cli_args_value(const struct cli_args *a, const char *name)
{
	const struct cli_given *g = last_given(a, name);

	return g ? g->value : NULL;
}

const char **cli_args_values(const struct cli_args *a, const char *name)
{
	const char **values = cli_calloc(a->n_given + 1, sizeof(*values));
	size_t n = 0;

	for (size_t i = 0; i < a->n_given; i++)
		if (!strcmp(a->given[i].option->name, name))
			values[n++] = a->given[i].value;
	return values;
}

typedef int (*parse_fn)(const char *text, uint64_t *ret);

static int parse_value(const struct cli_args *a, const char *name, uint64_t otherwise,
	uint64_t *ret, parse_fn parse, const char *example, struct cell_error *err)
{
	const char *text = cli_args_value(a, name);
	int r;

	*ret = otherwise;
	if (!text)
		return 0;
	r = parse(text, ret);
	if (r == 0)
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "option '--%s': '%.100s' %s", name, text,
		r == -ERANGE ? "is too large" : "is not understood");
	return cell_error_hint(err, -EINVAL, "write it like %s", example);
}

int cli_args_number(const struct cli_args *a, const char *name, uint64_t otherwise, uint64_t *ret,
	struct cell_error *err)
{
	return parse_value(a, name, otherwise, ret, cli_parse_number, "1000", err);
}

int cli_args_size(const struct cli_args *a, const char *name, uint64_t otherwise, uint64_t *ret,
	struct cell_error *err)
{
	return parse_value(a, name, otherwise, ret, cli_parse_size, "4096, 64k, 1.5M or 2GiB", err);
}

int cli_args_duration_ms(const struct cli_args *a, const char *name, uint64_t otherwise,
	uint64_t *ret, struct cell_error *err)
{
	return parse_value(a, name, otherwise, ret, cli_parse_duration_ms,
		"500ms, 1.5s, 2m or 1h; a plain number is seconds", err);
}

int cli_args_mode(const struct cli_args *a, const char *name, uint32_t *ret, struct cell_error *err)
{
	const char *text = cli_args_value(a, name);
	uint32_t mode = 0;

	*ret = 0;
	if (!text)
		return 0;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '7' || mode > 07777) {
			mode = UINT32_MAX;
			break;
		}
		mode = mode * 8 + (uint32_t)(*p - '0');
	}
	if (!*text || mode > 07777) {
		cell_fail(err, CELL_EINVAL, 0, "option '--%s': '%.20s' is no file mode", name,
			text);
		return cell_error_hint(err, -EINVAL, "write it in octal, like 644 or 0755");
	}
	*ret = mode;
	return 0;
}

int cli_args_count(const struct cli_args *a, size_t min, size_t max, struct cell_error *err)
{
	char title[CLI_TITLE_MAX];

	if (a->n_operands >= min && a->n_operands <= max)
		return 0;
	cli_verb_title(a->verb, title);
	if (a->n_operands < min)
		cell_fail(err, CELL_EINVAL, 0, "%s: an operand is missing", title);
	else
		cell_fail(err, CELL_EINVAL, 0, "%s: '%.80s' is one operand too many", title,
			a->operands[max]);
	return cell_error_hint(err, -EINVAL, "usage: %s %s", title, a->verb->usage);
}
