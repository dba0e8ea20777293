/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_flags.c: words of a command line against the tables, without running anything. The first byte
 * chooses the verb, the rest are words separated by NUL bytes. What must hold: operands and values are
 * words that were given, in order, and the parser never reads past them.
 */
#include <stdint.h>

#include "cli/args.h"
#include "cli/copy_arg.h"
#include "cli/units.h"

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_word(const char *word, char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (word >= words[i] && word <= words[i] + strlen(words[i]))
			return;
	abort();
}

static void parse(const struct cli_verb *verb, char **words, int n)
{
	char *argv[WORDS_MAX + 1] = {0};
	struct cell_error err = {0};
	struct cli_args a;
	uint64_t number;

	memcpy(argv, words, (size_t)n * sizeof(*argv));
	if (cli_args_parse(verb, n, argv, &a, &err) == 0) {
		if (a.n_operands > (size_t)n || a.n_head > a.n_operands)
			abort();
		for (size_t i = 0; i < a.n_operands; i++)
			check_word(a.operands[i], words, n);
		for (size_t i = 0; i < a.n_given; i++) {
			if (!a.given[i].value != !a.given[i].option->arg)
				abort();
			if (a.given[i].value)
				check_word(a.given[i].value, words, n);
		}
		if (verb == &cli_verb_exec) {
			(void)cli_args_duration_ms(&a, "timeout", 0, &number, &err);
			(void)cli_args_size(&a, "max-output", 0, &number, &err);
		}
	} else if (err.code != CELL_EINVAL || !*err.msg || !*err.hint) {
		abort();
	}
	cli_args_done(&a);
}

static void parse_copy(char **words, int n)
{
	struct cli_copy_arg args[WORDS_MAX];
	struct cell_error err = {0};
	char name[64];

	for (int i = 0; i < n; i++) {
		if (cli_copy_arg_parse(words[i], &args[i], &err) < 0)
			return;
		(void)cli_copy_name(args[i].path, name, sizeof(name));
	}
	if (n > 1)
		(void)cli_copy_args_check(args, (size_t)n, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct cli_verb *const verbs[] = {
		&cli_verb_run, &cli_verb_exec, &cli_verb_cp, &cli_verb_logs, NULL};
	char *copy, *words[WORDS_MAX];
	int n = 0;

	if (size < 2)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	copy[size - 1] = 0;
	for (char *p = copy; p < copy + size && n < WORDS_MAX; p += strlen(p) + 1)
		words[n++] = p;
	parse(verbs[data[0] % (sizeof(verbs) / sizeof(verbs[0]))], words, n);
	parse_copy(words, n);
	free(copy);
	return 0;
}
