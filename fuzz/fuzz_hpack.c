/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hpack: a header block, or a protocol buffer, of a hostile service. What they tell lies in what they were given. */
#include <stdlib.h>
#include <string.h>

#include "net/hpack.h"
#include "net/protobuf.h"

static int field(void *user, const char *name, const char *value)
{
	(void)user;
	if (strlen(name) >= HPACK_NAME_MAX || strlen(value) >= HPACK_VALUE_MAX)
		abort();
	return 0;
}

static void walk(const uint8_t *p, size_t n, int depth)
{
	struct pb_reader r = pb_read(p, n);
	struct pb_field f;
	char text[16];

	while (pb_next(&r, &f)) {
		if (f.data && (f.data < p || f.data + f.size > p + n))
			abort();
		pb_text(&f, text, sizeof text);
		if (f.data && depth < 4)
			walk(f.data, f.size, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 65536)
		return 0;
	(void)hpack_decode(data, size, field, NULL);
	walk(data, size, 0);
	return 0;
}
