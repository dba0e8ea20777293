/* SPDX-License-Identifier: Apache-2.0 */
/* complete.h: what could come next on a command line. The shells' scripts only ask and show. */
#pragma once
#include <stddef.h>

#include "cli/cli.h"

/* One candidate and a word about it ("" when there is nothing to say). */
typedef void (*cli_candidate_fn)(const char *word, const char *about, void *user);

/* Candidates for the last of the n words that follow "cell" (n > 0; it may be empty). The
 * candidates
 * ":files" and ":directories" ask the shell for its own completion. */
void cli_complete(const struct cli_verb *const *verbs, const char *const *words, size_t n,
	cli_candidate_fn fn, void *user);
