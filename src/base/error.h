/* SPDX-License-Identifier: Apache-2.0 */
/* How our own code fills a struct cell_error. Set once where the failure happens; outer layers only
 * prefix. */
#pragma once
#include "cell/error.h"

/* Fill *err (may be NULL) and return -sys_errno, or a fitting negative errno when sys_errno is 0.
 * strerror(sys_errno) is appended to the message. Quote untrusted text: '%s'. */
int cell_fail(struct cell_error *err, enum cell_code code, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), cold));

/* Like cell_fail, choosing the code from sys_errno: ENOENT is not_found, ENOSPC is no_space ... */
int cell_fail_errno(struct cell_error *err, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));

/* Put "prefix: " before the message; returns ret. */
int cell_error_prefix(struct cell_error *err, int ret, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));

/* Say what would help; returns ret so that it can end a return statement. */
int cell_error_hint(struct cell_error *err, int ret, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));

/* What words in somebody else's refusal are known to mean. CELL_OK, NULL: nothing beyond what is said already. */
struct cell_known_words {
	const char *words;
	enum cell_code code;
	const char *hint;
};
/* The last of the table (which ends with NULL words) that is in `said` says what the error is and what would help. Returns ret, or
 * what that code is as a negative errno. */
int cell_error_known(struct cell_error *err, int ret, const char *said,
	const struct cell_known_words *table);

enum cell_code cell_code_from_errno(int sys_errno);
int cell_code_to_errno(enum cell_code code);

#ifdef __clang_analyzer__
/* Tell the analyzer what these return, or it follows paths where a failure looks like success. */
static inline int cell_negative(int r)
{
	if (r >= 0)
		__builtin_unreachable();
	return r;
}
#define cell_fail(...)	     cell_negative(cell_fail(__VA_ARGS__))
#define cell_fail_errno(...) cell_negative(cell_fail_errno(__VA_ARGS__))
#define cell_error_prefix(err, r, ...)                         \
	({                                                     \
		int r_ = (r);                                  \
		(void)cell_error_prefix(err, r_, __VA_ARGS__); \
		r_;                                            \
	})
#define cell_error_hint(err, r, ...)                         \
	({                                                   \
		int r_ = (r);                                \
		(void)cell_error_hint(err, r_, __VA_ARGS__); \
		r_;                                          \
	})
#endif
