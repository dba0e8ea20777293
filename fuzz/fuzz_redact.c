/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_redact.c: any text; a second pass must find nothing that could grow without end. */
#include <stdlib.h>
#include <string.h>

#include "server/redact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf struct buf once = BUF_INIT(4 * size + 64), twice = BUF_INIT(16 * size + 256);
	char *text = strndup((const char *)data, size);

	if (!text)
		return 0;
	if (redact_text(NULL, text, &once) < 0 || redact_text(NULL, buf_str(&once), &twice) < 0)
		abort();
	free(text);
	return 0;
}
