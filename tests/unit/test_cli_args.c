/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines against the option tables. */
#include <errno.h>

#include "cli/args.h"
#include "test.h"

#define WORDS_MAX 16

/* Parses "a b c" split at spaces; "_" stands for an empty word. The words live until the next call. */
static int parse(const struct cli_verb *verb, const char *line, struct cli_args *ret,
	struct cell_error *err)
{
	static char copy[512], *argv[WORDS_MAX + 1];
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *rest = copy, *word; (word = strsep(&rest, " ")) && argc < WORDS_MAX;)
		argv[argc++] = strcmp(word, "_") ? word : word + 1;
	argv[argc] = NULL;
	return cli_args_parse(verb, argc, argv, ret, err);
}

static struct cli_args good(const struct cli_verb *verb, const char *line)
{
	struct cli_args a;
	struct cell_error err = {0};

	CHECK_(parse(verb, line, &a, &err) == 0, "'%s': %s", line, err.msg);
	return a;
}

static struct cell_error bad(const struct cli_verb *verb, const char *line)
{
	struct cli_args a;
	struct cell_error err = {0};

	CHECK_(parse(verb, line, &a, &err) == -EINVAL, "'%s' is accepted", line);
	ASSERT(err.code == CELL_EINVAL && *err.msg && *err.hint);
	cli_args_done(&a);
	return err;
}

static const char *operands(const struct cli_args *a)
{
	static char text[256];
	size_t used = 0;

	text[0] = 0;
	for (size_t i = 0; i < a->n_operands; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "",
			a->operands[i]);
	ASSERT(!a->operands[a->n_operands]);
	return text;
}

TEST(a_command_keeps_its_own_options)
{
	struct cli_args a = good(&cli_verb_run, "run --memory 1g -q ls -l --memory 2g");

	ASSERT_STR(operands(&a), "ls -l --memory 2g");
	ASSERT_STR(cli_args_value(&a, "memory"), "1g");
	ASSERT(cli_args_has(&a, "quiet"));
	cli_args_done(&a);
}

TEST(two_dashes_end_our_options)
{
	struct cli_args a = good(&cli_verb_run, "run -t -- --json -x");

	ASSERT_STR(operands(&a), "--json -x");
	ASSERT(!cli_args_has(&a, "json"));
	cli_args_done(&a);
	a = good(&cli_verb_run, "run -- -- x");
	ASSERT_STR(operands(&a), "-- x");
	cli_args_done(&a);
	a = good(&cli_verb_run, "run --");
	ASSERT(!a.n_operands);
	cli_args_done(&a);
}

TEST(options_of_exec_may_follow_the_cell)
{
	static const char *const lines[] = {"exec -d web ls -l", "exec web -d ls -l",
		"exec -d web -- ls -l", "exec web -d -- ls -l", "exec -d -- web ls -l",
		"exec -d -- web -- ls -l"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct cli_args a = good(&cli_verb_exec, lines[i]);
		ASSERT_STR(operands(&a), "web ls -l");
		ASSERT(a.n_head == 1);
		ASSERT(cli_args_has(&a, "detach"));
		cli_args_done(&a);
	}
}

TEST(two_dashes_that_are_an_argument_end_nothing)
{
	struct cli_args a = good(&cli_verb_run, "run -e -- -q x");

	ASSERT_STR(cli_args_value(&a, "env"), "--");
	ASSERT(cli_args_has(&a, "quiet"));
	ASSERT_STR(operands(&a), "x");
	cli_args_done(&a);
	a = good(&cli_verb_exec, "exec web -e -- -q x");
	ASSERT(cli_args_has(&a, "quiet"));
	ASSERT_STR(operands(&a), "web x");
	cli_args_done(&a);
}

TEST(options_of_other_verbs_stand_anywhere)
{
	struct cli_args a = good(&cli_verb_rm, "rm a -f b --json");

	ASSERT_STR(operands(&a), "a b");
	ASSERT(cli_args_has(&a, "force") && cli_args_has(&a, "json"));
	cli_args_done(&a);
	a = good(&cli_verb_rm, "rm -- -f");
	ASSERT_STR(operands(&a), "-f");
	ASSERT(!cli_args_has(&a, "force"));
	cli_args_done(&a);
}

TEST(the_last_of_repeated_options_counts_and_all_are_kept)
{
	struct cli_args a = good(&cli_verb_run, "run -e A=1 --env=B=2 --cpus 1 --cpus 2 x");
	const char **env = cli_args_values(&a, "env");

	ASSERT_STR(env[0], "A=1");
	ASSERT_STR(env[1], "B=2");
	ASSERT(!env[2]);
	ASSERT_STR(cli_args_value(&a, "cpus"), "2");
	ASSERT(!cli_args_value(&a, "memory"));
	free(env);
	cli_args_done(&a);
}

TEST(short_options_may_stand_together)
{
	struct cli_args a = good(&cli_verb_exec, "exec -itdeA=1 web x");

	ASSERT(cli_args_has(&a, "interactive") && cli_args_has(&a, "tty") &&
		cli_args_has(&a, "detach"));
	ASSERT_STR(cli_args_value(&a, "env"), "A=1");
	cli_args_done(&a);
}

