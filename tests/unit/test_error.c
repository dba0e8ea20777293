/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: what a call fills in, what it returns, and that nothing overflows. */
#include <errno.h>

#include "base/error.h"
#include "test.h"

static struct cell_error dirty(void)
{
	struct cell_error e;

	memset(&e, 'x', sizeof e);
	return e;
}

TEST(a_failure_says_what_was_attempted_and_what_went_wrong)
{
	struct cell_error e = dirty();

	ASSERT_ERR(cell_fail(&e, CELL_EBACKEND, ENOENT, "open '%s'", "/a/b"), -ENOENT);
	ASSERT_EQ(e.code, CELL_EBACKEND);
	ASSERT_EQ(e.sys_errno, ENOENT);
	ASSERT_STR(e.msg, "open '/a/b': No such file or directory");
	ASSERT_STR(e.hint, "");
	ASSERT_STR(e.backend, "");
}

TEST(without_an_errno_the_code_decides_what_is_returned)
{
	struct cell_error e = dirty();

	ASSERT_ERR(cell_fail(&e, CELL_ETIMEOUT, 0, "waiting for %d ms", 5), -ETIMEDOUT);
	ASSERT_EQ(e.sys_errno, 0);
	ASSERT_STR(e.msg, "waiting for 5 ms");
}

TEST(every_code_returns_a_negative_number)
{
	for (int code = 0; code < CELL_CODE_COUNT; code++)
		ASSERT(cell_fail(NULL, (enum cell_code)code, 0, "x") < 0);
	ASSERT(cell_fail(NULL, (enum cell_code)9999, 0, "x") < 0);
	ASSERT(cell_fail_errno(NULL, 0, "x") < 0);
}

TEST(nobody_has_to_ask_for_the_error)
{
	ASSERT_ERR(cell_fail(NULL, CELL_EINVAL, 0, "x"), -EINVAL);
	ASSERT_ERR(cell_fail_errno(NULL, EACCES, "x"), -EACCES);
	ASSERT_ERR(cell_error_prefix(NULL, -5, "x"), -5);
	ASSERT_ERR(cell_error_hint(NULL, -6, "x"), -6);
}

TEST(the_code_follows_from_the_errno)
{
	static const struct {
		int sys_errno;
		enum cell_code want;
	} cases[] = {
		{EINVAL, CELL_EINVAL},
		{ENOTDIR, CELL_EINVAL},
		{EACCES, CELL_EDENIED},
		{EPERM, CELL_EDENIED},
		{ELOOP, CELL_EDENIED},
		{EXDEV, CELL_EDENIED},
		{ENOENT, CELL_ENOTFOUND},
		{EEXIST, CELL_EEXISTS},
		{ETIMEDOUT, CELL_ETIMEOUT},
		{EOPNOTSUPP, CELL_ENOTSUP},
		{EPIPE, CELL_EGONE},
		{ECONNREFUSED, CELL_EGONE},
		{EDQUOT, CELL_ELIMIT},
		{EMFILE, CELL_ELIMIT},
		{ENOSPC, CELL_ENOSPACE},
		{ENOMEM, CELL_ENOSPACE},
		{EPROTO, CELL_EPROTOCOL},
		{ECHILD, CELL_EBACKEND},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cell_error e = dirty();

		ASSERT_ERR(cell_fail_errno(&e, cases[i].sys_errno, "x"), -cases[i].sys_errno);
		ASSERT_EQ(e.code, cases[i].want);
	}
}

TEST(a_code_survives_the_way_through_errno_where_one_stands_for_it)
{
	for (int code = 1; code < CELL_CODE_COUNT; code++) {
		int sys_errno = cell_code_to_errno((enum cell_code)code);

		if (sys_errno != EIO) /* shared by the codes no errno stands for */
			ASSERT_EQ(cell_code_from_errno(sys_errno), code);
	}
	ASSERT_EQ(cell_code_to_errno(CELL_EINTERNAL), EIO);
}

TEST(every_code_has_a_word_of_its_own)
{
	for (int a = 0; a < CELL_CODE_COUNT; a++) {
		const char *name = cell_code_name((enum cell_code)a);

		ASSERT(name && name[0]);
		for (int b = 0; b < a; b++)
			ASSERT(strcmp(name, cell_code_name((enum cell_code)b)) != 0);
	}
	ASSERT_STR(cell_code_name(CELL_ENOTFOUND), "not_found");
	ASSERT_STR(cell_code_name((enum cell_code) - 1), "unknown");
	ASSERT_STR(cell_code_name(CELL_CODE_COUNT), "unknown");
}

TEST(a_prefix_goes_before_the_message_and_keeps_the_rest)
{
	struct cell_error e = dirty();

	(void)cell_fail(&e, CELL_EINVAL, 0, "bad");
	(void)cell_error_hint(&e, 0, "try %s", "this");
	ASSERT_ERR(cell_error_prefix(&e, -7, "cell '%s'", "a"), -7);
	ASSERT_STR(e.msg, "cell 'a': bad");
	ASSERT_STR(e.hint, "try this");
	ASSERT_EQ(e.code, CELL_EINVAL);
}

TEST(too_long_a_text_is_cut_not_overflowed)
{
	struct cell_error e = dirty();
	char big[2000];

	memset(big, 'a', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	(void)cell_fail(&e, CELL_EINVAL, ENOENT, "%s", big);
	ASSERT_EQ(strlen(e.msg), sizeof e.msg - 1);
	(void)cell_error_prefix(&e, 0, "%s", big);
	ASSERT_EQ(strlen(e.msg), sizeof e.msg - 1);
	(void)cell_error_hint(&e, 0, "%s", big);
	ASSERT_EQ(strlen(e.hint), sizeof e.hint - 1);
	ASSERT_EQ(e.backend[0], '\0');
}

TEST(words_of_others_are_known_by_a_table)
{
	static const struct cell_known_words table[] = {{"denied", CELL_EDENIED, "log in"},
		{"disk", CELL_OK, "look at it"}, {"no space", CELL_ENOSPACE, NULL}, {0}};
	struct cell_error err = {0};
	int r = cell_fail(&err, CELL_EBACKEND, 0, "ask");

	ASSERT_EQ(cell_error_known(&err, r, "something else", table), r);
	ASSERT_EQ(err.code, CELL_EBACKEND);
	ASSERT_STR(err.hint, "");
	ASSERT_EQ(cell_error_known(&err, r, "the disk", table), r);
	ASSERT_STR(err.hint, "look at it");
	/* the last counts; what it does not say stays */
	ASSERT_EQ(cell_error_known(&err, r, "denied: no space on the disk", table), -ENOSPC);
	ASSERT_EQ(err.code, CELL_ENOSPACE);
	ASSERT_STR(err.hint, "look at it");
	ASSERT_STR(err.msg, "ask");
	ASSERT_EQ(cell_error_known(NULL, r, "denied", table), -EPERM);
}
