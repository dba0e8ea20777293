/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineedit.h: a text of one or more lines being typed: keys in, text and a picture of it out. Pure: it neither reads nor writes, so
 * that a test can type.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define LINEEDIT_MAX	 (1u << 20) /* bytes of the text */
#define LINEEDIT_KEY_MAX 32	    /* bytes of one key's sequence */

enum lineedit_wish {
	LINEEDIT_MORE = 0,  /* go on typing */
	LINEEDIT_ENTER,	    /* the return key: submit, or lineedit_newline() */
	LINEEDIT_EOF,	    /* Ctrl-D on nothing */
	LINEEDIT_INTERRUPT, /* Ctrl-C */
	LINEEDIT_SUSPEND,   /* Ctrl-Z */
	LINEEDIT_COMPLETE,  /* Tab */
	LINEEDIT_OLDER,	    /* history: up on the first line, Ctrl-P */
	LINEEDIT_NEWER,	    /* down on the last, Ctrl-N */
	LINEEDIT_CLEAR,	    /* Ctrl-L */
	LINEEDIT_SEARCH,    /* Ctrl-R */
};

struct lineedit {
	struct buf text;
	size_t cursor;	   /* a byte of it, at the beginning of a character */
	struct buf killed; /* what Ctrl-K, U, W took; Ctrl-Y gives it back */
	uint8_t key[LINEEDIT_KEY_MAX];
	size_t n_key;
	bool is_pasting; /* between the marks of a bracketed paste: nothing is a key */
	/* where the last picture left the terminal's cursor, counted from its first row */
	unsigned row;
};

void lineedit_init(struct lineedit *e);
void lineedit_done(struct lineedit *e);
/* One byte. Everything but MORE is for the caller to do. */
enum lineedit_wish lineedit_feed(struct lineedit *e, uint8_t byte);
/* Half a key is waiting: a lone Escape, when nothing more comes. */
bool lineedit_is_waiting(const struct lineedit *e);
/* Nothing more came. */
void lineedit_settle(struct lineedit *e);

void lineedit_set(struct lineedit *e, const char *text);
void lineedit_insert(struct lineedit *e, const char *p, size_t n);
/* A new line, indented as the one before it and by `more` further blanks. */
void lineedit_newline(struct lineedit *e, unsigned more);
/* Replace the bytes from..to and stand behind. */
void lineedit_replace(struct lineedit *e, size_t from, size_t to, const char *text);
const char *lineedit_text(const struct lineedit *e);
/* Is the cursor behind the last character that is no blank? */
bool lineedit_is_at_end(const struct lineedit *e);

/* What a terminal of so many columns has to be sent to show it: over its last picture, first line behind `prompt`, others behind
 * `further`; the cursor where it belongs. Control bytes of the text are shown as ^X. is_final: the cursor goes to a fresh line below. */
int lineedit_draw(struct lineedit *e, const char *prompt, const char *further, unsigned cols,
	bool is_final, struct buf *out);
/* The next picture begins where the cursor is. */
void lineedit_moved(struct lineedit *e);
