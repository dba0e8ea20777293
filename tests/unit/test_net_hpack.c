/* SPDX-License-Identifier: Apache-2.0 */
#include "net/hpack.h"
#include "test.h"

static char seen[4096];

static int note(void *user, const char *name, const char *value)
{
	size_t n = strlen(seen);

	(void)user;
	(void)snprintf(seen + n, sizeof seen - n, "%s=%.40s;", name, value);
	return 0;
}

static int decode(const void *p, size_t n)
{
	seen[0] = '\0';
	return hpack_decode(p, n, note, NULL);
}
#define DECODE(text) decode(text, sizeof(text) - 1)

TEST(fields_that_are_written_are_read)
{
	auto_buf struct buf b = BUF_INIT(4096);
	char big[400];

	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	ASSERT_EQ(hpack_add(&b, "grpc-status", "5"), 0);
	ASSERT_EQ(hpack_add(&b, "empty", ""), 0);
	ASSERT_EQ(hpack_add(&b, "big", big), 0);
	ASSERT_EQ(decode(b.data, b.len), 0);
	ASSERT_STR(seen, "grpc-status=5;empty=;big=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;");
}

/* RFC 7541 C.4.1 and C.6.1, as far as they go without a table. */
TEST(compressed_words_are_read)
{
	ASSERT_EQ(DECODE("\x40\x84\xff\xff\xff\xfe"), -EPROTO);
	ASSERT_EQ(DECODE("\x00\x01"
			 "a"
			 "\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
		0);
	ASSERT_STR(seen, "a=www.example.com;");
	ASSERT_EQ(DECODE("\x40\x01"
			 "d"
			 "\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0"
			 "\x82\xa6\x2d\x1b\xff"),
		0);
	ASSERT_STR(seen, "d=Mon, 21 Oct 2013 20:13:21 GMT;");
}

TEST(the_status_is_known_by_its_number_and_the_rest_is_passed_over)
{
	ASSERT_EQ(DECODE("\x88"), 0);
	ASSERT_STR(seen, ":status=200;");
	ASSERT_EQ(DECODE("\x20\x8d\x5f\x01"
			 "x"
			 "\x08\x03"
			 "503"),
		0);
	ASSERT_STR(seen, ":status=404;:status=503;");
}

TEST(what_refers_to_a_table_we_have_not_is_refused)
{
	ASSERT_EQ(DECODE("\xbe"), -EPROTO); /* 62 */
	ASSERT_EQ(DECODE("\x7e\x01"
			 "x"),
		-EPROTO);			    /* its name */
	ASSERT_EQ(DECODE("\x80"), -EPROTO);	    /* 0 */
	ASSERT_EQ(DECODE("\x3f\xe1\x1f"), -EPROTO); /* a size of 4096 */
	ASSERT_EQ(DECODE("\x00\x05"
			 "ab"),
		-EPROTO); /* cut */
	ASSERT_EQ(DECODE("\x00\x7f\xff\xff\xff\xff\xff\xff"), -EPROTO);
}
