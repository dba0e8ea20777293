/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h: a command line, parsed against a verb's option tables. Nothing is done here: parsing the
 * same words twice, or words from a fuzzer, has no effect on anything.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/cli.h"

struct cli_given {
	const struct cli_option *option;
	const char *value; /* NULL for an option without argument */
};

struct cli_args {
	const struct cli_verb *verb;
	struct cli_given *given; /* in the order of the command line */
	size_t n_given;
	const char **operands; /* NULL-terminated */
	size_t n_operands;
	size_t n_head; /* of a verb with a command line: operands before the command */
};

/* Parse the words behind the verb: argv[0] is the verb itself. Words are borrowed, and may be
 * reordered. CELL_EINVAL with the nearest known option as the hint. Free with cli_args_done(),
 * also after an error. `verb` NULL: only global options, stopping at the first other word; the rest
 * is then operands. */
int cli_args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_args *ret,
	struct cell_error *err);
void cli_args_done(struct cli_args *a);

/* By long name; the option must be in one of the verb's tables. */
bool cli_args_has(const struct cli_args *a, const char *name);
/* The last one given, or NULL. */
const char *cli_args_value(const struct cli_args *a, const char *name);
/* All of them, NULL-terminated; caller frees the array. */
const char **cli_args_values(const struct cli_args *a, const char *name);

/* The last value as a number, size ("64k", "2GiB") or duration ("1s", "500ms", plain seconds);
 * `otherwise` when not given. CELL_EINVAL names the option. */
int cli_args_number(const struct cli_args *a, const char *name, uint64_t otherwise, uint64_t *ret,
	struct cell_error *err);
int cli_args_size(const struct cli_args *a, const char *name, uint64_t otherwise, uint64_t *ret,
	struct cell_error *err);
int cli_args_duration_ms(const struct cli_args *a, const char *name, uint64_t otherwise,
	uint64_t *ret, struct cell_error *err);
/* Octal permission bits. */
int cli_args_mode(const struct cli_args *a, const char *name, uint32_t *ret,
	struct cell_error *err);

#define CLI_MANY SIZE_MAX
/* CELL_EINVAL with the synopsis as the hint unless min <= operands <= max. */
int cli_args_count(const struct cli_args *a, size_t min, size_t max, struct cell_error *err);

#define CLI_TITLE_MAX 48
/* "cell file read"; "cell" for NULL. */
const char *cli_verb_title(const struct cli_verb *verb, char out[CLI_TITLE_MAX]);

/* The tables of a verb one after the other, the global one last: calls fn for each option until it
 * returns non-zero. `verb` NULL: the global ones only. */
typedef int (*cli_option_fn)(const struct cli_option *o, void *user);
int cli_options_each(const struct cli_verb *verb, cli_option_fn fn, void *user);
const struct cli_option *cli_option_find(const struct cli_verb *verb, const char *name);
