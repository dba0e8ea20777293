/* SPDX-License-Identifier: Apache-2.0 */
/* lineedit.c: see lineedit.h. */
#define _XOPEN_SOURCE 700 /* wcwidth */
#include "cli/code/lineedit.h"

#include <string.h>
#include <wchar.h>

#define CTRL(c) ((c)&0x1f)
#define ESC	0x1b
#define DEL	0x7f

void lineedit_init(struct lineedit *e)
{
	*e = (struct lineedit){.text = BUF_INIT(LINEEDIT_MAX), .killed = BUF_INIT(LINEEDIT_MAX)};
}

void lineedit_done(struct lineedit *e)
{
	buf_done(&e->text);
	buf_done(&e->killed);
}

const char *lineedit_text(const struct lineedit *e)
{
	return buf_str(&e->text);
}

static const uint8_t *bytes(const struct lineedit *e)
{
	return (const uint8_t *)buf_str(&e->text);
}

/* ---- places in the text ---- */

static bool is_inner(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

static size_t before(const struct lineedit *e, size_t at)
{
	if (at)
		at--;
	while (at && is_inner(bytes(e)[at]))
		at--;
	return at;
}

static size_t after(const struct lineedit *e, size_t at)
{
	if (at < e->text.len)
		at++;
	while (at < e->text.len && is_inner(bytes(e)[at]))
		at++;
	return at;
}

static size_t line_begin(const struct lineedit *e, size_t at)
{
	while (at && bytes(e)[at - 1] != '\n')
		at--;
	return at;
}

static size_t line_end(const struct lineedit *e, size_t at)
{
	while (at < e->text.len && bytes(e)[at] != '\n')
		at++;
	return at;
}

static bool is_word(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c >= 0x80;
}

static size_t word_left(const struct lineedit *e, size_t at)
{
	while (at && !is_word(bytes(e)[at - 1]))
		at--;
	while (at && is_word(bytes(e)[at - 1]))
		at--;
	return at;
}

static size_t word_right(const struct lineedit *e, size_t at)
{
	while (at < e->text.len && !is_word(bytes(e)[at]))
		at++;
	while (at < e->text.len && is_word(bytes(e)[at]))
		at++;
	return at;
}

bool lineedit_is_at_end(const struct lineedit *e)
{
	for (size_t i = e->cursor; i < e->text.len; i++)
		if (!strchr(" \t\n", bytes(e)[i]))
			return false;
	return true;
}

/* ---- changes ---- */

static void cut(struct lineedit *e, size_t from, size_t to)
{
	if (from >= to)
		return;
	memmove(e->text.data + from, e->text.data + to, e->text.len - to + 1);
	e->text.len -= to - from;
	e->cursor = from;
}

static void kill(struct lineedit *e, size_t from, size_t to)
{
	if (from >= to)
		return;
	buf_reset(&e->killed);
	(void)buf_add(&e->killed, bytes(e) + from, to - from);
	cut(e, from, to);
}

void lineedit_insert(struct lineedit *e, const char *p, size_t n)
{
	size_t tail = e->text.len - e->cursor;

	if (!n || buf_reserve(&e->text, n) < 0)
		return;
	/* added at the end first, so that the buffer keeps its own promises */
	(void)buf_add(&e->text, p, n);
	memmove(e->text.data + e->cursor + n, e->text.data + e->cursor, tail);
	memcpy(e->text.data + e->cursor, p, n);
	e->cursor += n;
}

void lineedit_set(struct lineedit *e, const char *text)
{
	buf_reset(&e->text);
	e->cursor = 0;
	if (buf_addz(&e->text, text) == 0)
		e->cursor = e->text.len;
}

void lineedit_replace(struct lineedit *e, size_t from, size_t to, const char *text)
{
	if (from > to || to > e->text.len)
		return;
	cut(e, from, to);
	e->cursor = from;
	lineedit_insert(e, text, strlen(text));
}

void lineedit_newline(struct lineedit *e, unsigned more)
{
	size_t from = line_begin(e, e->cursor), n = 0;
	char indent[256];

	while (from + n < e->cursor && n < sizeof(indent) - 1 &&
		(bytes(e)[from + n] == ' ' || bytes(e)[from + n] == '\t')) {
		indent[n] = (char)bytes(e)[from + n];
		n++;
	}
	lineedit_insert(e, "\n", 1);
	lineedit_insert(e, indent, n);
	while (more--)
		lineedit_insert(e, " ", 1);
}

/* ---- keys ---- */

static enum lineedit_wish vertical(struct lineedit *e, bool is_up)
{
	size_t begin = line_begin(e, e->cursor), end = line_end(e, e->cursor);
	size_t column = e->cursor - begin, to_begin, to_end;

	if (is_up ? begin == 0 : end == e->text.len)
		return is_up ? LINEEDIT_OLDER : LINEEDIT_NEWER;
	to_begin = is_up ? line_begin(e, begin - 1) : end + 1;
	to_end = line_end(e, to_begin);
	e->cursor = to_begin + column < to_end ? to_begin + column : to_end;
	while (e->cursor > to_begin && e->cursor < e->text.len && is_inner(bytes(e)[e->cursor]))
		e->cursor--;
	return LINEEDIT_MORE;
}

static enum lineedit_wish control(struct lineedit *e, uint8_t c)
{
	switch (c) {
	case '\r':
	case '\n':
		return LINEEDIT_ENTER;
	case '\t':
		return LINEEDIT_COMPLETE;
	case CTRL('A'):
		e->cursor = line_begin(e, e->cursor);
		break;
	case CTRL('E'):
		e->cursor = line_end(e, e->cursor);
		break;
	case CTRL('B'):
		e->cursor = before(e, e->cursor);
		break;
	case CTRL('F'):
		e->cursor = after(e, e->cursor);
		break;
	case CTRL('C'):
		return LINEEDIT_INTERRUPT;
	case CTRL('D'):
		if (!e->text.len)
			return LINEEDIT_EOF;
		cut(e, e->cursor, after(e, e->cursor));
		break;
	case CTRL('H'):
	case DEL:
		cut(e, before(e, e->cursor), e->cursor);
		break;
	case CTRL('K'): {
		size_t end = line_end(e, e->cursor);
		kill(e, e->cursor, end == e->cursor ? after(e, end) : end);
		break;
	}
	case CTRL('U'):
		kill(e, line_begin(e, e->cursor), e->cursor);
		break;
	case CTRL('W'):
		kill(e, word_left(e, e->cursor), e->cursor);
		break;
	case CTRL('Y'):
		lineedit_insert(e, buf_str(&e->killed), e->killed.len);
		break;
	case CTRL('P'):
		return LINEEDIT_OLDER;
	case CTRL('N'):
		return LINEEDIT_NEWER;
	case CTRL('L'):
		return LINEEDIT_CLEAR;
	case CTRL('R'):
		return LINEEDIT_SEARCH;
	case CTRL('Z'):
		return LINEEDIT_SUSPEND;
	default:
		break;
	}
	return LINEEDIT_MORE;
}

/* What the terminals of this world send for the keys we know. */
static enum lineedit_wish sequence(struct lineedit *e, const char *key)
{
	static const struct {
		const char *key;
		uint8_t as;
	} same[] = {{"[D", CTRL('B')}, {"[C", CTRL('F')}, {"OD", CTRL('B')}, {"OC", CTRL('F')},
		{"[H", CTRL('A')}, {"[F", CTRL('E')}, {"OH", CTRL('A')}, {"OF", CTRL('E')},
		{"[1~", CTRL('A')}, {"[4~", CTRL('E')}, {"[7~", CTRL('A')}, {"[8~", CTRL('E')}};

	for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
		if (!strcmp(key, same[i].key))
			return control(e, same[i].as);
	if (!strcmp(key, "[A") || !strcmp(key, "OA"))
		return vertical(e, true);
	if (!strcmp(key, "[B") || !strcmp(key, "OB"))
		return vertical(e, false);
	if (!strcmp(key, "[3~"))
		cut(e, e->cursor, after(e, e->cursor));
	else if (!strcmp(key, "[1;5D") || !strcmp(key, "[1;3D") || !strcmp(key, "b"))
		e->cursor = word_left(e, e->cursor);
	else if (!strcmp(key, "[1;5C") || !strcmp(key, "[1;3C") || !strcmp(key, "f"))
		e->cursor = word_right(e, e->cursor);
	else if (!strcmp(key, "d"))
		kill(e, e->cursor, word_right(e, e->cursor));
	else if (!strcmp(key, "\x7f") || !strcmp(key, "\b"))
		kill(e, word_left(e, e->cursor), e->cursor);
	else if (!strcmp(key, "\r") || !strcmp(key, "\n"))
		lineedit_newline(e, 0);
	else if (!strcmp(key, "[200~"))
		e->is_pasting = true;
	return LINEEDIT_MORE;
}

/* Is the sequence behind an Escape complete? */
static bool is_whole(const uint8_t *p, size_t n)
{
	if (n == 1)
		return p[0] != '[' && p[0] != 'O';
	if (p[0] == 'O')
		return true;
	return n > 1 && p[n - 1] >= 0x40 && p[n - 1] <= 0x7e;
}

static void paste(struct lineedit *e, uint8_t byte)
{
	static const char mark[] = "\x1b[201~";

	e->key[e->n_key++] = byte;
	if (!memcmp(e->key, mark, e->n_key)) {
		if (e->n_key == sizeof mark - 1) {
			e->is_pasting = false;
			e->n_key = 0;
		}
		return;
	}
	for (size_t i = 0; i < e->n_key; i++) {
		char c = (char)e->key[i];
		if (c == '\r')
			c = '\n';
		if (c == '\n' || c == '\t' || (uint8_t)c >= 0x20)
			lineedit_insert(e, &c, 1);
	}
	e->n_key = 0;
}

bool lineedit_is_waiting(const struct lineedit *e)
{
	return e->n_key && !e->is_pasting;
}

void lineedit_settle(struct lineedit *e)
{
	if (!e->is_pasting)
		e->n_key = 0;
}

enum lineedit_wish lineedit_feed(struct lineedit *e, uint8_t byte)
{
	char key[LINEEDIT_KEY_MAX];

	if (e->is_pasting) {
		paste(e, byte);
		return LINEEDIT_MORE;
	}
	if (!e->n_key && byte != ESC) {
		if (byte < 0x20 || byte == DEL)
			return control(e, byte);
		lineedit_insert(e, (const char *)&byte, 1);
		return LINEEDIT_MORE;
	}
	e->key[e->n_key++] = byte;
	if (e->n_key == 1)
		return LINEEDIT_MORE;
	if (!is_whole(e->key + 1, e->n_key - 1)) {
		if (e->n_key == LINEEDIT_KEY_MAX)
			e->n_key = 0;
		return LINEEDIT_MORE;
	}
	memcpy(key, e->key + 1, e->n_key - 1);
	key[e->n_key - 1] = 0;
	e->n_key = 0;
	return sequence(e, key);
}

/* ---- the picture ---- */

struct place {
	unsigned row, col, cols;
};

static void step(struct place *p, unsigned width)
{
	if (p->col + width > p->cols) { /* the terminal has gone on to the next row */
		p->row++;
		p->col = 0;
	}
	p->col += width;
}

/* One character of the text at p: its bytes, and what is sent for it. */
static size_t draw_one(const char *p, size_t n, struct place *at, struct buf *out)
{
	mbstate_t state = {0};
	wchar_t wide;
	size_t len = mbrtowc(&wide, p, n, &state);
	int width;

	if ((uint8_t)*p < 0x20 || *p == DEL) {
		step(at, 1);
		step(at, 1);
		(void)buf_addf(out, "^%c", *p == DEL ? '?' : *p + 0x40);
		return 1;
	}
	if (len == 0 || len > n || (width = wcwidth(wide)) < 0) {
		step(at, 1);
		(void)buf_addc(out, '?');
		return 1;
	}
	step(at, (unsigned)width);
	(void)buf_add(out, p, len);
	return len;
}

static void draw_prompt(const char *prompt, struct place *at, struct buf *out)
{
	bool is_styled = false;

	(void)buf_addz(out, prompt);
	for (; *prompt; prompt++) {
		if (*prompt == ESC)
			is_styled = true;
		else if (is_styled)
			is_styled = *prompt != 'm';
		else if (((uint8_t)*prompt & 0xc0) != 0x80)
			step(at, 1);
	}
}

static void draw_break(struct place *at, struct buf *out)
{
	(void)buf_addz(out, "\r\n");
	at->row++;
	at->col = 0;
}

int lineedit_draw(struct lineedit *e, const char *prompt, const char *further, unsigned cols,
	bool is_final, struct buf *out)
{
	struct place at = {.cols = cols ? cols : 80}, cursor = {0};
	const char *text = lineedit_text(e);
	int r = 0;

	(void)buf_addz(out, "\r");
	if (e->row)
		(void)buf_addf(out, "\x1b[%uA", e->row);
	(void)buf_addz(out, "\x1b[J");
	draw_prompt(prompt, &at, out);
	for (size_t i = 0; i <= e->text.len;) {
		if (i == e->cursor)
			cursor = at;
		if (i == e->text.len)
			break;
		if (text[i] == '\n') {
			draw_break(&at, out);
			draw_prompt(further, &at, out);
			i++;
		} else {
			i += draw_one(text + i, e->text.len - i, &at, out);
		}
	}
	if (is_final) {
		e->row = 0;
		return buf_addz(out, "\r\n");
	}
	/* A full row leaves the terminal's cursor on it until something follows: say where it is. */
	if (at.col == at.cols) {
		draw_break(&at, out);
	}
	if (cursor.col == at.cols) {
		cursor.row++;
		cursor.col = 0;
	}
	if (at.row > cursor.row)
		(void)buf_addf(out, "\x1b[%uA", at.row - cursor.row);
	r = buf_addz(out, "\r");
	if (cursor.col)
		r = buf_addf(out, "\x1b[%uC", cursor.col);
	e->row = cursor.row;
	return r;
}

void lineedit_moved(struct lineedit *e)
{
	e->row = 0;
}
