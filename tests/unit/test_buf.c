/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer: its maximum, its terminator, and what each call leaves behind. */
#include <errno.h>

#include "base/buf.h"
#include "test.h"

TEST(an_empty_buffer_reads_as_an_empty_string)
{
	auto_buf struct buf b = BUF_INIT(16);

	ASSERT_STR(buf_str(&b), "");
	ASSERT_EQ(b.len, 0);
}

TEST(what_is_added_is_there_and_terminated)
{
	auto_buf struct buf b = BUF_INIT(1024);

	ASSERT_ERR(buf_addz(&b, "one"), 0);
	ASSERT_ERR(buf_addc(&b, ' '), 0);
	ASSERT_ERR(buf_addf(&b, "%d-%s", 2, "three"), 0);
	ASSERT_ERR(buf_add(&b, "\0x", 2), 0);
	ASSERT_MEM(b.data, b.len, "one 2-three\0x", 13);
	ASSERT_EQ(b.data[b.len], 0);
}

TEST(adding_nothing_is_fine_even_from_null)
{
	auto_buf struct buf b = BUF_INIT(4);

	ASSERT_ERR(buf_add(&b, NULL, 0), 0);
	ASSERT_ERR(buf_addz(&b, ""), 0);
	ASSERT_EQ(b.len, 0);
	ASSERT_STR(buf_str(&b), "");
}

TEST(it_fills_to_its_maximum_and_no_further)
{
	auto_buf struct buf b = BUF_INIT(5);

	ASSERT_ERR(buf_addz(&b, "12345"), 0);
	ASSERT_ERR(buf_addc(&b, '6'), -ENOBUFS);
	ASSERT_STR(buf_str(&b), "12345");
	ASSERT(b.cap <= 6);
}

TEST(an_add_that_does_not_fit_changes_nothing)
{
	auto_buf struct buf b = BUF_INIT(8);

	ASSERT_ERR(buf_addz(&b, "1234"), 0);
	ASSERT_ERR(buf_addz(&b, "56789"), -ENOBUFS);
	ASSERT_ERR(buf_addf(&b, "%s", "56789"), -ENOBUFS);
	ASSERT_STR(buf_str(&b), "1234");
	ASSERT_ERR(buf_addz(&b, "5678"), 0);
	ASSERT_STR(buf_str(&b), "12345678");
}

TEST(a_maximum_of_nothing_takes_nothing)
{
	auto_buf struct buf b = BUF_INIT(0);

	ASSERT_ERR(buf_addc(&b, 'x'), -ENOBUFS);
	ASSERT_ERR(buf_addz(&b, ""), 0);
}

TEST(an_absurd_size_is_refused_without_overflow)
{
	auto_buf struct buf b = BUF_INIT(100);

	ASSERT_ERR(buf_addz(&b, "abc"), 0);
	ASSERT_ERR(buf_reserve(&b, SIZE_MAX), -ENOBUFS);
	ASSERT_ERR(buf_reserve(&b, SIZE_MAX - 2), -ENOBUFS);
	ASSERT_ERR(buf_reserve(&b, 97), 0);
	ASSERT_STR(buf_str(&b), "abc");
}

TEST(it_grows_over_many_small_adds)
{
	auto_buf struct buf b = BUF_INIT(100000);

	for (int i = 0; i < 100000; i++)
		ASSERT_ERR(buf_addc(&b, (char)('a' + i % 26)), 0);
	ASSERT_EQ(b.len, 100000);
	for (int i = 0; i < 100000; i++)
		ASSERT(b.data[i] == 'a' + i % 26);
	ASSERT_EQ(b.data[b.len], 0);
}

TEST(reserved_room_is_not_content)
{
	auto_buf struct buf b = BUF_INIT(1000);

	ASSERT_ERR(buf_reserve(&b, 500), 0);
	ASSERT(b.cap >= 501);
	ASSERT_EQ(b.len, 0);
	ASSERT_STR(buf_str(&b), "");
}

TEST(consuming_drops_from_the_front)
{
	auto_buf struct buf b = BUF_INIT(64);

	ASSERT_ERR(buf_addz(&b, "hello world"), 0);
	buf_consume(&b, 0);
	ASSERT_STR(buf_str(&b), "hello world");
	buf_consume(&b, 6);
	ASSERT_STR(buf_str(&b), "world");
	buf_consume(&b, 5);
	ASSERT_EQ(b.len, 0);
	ASSERT_STR(buf_str(&b), "");
}

TEST(consuming_more_than_there_is_empties_it)
{
	auto_buf struct buf b = BUF_INIT(64);

	buf_consume(&b, 10);
	ASSERT_ERR(buf_addz(&b, "abc"), 0);
	buf_consume(&b, SIZE_MAX);
	ASSERT_EQ(b.len, 0);
	ASSERT_ERR(buf_addz(&b, "again"), 0);
	ASSERT_STR(buf_str(&b), "again");
}

TEST(reset_keeps_the_memory_and_drops_the_content)
{
	auto_buf struct buf b = BUF_INIT(64);

	buf_reset(&b);
	ASSERT_ERR(buf_addz(&b, "abc"), 0);
	const void *before = b.data;
	buf_reset(&b);
	ASSERT_STR(buf_str(&b), "");
	ASSERT_ERR(buf_addz(&b, "xyz"), 0);
	ASSERT(b.data == before);
}

TEST(a_stolen_string_is_the_callers_and_the_buffer_is_usable_again)
{
	auto_buf struct buf b = BUF_INIT(64);

	ASSERT_ERR(buf_addz(&b, "mine"), 0);
	char *s = buf_steal(&b);
	ASSERT_STR(s, "mine");
	ASSERT_EQ(b.len, 0);
	ASSERT_ERR(buf_addz(&b, "yours"), 0);
	ASSERT_STR(s, "mine");
	free(s);
}

TEST(stealing_from_an_empty_buffer_gives_an_empty_string)
{
	auto_buf struct buf b = BUF_INIT(64);

	char *s = buf_steal(&b);
	ASSERT_STR(s, "");
	free(s);
}

TEST(done_twice_is_fine_and_it_is_usable_afterwards)
{
	struct buf b = BUF_INIT(64);

	ASSERT_ERR(buf_addz(&b, "abc"), 0);
	buf_done(&b);
	buf_done(&b);
	ASSERT_STR(buf_str(&b), "");
	ASSERT_ERR(buf_addz(&b, "def"), 0);
	ASSERT_STR(buf_str(&b), "def");
	buf_done(&b);
}
