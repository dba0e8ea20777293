/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws.h"
#include "net/ws_frame.h"
#include "test.h"

/* A message of any length, from one end to the other. */
static void there_and_back(size_t n, bool is_masked)
{
	static const uint8_t mask[4] = {1, 2, 3, 250};
	struct ws_decoder d;
	struct ws_frame f;
	uint8_t head[WS_HEAD_MAX];
	uint8_t *p = malloc(n + WS_HEAD_MAX), *clear = malloc(n + 1);
	size_t used;

	for (size_t i = 0; i < n; i++)
		clear[i] = (uint8_t)(i * 7);
	size_t k = ws_encode_head(head, WS_OP_BINARY, n, is_masked ? mask : NULL);
	memcpy(p, head, k);
	if (is_masked)
		ws_mask(p + k, clear, n, mask);
	else
		memcpy(p + k, clear, n);
	ws_decoder_init(&d, is_masked, n);
	ASSERT_EQ(ws_decode(&d, p, k + n, &used, &f), 1);
	ASSERT_EQ(used, k + n);
	ASSERT_MEM(f.p, f.n, clear, n);
	ws_decoder_done(&d);
	free(p);
	free(clear);
}

TEST(messages_of_every_length_form)
{
	static const size_t sizes[] = {0, 1, 3, 4, 5, 8, 125, 126, 127, 65535, 65536, 1000000};

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		there_and_back(sizes[i], true);
		there_and_back(sizes[i], false);
	}
}

TEST(an_announced_length_costs_no_memory)
{
	static const uint8_t head[] = {0x82, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0};
	struct ws_decoder d;
	struct ws_frame f;
	size_t used;

	ws_decoder_init(&d, true, (size_t)1 << 40);
	ASSERT_EQ(ws_decode(&d, head, sizeof head, &used, &f), 0);
	ASSERT_EQ(d.message.cap, 0);
	ws_decoder_done(&d);
	ws_decoder_init(&d, true, 1000);
	ASSERT_EQ(ws_decode(&d, head, sizeof head, &used, &f), -WS_TOO_BIG);
	ws_decoder_done(&d);
}

TEST(reasons_are_cut_between_characters)
{
	uint8_t p[WS_CONTROL_MAX];
	char long_reason[300];

	for (size_t i = 0; i + 2 < sizeof long_reason; i += 2)
		memcpy(long_reason + i, "\xc3\xa4", 3);
	ASSERT_EQ(ws_encode_close(p, 1000, long_reason), 124);
	ASSERT_EQ(ws_encode_close(p, 1000, NULL), 2);
	ASSERT_EQ(ws_encode_close(p, WS_NO_CODE, "never sent"), 0);
}

TEST(the_key_of_the_rfc)
{
	char accept[29];

	ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
	ASSERT_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	ASSERT(ws_is_key("dGhlIHNhbXBsZSBub25jZQ=="));
	ASSERT(!ws_is_key("dGhlIHNhbXBsZSBub25jZQ") && !ws_is_key("") &&
		!ws_is_key("????????????????????????"));
}
