/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns, one by one, and that no pattern takes for ever. */
#include <errno.h>

#include "base/globmatch.h"
#include "test.h"

static bool is_match(const char *pattern, const char *path)
{
	struct globmatch *g = NULL;

	ASSERT_OK(globmatch_new(pattern, &g));
	bool is = globmatch_test(g, path);
	ASSERT(globmatch_test(g, path) == is);
	globmatch_free(g);
	return is;
}

static const struct {
	const char *pattern, *path;
	bool is_match;
} vectors[] = {
	{"a", "a", true},
	{"a", "b", false},
	{"a", "", false},
	{"a", "ab", false},
	{"ab", "a", false},
	{"*", "", true},
	{"*", "name", true},
	{"*", ".hidden", true},
	{"*", "a/b", false},
	{"*.c", "x.c", true},
	{"*.c", ".c", true},
	{"*.c", "x.h", false},
	{"*.c", "d/x.c", false},
	{"a*b*c", "abc", true},
	{"a*b*c", "aXbYbZc", true},
	{"a*b*c", "aXbYbZ", false},
	{"?", "a", true},
	{"?", "", false},
	{"?", "ab", false},
	{"?", "/", false},
	{"?", "\xc3\xa9", true},
	{"??", "\xc3\xa9", false},
	{"?x", "\xe2\x82\xacx", true},
	{"?", "\xff", true},
	{"[abc]", "b", true},
	{"[abc]", "d", false},
	{"[a-c]x", "bx", true},
	{"[a-c]x", "dx", false},
	{"[!a-c]", "d", true},
	{"[!a-c]", "b", false},
	{"[^a]", "b", true},
	{"[!a]", "/", false},
	{"x[!a]y", "x/y", false},
	{"[]a]", "]", true},
	{"[!]a]", "]", false},
	{"[a-]", "-", true},
	{"[\\]]", "]", true},
	{"[z-a]", "m", false},
	{"[", "[", true},
	{"[ab", "[ab", true},
	{"[]", "[]", true},
	{"[/]", "/", false},
	{"{a,b}", "a", true},
	{"{a,b}", "b", true},
	{"{a,b}", "c", false},
	{"{a,b}", "ab", false},
	{"x{a,bb,}y", "xy", true},
	{"x{a,bb,}y", "xbby", true},
	{"x{a,bb,}y", "xaby", false},
	{"{a,{b,c}d}e", "cde", true},
	{"{a,{b,c}d}e", "ce", false},
	{"{a}", "a", true},
	{"{}", "", true},
	{"{a", "{a", true},
	{"a}", "a}", true},
	{"{a,b", "{a,b", true},
	{"a,b", "a,b", true},
	{"{[}],x}", "}", true},
	{"*.{c,h}", "x.h", true},
	{"*.{c,h}", "x.o", false},
	{"{a/b,c}/*.x", "a/b/q.x", true},
	{"{a/b,c}/*.x", "c/q.x", true},
	{"**", "a", true},
	{"**", "a/b/c", true},
	{"**/*.c", "x.c", true},
	{"**/*.c", "a/b/x.c", true},
	{"**/*.c", "a/b/x.h", false},
	{"a/**/b", "a/b", true},
	{"a/**/b", "a/x/y/b", true},
	{"a/**/b", "ab", false},
	{"a/**/b", "a/xb", false},
	{"a/**", "a/b/c", true},
	{"a/**", "a", false},
	{"a/**", "b/c", false},
	{"**/a/**", "x/a/y", true},
	{"**/a/**", "a/y", true},
	{"{**/x,y}", "d/x", true},
	{"{**/x,y}", "x", true},
	{"a/*/c", "a/b/c", true},
	{"a/*/c", "a/b/b/c", false},
	{"\\*", "*", true},
	{"\\*", "a", false},
	{"\\{a,b\\}", "{a,b}", true},
	{"a\\", "a\\", true},
	{"new\nline*", "new\nline!", true},
	{"\xff*", "\xff\xfe", true},
};

TEST(patterns_match_what_they_say)
{
	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
		CHECK_(is_match(vectors[i].pattern, vectors[i].path) == vectors[i].is_match,
			"'%s' on '%s' should be %d", vectors[i].pattern, vectors[i].path,
			vectors[i].is_match);
}

TEST(bad_patterns_are_refused)
{
	static char longest[GLOBMATCH_MAX_PATTERN + 2];
	struct globmatch *g;

	ASSERT_ERR(globmatch_new("", &g), -EINVAL);
	memset(longest, 'a', sizeof longest - 1);
	ASSERT_ERR(globmatch_new(longest, &g), -ENAMETOOLONG);
	longest[GLOBMATCH_MAX_PATTERN] = '\0';
	ASSERT_OK(globmatch_new(longest, &g));
	ASSERT(globmatch_test(g, longest));
	globmatch_free(g);
	memset(longest, '{', GLOBMATCH_MAX_NESTING + 1);
	memset(longest + GLOBMATCH_MAX_NESTING + 1, '}', GLOBMATCH_MAX_NESTING + 1);
	longest[2 * GLOBMATCH_MAX_NESTING + 2] = '\0';
	ASSERT_ERR(globmatch_new(longest, &g), -EINVAL);
	longest[2 * GLOBMATCH_MAX_NESTING + 1] = '\0'; /* one is a letter now */
	longest[0] = 'x';
	ASSERT_OK(globmatch_new(longest, &g));
	globmatch_free(g);
	globmatch_free(NULL);
}

/* What makes a backtracking matcher take years is done here in the time a test has. */
TEST_SLOW(hostile_patterns_end_soon, 120)
{
	static char pattern[GLOBMATCH_MAX_PATTERN + 1], path[4096];

	memset(path, 'a', sizeof path - 1);
	for (size_t i = 0; i + 2 < sizeof pattern; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[sizeof pattern - 2] = 'b';
	pattern[sizeof pattern - 1] = '\0';
	ASSERT(!is_match(pattern, path));
	for (size_t i = 0; i + 3 < sizeof pattern; i += 3)
		memcpy(pattern + i, "**/", 3);
	pattern[sizeof pattern - 2] = 'b';
	ASSERT(!is_match(pattern, path));
	size_t n = 0;
	for (; n + 8 < sizeof pattern; n += 7)
		memcpy(pattern + n, "{a,a*,}", 7);
	pattern[n] = 'b';
	pattern[n + 1] = '\0';
	ASSERT(!is_match(pattern, path));
	pattern[n] = '\0';
	ASSERT(is_match(pattern, path));
	memset(pattern, '{', sizeof pattern - 1);
	pattern[sizeof pattern - 1] = '\0';
	ASSERT(!is_match(pattern, path));
}

TEST(depth_tells_how_deep_to_look)
{
	static const struct {
		const char *pattern;
		unsigned depth;
	} v[] = {{"*.c", 1}, {"a/*.c", 2}, {"{a,b/c}/d", 3}, {"**", 0}, {"a/**/b", 0}, {"a**b", 0}};

	for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
		struct globmatch *g;
		ASSERT_OK(globmatch_new(v[i].pattern, &g));
		ASSERT(globmatch_depth(g) == v[i].depth);
		globmatch_free(g);
	}
}
