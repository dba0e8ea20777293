/* SPDX-License-Identifier: Apache-2.0 */
/* json_lines.h: JSON values, one in a line, out of bytes that come in pieces: how an answer is sent that goes on for long. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"

struct json_lines {
	/* j is valid until it returns, NULL when the line is no JSON; line is its text. Not 0 ends it all. */
	int (*take)(void *user, json_t *j, const struct buf *line);
	void *user;
	struct buf line; /* its maximum is how long a line may be */
};

/* lines: a struct json_lines; a sink for http_call. 0, what take returned, -ENOBUFS or -ENOMEM. */
int json_lines_add(void *lines, const void *p, size_t n);
/* No more come: what is behind the last end of line is a line, too. */
int json_lines_end(struct json_lines *l);
void json_lines_done(struct json_lines *l);
