/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h: bytes of unknown origin made fit for a terminal or for JSON. Pure.
 *
 * What a command prints can hold sequences that make a terminal answer, retitle itself, write the
 * clipboard or hide text. Nothing of that reaches the user's terminal unless it was asked for raw.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* A stream of bytes on its way to a terminal. Zeroed means fresh. */
struct cli_neutral {
	uint8_t held[80]; /* the beginning of a sequence whose end has not come yet */
	size_t n_held;
	bool is_styled; /* colours or the like were switched on and not off */
};

/* Appends to `out` what may be shown of the n bytes: text, tab, newline, carriage return, colours
 * (SGR) and erase-in-line pass; every other control byte becomes visible (^[ ^G \x9b). A sequence
 * may be cut anywhere between calls. Appends at most 4 * (n + 80) bytes. 0, -ENOBUFS or -ENOMEM. */
int cli_neutral_feed(struct cli_neutral *s, const void *bytes, size_t n, struct buf *out);
/* The stream is over: what was held comes out visible, colours are switched off. */
int cli_neutral_end(struct cli_neutral *s, struct buf *out);

/* One line of text for a terminal: every control byte visible, newline and tab too, and what is not seen or changes the order of reading. */
int cli_visible(const void *bytes, size_t n, struct buf *out);
/* The text is shown as it is. */
bool cli_is_visible(const char *s);

/* JSON for a terminal: the same JSON, with \u escapes for what cli_visible() makes visible. JSON itself leaves all but the first of the control
 * characters as they are. `text` is JSON in UTF-8. */
int cli_visible_json(const char *text, size_t n, struct buf *out);

/* Standard base64 with padding. */
int cli_base64(const void *bytes, size_t n, struct buf *out);
