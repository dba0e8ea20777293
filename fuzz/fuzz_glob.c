/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_glob.c: patterns from outside. The input is a pattern, a NUL and a path. Besides not failing, a
 * pattern without anything special must match itself and nothing else.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/globmatch.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct globmatch *g = NULL;
	size_t n = strnlen((const char *)data, size);
	auto_free char *pattern = strndup((const char *)data, size);
	auto_free char *path =
		n < size ? strndup((const char *)data + n + 1, size - n - 1) : strdup("");

	MUST(pattern && path);
	if (globmatch_new(pattern, &g) < 0)
		return 0;
	bool is_match = globmatch_test(g, path);
	MUST(globmatch_test(g, path) == is_match);
	if (!strpbrk(pattern, "*?[{}\\,]")) {
		MUST(globmatch_test(g, pattern));
		MUST(is_match == (strcmp(pattern, path) == 0));
	}
	unsigned depth = 1;
	for (const char *p = path; *p; p++)
		depth += *p == '/';
	MUST(!is_match || globmatch_depth(g) == 0 || depth <= globmatch_depth(g));
	globmatch_free(g);
	return 0;
}
