/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: the server's log: one line an event on stderr, where systemd and containers look for it. Untrusted text is quoted,
 * so that no request can forge a line. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "server/clock.h"
#include "server/server.h"

#define LINE_MAX_BYTES 8192u

static enum log_level lowest = LOG_INFO;

void log_set_level(enum log_level level)
{
	lowest = level;
}

bool log_is_wanted(enum log_level level)
{
	return level >= lowest;
}

static bool is_plain(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == '"' || *s == '=' || *s == '\\' ||
			(unsigned char)*s >= 0x7f)
			return false;
	return true;
}

static void put_value(struct buf *b, const char *s)
{
	if (is_plain(s)) {
		(void)buf_addz(b, s);
		return;
	}
	(void)buf_addc(b, '"');
	for (size_t n = 0; *s && n < 1024; s++, n++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			(void)buf_addf(b, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			(void)buf_addf(b, "\\x%02x", c);
		else
			(void)buf_addc(b, (char)c);
	}
	(void)buf_addc(b, '"');
}

void log_event(enum log_level level, const char *event, ...)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	auto_buf struct buf b = BUF_INIT(LINE_MAX_BYTES);
	char when[CLOCK_TEXT_MAX];
	const char *key;
	va_list ap;

	if (level < lowest)
		return;
	(void)buf_addf(&b, "time=%s level=%s event=%s", clock_text(clock_unix_ns(), when),
		names[level], event);
	va_start(ap, event);
	while ((key = va_arg(ap, const char *))) {
		const char *value = va_arg(ap, const char *);
		if (!value)
			continue;
		(void)buf_addf(&b, " %s=", key);
		put_value(&b, value);
	}
	va_end(ap);
	(void)buf_addc(&b, '\n');
	(void)!write(STDERR_FILENO, b.data, b.len);
}

void log_failure(const char *event, const struct cell_error *err, const char *about)
{
	log_event(LOG_WARN, event, "about", about, "code", cell_code_name(err->code), "error",
		err->msg, "hint", err->hint[0] ? err->hint : NULL, NULL);
}
