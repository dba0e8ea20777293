/* SPDX-License-Identifier: Apache-2.0 */
/* The server's log: one line an event, whatever a request holds. */
#include <string.h>
#include <unistd.h>

#include "server/server.h"
#include "test.h"

/* The line without its time. */
static const char *logged(const char *value)
{
	static char line[16384];
	int fds[2], kept = dup(STDERR_FILENO);

	ASSERT_OK(pipe(fds));
	ASSERT(dup2(fds[1], STDERR_FILENO) >= 0);
	log_event(LOG_INFO, "test", "about", value, NULL);
	ASSERT(dup2(kept, STDERR_FILENO) >= 0);
	close(kept);
	close(fds[1]);
	ssize_t n = read(fds[0], line, sizeof line - 1);
	close(fds[0]);
	ASSERT(n > 0);
	line[n] = '\0';
	const char *at = strstr(line, "event=test ");
	ASSERT(at);
	return at + strlen("event=test ");
}

TEST(plain_words_have_no_quotes)
{
	ASSERT_STR(logged("/v1/sessions"), "about=/v1/sessions\n");
	ASSERT_STR(logged("two words"), "about=\"two words\"\n");
	ASSERT_STR(logged("gr\xc3\xbc\xc3\x9f"), "about=\"gr\xc3\xbc\xc3\x9f\"\n");
}

TEST(no_line_is_forged)
{
	ASSERT_STR(logged("a\nevent=\"b\\"), "about=\"a\\x0aevent=\\\"b\\\\\"\n");
}

TEST(a_terminal_finds_nothing_to_obey)
{
	ASSERT_STR(logged("\x1b]0;x\x07\r\x7f"), "about=\"\\x1b]0;x\\x07\\x0d\\x7f\"\n");
	ASSERT_STR(logged("\xc2\x9b"
			  "31m"),
		"about=\"\\xc2\\x9b31m\"\n");
	ASSERT_STR(logged("\xe2\x80\xae!"), "about=\"\\xe2\\x80\\xae!\"\n");
	ASSERT_STR(logged("\x9b\xff\xe2\x82"), "about=\"\\x9b\\xff\\xe2\\x82\"\n");
}

TEST(a_value_is_cut)
{
	char text[5000], want[2000];

	memset(text, ' ', sizeof text);
	text[sizeof text - 1] = '\0';
	memset(want, ' ', sizeof want);
	const char *line = logged(text);
	ASSERT_EQ(strlen(line), strlen("about=\"\"\n") + 1024);
	ASSERT(!strncmp(line + strlen("about=\""), want, 1024));
}
