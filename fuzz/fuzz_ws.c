/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ws: frames of a WebSocket. The first byte says which end we are and how the bytes are cut up; cut up
 * or not, the same frames must come out. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "net/ws.h"
#include "net/ws_frame.h"

#define MAX_MESSAGE 5000

/* A hash over all frames and the way it ended. */
static uint64_t run(const uint8_t *p, size_t n, size_t step, bool is_server)
{
	struct ws_decoder d;
	uint64_t h = 1;

	ws_decoder_init(&d, is_server, MAX_MESSAGE);
	for (size_t at = 0; at < n;) {
		struct ws_frame f;
		size_t k = n - at < step ? n - at : step, used;
		int r = ws_decode(&d, p + at, k, &used, &f);

		if (used > k || (r == 0 && used != k) || d.message.len > MAX_MESSAGE)
			abort();
		at += used;
		if (r < 0) {
			h = h * 31 + (uint64_t)-r;
			break;
		}
		if (r > 0) {
			if (f.p[f.n] != '\0' ||
				(f.opcode == WS_OP_TEXT && !utf8_is_valid(f.p, f.n)))
				abort();
			h = h * 31 + f.opcode + f.code;
			for (size_t i = 0; i < f.n; i++)
				h = h * 31 + f.p[i];
		}
	}
	ws_decoder_done(&d);
	return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 65536)
		return 0;
	bool is_server = data[0] & 1;
	size_t step = 1 + (data[0] >> 1);
	if (run(data + 1, size - 1, size, is_server) != run(data + 1, size - 1, step, is_server))
		abort();
	return 0;
}
