/* SPDX-License-Identifier: Apache-2.0 */
/* text_json.c: see text_json.h. */
#include "server/text_json.h"

#include <string.h>

json_t *text_json(const char *s)
{
	char clean[1024];
	json_t *j = strlen(s) < sizeof clean ? json_string(s) : NULL;
	size_t n = 0;

	if (j)
		return j;
	for (; n < sizeof clean - 1 && s[n]; n++)
		clean[n] = (char)((s[n] & 0x80) ? '?' : s[n]);
	clean[n] = '\0';
	return json_string(clean);
}
