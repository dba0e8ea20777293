/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors src/server/port_cookie.c. */
#include "server/port_cookie.h"
#include "test.h"

#define PREFIX "/v1/sessions/s/ports/80"

static const char *out(const char *value)
{
	static struct buf b;

	buf_done(&b);
	b = (struct buf)BUF_INIT(4096);
	return port_cookie_out(value, PREFIX, &b) == 0 ? buf_str(&b) : NULL;
}

static const char *in(const char *value)
{
	static struct buf b;

	buf_done(&b);
	b = (struct buf)BUF_INIT(4096);
	ASSERT_EQ(port_cookie_in(value, &b), 0);
	return buf_str(&b);
}

TEST(a_cookie_stays_below_its_port)
{
	ASSERT_STR(out("a=b"), "cell-port-a=b; Path=" PREFIX "/");
	ASSERT_STR(out("a=b; Path=/"), "cell-port-a=b; Path=" PREFIX "/");
	ASSERT_STR(out("a=b;path = /x/y "), "cell-port-a=b; Path=" PREFIX "/x/y");
	ASSERT_STR(out("a=b; Path=/x; Path=/y"), "cell-port-a=b; Path=" PREFIX "/x");
	ASSERT_STR(out("a=b; Path=x"), "cell-port-a=b; Path=" PREFIX "/");
	ASSERT_STR(out("a=b; Path"), "cell-port-a=b; Path=" PREFIX "/");
	ASSERT_STR(out("a=b; Domain=example.org; DOMAIN = x"), "cell-port-a=b; Path=" PREFIX "/");
}

TEST(what_else_it_says_is_kept)
{
	ASSERT_STR(out("a=b=c; Max-Age=60; Secure; HttpOnly; SameSite=Lax; Expires=Wed, 21 Oct "
		       "2026 "
		       "07:28:00 GMT"),
		"cell-port-a=b=c; Max-Age=60; Secure; HttpOnly; SameSite=Lax; Expires=Wed, 21 Oct "
		"2026 07:28:00 GMT; Path=" PREFIX "/");
	ASSERT_STR(out("__Host-a=b; Path=/; Secure"),
		"cell-port-__Host-a=b; Path=" PREFIX "/; Secure");
	ASSERT_STR(out("a=; Unknown=1"), "cell-port-a=; Path=" PREFIX "/");
}

TEST(what_is_no_cookie_is_left_out)
{
	static const char *const none[] = {
		"", ";", "a", "=b", " =b; Path=/", "a b=c", "a\"=c", "; a=b", "a;b=c"};
	struct buf b = BUF_INIT(100);

	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		CHECK_(!out(none[i]), "taken: %s", none[i]);
	ASSERT_EQ(port_cookie_out("a=b", "/v1/sessions/s;Path=/ports/80", &b), 1);
	buf_done(&b);
}

TEST(only_its_own_come_back)
{
	ASSERT_STR(in("cell-port-a=b"), "a=b");
	ASSERT_STR(in("session=secret; cell-port-a=b;cell-port-c=d=e; _oauth2=x"), "a=b; c=d=e");
	ASSERT_STR(in("a=b; Cell-Port-a=b; xcell-port-a=b; cell-port-=b; cell-port-a"), "");
	ASSERT_STR(in(" ; ;=; cell-port-a = b ;"), "a=b");
	ASSERT_STR(in(""), "");
}
