/* SPDX-License-Identifier: Apache-2.0 */
/* What reaches a terminal, base64. */
#include <stdint.h>

#include "base/buf.h"
#include "cli/text.h"
#include "test.h"

/* Feed in pieces of `step` bytes and end. */
static const char *neutral(const char *bytes, size_t n, size_t step)
{
	static struct buf out = BUF_INIT(1u << 20);
	struct cli_neutral s = {0};

	buf_reset(&out);
	for (size_t at = 0; at < n; at += step)
		ASSERT_OK(cli_neutral_feed(&s, bytes + at, n - at < step ? n - at : step, &out));
	ASSERT_OK(cli_neutral_end(&s, &out));
	return buf_str(&out);
}

/* Cutting a stream anywhere must not change what is shown. */
static void expect(const char *bytes, size_t n, const char *want)
{
	for (size_t step = 1; step <= n; step++)
		ASSERT_STR(neutral(bytes, n, step), want);
}
#define EXPECT(bytes, want) expect(bytes, sizeof(bytes) - 1, want)

TEST(plain_text_passes_untouched)
{
	EXPECT("hello\tworld\r\n", "hello\tworld\r\n");
	EXPECT("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\n",
		"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\n");
}

TEST(colours_pass_and_are_switched_off_at_the_end)
{
	EXPECT("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m");
	EXPECT("\x1b[1;38;5;196mred", "\x1b[1;38;5;196mred\x1b[0m");
	EXPECT("\x1b[38:2::1:2:3mx\x1b[m", "\x1b[38:2::1:2:3mx\x1b[m");
	EXPECT("\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K", "\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K");
}

TEST(a_title_cannot_be_set)
{
	EXPECT("a\x1b]0;evil\x07z", "a^[]0;evil^Gz");
	EXPECT("a\x1b]0;evil\x1b\\z", "a^[]0;evil^[\\z");
	EXPECT("a\xc2\x9d"
	       "0;evil\xc2\x9cz",
		"a\\xc2\\x9d0;evil\\xc2\\x9cz");
}

TEST(nothing_that_makes_a_terminal_answer_passes)
{
	EXPECT("\x1b[6n", "^[[6n");		    /* where is the cursor */
	EXPECT("\x1b[21t", "^[[21t");		    /* report the title */
	EXPECT("\x1b[c", "^[[c");		    /* who are you */
	EXPECT("\x1bP$q\"p\x1b\\", "^[P$q\"p^[\\"); /* DECRQSS */
	EXPECT("\x1bZ", "^[Z");
	EXPECT("\x05", "^E"); /* ENQ */
}

TEST(the_clipboard_the_screen_and_the_modes_are_out_of_reach)
{
	EXPECT("\x1b]52;c;ZXZpbA==\x07", "^[]52;c;ZXZpbA==^G");
	EXPECT("\x1b[2J\x1b[H", "^[[2J^[[H");
	EXPECT("\x1b[?1049h", "^[[?1049h");
	EXPECT("\x1b[8m\x1b[0m", "\x1b[8m\x1b[0m");
	EXPECT("\x1b[>4;2m", "^[[>4;2m");
	EXPECT("\x1b"
	       "c",
		"^[c");
	EXPECT("\x0e\x0f\x08\x7f", "^N^O^H^?");
	EXPECT("\x9b"
	       "31m",
		"\\x9b31m");
	EXPECT("\xc2\x9b"
	       "6n",
		"\\xc2\\x9b6n");
}

TEST(an_escape_inside_a_sequence_hides_nothing)
{
	EXPECT("\x1b[31\x1b]0;x\x07", "^[[31^[]0;x^G");
	EXPECT("\x1b\x1b[31mx\x1b[0m", "^[\x1b[31mx\x1b[0m");
	EXPECT("\x1b[3\nm", "^[[3\nm");
}

TEST(a_sequence_without_end_is_shown)
{
	char bytes[400] = "\x1b[";
	char want[400] = "^[[";

	memset(bytes + 2, '1', 300);
	memset(want + 3, '1', 300);
	expect(bytes, 302, want);
	EXPECT("x\x1b", "x^[");
	EXPECT("x\x1b[31", "x^[[31");
}

TEST(bytes_that_are_no_text_are_shown_as_numbers)
{
	EXPECT("a\xff\xfe"
	       "b",
		"a\\xff\\xfeb");
	EXPECT("\xc0\xaf", "\\xc0\\xaf");
	EXPECT("\xe2\x82", "\\xe2\\x82");
	EXPECT("\xe2\x82"
	       "A",
		"\\xe2\\x82A");
	EXPECT("a\0b", "a^@b");
}

TEST(neutral_output_stays_within_its_bound)
{
	struct cli_neutral s = {0};
	uint8_t bytes[1000];

	memset(bytes, 0xff, sizeof(bytes));
	struct buf out = BUF_INIT(4 * (sizeof(bytes) + 80));
	ASSERT_OK(cli_neutral_feed(&s, bytes, sizeof(bytes), &out));
	ASSERT(out.len == 4 * sizeof(bytes));
	buf_done(&out);
}

TEST(a_name_is_one_line)
{
	struct buf out = BUF_INIT(1000);

	ASSERT_OK(cli_visible("a\nb\tc\x1b[31m\xff\xc2\x9b\xc3\xbc", 15, &out));
	ASSERT_STR(buf_str(&out), "a\\nb\\tc^[[31m\\xff\\xc2\\x9b\xc3\xbc");
	buf_done(&out);
}

TEST(what_changes_the_order_of_reading_is_shown_in_a_name)
{
	struct buf out = BUF_INIT(1000);

	ASSERT_OK(cli_visible("a\xe2\x80\xaetxt.\x7f\xf3\xa0\x81\x81\r\xe2\x80\x8d", 17, &out));
	ASSERT_STR(buf_str(&out), "a\\xe2\\x80\\xaetxt.^?\\xf3\\xa0\\x81\\x81^M\xe2\x80\x8d");
	ASSERT(cli_is_visible("gr\xc3\xbc\xc3\x9f \xe2\x80\x8d"));
	ASSERT(!cli_is_visible("a\xe2\x80\xae"));
	ASSERT(!cli_is_visible("a\tb"));
	ASSERT(!cli_is_visible("a\xc2\x9b"));
	ASSERT(!cli_is_visible("a\xff"));
	buf_done(&out);
}

TEST(json_stays_what_it_was_and_is_not_obeyed)
{
	static const char text[] =
		"{\n \"a\": \"\\u001b\x7f\xc2\x9b\xc3\xbc\xe2\x80\xae\xf3\xa0\x81\x81\"}";
	struct buf out = BUF_INIT(1000);

	ASSERT_OK(cli_visible_json(text, sizeof text - 1, &out));
	ASSERT_STR(buf_str(&out),
		"{\n \"a\": \"\\u001b\\u007f\\u009b\xc3\xbc\\u202e\\udb40\\udc41\"}");
	buf_done(&out);
}

static const char *base64(const char *bytes, size_t n)
{
	static struct buf out = BUF_INIT(1000);

	buf_reset(&out);
	ASSERT_OK(cli_base64(bytes, n, &out));
	return buf_str(&out);
}

TEST(base64_is_padded)
{
	ASSERT_STR(base64("", 0), "");
	ASSERT_STR(base64("f", 1), "Zg==");
	ASSERT_STR(base64("fo", 2), "Zm8=");
	ASSERT_STR(base64("foo", 3), "Zm9v");
	ASSERT_STR(base64("\xff\xfe\xfd\xfc", 4), "//79/A==");
}
