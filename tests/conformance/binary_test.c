/* SPDX-License-Identifier: Apache-2.0 */
/* binary_test.c: bytes are bytes, on every way in and out. */
#include "suite.h"

static void fill_all(uint8_t all[256])
{
	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
}

TEST(every_byte_value_comes_out_unharmed)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "bytes");
	uint8_t all[256];

	fill_all(all);
	ASSERT_INT(r.out_len, 256);
	ASSERT(!memcmp(r.out, all, 256));
	ASSERT_INT(r.out[256], '\0');
}

TEST(every_byte_value_goes_in_and_comes_back)
{
	auto_cell struct cell *c = open_cell(s);
	uint8_t all[256];

	fill_all(all);
	auto_result struct cell_result r = run_opts(c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "cat")}, all, sizeof(all));
	ASSERT_INT(r.out_len, 256);
	ASSERT(!memcmp(r.out, all, 256));
}

TEST(every_byte_value_survives_a_file)
{
	auto_cell struct cell *c = open_cell(s);
	uint8_t all[256];
	auto_free char *back = NULL;
	size_t n = 0;

	fill_all(all);
	store_bytes(c, "all", all, sizeof(all));
	OK(cell_file_load(c, "all", 1000, &back, &n, &E));
	ASSERT_INT(n, 256);
	ASSERT(!memcmp(back, all, 256));
	auto_result struct cell_result r = sh(c, "./probe cat < all");
	ASSERT_INT(r.out_len, 256);
	ASSERT(!memcmp(r.out, all, 256));
}

TEST(every_byte_value_but_nul_and_equals_fits_a_variable_and_an_argument)
{
	auto_cell struct cell *c = open_cell(s);
	char var[300] = "ALL=", want[300];
	size_t n = 4;

	for (int i = 1; i < 256; i++)
		var[n++] = (char)i;
	var[n] = '\0';
	snprintf(want, sizeof(want), "%s\n", var + 4);
	auto_result struct cell_result r = run_opts(c,
		&(struct cell_exec_opts){
			.argv = ARGV("sh", "-c", "printf '%s\\n%s\\n' \"$ALL\" \"$1\"", "sh",
				var + 4),
			.env = ARGV(var)},
		NULL, 0);
	ASSERT_INT(r.out_len, 2 * 256);
	ASSERT(!memcmp(r.out, want, 256));
	ASSERT(!memcmp(r.out + 256, want, 256));
}

TEST(an_edit_replaces_binary_text)
{
	auto_cell struct cell *c = open_cell(s);
	auto_free char *back = NULL;
	size_t n = 0;
	uint64_t count = 0;

	store_bytes(c, "bin", "a\0b\xff\xfe\0c", 7);
	OK(cell_file_edit(c, "bin", "\xff\xfe\0", 3, "\0\0\0\0", 4, false, &count, &E));
	OK(cell_file_load(c, "bin", 100, &back, &n, &E));
	ASSERT_INT(count, 1);
	ASSERT_INT(n, 8);
	ASSERT(!memcmp(back, "a\0b\0\0\0\0c", 8));
}
