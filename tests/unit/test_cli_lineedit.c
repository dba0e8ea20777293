/* SPDX-License-Identifier: Apache-2.0 */
/* Typing: keys to text, text to what a terminal shows; and when a text is to be gone on with. */
#include <locale.h>
#include <stdint.h>

#include "cli/code/lineedit.h"
#include "cli/code/open_text.h"
#include "test.h"

static enum lineedit_wish type_all(struct lineedit *e, const char *keys)
{
	enum lineedit_wish wish = LINEEDIT_MORE;

	for (; *keys; keys++)
		wish = lineedit_feed(e, (uint8_t)*keys);
	return wish;
}

static void expect(const char *keys, const char *want, size_t cursor)
{
	struct lineedit e;

	lineedit_init(&e);
	(void)type_all(&e, keys);
	ASSERT_STR(lineedit_text(&e), want);
	ASSERT_EQ(e.cursor, cursor);
	lineedit_done(&e);
}

TEST(text_is_typed_and_taken_back)
{
	expect("hello", "hello", 5);
	expect("hello\x7f\x7f", "hel", 3);
	expect("gr\xc3\xbc\x7f", "gr", 2);
	expect("\x7f\x7f", "", 0);
}

TEST(the_cursor_moves_by_characters_and_words)
{
	expect("ac\x1b[Db", "abc", 2);
	expect("\xc3\xbc\x1b[Dx", "x\xc3\xbc", 1);
	expect("bc\x01"
	       "a\x05"
	       "d",
		"abcd", 4);
	expect("one two\x1b"
	       "b\x1b"
	       "bX",
		"Xone two", 1);
	expect("one two\x01\x1b[1;5CX", "oneX two", 4);
	expect("abc\x1b[H\x1b[3~", "bc", 0);
}

TEST(what_is_killed_comes_back)
{
	expect("one two\x17", "one ", 4);
	expect("one two\x17\x19\x19", "one twotwo", 10);
	expect("one\x15", "", 0);
	expect("one\x01\x0b\x19", "one", 3);
}

TEST(lines_are_gone_through_and_left_into_the_history)
{
	struct lineedit e;

	lineedit_init(&e);
	lineedit_set(&e, "first\nsecond line\nx");
	ASSERT_EQ(type_all(&e, "\x1b[A"), LINEEDIT_MORE);
	ASSERT_EQ(e.cursor, 7);
	ASSERT_EQ(type_all(&e, "\x1b[A"), LINEEDIT_MORE);
	ASSERT_EQ(type_all(&e, "\x1b[A"), LINEEDIT_OLDER);
	ASSERT_EQ(type_all(&e, "\x1b[B"), LINEEDIT_MORE);
	ASSERT_EQ(type_all(&e, "\x1b[B"), LINEEDIT_MORE);
	ASSERT_EQ(type_all(&e, "\x1b[B"), LINEEDIT_NEWER);
	lineedit_done(&e);
}

TEST(keys_with_a_meaning_of_their_own)
{
	struct lineedit e;

	lineedit_init(&e);
	ASSERT_EQ(type_all(&e, "\x04"), LINEEDIT_EOF);
	ASSERT_EQ(type_all(&e, "a\x04"), LINEEDIT_MORE);
	ASSERT_EQ(type_all(&e, "\x03"), LINEEDIT_INTERRUPT);
	ASSERT_EQ(type_all(&e, "\r"), LINEEDIT_ENTER);
	ASSERT_EQ(type_all(&e, "\t"), LINEEDIT_COMPLETE);
	ASSERT_EQ(type_all(&e, "\x1b[99;9~"), LINEEDIT_MORE); /* not known: nothing */
	ASSERT_STR(lineedit_text(&e), "a");
	lineedit_done(&e);
}

TEST(a_lone_escape_is_given_up)
{
	struct lineedit e;

	lineedit_init(&e);
	(void)type_all(&e, "\x1b");
	ASSERT(lineedit_is_waiting(&e));
	lineedit_settle(&e);
	(void)type_all(&e, "b");
	ASSERT_STR(lineedit_text(&e), "b");
	lineedit_done(&e);
}

TEST(pasted_text_is_text)
{
	expect("\x1b[200~a\rb\x03\x1b[D\tc\x1b[201~d", "a\nb[D\tcd", 8);
}

