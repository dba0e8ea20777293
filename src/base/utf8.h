/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h: where characters end in bytes of unknown origin, and which of them a reader must not be shown as they are. UTF-8 is what Unicode
 * says: no overlong forms, no surrogates, nothing past U+10FFFF. libc only.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The character at p, of which n > 0 bytes are there: its length, 0 when it may be one but its end is not there, -1 when none begins so. */
int utf8_next(const void *p, size_t n);
bool utf8_is_valid(const void *p, size_t n);

/* The number of the character at p; len is what utf8_next() said. */
unsigned utf8_number(const void *p, int len);

/* What a terminal may obey (control characters, also those from U+0080 on), or what changes how the text around it looks without being seen:
 * order of reading, ends of lines, marks without width. Joiners are none of these: emoji and some scripts are written with them. */
bool utf8_is_hidden(unsigned number);
