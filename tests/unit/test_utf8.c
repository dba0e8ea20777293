/* SPDX-License-Identifier: Apache-2.0 */
/* What counts as UTF-8, and which characters are not to be shown as they are. */
#include <string.h>

#include "base/utf8.h"
#include "test.h"

#define UTF8(bytes) utf8_is_valid(bytes, sizeof(bytes) - 1)

TEST(utf8_is_what_unicode_says)
{
	ASSERT(UTF8(""));
	ASSERT(UTF8("plain\0nul"));
	ASSERT(UTF8("\xc2\x80\xdf\xbf"));
	ASSERT(UTF8("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"));
	ASSERT(UTF8("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
}

TEST(utf8_has_no_overlong_forms_surrogates_or_halves)
{
	ASSERT(!UTF8("\xff"));
	ASSERT(!UTF8("\x80"));
	ASSERT(!UTF8("\xc3"));
	ASSERT(!UTF8("\xc0\x80"));
	ASSERT(!UTF8("\xc1\xbf"));
	ASSERT(!UTF8("\xe0\x9f\xbf"));
	ASSERT(!UTF8("\xed\xa0\x80"));
	ASSERT(!UTF8("\xf0\x8f\xbf\xbf"));
	ASSERT(!UTF8("\xf4\x90\x80\x80"));
	ASSERT(!UTF8("\xf5\x80\x80\x80"));
	ASSERT(!UTF8("\xe2\x82"));
	ASSERT(!UTF8("a\xe2\x28\xa1"));
}

TEST(utf8_is_checked_eight_bytes_at_a_time)
{
	ASSERT(UTF8("12345678\xc3\xa4"
		    "12345678"));
	ASSERT(!UTF8("1234567\xff"));
	ASSERT(!UTF8("12345678\xc3"));
}

TEST(a_cut_character_is_no_wrong_one)
{
	ASSERT_EQ(utf8_next("\xf0\x9f\x98\x80", 4), 4);
	ASSERT_EQ(utf8_next("\xf0\x9f\x98\x80", 3), 0);
	ASSERT_EQ(utf8_next("\xf0\x9f\x98z", 4), -1);
	ASSERT_EQ(utf8_next("\xe0\x9f", 2), -1);
}

TEST(characters_have_numbers)
{
	ASSERT_EQ(utf8_number("a", 1), 'a');
	ASSERT_EQ(utf8_number("\xc2\x9b", 2), 0x9b);
	ASSERT_EQ(utf8_number("\xe2\x80\xae", 3), 0x202e);
	ASSERT_EQ(utf8_number("\xf3\xa0\x81\x81", 4), 0xe0041);
}

TEST(what_is_obeyed_or_not_seen_is_hidden)
{
	static const unsigned hidden[] = {0, 7, 0x1b, 0x7f, 0x80, 0x9b, 0x9f, 0x61c, 0x200b, 0x200f,
		0x2028, 0x202a, 0x202e, 0x2066, 0x2069, 0xfeff, 0xe0041};
	static const unsigned seen[] = {
		' ', '~', 0xa0, 0xe4, 0x5d0, 0x200c, 0x200d, 0x2030, 0x20ac, 0x1f600};

	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		ASSERT(utf8_is_hidden(hidden[i]));
	for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
		ASSERT(!utf8_is_hidden(seen[i]));
}