TEST(an_unknown_option_names_the_nearest)
{
	struct cell_error e = bad(&cli_verb_run, "run --memroy 1g x");

	ASSERT(strstr(e.msg, "'--memroy'"));
	ASSERT(strstr(e.hint, "--memory"));
	e = bad(&cli_verb_run, "run --zzzzzzzzzzzz=3 x");
	ASSERT(strstr(e.msg, "'--zzzzzzzzzzzz'"));
	ASSERT(!strstr(e.hint, "did you mean"));
}

TEST(an_unknown_letter_is_named_even_behind_others)
{
	ASSERT(strstr(bad(&cli_verb_run, "run --json -Z x").msg, "'-Z'"));
	ASSERT(strstr(bad(&cli_verb_run, "run --json -qZt x").msg, "'-Z'"));
}

TEST(a_missing_argument_is_said)
{
	struct cell_error e = bad(&cli_verb_run, "run --memory");

	ASSERT(strstr(e.msg, "--memory") && strstr(e.msg, "needs"));
	ASSERT(strstr(bad(&cli_verb_run, "run -m").msg, "--memory"));
}

TEST(an_argument_too_many_is_said)
{
	ASSERT(strstr(bad(&cli_verb_run, "run --json=yes x").msg, "takes no argument"));
}

TEST(an_ambiguous_beginning_lists_what_it_could_be)
{
	struct cell_error e = bad(&cli_verb_run, "run --file 3 x");

	ASSERT(strstr(e.msg, "ambiguous"));
	ASSERT(strstr(e.hint, "--files") && strstr(e.hint, "--file-size"));
}

TEST(global_options_come_before_the_verb_too)
{
	struct cli_args a = good(NULL, "cell --json -q run --memory 1g");

	ASSERT(cli_args_has(&a, "json") && cli_args_has(&a, "quiet"));
	ASSERT_STR(operands(&a), "run --memory 1g");
	cli_args_done(&a);
	(void)bad(NULL, "cell --memory 1g run");
}

TEST(no_words_at_all_are_fine)
{
	struct cli_args a = good(&cli_verb_run, "run");

	ASSERT(!a.n_operands && !a.n_given);
	cli_args_done(&a);
	a = good(&cli_verb_exec, "exec");
	ASSERT(!a.n_operands && !a.n_head);
	cli_args_done(&a);
	struct cli_args none;
	char *argv[] = {NULL};
	ASSERT_OK(cli_args_parse(&cli_verb_run, 0, argv, &none, NULL));
	cli_args_done(&none);
}

TEST(numbers_sizes_and_times_are_checked_with_the_options_name)
{
	struct cli_args a = good(&cli_verb_exec, "exec --timeout 1h30m --keep-output 64k web x");
	struct cell_error err = {0};
	uint64_t v;

	ASSERT_OK(cli_args_duration_ms(&a, "timeout", 7, &v, &err));
	ASSERT(v == 5400000);
	ASSERT_OK(cli_args_size(&a, "keep-output", 7, &v, &err));
	ASSERT(v == 65536);
	ASSERT_OK(cli_args_size(&a, "max-output", 7, &v, &err));
	ASSERT(v == 7);
	cli_args_done(&a);
	a = good(&cli_verb_exec, "exec --timeout soon web x");
	ASSERT_ERR(cli_args_duration_ms(&a, "timeout", 7, &v, &err), -EINVAL);
	ASSERT(strstr(err.msg, "--timeout") && strstr(err.msg, "soon"));
	cli_args_done(&a);
}

TEST(modes_are_octal)
{
	extern const struct cli_verb cli_file_write;
	static const char *const refused[] = {"write --mode 8 c p", "write --mode 10000 c p",
		"write --mode _ c p", "write --mode rwx c p", "write --mode 77777777777777 c p"};
	struct cli_args a = good(&cli_file_write, "write --mode 0755 c p");
	struct cell_error err = {0};
	uint32_t mode;

	ASSERT_OK(cli_args_mode(&a, "mode", &mode, &err));
	ASSERT(mode == 0755);
	cli_args_done(&a);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		a = good(&cli_file_write, refused[i]);
		ASSERT_ERR(cli_args_mode(&a, "mode", &mode, &err), -EINVAL);
		cli_args_done(&a);
	}
}

TEST(operands_are_counted)
{
	struct cli_args a = good(&cli_verb_attach, "attach a b c");
	struct cell_error err = {0};

	ASSERT_ERR(cli_args_count(&a, 1, 2, &err), -EINVAL);
	ASSERT(strstr(err.msg, "'c'") && strstr(err.hint, "cell attach"));
	ASSERT_OK(cli_args_count(&a, 1, 3, &err));
	ASSERT_OK(cli_args_count(&a, 1, CLI_MANY, &err));
	ASSERT_ERR(cli_args_count(&a, 4, CLI_MANY, &err), -EINVAL);
	cli_args_done(&a);
}
