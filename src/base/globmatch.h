/* SPDX-License-Identifier: Apache-2.0 */
/*
 * globmatch.h: does a path match a pattern?
 *
 *	?	one character (a UTF-8 sequence counts as one), not '/'
 *	*	any number of bytes but '/'
 *	**	any bytes, '/' too; "**" + "/" also matches nothing, so "**" "/a" matches "a"
 *	[a-z]	one byte of a set, [!a] or [^a] of its complement; never '/'
 *	{a,b}	either; may be nested
 *	\c	the byte c itself
 *
 * Names beginning with a dot are names like any other. A bracket or brace without its partner
 * stands for itself. The pattern becomes a small automaton, so matching takes time proportional to
 * pattern length times path length, whatever the pattern. libc only.
 */
#pragma once
#include <stdbool.h>

#define GLOBMATCH_MAX_PATTERN 4096
#define GLOBMATCH_MAX_NESTING 32

struct globmatch;

/* -EINVAL for an empty pattern or braces nested too deep, -ENAMETOOLONG, -ENOMEM. */
int globmatch_new(const char *pattern, struct globmatch **ret);
/* Not thread-safe: the automaton's working memory belongs to the pattern. */
bool globmatch_test(struct globmatch *g, const char *path);
/* How many directories deep (1: a name without a slash) a match can lie; 0: any. */
unsigned globmatch_depth(const struct globmatch *g);
void globmatch_free(struct globmatch *g);
