/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_reference.c: names of images and WWW-Authenticate headers. What is accepted as a name can stand in a URL. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "distribution/challenge.h"
#include "distribution/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reference r;
	struct challenge c;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (reference_parse(text, &r, NULL) == 0) {
		if (strpbrk(r.path, " %?#\r\n\"\\") || strstr(r.path, "..") ||
			strstr(r.path, "//") || r.path[0] == '/' || strpbrk(r.tag, " /%?#\r\n") ||
			strpbrk(r.host, " /@%?#\r\n"))
			abort();
		if (!*r.tag && !*r.digest)
			abort();
	}
	if (challenge_parse(text, &c) && c.is_bearer && !*c.realm)
		abort();
	free(text);
	return 0;
}