TEST(a_new_line_is_indented_like_the_last)
{
	struct lineedit e;

	lineedit_init(&e);
	lineedit_set(&e, "  if x:");
	lineedit_newline(&e, 4);
	ASSERT_STR(lineedit_text(&e), "  if x:\n      ");
	lineedit_replace(&e, 2, 4, "while");
	ASSERT_STR(lineedit_text(&e), "  while x:\n      ");
	lineedit_done(&e);
}

static const char *drawn(struct lineedit *e, unsigned cols)
{
	static struct buf out = BUF_INIT(1u << 20);

	buf_reset(&out);
	ASSERT_OK(lineedit_draw(e, "> ", ". ", cols, false, &out));
	return buf_str(&out);
}

TEST(the_picture_is_drawn_over_the_last_and_the_cursor_put_in_its_place)
{
	struct lineedit e;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	lineedit_init(&e);
	lineedit_set(&e, "ab");
	ASSERT_STR(drawn(&e, 80), "\r\x1b[J> ab\r\x1b[4C");
	lineedit_set(&e, "ab\ncd");
	ASSERT_STR(drawn(&e, 80), "\r\x1b[J> ab\r\n. cd\r\x1b[4C");
	ASSERT_EQ(e.row, 1);
	e.cursor = 0;
	ASSERT_STR(drawn(&e, 80), "\r\x1b[1A\x1b[J> ab\r\n. cd\x1b[1A\r\x1b[2C");
	/* a row that is full: the cursor is on the next */
	lineedit_set(&e, "abcd");
	lineedit_moved(&e);
	ASSERT_STR(drawn(&e, 6), "\r\x1b[J> abcd\r\n\r");
	ASSERT_EQ(e.row, 1);
	/* control bytes are seen, and wide characters take two columns */
	lineedit_set(&e, "\x01\xe4\xb8\xad");
	lineedit_moved(&e);
	ASSERT_STR(drawn(&e, 80), "\r\x1b[J> ^A\xe4\xb8\xad\r\x1b[6C");
	lineedit_done(&e);
}

static bool is_open(const char *language, const char *text)
{
	return open_text_look(language, text).is_open;
}

TEST(python_goes_on_inside_of_brackets_strings_and_blocks)
{
	ASSERT(!is_open("python", "x = 1"));
	ASSERT(!is_open("python", ""));
	ASSERT(is_open("python", "f(1,"));
	ASSERT(is_open("python", "x = '''text"));
	ASSERT(!is_open("python", "x = '''text\n'''"));
	ASSERT(is_open("python", "def f():"));
	ASSERT_EQ(open_text_look("python", "def f():").n_indent, 4);
	ASSERT(is_open("python", "def f():\n    return 1"));
	ASSERT(!is_open("python", "def f():\n    return 1\n"));
	ASSERT(!is_open("python", "x = '(' # ["));
	ASSERT(!is_open("python", "x = '")); /* for the interpreter to say */
	ASSERT(!is_open("python", "d = {1: 2}"));
	ASSERT(is_open("python", "x = 1 + \\"));
	ASSERT(is_open("python", "@decorated"));
	ASSERT(!is_open("python", "x[1:]"));
	ASSERT(is_open("python", "if x: # why"));
}

TEST(other_languages_have_ways_of_their_own)
{
	ASSERT(is_open("javascript", "function f() {"));
	ASSERT(!is_open("javascript", "function f() { return `{` }"));
	ASSERT(is_open("javascript", "`a"));
	ASSERT(is_open("javascript", "/* a"));
	ASSERT(!is_open("javascript", "// {"));
	ASSERT(is_open("shell", "for i in 1 2; do"));
	ASSERT(!is_open("shell", "for i in 1 2; do echo $i; done"));
	ASSERT(is_open("shell", "echo 'a"));
	ASSERT(!is_open("shell", "echo done"));
	ASSERT(is_open("shell", "if true; then"));
	ASSERT(!is_open("shell", "if true; then :; fi"));
	ASSERT(is_open("sql", "select 1"));
	ASSERT(!is_open("sql", "select 1;"));
	ASSERT(!is_open("sql", "select 1\n"));
	ASSERT(!is_open("sql", "select ';'; -- (x"));
}
