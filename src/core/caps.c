/* SPDX-License-Identifier: Apache-2.0 */
/* caps.c: the words and meanings of the capabilities. The list itself is in cell/caps.h. */
#include "cell/caps.h"

#include <string.h>

static const struct {
	const char *word;
	const char *meaning;
} caps[CELL_CAP_COUNT] = {
#define X(name, word, meaning) [CELL_CAP_##name] = {word, meaning},
	CELL_CAPS(X)
#undef X
};

_Static_assert(CELL_CAP_COUNT <= 64, "a set of capabilities is 64 bits");

const char *cell_cap_name(enum cell_cap cap)
{
	return (unsigned)cap < CELL_CAP_COUNT ? caps[cap].word : NULL;
}

const char *cell_cap_meaning(enum cell_cap cap)
{
	return (unsigned)cap < CELL_CAP_COUNT ? caps[cap].meaning : NULL;
}

int cell_cap_find(const char *word)
{
	for (int i = 0; i < CELL_CAP_COUNT; i++)
		if (!strcmp(caps[i].word, word))
			return i;
	return -1;
}
