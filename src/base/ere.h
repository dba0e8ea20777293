/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ere.h: does a line match a regular expression? POSIX extended syntax:
 *
 *	. [a-z] [^a] [[:alpha:]]  ( )  |  * + ? {m} {m,} {m,n}  ^ $
 *	\w \W \d \D \s \S  \b \B \< \>  \t \r  and \ before anything else quotes it
 *
 * No back-references. It answers yes or no, in time proportional to the line whatever the expression,
 * and takes the line in pieces of any size; NUL is a byte like any other. Bytes are what is matched:
 * '.' takes a UTF-8 sequence whole, but sets and {} count bytes, and only ASCII letters have
 * another case. In the guest this takes a tenth of what the C library's matcher does. libc only.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define ERE_MAX_PATTERN 4096
#define ERE_MAX_PROGRAM 8192 /* steps, after {m,n} are written out */
#define ERE_MAX_REPEAT	1000
#define ERE_MAX_NESTING 100

enum ere_flags {
	ERE_FIXED = 1 << 0, /* plain text, nothing is special */
	ERE_NO_CASE = 1 << 1,
};

struct ere;

/* -EINVAL with *why when it is no expression or too large a one, -ENOMEM. */
int ere_new(const char *pattern, unsigned flags, struct ere **ret, const char **why);
void ere_free(struct ere *e);

/* A line: begin, feed its bytes, end. Feeding returns true when the line matches whatever may follow;
 * the rest need not be fed then. ere_end tells whether the line as fed matches. */
void ere_begin(struct ere *e);
bool ere_feed(struct ere *e, const void *p, size_t n);
bool ere_end(struct ere *e);
