/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_code_event.c: the events of a run as a client reads them, from a guest that says anything. The first byte says in what
 * pieces the rest comes. */
#include <stdlib.h>
#include <string.h>

#include "core/code_event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_reader r;
	struct cell_code_event ev;
	int e = 0;

	if (size < 1)
		return 0;
	size_t step = 1 + data[0] % 64;
	code_reader_init(&r, 0);
	for (size_t at = 1; at < size && e >= 0; at += step) {
		size_t n = size - at < step ? size - at : step;
		uint8_t *piece = malloc(n);
		/* now and then a gap */
		uint64_t gap = n && data[at] == 0xee ? 1000 : 0;

		if (!piece)
			break;
		memcpy(piece, data + at, n);
		code_reader_feed(&r, piece, n, r.at + gap);
		while ((e = code_reader_next(&r, &ev)) > 0) {
			if (ev.type < CELL_CODE_STDOUT || ev.type > CELL_CODE_DONE ||
				r.next > r.at || (ev.type > CELL_CODE_STDERR && ev.data[ev.len]))
				abort();
		}
		free(piece);
	}
	code_reader_done(&r);
	return 0;
}
