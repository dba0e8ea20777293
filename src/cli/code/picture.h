/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture.h: pictures that code gives: on the terminal where it can show them (kitty's and iTerm2's protocols), else as files. A picture comes
 * out of a cell, so nothing of it reaches the terminal but base64 that was checked.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum picture_way {
	PICTURE_FILE,
	PICTURE_KITTY,
	PICTURE_ITERM,
	PICTURE_NONE, /* neither shown nor saved */
};

/* What the environment says of the terminal. */
enum picture_way picture_way_here(void);
/* "auto" (needs is_terminal for more than files), "kitty", "iterm2", "file", "none". -EINVAL. */
int picture_way_parse(const char *word, bool is_terminal, enum picture_way *ret);

/* The MIME types there are, the best first, NULL-terminated; and a file's suffix for one, NULL: none of ours. */
extern const char *const picture_types[];
const char *picture_suffix(const char *mime);
bool picture_is_text(const char *mime); /* not base64: SVG */

/* -EINVAL: that is no base64. Blanks and line ends in it are passed over. */
int picture_decode(const char *base64, struct buf *out);
/* The sequences that show it. -ENOTSUP: not this type, this way. */
int picture_sequence(enum picture_way way, const char *mime, const struct buf *bytes,
	struct buf *out);
/* A new file picture-N.SUFFIX in the directory, which is made when it is missing. Caller frees the path. */
int picture_save(const char *directory, const char *suffix, const void *p, size_t n,
	char **ret_path, struct cell_error *err);
