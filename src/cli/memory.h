/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: allocation that cannot fail. A command-line program without memory has nothing better
 * to do than to say so and stop; the library underneath reports it instead. */
#pragma once
#include <stddef.h>

/* Never NULL; the process ends with exit code 125 when memory is out. */
void *cli_calloc(size_t n, size_t size);
void *cli_realloc(void *p, size_t n, size_t size);
char *cli_strdup(const char *s);
char *cli_strndup(const char *s, size_t n);
char *cli_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
