/* SPDX-License-Identifier: Apache-2.0 */
#include "attempt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)fputc('\n', stdout);
	(void)fflush(stdout);
}

enum result outcome(long r)
{
	if (r >= 0)
		return DID_IT;
	say("%s", strerror(errno));
	return errno == ENOSYS || errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT ||
			       errno == ENODEV || errno == EOPNOTSUPP
		       ? CANNOT
		       : REFUSED;
}

int main(int argc, char **argv)
{
	const struct attempt *const all[] = {
		attempts_files, attempts_kernel, attempts_limits, attempts_net, attempts_shared};

	for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
		for (const struct attempt *a = all[i]; a->name; a++)
			if (!strcmp(a->name, argv[1]))
				return a->fn(argc > 2 ? argv[2] : "");
	(void)fprintf(stderr, "attempt: no '%s'\n", argc > 1 ? argv[1] : "");
	return 2;
}
