/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire codec. Each header rule is tried from both sides: a header that keeps it passes, the
 * same header with one thing changed does not.
 */
#include <errno.h>

#include "test.h"
#include "wire/wire.h"

static int decode(const struct wire_header *h, const char **why)
{
	uint8_t bytes[WIRE_HEADER_SIZE];
	struct wire_header got;

	wire_header_put(bytes, h);
	return wire_header_get(bytes, &got, why);
}

static void is_taken(struct wire_header h)
{
	const char *why = "untouched";

	ASSERT_ERR(decode(&h, &why), 0);
	ASSERT(!why);
}

static void is_refused(struct wire_header h, const char *want)
{
	const char *why = NULL;

	ASSERT_ERR(decode(&h, &why), -EPROTO);
	ASSERT_STR(why, want);
}

TEST(integers_are_little_endian_and_come_back)
{
	uint8_t b[8];

	wire_u16_put(b, 0x0102);
	ASSERT_MEM(b, 2, "\x02\x01", 2);
	ASSERT_EQ(wire_u16_get(b), 0x0102);
	wire_u32_put(b, 0xf1020304u);
	ASSERT_MEM(b, 4, "\x04\x03\x02\xf1", 4);
	ASSERT_EQ(wire_u32_get(b), 0xf1020304u);
	wire_u64_put(b, UINT64_C(0xf102030405060708));
	ASSERT_MEM(b, 8, "\x08\x07\x06\x05\x04\x03\x02\xf1", 8);
	ASSERT(wire_u64_get(b) == UINT64_C(0xf102030405060708));
	wire_u64_put(b, UINT64_MAX);
	ASSERT(wire_u64_get(b) == UINT64_MAX);
}

TEST(a_header_has_one_layout_and_comes_back_whole)
{
	struct wire_header h = {.len = 8, .type = WIRE_ACK, .chan = 2, .stream = 0x01020304};
	struct wire_header got;
	uint8_t b[WIRE_HEADER_SIZE];
	const char *why;

	wire_header_put(b, &h);
	ASSERT_MEM(b, sizeof b, "\x08\0\0\0\x05\x02\0\0\x04\x03\x02\x01", 12);
	ASSERT_ERR(wire_header_get(b, &got, &why), 0);
	ASSERT_EQ(got.len, h.len);
	ASSERT_EQ(got.type, h.type);
	ASSERT_EQ(got.chan, h.chan);
	ASSERT_EQ(got.flags, h.flags);
	ASSERT_EQ(got.stream, h.stream);
}

TEST(only_known_frame_types_are_taken)
{
	is_refused((struct wire_header){.type = 0, .stream = 1}, "unknown frame type");
	is_refused((struct wire_header){.type = WIRE_TYPE_COUNT, .stream = 1},
		"unknown frame type");
	is_refused((struct wire_header){.type = 255, .stream = 1}, "unknown frame type");
	for (unsigned type = WIRE_HELLO; type < WIRE_TYPE_COUNT; type++) {
		bool is_ours = type == WIRE_HELLO || type == WIRE_PING || type == WIRE_PONG ||
			       type == WIRE_GOAWAY;

		is_taken((struct wire_header){.type = (uint8_t)type,
			.stream = is_ours ? 0 : 1,
			.len = type == WIRE_DATA || type == WIRE_ACK || type == WIRE_EOF ? 8 : 0});
	}
}

TEST(a_payload_may_be_as_long_as_the_limit_and_no_longer)
{
	struct wire_header h = {.type = WIRE_DATA, .stream = 1, .len = WIRE_MAX_PAYLOAD};

	is_taken(h);
	h.len++;
	is_refused(h, "frame too long");
	h.len = UINT32_MAX;
	is_refused(h, "frame too long");
}

TEST(only_a_request_may_go_on_in_a_further_frame)
{
	struct wire_header h = {.type = WIRE_REQUEST, .stream = 1, .flags = WIRE_MORE};

	is_taken(h);
	h.type = WIRE_REPLY;
	is_refused(h, "unknown frame flag");
}

