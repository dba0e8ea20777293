/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_glob.c: patterns from outside, as globs and as regular expressions. The input is a pattern, a
 * NUL and a text. Besides not failing, a glob without anything special must match itself and
 * nothing else, and an expression must not care in what pieces the text comes.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/ere.h"
#include "base/globmatch.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ere(const char *pattern, unsigned flags, const char *text, size_t n)
{
	struct ere *e = NULL;
	const char *why = NULL;
	int r = ere_new(pattern, flags, &e, &why);

	MUST(r == 0 || (r == -EINVAL && why));
	if (r < 0)
		return;
	(void)ere_feed(e, text, n);
	bool is_match = ere_end(e);
	ere_begin(e);
	for (size_t i = 0; i < n; i++)
		(void)ere_feed(e, text + i, 1);
	MUST(ere_end(e) == is_match);
	if (flags == ERE_FIXED)
		MUST(is_match == (memmem(text, n, pattern, strlen(pattern)) != NULL));
	ere_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct globmatch *g = NULL;
	size_t n = strnlen((const char *)data, size);
	auto_free char *pattern = strndup((const char *)data, size);
	auto_free char *path =
		n < size ? strndup((const char *)data + n + 1, size - n - 1) : strdup("");

	MUST(pattern && path);
	for (unsigned flags = 0; flags <= (ERE_FIXED | ERE_NO_CASE); flags++)
		check_ere(pattern, flags, path, strlen(path));
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
