/* SPDX-License-Identifier: Apache-2.0 */
#include "net/protobuf.h"
#include "test.h"

TEST(what_is_written_is_read)
{
	auto_buf struct buf b = BUF_INIT(4096), inner = BUF_INIT(4096), empty = BUF_INIT(16);
	struct pb_field f;
	char text[8];

	ASSERT_EQ(pb_add_uint(&inner, 1, UINT64_MAX), 0);
	ASSERT_EQ(pb_add_uint(&b, 1, 150), 0);
	ASSERT_EQ(pb_add_uint(&b, 2, 0), 0); /* left out */
	ASSERT_EQ(pb_add_str(&b, 3, "a text"), 0);
	ASSERT_EQ(pb_add_str(&b, 4, NULL), 0);
	ASSERT_EQ(pb_add_message(&b, 5, &inner), 0);
	ASSERT_EQ(pb_add_message(&b, 6, &empty), 0);
	ASSERT_EQ(pb_add_pair(&b, 700, "k", "v"), 0);
	ASSERT_MEM(b.data, 3, "\x08\x96\x01", 3); /* as the documentation has it */
	ASSERT(pb_find(b.data, b.len, 1, &f) && f.value == 150);
	ASSERT(!pb_find(b.data, b.len, 2, &f));
	pb_find_str(b.data, b.len, 3, text, sizeof text);
	ASSERT_STR(text, "a text");
	pb_find_str(b.data, b.len, 3, text, 4);
	ASSERT_STR(text, "a t");
	pb_find_str(b.data, b.len, 4, text, sizeof text);
	ASSERT_STR(text, "");
	ASSERT(pb_find(b.data, b.len, 5, &f));
	ASSERT(pb_find(f.data, f.size, 1, &f) && f.value == UINT64_MAX);
	ASSERT(pb_find(b.data, b.len, 6, &f) && f.size == 0);
	ASSERT(pb_find(b.data, b.len, 700, &f));
	pb_find_str(f.data, f.size, 2, text, sizeof text);
	ASSERT_STR(text, "v");
}

static bool is_whole(const char *p, size_t n)
{
	struct pb_reader r = pb_read(p, n);
	struct pb_field f;

	while (pb_next(&r, &f))
		;
	return !r.is_broken;
}
#define IS_WHOLE(text) is_whole(text, sizeof(text) - 1)

TEST(what_is_no_message_is_told)
{
	ASSERT(IS_WHOLE(""));
	ASSERT(IS_WHOLE("\x09"
			"12345678"
			"\x15"
			"1234")); /* fixed numbers are passed over */
	ASSERT(!IS_WHOLE("\x08"));
	ASSERT(!IS_WHOLE("\x0a\x05"
			 "ab"));
	ASSERT(!IS_WHOLE("\x00\x01"));
	ASSERT(!IS_WHOLE("\x0b"));
	ASSERT(!IS_WHOLE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
	ASSERT(!IS_WHOLE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
}
