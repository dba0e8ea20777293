/* SPDX-License-Identifier: Apache-2.0 */
/* page.h: a page of a simple index, as HTML (PEP 503) or JSON (PEP 691): the files it names. Foreign text. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "cell/error.h"

/* Strings are valid during the callback. */
struct page_file {
	const char *filename;
	const char *url;  /* absolute */
	const char *hash; /* SHA-256 in hex, or "" */
	const char *requires_python;
	bool is_yanked;
};
typedef int (*page_fn)(const struct page_file *f, void *user);
/* type: the content type. url: where the page is, for relative links. */
int page_read(const char *text, size_t len, const char *type, const char *url, page_fn fn,
	void *user, struct cell_error *err);
/* A link as it stands on a page, made absolute; the caller's. NULL: no memory, or no http(s) link. */
char *page_join(const char *base, const char *link);
