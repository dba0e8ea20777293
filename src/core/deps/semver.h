/* SPDX-License-Identifier: Apache-2.0 */
/* semver.h: versions of JavaScript packages, and what `^1.2 || >=3 <4` says of them, as npm reads it. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct semver {
	uint64_t n[3];
	char pre[64]; /* "beta.2"; "" for none */
};

/* Exactly x.y.z, with -pre and +build or without. */
bool semver_parse(const char *text, struct semver *ret);
int semver_compare(const struct semver *a, const struct semver *b); /* -1, 0, 1 */
bool semver_range_is_valid(const char *range);
/* A pre-release fits only where one of the same numbers is named. */
bool semver_allows(const char *range, const char *version);
