/* SPDX-License-Identifier: Apache-2.0 */
/* test_units.c: sizes, durations, CPUs, switches. */
#include <errno.h>
#include <stdint.h>

#include "core/config/units.h"
#include "test.h"

static void bytes_are(const char *text, uint64_t want)
{
	uint64_t got = 1;
	int r = parse_bytes(text, 1, &got);
	CHECK_(r == 0 && got == want, "'%s': %d, %llu", text, r, (unsigned long long)got);
}

TEST(sizes_are_powers_of_1024_whatever_the_suffix_is_called)
{
	bytes_are("0", 0);
	bytes_are("1024", 1024);
	bytes_are("512m", 512ull << 20);
	bytes_are("512M", 512ull << 20);
	bytes_are("512mb", 512ull << 20);
	bytes_are("512MiB", 512ull << 20);
	bytes_are("512Mi", 512ull << 20);
	bytes_are("1g", 1ull << 30);
	bytes_are("1 GiB", 1ull << 30);
	bytes_are("2t", 2ull << 40);
	bytes_are("7b", 7);
	bytes_are("1.5k", 1536);
	bytes_are("0.1k", 103);
}

TEST(a_plain_size_can_be_in_another_unit)
{
	uint64_t v = 0;
	ASSERT_OK(parse_bytes("10240", 1 << 20, &v));
	ASSERT(v == 10240ull << 20);
	ASSERT_OK(parse_bytes("1g", 1 << 20, &v));
	ASSERT(v == 1ull << 30);
}

TEST(what_is_no_size_is_refused)
{
	static const char *const bad[] = {"", " ", "m", "-1", "+1", "1x", "1mm", "1mib2", "1.",
		".5g", "1e3", "0x10", "1,5g", "1ib", "1i", "1 m m", "nan", "1m "};
	uint64_t v = 7;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_(parse_bytes(bad[i], 1, &v) == -EINVAL, "'%s' accepted", bad[i]);
	ASSERT_ERR(parse_bytes("99999999999999999999", 1, &v), -ERANGE);
	ASSERT_ERR(parse_bytes("9223372036854775808", 1, &v), -ERANGE);
	ASSERT_ERR(parse_bytes("9000000t", 1, &v), -ERANGE);
	ASSERT(v == 7);
	bytes_are("9223372036854775807", INT64_MAX);
}

static void duration_is(const char *text, uint64_t want)
{
	uint64_t got = 1;
	int r = parse_duration(text, &got);
	CHECK_(r == 0 && got == want, "'%s': %d, %llu", text, r, (unsigned long long)got);
}

TEST(durations_have_units_and_a_plain_one_is_seconds)
{
	duration_is("1s", 1000);
	duration_is("500ms", 500);
	duration_is("2m", 120000);
	duration_is("1h", 3600000);
	duration_is("1d", 86400000);
	duration_is("1h30m", 5400000);
	duration_is("1m30s500ms", 90500);
	duration_is("30", 30000);
	duration_is("30.0", 30000);
	duration_is("0.25", 250);
	duration_is("1.5h", 5400000);
	duration_is("0", 0);
	duration_is("none", 0);
}

TEST(a_tiny_duration_does_not_become_no_deadline)
{
	duration_is("0.0001", 1);
	duration_is("0.1ms", 1);
}

TEST(what_is_no_duration_is_refused)
{
	static const char *const bad[] = {
		"", "s", "1x", "-1s", "1h30", "30m1h", "1s1s", "1 s", "1e3", "1..5", "inf", "1sm"};
	uint64_t v = 7;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_(parse_duration(bad[i], &v) == -EINVAL, "'%s' accepted", bad[i]);
	ASSERT_ERR(parse_duration("9223372036854775807h", &v), -ERANGE);
	ASSERT(v == 7);
}

TEST(cpus_are_decimals_or_thousandths)
{
	uint64_t v = 0;
	ASSERT_OK(parse_cpus("0.5", &v));
	ASSERT(v == 500);
	ASSERT_OK(parse_cpus("2", &v));
	ASSERT(v == 2000);
	ASSERT_OK(parse_cpus("250m", &v));
	ASSERT(v == 250);
	ASSERT_OK(parse_cpus("0.0001", &v));
	ASSERT(v == 1);
	ASSERT_ERR(parse_cpus("half", &v), -EINVAL);
	ASSERT_ERR(parse_cpus("1c", &v), -EINVAL);
	ASSERT_ERR(parse_cpus("-1", &v), -EINVAL);
}

TEST(switches_have_four_spellings_each)
{
	static const char *const yes[] = {"true", "True", "YES", "on", "1"};
	static const char *const no[] = {"false", "FALSE", "no", "Off", "0"};
	bool b;
	for (size_t i = 0; i < 5; i++) {
		b = false;
		ASSERT(parse_bool(yes[i], &b) == 0 && b);
		ASSERT(parse_bool(no[i], &b) == 0 && !b);
	}
	ASSERT_ERR(parse_bool("", &b), -EINVAL);
	ASSERT_ERR(parse_bool("2", &b), -EINVAL);
}

TEST(whole_numbers_are_digits_alone)
{
	uint64_t v = 0;
	ASSERT_OK(parse_uint("42", &v));
	ASSERT(v == 42);
	ASSERT_ERR(parse_uint("4.0", &v), -EINVAL);
	ASSERT_ERR(parse_uint("-4", &v), -EINVAL);
	ASSERT_ERR(parse_uint("4 ", &v), -EINVAL);
	ASSERT_ERR(parse_uint("", &v), -EINVAL);
	ASSERT_ERR(parse_uint("18446744073709551615", &v), -ERANGE);
}

TEST(formatted_values_parse_back)
{
	static const uint64_t some[] = {0, 1, 999, 1000, 1023, 1024, 1536, 60000, 90000, 3600000,
		86400000, 1048576, 1ull << 30, 3ull << 40, 123456789, INT64_MAX};
	char buf[UNIT_TEXT_MAX];
	uint64_t v;
	for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
		ASSERT_OK(parse_bytes(format_bytes(some[i], buf), 1, &v));
		ASSERT(v == some[i]);
		ASSERT_OK(parse_duration(format_duration(some[i], buf), &v));
		ASSERT(v == some[i]);
		ASSERT_OK(parse_cpus(format_cpus(some[i], buf), &v));
		ASSERT(v == some[i]);
	}
	ASSERT_STR(format_bytes(512 << 20, buf), "512m");
	ASSERT_STR(format_bytes(1000, buf), "1000");
	ASSERT_STR(format_duration(90000, buf), "90s");
	ASSERT_STR(format_duration(0, buf), "0s");
	ASSERT_STR(format_duration(1500, buf), "1500ms");
	ASSERT_STR(format_cpus(500, buf), "0.5");
	ASSERT_STR(format_cpus(10000, buf), "10");
}
