/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors src/guest/consumption.c. */
#include "guest/platform.h"
#include "test.h"

TEST(cpu_of_a_process_and_of_those_it_waited_for_and_its_memory)
{
	struct consumption c = {0};

	ASSERT_EQ(consumption_add("7 (sh) S 1 7 7 0 -1 4194560 100 200 0 0 3 4 50 60 20 0 1 0 9999 "
				  "2500000 321 184467 1 1 0 0",
			  &c),
		0);
	ASSERT_EQ(c.ticks, 3 + 4 + 50 + 60);
	ASSERT_EQ(c.pages, 321);
	ASSERT_EQ(c.processes, 1);
}

TEST(a_name_cannot_lie)
{
	struct consumption c = {0};

	ASSERT_EQ(consumption_add("7 (x) S 1 7 7 0 -1 0 0 0 0 0 900 900 900 900 20) R 1 7 7 0 -1 0 "
				  "0 0 0 0 1 1 0 0 20 0 1 0 5 5 2 0",
			  &c),
		0);
	ASSERT_EQ(c.ticks, 2);
	ASSERT_EQ(c.pages, 2);
}

TEST(what_is_no_line_counts_nothing)
{
	static const char *const bad[] = {"", "7 sh S", "7 (sh) S 1 2", ")", "7 (sh)"};
	struct consumption c = {0};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ASSERT_EQ(consumption_add(bad[i], &c), -1);
	ASSERT_EQ(c.processes, 0);
}