TEST(unknown_flags_are_refused)
{
	struct wire_header h = {.type = WIRE_REQUEST, .stream = 1};

	is_taken(h);
	for (unsigned bit = 1; bit < 16; bit++) {
		h.flags = (uint16_t)(1u << bit);
		is_refused(h, "unknown frame flag");
		h.flags |= WIRE_MORE;
		is_refused(h, "unknown frame flag");
	}
}

TEST(data_has_one_of_three_channels_and_other_frames_none)
{
	static const uint8_t types[] = {WIRE_DATA, WIRE_ACK, WIRE_EOF};

	for (size_t i = 0; i < sizeof types; i++) {
		struct wire_header h = {.type = types[i], .stream = 1, .len = 8};

		for (h.chan = 0; h.chan < WIRE_CHAN_COUNT; h.chan++)
			is_taken(h);
		is_refused(h, "bad channel");
		h.chan = 255;
		is_refused(h, "bad channel");
	}
	struct wire_header h = {.type = WIRE_REQUEST, .stream = 1};
	is_taken(h);
	h.chan = 1;
	is_refused(h, "bad channel");
}

TEST(stream_zero_is_for_the_connection_and_only_for_it)
{
	struct wire_header h = {.type = WIRE_HELLO};

	is_taken(h);
	h.stream = 1;
	is_refused(h, "wrong stream for this frame type");
	h = (struct wire_header){.type = WIRE_REQUEST, .stream = UINT32_MAX};
	is_taken(h);
	h.stream = 0;
	is_refused(h, "wrong stream for this frame type");
}

TEST(frames_of_a_fixed_shape_must_have_it)
{
	struct wire_header h = {.type = WIRE_DATA, .stream = 1, .len = 8};

	is_taken(h);
	h.len = 7;
	is_refused(h, "data frame without an offset");
	h.type = WIRE_ACK;
	is_refused(h, "acknowledgement of a wrong length");
	h.type = WIRE_EOF;
	h.len = 9;
	is_refused(h, "acknowledgement of a wrong length");
	h.len = 8;
	is_taken(h);

	h = (struct wire_header){.type = WIRE_PING, .len = 8};
	is_taken(h);
	h.len = 9;
	is_refused(h, "ping too long");
	h.type = WIRE_PONG;
	is_refused(h, "ping too long");

	h = (struct wire_header){.type = WIRE_CANCEL, .stream = 1};
	is_taken(h);
	h.len = 1;
	is_refused(h, "cancel with a payload");
}

TEST(fields_come_back_in_order)
{
	auto_buf struct buf b = BUF_INIT(1000);
	struct wire_field f;
	uint64_t v = 0;

	ASSERT_ERR(wire_put_str(&b, WIRE_T_ARG, "first"), 0);
	ASSERT_ERR(wire_put_u64(&b, WIRE_T_LIMIT | WIRE_CRITICAL, 77), 0);
	ASSERT_ERR(wire_put(&b, WIRE_T_TEXT, "\0\xff", 2), 0);
	ASSERT_ERR(wire_put(&b, WIRE_T_NAME, NULL, 0), 0);

	struct wire_reader r = {.p = b.data, .len = b.len};
	ASSERT_ERR(wire_next(&r, &f), 1);
	ASSERT_EQ(f.tag, WIRE_T_ARG);
	ASSERT(!f.is_critical);
	ASSERT_MEM(f.p, f.len, "first", 5);
	ASSERT_ERR(wire_next(&r, &f), 1);
	ASSERT_EQ(f.tag, WIRE_T_LIMIT);
	ASSERT(f.is_critical);
	ASSERT_ERR(wire_field_u64(&f, &v), 0);
	ASSERT_EQ(v, 77);
	ASSERT_ERR(wire_next(&r, &f), 1);
	ASSERT_MEM(f.p, f.len, "\0\xff", 2);
	ASSERT_ERR(wire_next(&r, &f), 1);
	ASSERT_EQ(f.len, 0);
	ASSERT_ERR(wire_next(&r, &f), 0);
	ASSERT_ERR(wire_next(&r, &f), 0);
}

