/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and times as people write and read them. */
#include <errno.h>
#include <stdint.h>

#include "cli/units.h"
#include "test.h"

static uint64_t size_of(const char *text)
{
	uint64_t v = 0;

	ASSERT_OK(cli_parse_size(text, &v));
	return v;
}

static uint64_t ms_of(const char *text)
{
	uint64_t v = 0;

	ASSERT_OK(cli_parse_duration_ms(text, &v));
	return v;
}

TEST(sizes_are_powers_of_1024)
{
	ASSERT(size_of("0") == 0);
	ASSERT(size_of("4096") == 4096);
	ASSERT(size_of("4096b") == 4096);
	ASSERT(size_of("64k") == 64 * 1024);
	ASSERT(size_of("64KB") == 64 * 1024);
	ASSERT(size_of("64KiB") == 64 * 1024);
	ASSERT(size_of("1.5M") == 1536 * 1024);
	ASSERT(size_of("2g") == UINT64_C(2) << 30);
	ASSERT(size_of("15E") == UINT64_C(15) << 60);
}

TEST(a_size_that_is_none_is_refused)
{
	static const char *const bad[] = {"", "k", "-1", "1x", "1kk", "1 k", "1.", ".5k", "1.5",
		"0x10", "1k ", "1kib2", "ib"};
	uint64_t v;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ASSERT_ERR(cli_parse_size(bad[i], &v), -EINVAL);
}

TEST(a_size_that_does_not_fit_is_refused)
{
	uint64_t v;

	ASSERT_OK(cli_parse_size("18446744073709551615", &v));
	ASSERT(v == UINT64_MAX);
	ASSERT_ERR(cli_parse_size("18446744073709551616", &v), -ERANGE);
	ASSERT_ERR(cli_parse_size("16E", &v), -ERANGE);
}

TEST(durations_have_units_or_are_seconds)
{
	ASSERT(ms_of("1") == 1000);
	ASSERT(ms_of("0.25") == 250);
	ASSERT(ms_of("500ms") == 500);
	ASSERT(ms_of("1.5s") == 1500);
	ASSERT(ms_of("2m") == 120000);
	ASSERT(ms_of("2min") == 120000);
	ASSERT(ms_of("1h30m") == 5400000);
	ASSERT(ms_of("1d") == 86400000);
}

TEST(a_duration_that_is_none_is_refused)
{
	static const char *const bad[] = {"", "s", "-1s", "1x", "1h30", "1 s", "1s ", "1.s", "ms"};
	uint64_t v;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ASSERT_ERR(cli_parse_duration_ms(bad[i], &v), -EINVAL);
	ASSERT_ERR(cli_parse_duration_ms("300000000000d", &v), -ERANGE);
	ASSERT_ERR(cli_parse_duration_ms("18446744073709551615ms1ms", &v), -ERANGE);
}

TEST(numbers_have_digits_only)
{
	uint64_t v;

	ASSERT_OK(cli_parse_number("007", &v));
	ASSERT(v == 7);
	ASSERT_ERR(cli_parse_number("", &v), -EINVAL);
	ASSERT_ERR(cli_parse_number("+7", &v), -EINVAL);
	ASSERT_ERR(cli_parse_number("7 ", &v), -EINVAL);
	ASSERT_ERR(cli_parse_number("99999999999999999999", &v), -ERANGE);
}

TEST(sizes_are_shown_in_the_largest_unit)
{
	char out[CLI_UNIT_MAX];

	ASSERT_STR(cli_format_size(out, 0), "0 B");
	ASSERT_STR(cli_format_size(out, 1023), "1023 B");
	ASSERT_STR(cli_format_size(out, 1024), "1.0 KiB");
	ASSERT_STR(cli_format_size(out, 1536), "1.5 KiB");
	ASSERT_STR(cli_format_size(out, 20u << 20), "20 MiB");
	ASSERT_STR(cli_format_size(out, UINT64_MAX), "15 EiB");
}

TEST(ages_have_one_unit)
{
	char out[CLI_UNIT_MAX];

	ASSERT_STR(cli_format_age(out, 0), "0s");
	ASSERT_STR(cli_format_age(out, 119), "119s");
	ASSERT_STR(cli_format_age(out, 120), "2m");
	ASSERT_STR(cli_format_age(out, 7200), "2h");
	ASSERT_STR(cli_format_age(out, 200000), "2d");
}
