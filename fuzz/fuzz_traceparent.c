/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_traceparent.c: the header. What is accepted of version 00 is written back as it was, but
 * for unknown flags. */
#include <stdlib.h>
#include <string.h>

#include "server/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_context c;
	char text[TRACEPARENT_MAX];

	if (trace_parse((const char *)data, size, &c) < 0)
		return 0;
	trace_format(&c, text);
	if (memcmp(text + 3, data + 3, 50) != 0)
		abort();
	if (trace_parse(text, strlen(text), &c) < 0)
		abort();
	return 0;
}
