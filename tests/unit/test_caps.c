/* SPDX-License-Identifier: Apache-2.0 */
/* test_caps.c: the words of the capabilities. */
#include "cell/caps.h"

#include "test.h"

TEST(every_capability_has_a_word_that_finds_it_again)
{
	for (int i = 0; i < CELL_CAP_COUNT; i++) {
		const char *word = cell_cap_name((enum cell_cap)i);

		ASSERT(word && *word && cell_cap_meaning((enum cell_cap)i));
		ASSERT_EQ(cell_cap_find(word), i);
	}
}

TEST(a_capability_out_of_range_has_no_word)
{
	ASSERT(!cell_cap_name(CELL_CAP_COUNT));
	ASSERT(!cell_cap_meaning((enum cell_cap) - 1));
	ASSERT(cell_cap_name(CELL_CAP_EXEC));
}

TEST(an_unknown_word_is_not_found)
{
	ASSERT_EQ(cell_cap_find("limits.memroy"), -1);
	ASSERT_EQ(cell_cap_find(""), -1);
	ASSERT_EQ(cell_cap_find("limits.memory"), CELL_CAP_LIMIT_MEMORY);
}
