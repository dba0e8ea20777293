/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_channel.c: what a driver, or the code it runs, may write to its control socket. In whatever pieces the bytes come, the
 * same messages are understood, none longer than allowed, and nothing behind a broken one. */
#include <stdlib.h>
#include <string.h>

#include "guest/kernel_channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t words, bytes;
	int is_broken;
};

static void parse(const uint8_t *data, size_t size, size_t step, struct seen *ret)
{
	struct channel c = {0};
	size_t at = 0;

	while (at < size) {
		size_t there = size - at < step ? size - at : step, used = 0;
		uint8_t *piece = malloc(there); /* so that a read behind it is seen */

		if (!piece)
			return;
		memcpy(piece, data + at, there);
		int r = channel_head(&c, piece, there, &used);
		free(piece);
		if (used > there || (r == 0 && used != there))
			abort();
		at += used;
		if (r < 0) {
			if (!c.why)
				abort();
			ret->is_broken = 1;
			return;
		}
		if (r == 0)
			continue;
		if (!c.word || c.len > CHANNEL_MAX_EVENT || c.left != c.len ||
			(c.word == CHANNEL_DONE) != (c.status != 0) ||
			(c.word == CHANNEL_MARK && c.len))
			abort();
		ret->words = ret->words * 31 + c.word;
		ret->bytes = ret->bytes * 31 + c.len;
		size_t n = size - at < c.left ? size - at : (size_t)c.left;
		channel_took(&c, n);
		at += n;
		if (c.left)
			return;
		channel_next(&c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole = {0}, split = {0};
	size_t step = size ? 1 + data[size - 1] % 37 : 1;

	parse(data, size, size ? size : 1, &whole);
	parse(data, size, step, &split);
	if (whole.words != split.words || whole.bytes != split.bytes ||
		whole.is_broken != split.is_broken)
		abort();
	return 0;
}
