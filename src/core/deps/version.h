/* SPDX-License-Identifier: Apache-2.0 */
/* version.h: versions of Python packages, their order, and what `>=1.2,!=1.5.*` says of them (PEP 440). Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERSION_PARTS_MAX 16
#define VERSION_TEXT_MAX  128

struct version {
	uint64_t epoch, release[VERSION_PARTS_MAX];
	size_t n_release;
	int pre; /* 0: none; 'a', 'b', 'c' (rc) */
	uint64_t pre_n, post_n, dev_n;
	bool has_post, has_dev;
	char local[64]; /* "" when none; lower case, with dots */
};

/* All of the text is one version; false: it is none. */
bool version_parse(const char *text, struct version *ret);
/* -1, 0, 1 */
int version_compare(const struct version *a, const struct version *b);
bool version_is_pre(const struct version *v); /* an alpha, beta, candidate or development version */
/* As everybody writes it: "1.0.post1". */
const char *version_text(const struct version *v, char ret[VERSION_TEXT_MAX]);

/* "" or ">=1.2, <2, !=1.5.*": is it one, and does the version fit? What cannot be read fits nothing. */
bool specifiers_are_valid(const char *text);
bool specifiers_allow(const char *text, const char *version);
/* Does one of them name a pre-release, which then may be taken? */
bool specifiers_want_pre(const char *text);
/* Exactly one version: "==1.2"; no wildcard. */
bool specifiers_are_exact(const char *text);
