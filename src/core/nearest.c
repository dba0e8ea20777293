/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c: edit distance between short words (insert, delete, replace, swap of neighbours). */
#include "core/nearest.h"

#include <string.h>

#define WORD_MAX 48

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

static size_t distance(const char *a, size_t la, const char *b, size_t lb)
{
	size_t d[3][WORD_MAX + 1];

	for (size_t j = 0; j <= lb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *row = d[i % 3], *above = d[(i - 1) % 3], *above2 = d[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				above2[j - 2] + 1 < row[j])
				row[j] = above2[j - 2] + 1;
		}
	}
	return d[la % 3][lb];
}

const char *cell_nearest(const char *word, const char *candidate, const char *best,
	size_t *best_distance)
{
	size_t la = strnlen(word, WORD_MAX + 1), lb = strnlen(candidate, WORD_MAX + 1);

	if (!la || !lb || la > WORD_MAX || lb > WORD_MAX)
		return best;
	size_t d = distance(word, la, candidate, lb);
	size_t slip = (la > lb ? la : lb) / 3 + 1;
	if (d > slip || d >= lb || d >= *best_distance)
		return best;
	*best_distance = d;
	return candidate;
}