TEST(a_missing_string_writes_no_field)
{
	auto_buf struct buf b = BUF_INIT(100);

	ASSERT_ERR(wire_put_str(&b, WIRE_T_CWD, NULL), 0);
	ASSERT_EQ(b.len, 0);
	ASSERT_ERR(wire_put_str(&b, WIRE_T_CWD, ""), 0);
	ASSERT_EQ(b.len, 6);
}

TEST(a_field_that_does_not_fit_leaves_no_half)
{
	auto_buf struct buf b = BUF_INIT(20);

	ASSERT_ERR(wire_put_u64(&b, WIRE_T_SIZE, 1), 0);
	ASSERT_ERR(wire_put_str(&b, WIRE_T_PATH, "x"), -ENOBUFS);
	ASSERT_EQ(b.len, 14);
	ASSERT_ERR(wire_put_str(&b, WIRE_T_PATH, ""), 0);
	ASSERT_EQ(b.len, 20);
}

TEST(a_field_longer_than_a_message_is_refused)
{
	auto_buf struct buf b = BUF_INIT(SIZE_MAX / 2);
	char *big = calloc(1, WIRE_MAX_MESSAGE + 1);

	ASSERT(big);
	ASSERT_ERR(wire_put(&b, WIRE_T_TEXT, big, WIRE_MAX_MESSAGE + 1), -ENOBUFS);
	ASSERT_EQ(b.len, 0);
	ASSERT_ERR(wire_put(&b, WIRE_T_TEXT, big, WIRE_MAX_MESSAGE), 0);
	free(big);
}

TEST(bytes_that_are_no_field_list_are_refused_at_every_cut)
{
	auto_buf struct buf b = BUF_INIT(100);
	struct wire_field f;

	ASSERT_ERR(wire_put_str(&b, WIRE_T_PATH, "abc"), 0);
	for (size_t n = 1; n < b.len; n++) {
		struct wire_reader r = {.p = b.data, .len = n};
		ASSERT_ERR(wire_next(&r, &f), -EPROTO);
	}
	struct wire_reader whole = {.p = b.data, .len = b.len};
	ASSERT_ERR(wire_next(&whole, &f), 1);
}

TEST(a_field_length_past_the_end_is_refused)
{
	static const uint8_t bad[] = {1, 0, 0xff, 0xff, 0xff, 0xff, 'x'};
	static const uint8_t good[] = {1, 0, 1, 0, 0, 0, 'x'};
	struct wire_reader r = {.p = bad, .len = sizeof bad};
	struct wire_field f;

	ASSERT_ERR(wire_next(&r, &f), -EPROTO);
	r = (struct wire_reader){.p = good, .len = sizeof good};
	ASSERT_ERR(wire_next(&r, &f), 1);
}

TEST(an_integer_has_eight_bytes)
{
	uint64_t v = 5;
	struct wire_field f = {.p = (const uint8_t *)"\1\0\0\0\0\0\0\0", .len = 7};

	ASSERT_ERR(wire_field_u64(&f, &v), -EPROTO);
	ASSERT_EQ(v, 5);
	f.len = 8;
	ASSERT_ERR(wire_field_u64(&f, &v), 0);
	ASSERT_EQ(v, 1);
}

TEST(a_string_has_no_nul_and_keeps_to_its_maximum)
{
	struct wire_field f = {.p = (const uint8_t *)"ab\0d", .len = 4};
	char *s = NULL;

	ASSERT_ERR(wire_field_str(&f, 10, &s), -EPROTO);
	ASSERT(!s);
	f.len = 2;
	ASSERT_ERR(wire_field_str(&f, 1, &s), -EINVAL);
	ASSERT(!s);
	ASSERT_ERR(wire_field_str(&f, 2, &s), 0);
	ASSERT_STR(s, "ab");
	free(s);
	f = (struct wire_field){.p = NULL, .len = 0};
	ASSERT_ERR(wire_field_str(&f, 0, &s), 0);
	ASSERT_STR(s, "");
	free(s);
}

