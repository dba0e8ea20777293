/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver says, taken apart; and what no driver would say, refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guest/kernel_channel.h"
#include "test.h"

/* Feed the text in pieces of `step` bytes. "word:len,..." of what was understood, then "!" and why, if it was refused. */
static void parse(const char *text, size_t n, size_t step, char *ret, size_t size)
{
	struct channel c = {0};
	size_t at = 0, len = 0;

	ret[0] = '\0';
	while (at < n) {
		size_t there = n - at < step ? n - at : step, used = 0;
		int r = channel_head(&c, (const uint8_t *)text + at, there, &used);

		ASSERT(used <= there);
		at += used;
		if (r < 0) {
			ASSERT(r == -EPROTO && c.why);
			(void)snprintf(ret + len, size - len, "!%s", c.why);
			return;
		}
		if (r == 0) {
			ASSERT(used == there);
			continue;
		}
		len += (size_t)snprintf(ret + len, size - len, "%d/%d:%llu,", c.word, c.status,
			(unsigned long long)c.len);
		while (c.left && at < n) {
			size_t k = n - at < c.left ? n - at : (size_t)c.left;

			channel_took(&c, k);
			at += k;
		}
		if (!c.left)
			channel_next(&c);
	}
}

static void check(const char *text, const char *want)
{
	char whole[500], split[500];

	parse(text, strlen(text), strlen(text), whole, sizeof whole);
	ASSERT_STR(whole, want);
	for (size_t step = 1; step < 20; step++) {
		parse(text, strlen(text), step, split, sizeof split);
		ASSERT_STR(split, want);
	}
}

TEST(messages_are_taken_apart_in_any_pieces)
{
	check("ready 2\n{}", "1/0:2,");
	check("display 3\nabcresult 0\nerror 1\n\n", "2/0:3,3/0:0,4/0:1,");
	check("clear 2\n{}input 2\n{}answer 2\n[]", "5/0:2,6/0:2,7/0:2,");
	check("mark 0\ndone ok 0\ndone error 0\ndone exit 1\n3", "8/0:0,9/1:0,9/2:0,9/3:1,");
	/* a payload may look like a message */
	check("result 10\nmark 0\n\n\n\nmark 0\n", "3/0:10,8/0:0,");
	check("result 000000005\nhello", "3/0:5,");
	check("display 67108864\n", "2/0:67108864,");
}

TEST(what_is_no_message_is_refused)
{
	static const char *const wrong[] = {"\n", " \n", "hello 1\n", "result\n", "result \n",
		"result x\n", "result 1x\n", "result  1\n", " result 1\n", "result 1 \n",
		"result -1\n", "result +1\n", "result 0x1\n", "result 1234567890\n",
		"result 67108865\n", "ready 4097\n", "mark 1\n", "done 0\n", "done ok\n",
		"done ok \n", "done maybe 0\n", "done ok 4097\n", "done ok 1 1\n", "RESULT 1\n",
		"result\t1\n", "result 1\r\n", "resultx 1\n", "resul 1\n"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char got[500];

		for (size_t step = 1; step < 20; step++) {
			parse(wrong[i], strlen(wrong[i]), step, got, sizeof got);
			if (got[0] != '!')
				printf("# '%s' was taken: %s\n", wrong[i], got);
			ASSERT(got[0] == '!');
		}
	}
}

TEST(a_line_without_an_end_is_refused_before_it_is_long)
{
	char text[1000], got[500];

	memset(text, 'a', sizeof text);
	for (size_t step = 1; step <= sizeof text; step += 37) {
		parse(text, sizeof text, step, got, sizeof got);
		ASSERT_STR(got, "!a line that is too long");
	}
	/* bytes of any kind, NULs as well */
	memset(text, 0, sizeof text);
	text[10] = '\n';
	parse(text, sizeof text, sizeof text, got, sizeof got);
	ASSERT_STR(got, "!an unknown word");
}
