/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json_at.h"

#include <stdlib.h>
#include <string.h>

const json_t *json_at(const json_t *j, const char *path)
{
	while (j && *path) {
		size_t n = strcspn(path, "/");
		char key[128];

		if (n >= sizeof key)
			return NULL;
		memcpy(key, path, n);
		key[n] = '\0';
		j = json_is_array(j) ? json_array_get(j, strtoul(key, NULL, 10))
				     : json_object_get(j, key);
		path += n + (path[n] == '/');
	}
	return j;
}

const char *json_text_at(const json_t *j, const char *path)
{
	return json_string_value(json_at(j, path));
}

uint64_t json_count_at(const json_t *j, const char *path)
{
	json_int_t n = json_integer_value(json_at(j, path));

	return n > 0 ? (uint64_t)n : 0;
}

bool json_is_true_at(const json_t *j, const char *path)
{
	return json_is_true(json_at(j, path));
}
