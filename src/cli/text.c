/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: bytes of unknown origin made fit for a terminal or for JSON. */
#include "cli/text.h"

#include <errno.h>
#include <string.h>

#include "base/utf8.h"

static int show_byte(uint8_t c, struct buf *out)
{
	if (c < 0x20 || c == 0x7f) {
		char text[2] = {'^', (char)(c ^ 0x40)};
		return buf_add(out, text, 2);
	}
	if (c >= 0x80)
		return buf_addf(out, "\\x%02x", c);
	return buf_addc(out, (char)c);
}

static int show_bytes(const uint8_t *p, size_t n, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = show_byte(p[i], out);
	return r;
}

/* An escape sequence at p: its length when it is whole and harmless, 0 when more bytes are needed
 * to tell, -1 when it is not to pass. */
static int escape_next(const uint8_t *p, size_t n, bool *is_style)
{
	if (n < 2)
		return 0;
	if (p[1] != '[')
		return -1;
	for (size_t i = 2; i < n; i++) {
		if ((p[i] >= '0' && p[i] <= '9') || p[i] == ';' || p[i] == ':')
			continue;
		*is_style = p[i] == 'm';
		return p[i] == 'm' || p[i] == 'K' ? (int)i + 1 : -1;
	}
	return 0;
}

/* "ESC [ m" and "ESC [ 0 m" switch everything off. */
static bool is_reset(const uint8_t *p, int len)
{
	return len == 3 || (len == 4 && p[2] == '0');
}

/* Takes one unit (a character or a sequence) from the n bytes at p. Returns how many bytes it took,
 * 0 when the unit is not whole, negative errno. */
static int take_unit(struct cli_neutral *s, const uint8_t *p, size_t n, struct buf *out)
{
	bool is_style = false;
	int len, r;

	if (p[0] == 0x1b) {
		len = escape_next(p, n, &is_style);
		if (len == 0 && n < sizeof(s->held))
			return 0;
		if (len <= 0) {
			r = show_byte(p[0], out);
			return r < 0 ? r : 1;
		}
		if (is_style)
			s->is_styled = !is_reset(p, len);
		r = buf_add(out, p, (size_t)len);
		return r < 0 ? r : len;
	}
	if (p[0] < 0x80) {
		bool is_plain = (p[0] >= 0x20 && p[0] != 0x7f) || strchr("\t\n\r", p[0]);
		r = is_plain && p[0] ? buf_add(out, p, 1) : show_byte(p[0], out);
		return r < 0 ? r : 1;
	}
	len = utf8_next(p, n);
	if (len == 0)
		return 0;
	if (len < 0) {
		r = show_byte(p[0], out);
		return r < 0 ? r : 1;
	}
	/* U+0080 to U+009F are control characters too: some terminals obey them. */
	r = p[0] == 0xc2 && p[1] < 0xa0 ? show_bytes(p, 2, out) : buf_add(out, p, (size_t)len);
	return r < 0 ? r : len;
}

/* Length of the run at p that passes as it is. */
static size_t plain_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && ((p[i] >= 0x20 && p[i] < 0x7f) || p[i] == '\n' || p[i] == '\t'))
		i++;
	return i;
}

int cli_neutral_feed(struct cli_neutral *s, const void *bytes, size_t n, struct buf *out)
{
	const uint8_t *p = bytes;

	while (n) {
		size_t had = s->n_held, run;
		int r;
		if (!had) {
			run = plain_run(p, n);
			if (run && (r = buf_add(out, p, run)) < 0)
				return r;
			p += run;
			n -= run;
			if (!n)
				break;
			r = take_unit(s, p, n, out);
			if (r < 0)
				return r;
			if (r == 0) {
				memcpy(s->held, p, n);
				s->n_held = n;
				break;
			}
			p += r;
			n -= (size_t)r;
			continue;
		}
		s->held[s->n_held++] = *p++;
		n--;
		while (s->n_held && (r = take_unit(s, s->held, s->n_held, out)) != 0) {
			if (r < 0)
				return r;
			s->n_held -= (size_t)r;
			memmove(s->held, s->held + r, s->n_held);
		}
	}
	return 0;
}

int cli_neutral_end(struct cli_neutral *s, struct buf *out)
{
	int r = show_bytes(s->held, s->n_held, out);

	s->n_held = 0;
	if (r == 0 && s->is_styled)
		r = buf_addz(out, "\x1b[0m");
	s->is_styled = false;
	return r;
}

int cli_visible(const void *bytes, size_t n, struct buf *out)
{
	const uint8_t *p = bytes;

	while (n) {
		int len = utf8_next(p, n), r;
		bool is_shown = len > 0 && !utf8_is_hidden(utf8_number(p, len));
		len = len > 0 ? len : 1;
		if (is_shown)
			r = buf_add(out, p, (size_t)len);
		else if (p[0] == '\n')
			r = buf_addz(out, "\\n");
		else if (p[0] == '\t')
			r = buf_addz(out, "\\t");
		else
			r = show_bytes(p, (size_t)len, out);
		if (r < 0)
			return r;
		p += len;
		n -= (size_t)len;
	}
	return 0;
}

bool cli_is_visible(const char *s)
{
	size_t n = strlen(s);

	for (int len; n; s += len, n -= (size_t)len) {
		len = utf8_next(s, n);
		if (len <= 0 || utf8_is_hidden(utf8_number(s, len)))
			return false;
	}
	return true;
}

int cli_visible_json(const char *text, size_t n, struct buf *out)
{
	int r = 0;

	for (int len; n && r == 0; text += len, n -= (size_t)len) {
		len = utf8_next(text, n);
		unsigned number = len > 0 ? utf8_number(text, len) : 0xfffd;
		bool is_shown = len > 0 && (!utf8_is_hidden(number) || number < 0x20);
		len = len > 0 ? len : 1;
		if (is_shown) /* control characters below are blanks between values: JSON has no others */
			r = buf_add(out, text, (size_t)len);
		else if (number > 0xffff)
			r = buf_addf(out, "\\u%04x\\u%04x", 0xd7c0 + (number >> 10),
				0xdc00 + (number & 0x3ff));
		else
			r = buf_addf(out, "\\u%04x", number);
	}
	return r;
}

int cli_base64(const void *bytes, size_t n, struct buf *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = bytes;
	int r = buf_reserve(out, (n + 2) / 3 * 4 + 1);

	for (size_t i = 0; i < n && r == 0; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16;
		v |= i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0;
		v |= i + 2 < n ? p[i + 2] : 0;
		char group[4] = {digits[v >> 18], digits[v >> 12 & 63],
			i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '='};
		r = buf_add(out, group, 4);
	}
	return r;
}
