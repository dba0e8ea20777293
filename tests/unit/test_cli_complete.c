/* SPDX-License-Identifier: Apache-2.0 */
/* What completion offers, from the tables alone: no cell is needed. */
#include "cli/complete.h"
#include "test.h"

static char found[65536];

static void note(const char *word, const char *about, void *user)
{
	size_t used = strlen(found);

	(void)user;
	ASSERT(about);
	ASSERT((size_t)snprintf(found + used, sizeof(found) - used, "%s ", word) <
		sizeof(found) - used);
}

/* The candidates for the last word of a line split at spaces, each with a space behind it. */
static const char *complete(const char *line)
{
	char *copy = strdup(line), *rest = copy, *word;
	const char *words[16];
	size_t n = 0;

	found[0] = 0;
	while ((word = strsep(&rest, " ")) && n < 16)
		words[n++] = word;
	setenv("CELL_STATE_DIR", "/nonexistent/cell", 1);
	cli_complete(cli_verbs, words, n, note, NULL);
	free(copy);
	return found;
}

static bool offers(const char *line, const char *word)
{
	char with_space[128];

	snprintf(with_space, sizeof(with_space), "%s ", word);
	complete(line);
	for (const char *p = found; (p = strstr(p, with_space)); p++)
		if (p == found || p[-1] == ' ')
			return true;
	return false;
}

TEST(verbs_come_first)
{
	ASSERT(offers("", "run"));
	ASSERT(offers("ru", "run"));
	ASSERT(!offers("ru", "rm"));
	ASSERT(!offers("", "__complete"));
	ASSERT(offers("--json r", "rm"));
	ASSERT(offers("--color never r", "rm"));
	ASSERT(offers("file gr", "grep"));
	ASSERT(offers("config ", "check"));
	ASSERT(offers("help ins", "inspect"));
}

TEST(options_are_those_of_the_verb)
{
	ASSERT(offers("run --mem", "--memory"));
	ASSERT(offers("run --js", "--json"));
	ASSERT(!offers("rm --mem", "--memory"));
	ASSERT(offers("rm -", "--force"));
	ASSERT(offers("file grep --ig", "--ignore-case"));
	ASSERT_STR(complete("run --nosuchthing"), "");
}

TEST(arguments_of_options_have_their_own_candidates)
{
	ASSERT_STR(complete("run --network "), "none open allow ");
	ASSERT_STR(complete("run --network o"), "open ");
	ASSERT_STR(complete("run --network=o"), "--network=open ");
	ASSERT(offers("run --need limits.m", "limits.memory"));
	ASSERT(offers("run -b loc", "local"));
	ASSERT(offers("run -qb loc", "local"));
	ASSERT_STR(complete("run -w "), ":directories ");
	ASSERT_STR(complete("--config "), ":files ");
	ASSERT_STR(complete("run --memory "), "");
	ASSERT(offers("signal -s KI", "KILL"));
}

TEST(a_command_gets_the_shells_own_completion)
{
	ASSERT_STR(complete("run -- p"), ":files ");
	ASSERT_STR(complete("run ls --col"), ":files ");
	ASSERT_STR(complete("exec web ls -"), ":files ");
	ASSERT(offers("exec web --det", "--detach"));
}

TEST(choices_of_operands_are_offered)
{
	ASSERT_STR(complete("completion "), "bash zsh fish ");
	ASSERT(offers("backends sub", "subprocess"));
	ASSERT_STR(complete("cp "), ":files ");
}

TEST(no_cells_means_no_candidates_and_no_error)
{
	ASSERT_STR(complete("rm "), "");
	ASSERT_STR(complete("logs web "), "");
	ASSERT_STR(complete("cp web:a"), "");
}
