/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c: the wrapped allocation functions; see alloc.h. For one thread. */
#include "torture/alloc.h"

#include <errno.h>
#include <stddef.h>

static bool is_armed, is_lasting_failure;
static unsigned long count, fail_at;

void torture_arm(unsigned long nth, bool is_lasting)
{
	count = 0;
	fail_at = nth;
	is_lasting_failure = is_lasting;
	is_armed = true;
}

unsigned long torture_disarm(void)
{
	is_armed = false;
	return count;
}

static bool fails(void)
{
	if (!is_armed)
		return false;
	count++;
	if (!fail_at || (is_lasting_failure ? count < fail_at : count != fail_at))
		return false;
	errno = ENOMEM;
	return true;
}

#define WRAP(name, params, args)                            \
	void *__real_##name params;                         \
	void *__wrap_##name params;                         \
	void *__wrap_##name params                          \
	{                                                   \
		return fails() ? NULL : __real_##name args; \
	}

WRAP(malloc, (size_t n), (n))
WRAP(calloc, (size_t n, size_t size), (n, size))
WRAP(realloc, (void *p, size_t n), (p, n))
WRAP(reallocarray, (void *p, size_t n, size_t size), (p, n, size))
WRAP(strdup, (const char *s), (s))
WRAP(strndup, (const char *s, size_t n), (s, n))
