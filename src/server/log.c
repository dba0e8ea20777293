/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: the server's log: one line an event on stderr, where systemd and containers look for it. Untrusted text is quoted,
 * so that no request can forge a line, nor move the terminal of who watches it. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "server/clock.h"
#include "server/server.h"

#define LINE_MAX_BYTES 8192u
#define VALUE_MAX      1024

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
	for (size_t n = strnlen(s, VALUE_MAX), taken; n; s += taken, n -= taken) {
		int len = utf8_next(s, n);
		bool is_shown = len > 0 && !utf8_is_hidden(utf8_number(s, len));
		taken = len > 0 ? (size_t)len : 1;
		if (*s == '"' || *s == '\\')
			(void)buf_addf(b, "\\%c", *s);
		else if (is_shown)
			(void)buf_add(b, s, taken);
		for (size_t i = 0; !is_shown && i < taken; i++)
			(void)buf_addf(b, "\\x%02x", (unsigned char)s[i]);
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
