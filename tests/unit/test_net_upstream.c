/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors src/net/upstream.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/upstream.h"
#include "test.h"

static char seen[4096];

static void note(const char *text, size_t len)
{
	size_t at = strlen(seen);

	snprintf(seen + at, sizeof seen - at, "%.*s", (int)len, text);
}

static void note_number(const char *before, long long n, const char *after)
{
	char text[40];
	int len = snprintf(text, sizeof text, "%s%lld%s", before, n, after);

	note(text, (size_t)len);
}

static int head(void *arg, int status, const struct http_field *fields, int64_t length)
{
	(void)arg;
	note_number("", status, " ");
	for (; fields->name; fields++) {
		note(fields->name, strlen(fields->name));
		note("=", 1);
		note(fields->value, strlen(fields->value));
		note(";", 1);
	}
	note_number("(", length, ")");
	return 0;
}

static int body(void *arg, const void *p, size_t n)
{
	(void)arg;
	note(p, n);
	return 0;
}

static const struct upstream_events events = {head, body};

/* The result of feeding it in pieces of `step` bytes, then the end of the connection; -1: as one piece. */
static int feed(const char *text, size_t step, bool is_head, size_t *ret_used)
{
	struct upstream *u = upstream_new(is_head, &events, NULL);
	size_t n = strlen(text), used = 0;
	int r = 0;

	seen[0] = '\0';
	*ret_used = 0;
	for (size_t at = 0; r == 0 && at < n && !upstream_is_complete(u); at += step) {
		r = upstream_feed(u, text + at, n - at < step ? n - at : step, &used);
		*ret_used = at + used;
	}
	if (r == 0)
		r = upstream_finish(u);
	upstream_free(u);
	return r;
}

static void same(const char *text, const char *want, size_t want_used)
{
	size_t used;

	for (size_t step = 1; step <= strlen(text); step = step < 3 ? step + 1 : step * 2) {
		ASSERT_EQ(feed(text, step, false, &used), 0);
		ASSERT_STR(seen, want);
		ASSERT_EQ(used, want_used);
	}
	ASSERT_EQ(feed(text, 100000, false, &used), 0);
	ASSERT_STR(seen, want);
}

TEST(answers_are_taken_apart_however_they_come)
{
	same("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\nabcXY",
		"200 A=b;Content-Length=3;(3)abc", 44 + 3);
	same("HTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: "
	     "r\r\n\r\n",
		"201 Transfer-Encoding=chunked;(-1)abc",
		strlen("HTTP/1.1 201 X\r\nTransfer-Encoding: "
		       "chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: r\r\n\r\n"));
	same("HTTP/1.0 200 OK\r\n\r\nall of it", "200 (-1)all of it", 28);
	same("HTTP/1.1 100 Continue\r\nZ: 1\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "204 (-1)",
		strlen("HTTP/1.1 100 Continue\r\nZ: 1\r\n\r\nHTTP/1.1 204 No\r\n\r\n"));
}

TEST(what_follows_101_is_not_touched)
{
	const char *text = "HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw bytes";
	size_t used;

	ASSERT_EQ(feed(text, 1000, false, &used), 0);
	ASSERT_STR(text + used, "raw bytes");
}

TEST(head_has_no_body)
{
	size_t used;

	ASSERT_EQ(feed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 5, true, &used), 0);
	ASSERT_STR(seen, "200 Content-Length=9;(9)");
}

/* Some programs send one all the same: it is not the answer's. */
TEST(answers_that_cannot_have_a_body_have_none)
{
	static const char *const texts[] = {"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", "abc",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n", "abc",
		"HTTP/1.1 304 Same\r\n\r\n", "abc"};
	char text[200];
	size_t used;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i += 2)
		for (size_t step = 1; step < 2000; step *= 1000) {
			(void)snprintf(text, sizeof text, "%s%s", texts[i], texts[i + 1]);
			ASSERT_EQ(feed(text, step, false, &used), 0);
			ASSERT_EQ(used, strlen(texts[i]));
			ASSERT(!strstr(seen, "abc"));
		}
	ASSERT_EQ(feed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 1000, true, &used), 0);
	ASSERT_STR(seen, "200 Content-Length=3;(3)");
	ASSERT_EQ(feed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 1000, false, &used), 0);
	ASSERT_STR(seen, "200 Content-Length=3;(3)abc"); /* the control */
}

TEST(what_is_ambiguous_or_cut_short_is_refused)
{
	static const char *const bad[] = {"", "HTTP/1.1 200", "nonsense\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: "
		 "chunked\r\n\r\n0\r\n\r\n"),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"};
	size_t used;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		for (size_t step = 1; step < 2000; step *= 1000)
			CHECK_(feed(bad[i], step, false, &used) == -EPROTO, "accepted: %s", bad[i]);
}

TEST(words_of_lists)
{
	ASSERT(upstream_list_has("close, X-Hop", "x-hop"));
	ASSERT(!upstream_list_has("close,X-Hopper", "X-Hop"));
	ASSERT(!upstream_list_has(NULL, "x"));
	ASSERT(!upstream_list_has("", "x"));
	ASSERT(upstream_is_hop_by_hop("TRANSFER-encoding"));
	ASSERT(!upstream_is_hop_by_hop("Content-Type"));
}
