/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: filling and naming errors. Nothing here allocates. */
#include "base/error.h"

#undef cell_fail
#undef cell_fail_errno
#undef cell_error_prefix
#undef cell_error_hint

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int sys_errno;
} codes[CELL_CODE_COUNT] = {
	[CELL_OK] = {"ok", 0},
	[CELL_EINVAL] = {"invalid", EINVAL},
	[CELL_EDENIED] = {"denied", EPERM},
	[CELL_ENOTFOUND] = {"not_found", ENOENT},
	[CELL_EEXISTS] = {"exists", EEXIST},
	[CELL_EBUSY] = {"busy", EBUSY},
	[CELL_ETIMEOUT] = {"timeout", ETIMEDOUT},
	[CELL_ENOTSUP] = {"not_supported", EOPNOTSUPP},
	[CELL_EBACKEND] = {"backend", EIO},
	[CELL_EINTERNAL] = {"internal", EIO},
	[CELL_EGONE] = {"gone", EPIPE},
	[CELL_ELIMIT] = {"limit", EDQUOT},
	[CELL_ENOSPACE] = {"no_space", ENOSPC},
	[CELL_EPROTOCOL] = {"protocol", EPROTO},
};

const char *cell_code_name(enum cell_code code)
{
	return (unsigned)code < CELL_CODE_COUNT ? codes[code].name : "unknown";
}

int cell_code_to_errno(enum cell_code code)
{
	return (unsigned)code < CELL_CODE_COUNT && codes[code].sys_errno ? codes[code].sys_errno
									 : EIO;
}

enum cell_code cell_code_from_errno(int sys_errno)
{
	switch (sys_errno) {
	case EINVAL:
	case ENAMETOOLONG:
	case ENOTDIR:
	case EISDIR:
	case ENOTEMPTY:
	case E2BIG:
	case EILSEQ:
		return CELL_EINVAL;
	case EPERM:
	case EACCES:
	case EROFS:
	case EXDEV:
	case ELOOP:
		return CELL_EDENIED;
	case ENOENT:
	case ESRCH:
		return CELL_ENOTFOUND;
	case EEXIST:
		return CELL_EEXISTS;
	case EBUSY:
	case ETXTBSY:
		return CELL_EBUSY;
	case ETIMEDOUT:
		return CELL_ETIMEOUT;
	case EOPNOTSUPP:
	case ENOSYS:
		return CELL_ENOTSUP;
	case EPIPE:
	case ECONNRESET:
	case ECONNREFUSED:
		return CELL_EGONE;
	case EDQUOT:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
	case EFBIG:
		return CELL_ELIMIT;
	case ENOSPC:
	case ENOMEM:
		return CELL_ENOSPACE;
	case EPROTO:
	case EBADMSG:
		return CELL_EPROTOCOL;
	default:
		return CELL_EBACKEND;
	}
}

__attribute__((format(printf, 4, 0))) static void fill(struct cell_error *err, enum cell_code code,
	int sys_errno, const char *fmt, va_list ap)
{
	err->code = code;
	err->sys_errno = sys_errno;
	err->hint[0] = '\0';
	err->backend[0] = '\0';
	int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	if (sys_errno && n >= 0 && (size_t)n < sizeof err->msg)
		(void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s",
			strerror(sys_errno));
}

int cell_fail(struct cell_error *err, enum cell_code code, int sys_errno, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		fill(err, code, sys_errno, fmt, ap);
		va_end(ap);
	}
	return -(sys_errno ? sys_errno : cell_code_to_errno(code));
}

int cell_fail_errno(struct cell_error *err, int sys_errno, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		fill(err, cell_code_from_errno(sys_errno), sys_errno, fmt, ap);
		va_end(ap);
	}
	return sys_errno ? -sys_errno : -EIO;
}

int cell_error_prefix(struct cell_error *err, int ret, const char *fmt, ...)
{
	if (err) {
		char old[sizeof err->msg];
		va_list ap;

		memcpy(old, err->msg, sizeof old);
		va_start(ap, fmt);
		int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
		va_end(ap);
		if (n >= 0 && (size_t)n < sizeof err->msg)
			(void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %.*s",
				(int)sizeof old - 1, old);
	}
	return ret;
}

int cell_error_hint(struct cell_error *err, int ret, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		(void)vsnprintf(err->hint, sizeof err->hint, fmt, ap);
		va_end(ap);
	}
	return ret;
}

int cell_error_known(struct cell_error *err, int ret, const char *said,
	const struct cell_known_words *table)
{
	for (; table->words; table++) {
		if (!strstr(said, table->words))
			continue;
		if (table->hint)
			(void)cell_error_hint(err, ret, "%s", table->hint);
		if (table->code && err)
			err->code = table->code;
		if (table->code)
			ret = -cell_code_to_errno(table->code);
	}
	return ret;
}
