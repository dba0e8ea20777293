/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_json_lines.c: JSON in lines, however the bytes are cut. */
#include <errno.h>
#include <stdio.h>

#include "net/json_lines.h"
#include "test.h"

struct heard {
	char text[200];
	int stop_at; /* the number of a line, from 1 */
	int n;
};

static int hear(void *user, json_t *j, const struct buf *line)
{
	struct heard *h = user;
	size_t at = strlen(h->text);

	(void)snprintf(h->text + at, sizeof h->text - at, "%s=%d ", buf_str(line),
		(int)json_integer_value(json_object_get(j, "n")));
	return ++h->n == h->stop_at ? -EINTR : 0;
}

#define LINES "{\"n\":1}\nnone\n\n{\"n\":2}\n{\"n\":"

TEST(lines_are_whole_however_they_are_cut)
{
	const size_t n = sizeof LINES - 1;

	for (size_t cut = 0; cut <= n; cut++) {
		struct heard h = {0};
		struct json_lines l = {.take = hear, .user = &h, .line = BUF_INIT(64)};

		ASSERT_OK(json_lines_add(&l, LINES, cut));
		ASSERT_OK(json_lines_add(&l, &LINES[cut], n - cut));
		ASSERT_STR(h.text, "{\"n\":1}=1 none=0 =0 {\"n\":2}=2 ");
		ASSERT_OK(json_lines_end(&l));
		ASSERT_OK(json_lines_end(&l));
		ASSERT_STR(h.text, "{\"n\":1}=1 none=0 =0 {\"n\":2}=2 {\"n\":=0 ");
		json_lines_done(&l);
	}
}

TEST(who_takes_them_may_end_it)
{
	struct heard h = {.stop_at = 2};
	struct json_lines l = {.take = hear, .user = &h, .line = BUF_INIT(64)};

	ASSERT_EQ(json_lines_add(&l, LINES, sizeof LINES - 1), -EINTR);
	ASSERT_EQ(h.n, 2);
	json_lines_done(&l);
}

TEST(a_line_that_is_too_long_is_not_kept)
{
	struct heard h = {0};
	struct json_lines l = {.take = hear, .user = &h, .line = BUF_INIT(8)};

	ASSERT_OK(json_lines_add(&l, "{\"n\":1}\n", 8));
	ASSERT_EQ(json_lines_add(&l, "{\"n\":   1}\n", 11), -ENOBUFS);
	ASSERT_EQ(h.n, 1);
	json_lines_done(&l);
}