TEST(finding_gives_the_first_of_a_tag)
{
	auto_buf struct buf b = BUF_INIT(1000);
	struct wire_field f;

	ASSERT_ERR(wire_put_str(&b, WIRE_T_ARG, "one"), 0);
	ASSERT_ERR(wire_put_str(&b, WIRE_T_ARG, "two"), 0);
	ASSERT_ERR(wire_put_u64(&b, WIRE_T_SIZE, 9), 0);
	ASSERT(wire_find(b.data, b.len, WIRE_T_ARG, &f));
	ASSERT_MEM(f.p, f.len, "one", 3);
	ASSERT(!wire_find(b.data, b.len, WIRE_T_CWD, &f));
	ASSERT(!wire_find(NULL, 0, WIRE_T_CWD, &f));
	ASSERT_EQ(wire_find_u64(b.data, b.len, WIRE_T_SIZE, 1), 9);
	ASSERT_EQ(wire_find_u64(b.data, b.len, WIRE_T_MODE, 1), 1);
	ASSERT_EQ(wire_find_u64(b.data, b.len, WIRE_T_ARG, 1), 1);

	char *s = wire_find_str(b.data, b.len, WIRE_T_ARG, 3);
	ASSERT_STR(s, "one");
	free(s);
	ASSERT(!wire_find_str(b.data, b.len, WIRE_T_ARG, 2));
	ASSERT(!wire_find_str(b.data, b.len, WIRE_T_CWD, 100));
}

TEST(an_unknown_critical_field_is_named_and_an_unknown_other_ignored)
{
	static const uint16_t known[] = {WIRE_T_PATH, WIRE_T_LIMIT};
	auto_buf struct buf b = BUF_INIT(1000);
	unsigned tag = 0;

	ASSERT_ERR(wire_check(NULL, 0, known, 2, &tag), 0);
	ASSERT_ERR(wire_put_str(&b, WIRE_T_PATH | WIRE_CRITICAL, "x"), 0);
	ASSERT_ERR(wire_put_str(&b, 0x7001, "from the future"), 0);
	ASSERT_ERR(wire_check(b.data, b.len, known, 2, &tag), 0);
	ASSERT_ERR(wire_put_str(&b, 0x7002 | WIRE_CRITICAL, "a wall from the future"), 0);
	ASSERT_ERR(wire_check(b.data, b.len, known, 2, &tag), -EOPNOTSUPP);
	ASSERT_EQ(tag, 0x7002);
	ASSERT_ERR(wire_check(b.data, b.len - 1, known, 2, &tag), -EPROTO);
	ASSERT_ERR(wire_check(b.data, b.len, NULL, 0, &tag), -EOPNOTSUPP);
	ASSERT_EQ(tag, WIRE_T_PATH);
}

TEST(a_record_is_given_when_it_is_complete)
{
	const uint8_t bytes[] = {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 9};
	const uint8_t *p = NULL;
	size_t len = 0, used = 0;

	for (size_t n = 0; n < 7; n++)
		ASSERT_ERR(wire_record_next(bytes, n, &p, &len, &used), 0);
	ASSERT_ERR(wire_record_next(bytes, sizeof bytes, &p, &len, &used), 1);
	ASSERT_MEM(p, len, "abc", 3);
	ASSERT_EQ(used, 7);
	ASSERT_ERR(wire_record_next(bytes + 7, sizeof bytes - 7, &p, &len, &used), 1);
	ASSERT_EQ(len, 0);
	ASSERT_EQ(used, 4);
	ASSERT_ERR(wire_record_next(bytes + 11, 1, &p, &len, &used), 0);
}

TEST(a_record_may_be_as_long_as_the_limit_and_no_longer)
{
	static uint8_t bytes[4 + WIRE_MAX_RECORD];
	const uint8_t *p;
	size_t len, used;

	wire_u32_put(bytes, WIRE_MAX_RECORD);
	ASSERT_ERR(wire_record_next(bytes, sizeof bytes, &p, &len, &used), 1);
	ASSERT_EQ(len, WIRE_MAX_RECORD);
	wire_u32_put(bytes, WIRE_MAX_RECORD + 1);
	ASSERT_ERR(wire_record_next(bytes, sizeof bytes, &p, &len, &used), -EPROTO);
	ASSERT_ERR(wire_record_next(bytes, 4, &p, &len, &used), -EPROTO);
}
