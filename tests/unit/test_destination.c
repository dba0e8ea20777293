/* SPDX-License-Identifier: Apache-2.0 */
#include "core/destination.h"
#include "test.h"

TEST(addresses_ranges_and_ports_are_read)
{
	struct cell_destination d;

	ASSERT_OK(cell_destination_parse("10.1.2.3", &d));
	ASSERT_EQ(d.family, 4);
	ASSERT_EQ(d.prefix, 32);
	ASSERT_EQ(d.port, 0);
	ASSERT_EQ(d.addr[0], 10);
	ASSERT_EQ(d.addr[3], 3);
	ASSERT_EQ(d.addr[4], 0);
	ASSERT_OK(cell_destination_parse("10.1.2.0/24:443", &d));
	ASSERT_EQ(d.prefix, 24);
	ASSERT_EQ(d.port, 443);
	ASSERT_OK(cell_destination_parse("0.0.0.0/0", &d));
	ASSERT_EQ(d.prefix, 0);
	ASSERT_OK(cell_destination_parse("fd00::/8", &d));
	ASSERT_EQ(d.family, 6);
	ASSERT_EQ(d.prefix, 8);
	ASSERT_EQ(d.port, 0);
	ASSERT_OK(cell_destination_parse("[fd00::1]:65535", &d));
	ASSERT_EQ(d.prefix, 128);
	ASSERT_EQ(d.port, 65535);
	ASSERT_OK(cell_destination_parse("[fd00::/8]:1", &d));
	ASSERT_EQ(d.prefix, 8);
	ASSERT_OK(cell_destination_parse("::1", &d));
	ASSERT_EQ(d.addr[15], 1);
}

TEST(what_is_no_destination_is_refused)
{
	static const char *const bad[] = {"", "/", ":", "/24", ":80", "10.1.2", "10.1.2.3.4",
		"010.1.2.3", "10.1.2.3/", "10.1.2.3/33", "10.1.2.3/24", "10.1.2.0/024",
		"10.1.2.0/-1", "10.1.2.0/+8", "10.1.2.3:", "10.1.2.3:0", "10.1.2.3:65536",
		"10.1.2.3:08", "10.1.2.3:80x", "10.1.2.3 ", " 10.1.2.3", "10.1.2.3:80:80",
		"[10.1.2.3]:80", "[fd00::1", "fd00::1]", "[fd00::1]80", "[fd00::1]:", "[]:80",
		"fd00::1/129", "fd00::1/64", "fd00::%eth0", "fe80::1%1", "example.org", "0x7f.1",
		"2130706433", "1e3", "10.1.2.3/8/8",
		"1111111111111111111111111111111111111111111111111111111111111111111111111"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct cell_destination d;

		CHECK_(cell_destination_parse(bad[i], &d) == -EINVAL, "'%s' is taken", bad[i]);
	}
}

TEST(an_address_is_one_without_anything_else)
{
	ASSERT(cell_destination_is_address("9.9.9.9"));
	ASSERT(cell_destination_is_address("2001:db8::1"));
	ASSERT(!cell_destination_is_address("9.9.9.9/32"));
	ASSERT(!cell_destination_is_address("9.9.9.9:53"));
	ASSERT(!cell_destination_is_address("[2001:db8::1]"));
	ASSERT(!cell_destination_is_address("dns.example.org"));
}
