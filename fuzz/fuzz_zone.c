/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_zone.c: TZif files. What is accepted answers for any moment. */
#include <stdlib.h>

#include "server/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_zone struct zone *z = NULL;

	if (size > ZONE_FILE_MAX || zone_parse(data, size, &z) < 0)
		return 0;
	for (int64_t s = -5000000000; s < 20000000000; s += 987654321) {
		int64_t at[2];
		int32_t offset = zone_offset(z, s);
		if (offset < -26 * 3600 - 86400 || offset > 26 * 3600 + 86400)
			abort();
		int n = zone_moments(z, s, at);
		if (n < 0 || n > 2)
			abort();
		for (int i = 0; i < n; i++)
			if (at[i] + zone_offset(z, at[i]) != s)
				abort();
	}
	return 0;
}
