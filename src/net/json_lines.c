/* SPDX-License-Identifier: Apache-2.0 */
#include "net/json_lines.h"

#include <string.h>

static int take_line(struct json_lines *l)
{
	json_t *j = json_loadb(buf_str(&l->line), l->line.len, 0, NULL);
	int r = l->take(l->user, j, &l->line);

	json_decref(j);
	buf_reset(&l->line);
	return r;
}

int json_lines_add(void *lines, const void *p, size_t n)
{
	struct json_lines *l = lines;
	int r = 0;

	for (const char *at = p, *last = at + n; r == 0 && at < last;) {
		const char *end = memchr(at, '\n', (size_t)(last - at));
		r = buf_add(&l->line, at, (size_t)((end ? end : last) - at));
		if (r == 0 && end)
			r = take_line(l);
		at = end ? end + 1 : last;
	}
	return r;
}

int json_lines_end(struct json_lines *l)
{
	return l->line.len ? take_line(l) : 0;
}

void json_lines_done(struct json_lines *l)
{
	buf_done(&l->line);
}
