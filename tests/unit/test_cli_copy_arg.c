/* SPDX-License-Identifier: Apache-2.0 */
/* What the operands of `cell cp` mean. */
#include <errno.h>

#include "cli/copy_arg.h"
#include "test.h"

static struct cli_copy_arg parse(const char *word)
{
	struct cli_copy_arg a;

	ASSERT_OK(cli_copy_arg_parse(word, &a, NULL));
	return a;
}

static void is_cell(const char *word, const char *cell, const char *path)
{
	struct cli_copy_arg a = parse(word);

	ASSERT(a.place == CLI_PLACE_CELL);
	ASSERT_STR(a.cell, cell);
	ASSERT_STR(a.path, path);
}

static void is_host(const char *word)
{
	struct cli_copy_arg a = parse(word);

	ASSERT(a.place == CLI_PLACE_HOST);
	ASSERT_STR(a.path, word);
}

TEST(a_name_and_a_colon_is_in_a_cell)
{
	is_cell("web:a/b", "web", "a/b");
	is_cell("web:", "web", ".");
	is_cell("w:x", "w", "x");
	is_cell("9-a._b:/abs", "9-a._b", "/abs");
	is_cell("web:a:b", "web", "a:b");
	is_cell("web:../../etc/passwd", "web", "../../etc/passwd");
}

TEST(what_cannot_be_a_name_is_a_file_of_the_host)
{
	is_host("a");
	is_host("./web:a");
	is_host("/web:a");
	is_host("dir/web:a");
	is_host(":a");
	is_host("Web:a");
	is_host("-x:a");
	is_host(".hidden:a");
	is_host("we b:a");
	is_host("--");
}

TEST(a_name_that_is_too_long_is_no_name)
{
	char longest[CELL_NAME_MAX] = "", word[CELL_NAME_MAX + 8];

	memset(longest, 'a', CELL_NAME_MAX - 1);
	snprintf(word, sizeof(word), "%s:x", longest);
	is_cell(word, longest, "x");
	snprintf(word, sizeof(word), "%sa:x", longest);
	is_host(word);
}

TEST(a_dash_is_a_stream)
{
	ASSERT(parse("-").place == CLI_PLACE_STDIO);
	is_host("./-");
}

TEST(an_empty_word_is_refused)
{
	struct cli_copy_arg a;
	struct cell_error err = {0};

	ASSERT_ERR(cli_copy_arg_parse("", &a, &err), -EINVAL);
	ASSERT(err.code == CELL_EINVAL);
}

static int check(const char *a, const char *b, const char *c)
{
	struct cli_copy_arg args[3] = {parse(a), parse(b)};
	struct cell_error err = {0};

	if (c)
		args[2] = parse(c);
	int r = cli_copy_args_check(args, c ? 3 : 2, &err);
	ASSERT(r == 0 || *err.hint);
	return r;
}

TEST(exactly_one_end_is_in_a_cell)
{
	ASSERT_OK(check("a", "web:b", NULL));
	ASSERT_OK(check("web:b", "a", NULL));
	ASSERT_OK(check("-", "web:b", NULL));
	ASSERT_OK(check("web:b", "-", NULL));
	ASSERT_OK(check("a", "b", "web:c"));
	ASSERT_OK(check("web:a", "db:b", "c"));
	ASSERT_ERR(check("a", "b", NULL), -EINVAL);
	ASSERT_ERR(check("-", "b", NULL), -EINVAL);
	ASSERT_ERR(check("web:a", "db:b", NULL), -EINVAL);
	ASSERT_ERR(check("a", "web:b", "web:c"), -EINVAL);
	ASSERT_ERR(check("a", "-", "web:c"), -EINVAL);
	ASSERT_ERR(check("web:a", "web:b", "-"), -EINVAL);
}

TEST(a_copy_is_named_after_the_last_part_of_its_path)
{
	char out[64];

	ASSERT_STR(cli_copy_name("a/b.txt", out, sizeof(out)), "b.txt");
	ASSERT_STR(cli_copy_name("a/b/", out, sizeof(out)), "b");
	ASSERT_STR(cli_copy_name("b//", out, sizeof(out)), "b");
	ASSERT_STR(cli_copy_name("..a", out, sizeof(out)), "..a");
}

TEST(paths_without_a_name_of_their_own_give_none)
{
	static const char *const paths[] = {"/", ".", "..", "a/.", "a/..", "./", "../", ""};
	char out[64];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		(void)cli_copy_name(paths[i], out, sizeof(out));
		ASSERT(!*out);
	}
}
