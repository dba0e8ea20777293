/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocation that cannot fail. */
#include "cli/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void *checked(void *p)
{
	if (!p) {
		fputs("cell: out of memory\n", stderr);
		exit(CLI_EXIT_FAILED);
	}
	return p;
}

void *cli_calloc(size_t n, size_t size)
{
	return checked(calloc(n ? n : 1, size ? size : 1));
}

void *cli_realloc(void *p, size_t n, size_t size)
{
	return checked(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *cli_strdup(const char *s)
{
	return checked(strdup(s));
}

char *cli_strndup(const char *s, size_t n)
{
	return checked(strndup(s, n));
}

char *cli_format(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return checked(text);
}
