/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h: "did you mean". */
#pragma once
#include <stddef.h>

/* The candidate closest to `word` when it is close enough to be a slip of the finger, else NULL.
 * Call once for each candidate with *best_distance starting at NEAREST_START. */
#define NEAREST_START ((size_t)-1)
const char *cell_nearest(const char *word, const char *candidate, const char *best,
	size_t *best_distance);
