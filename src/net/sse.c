/* SPDX-License-Identifier: Apache-2.0 */
#include "net/sse.h"

#include <errno.h>
#include <string.h>

static int add_field(struct buf *b, const char *name, const char *value)
{
	if (!value)
		return 0;
	if (strpbrk(value, "\r\n"))
		return -EINVAL;
	return buf_addf(b, "%s: %s\n", name, value);
}

/* Where the line at s ends, and how many bytes its line end has (0: there is none). */
static size_t line_len(const char *s, size_t n, size_t *ret_end)
{
	size_t i = 0;

	while (i < n && s[i] != '\n' && s[i] != '\r')
		i++;
	*ret_end = i == n ? 0 : s[i] == '\r' && i + 1 < n && s[i + 1] == '\n' ? 2 : 1;
	return i;
}

int sse_event(struct buf *b, const char *id, const char *event, const char *data, size_t len)
{
	size_t start = b->len, end;
	int r = memchr(data ? data : "", '\0', data ? len : 0) ? -EINVAL : 0;

	r = r ? r : add_field(b, "id", id);
	r = r ? r : add_field(b, "event", event);
	do {
		size_t n = line_len(data, len, &end);
		r = r ? r : buf_addz(b, "data: ");
		r = r ? r : n ? buf_add(b, data, n) : 0;
		r = r ? r : buf_addc(b, '\n');
		data += n + end;
		len -= n + end;
	} while (end > 0 && r == 0);
	r = r ? r : buf_addc(b, '\n');
	if (r < 0)
		b->len = start; /* all of it or nothing */
	return r;
}

int sse_comment(struct buf *b, const char *text)
{
	return strpbrk(text, "\r\n") ? -EINVAL : buf_addf(b, ": %s\n\n", text);
}
