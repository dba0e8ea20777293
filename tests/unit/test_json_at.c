/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_at.c: what stands at a path, and nothing where nothing does. */
#include "core/json_at.h"
#include "test.h"

TEST(what_stands_at_a_path_is_found)
{
	json_t *j = json_pack("{s:{s:s,s:b},s:[s,s],s:i}", "a", "x.y", "text", "is", 1, "list",
		"one", "two", "n", -3);

	ASSERT_STR(json_text_at(j, "a/x.y"), "text");
	ASSERT_STR(json_text_at(j, "list/1"), "two");
	ASSERT(json_is_true_at(j, "a/is"));
	ASSERT_EQ(json_count_at(j, "n"), 0);
	ASSERT(json_at(j, "") == j);
	json_decref(j);
}

TEST(where_nothing_is_there_is_nothing)
{
	json_t *j = json_pack("{s:{s:i},s:[]}", "a", "n", 7, "list");

	ASSERT_EQ(json_count_at(j, "a/n"), 7);
	ASSERT(!json_at(j, "b") && !json_at(j, "a/n/x") && !json_at(j, "list/0"));
	ASSERT(!json_text_at(j, "a/n") && !json_is_true_at(j, "a/n"));
	ASSERT_EQ(json_count_at(j, "list"), 0);
	ASSERT(!json_at(NULL, "a"));
	json_decref(j);
}
