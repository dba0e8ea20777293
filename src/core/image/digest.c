/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c: see digest.h. */
#include "core/image/digest.h"

#include <string.h>

void digest_init(struct digest *d)
{
	(void)SHA256_Init(&d->ctx);
}

void digest_add(struct digest *d, const void *p, size_t n)
{
	if (n)
		(void)SHA256_Update(&d->ctx, p, n);
}

void digest_hex(struct digest *d, char ret[DIGEST_HEX + 1])
{
	static const char hex[] = "0123456789abcdef";
	unsigned char raw[SHA256_DIGEST_LENGTH];

	(void)SHA256_Final(raw, &d->ctx);
	for (size_t i = 0; i < sizeof raw; i++) {
		ret[2 * i] = hex[raw[i] >> 4];
		ret[2 * i + 1] = hex[raw[i] & 15];
	}
	ret[DIGEST_HEX] = '\0';
}

bool digest_is_hex(const char *text)
{
	return strlen(text) == DIGEST_HEX && strspn(text, "0123456789abcdef") == DIGEST_HEX;
}

const char *digest_parse(const char *text)
{
	if (strncmp(text, "sha256:", 7) != 0 || !digest_is_hex(text + 7))
		return NULL;
	return text + 7;
}
