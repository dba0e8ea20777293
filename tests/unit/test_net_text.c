/* SPDX-License-Identifier: Apache-2.0 */
#include "net/sse.h"
#include "net/text.h"
#include "test.h"

static int decode(const char *s, bool is_query, char *ret)
{
	return net_decode(s, strlen(s), is_query, ret);
}

TEST(escapes_are_decoded_once)
{
	char b[64];

	ASSERT_EQ(decode("a%20b%2fc%2Bd+e", false, b), 9);
	ASSERT_STR(b, "a b/c+d+e");
	ASSERT_EQ(decode("a+b%2B", true, b), 4);
	ASSERT_STR(b, "a b+");
	ASSERT_EQ(decode("%2525", false, b), 3);
	ASSERT_STR(b, "%25");
	ASSERT_EQ(decode("", false, b), 0);
}

TEST(broken_escapes_and_nul_are_refused)
{
	static const char *const bad[] = {"%", "%a", "a%", "%zz", "%a%", "%00", "x%00y", "%%20"};
	char b[64];

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ASSERT_ERR(decode(bad[i], false, b), -EINVAL);
	ASSERT_ERR(net_decode("a\0b", 3, false, b), -EINVAL);
}

TEST(what_is_encoded_decodes_to_itself)
{
	struct buf b = BUF_INIT(4096);
	char all[256], back[1024];

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	ASSERT_OK(net_encode(&b, all, 255, false));
	ASSERT_EQ(net_decode(buf_str(&b), b.len, true, back), 255);
	ASSERT_MEM(back, 255, all, 255);
	buf_reset(&b);
	ASSERT_OK(net_encode(&b, "/a b/c", 6, true));
	ASSERT_STR(buf_str(&b), "/a%20b/c");
	buf_done(&b);
}

TEST(lists_are_searched_by_whole_words)
{
	ASSERT(net_list_has("keep-alive, Upgrade", "upgrade"));
	ASSERT(net_list_has(" ,,upgrade ; q=1 ", "Upgrade"));
	ASSERT(!net_list_has("upgrades, up", "upgrade"));
	ASSERT(!net_list_has("", "x") && !net_list_has(NULL, "x"));
}

TEST(gzip_is_taken_when_it_is_accepted)
{
	ASSERT(net_accepts_gzip("gzip") && net_accepts_gzip("br, gzip;q=0.1") &&
		net_accepts_gzip("*"));
	ASSERT(!net_accepts_gzip("gzip;q=0") && !net_accepts_gzip("gzip; q=0.000, *") &&
		!net_accepts_gzip("br"));
	ASSERT(!net_accepts_gzip(NULL) && !net_accepts_gzip("") && !net_accepts_gzip("*;q=0"));
	ASSERT(net_is_compressible("application/json; charset=utf-8") &&
		net_is_compressible("text/html"));
	ASSERT(net_is_compressible("application/problem+json"));
	ASSERT(!net_is_compressible("image/png") && !net_is_compressible("text/event-stream") &&
		!net_is_compressible(NULL));
}

TEST(urls_are_taken_apart)
{
	struct net_url u;

	ASSERT_OK(net_url_parse("http://host", &u, NULL));
	ASSERT(u.scheme == NET_HTTP && u.port == 80);
	ASSERT_STR(u.host, "host");
	ASSERT_STR(u.path, "/");
	ASSERT_OK(net_url_parse("HTTPS://[::1]:8443/base/", &u, NULL));
	ASSERT(u.scheme == NET_HTTPS && u.port == 8443);
	ASSERT_STR(u.host, "::1");
	ASSERT_STR(u.path, "/base");
	ASSERT_STR(u.authority, "[::1]:8443");
	ASSERT_OK(net_url_parse("unix:/run/cell.sock", &u, NULL));
	ASSERT(u.scheme == NET_UNIX);
	ASSERT_STR(u.host, "/run/cell.sock");
	ASSERT_STR(u.authority, "localhost");
	ASSERT_OK(net_url_parse("unix:///run/cell.sock", &u, NULL));
	ASSERT_STR(u.host, "/run/cell.sock");
	ASSERT_OK(net_url_parse("wss://h", &u, NULL));
	ASSERT(u.scheme == NET_HTTPS && u.port == 443);
}

TEST(bad_urls_are_errors_with_a_hint)
{
	static const char *const bad[] = {"", "host", "ftp://host", "http://", "http://:80",
		"http://h:0", "http://h:65536", "http://h:x", "http://user@h", "http://user:pw@h/",
		"http://[::1", "http://[::1]x", "http://h/a b", "http://h/#f", "http://h\r\n",
		"unix:relative", "unix:", "http://h:", "http://a/b\nc"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct cell_error err = {0};
		struct net_url u;
		ASSERT(net_url_parse(bad[i], &u, &err) < 0);
		ASSERT(err.hint[0]);
	}
}

TEST(dates_are_those_of_the_rfc)
{
	char d[30];

	net_http_date(784111777, d);
	ASSERT_STR(d, "Sun, 06 Nov 1994 08:49:37 GMT");
	net_http_date(0, d);
	ASSERT_STR(d, "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(events_are_written_line_by_line)
{
	struct buf b = BUF_INIT(200);

	ASSERT_OK(sse_event(&b, NULL, NULL, "", 0));
	ASSERT_STR(buf_str(&b), "data: \n\n");
	buf_reset(&b);
	ASSERT_OK(sse_event(&b, "7", "e", "a\r\nb\rc\n", 7));
	ASSERT_STR(buf_str(&b), "id: 7\nevent: e\ndata: a\ndata: b\ndata: c\ndata: \n\n");
	buf_reset(&b);
	ASSERT_ERR(sse_event(&b, "1\n2", NULL, "", 0), -EINVAL);
	ASSERT_ERR(sse_event(&b, NULL, NULL, "a\0b", 3), -EINVAL);
	ASSERT_ERR(sse_comment(&b, "a\nb"), -EINVAL);
	ASSERT_EQ(b.len, 0);
	char big[300];
	memset(big, 'x', sizeof big);
	ASSERT_ERR(sse_event(&b, NULL, NULL, big, sizeof big), -ENOBUFS);
	ASSERT_EQ(b.len, 0);
	buf_done(&b);
}
