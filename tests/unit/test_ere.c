/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions: one by one, against the C library's, and that none takes for ever. */
#include <errno.h>
#include <regex.h>
#include <stdint.h>

#include "base/ere.h"
#include "test.h"

/* Fed whole and byte by byte, twice each. */
static bool is_match(const char *pattern, unsigned flags, const char *line, size_t n)
{
	struct ere *e = NULL;
	const char *why = "";
	bool is;

	CHECK_(ere_new(pattern, flags, &e, &why) == 0, "'%s': %s", pattern, why);
	for (int i = 0; i < 2; i++) {
		ere_begin(e);
		is = ere_feed(e, line, n);
		is = ere_end(e) || is;
		ere_begin(e);
		bool is_fed = false;
		for (size_t k = 0; k < n; k++)
			is_fed = ere_feed(e, line + k, 1);
		CHECK_((ere_end(e) || is_fed) == is, "'%s' on '%s' depends on its pieces", pattern,
			line);
	}
	ere_free(e);
	return is;
}

static const struct {
	const char *pattern, *line;
	bool is_match;
} vectors[] = {
	{"a", "xax", true},
	{"a", "xxx", false},
	{"", "", true},
	{"", "x", true},
	{"abc", "ababc", true},
	{"a.c", "a-c", true},
	{"a.c", "ac", false},
	{"a.c",
		"a\xc3\xa9"
		"c",
		true},
	{"^a", "ba", false},
	{"^a", "ab", true},
	{"a$", "ab", false},
	{"a$", "ba", true},
	{"^$", "", true},
	{"^$", "x", false},
	{"(^a|b$)", "xb", true},
	{"a^b", "ab", false},
	{"x*", "", true},
	{"^x*$", "xxx", true},
	{"^x*$", "xyx", false},
	{"^x+$", "", false},
	{"^x+$", "xx", true},
	{"^x?$", "x", true},
	{"^x?$", "xx", false},
	{"^(ab)*$", "ababab", true},
	{"^(ab)*$", "aba", false},
	{"^(a*)*$", "aaaa", true},
	{"^(a*)+$", "", true},
	{"^(a|b)*c$", "abbac", true},
	{"^a{3}$", "aaa", true},
	{"^a{3}$", "aa", false},
	{"^a{2,}$", "aaaa", true},
	{"^a{2,}$", "a", false},
	{"^a{2,3}$", "aaa", true},
	{"^a{2,3}$", "aaaa", false},
	{"^a{,2}$", "aa", true},
	{"^a{,2}$", "aaa", false},
	{"^a{0}b$", "b", true},
	{"^(a{2}){2}$", "aaaa", true},
	{"^(ab|c){2,3}$", "abcab", true},
	{"a{x", "a{x", true},
	{"{", "{", true},
	{"a{1,x}", "a{1,x}", true},
	{"cat|dog|bird", "a bird", true},
	{"cat|dog|bird", "a fish", false},
	{"a||b", "", true},
	{"^(a|)$", "", true},
	{"()", "x", true},
	{"[abc]", "xbx", true},
	{"[^abc]", "abc", false},
	{"[^abc]", "abcd", true},
	{"[a-f]+x", "bedx", true},
	{"[]x]", "]", true},
	{"[^]x]", "]x", false},
	{"[a-]", "-", true},
	{"[\\]", "\\", true},
	{"[[:digit:]]+", "x42", true},
	{"^[[:alpha:]_][[:alnum:]_]*$", "a_1", true},
	{"^[[:alpha:]_][[:alnum:]_]*$", "1a", false},
	{"[[:space:]]", "a\tb", true},
	{"\\.", "a", false},
	{"\\.", "a.", true},
	{"\\(\\)", "f()", true},
	{"\\d+", "a1", true},
	{"^\\D+$", "a1", false},
	{"\\w+\\s\\w+", "ab cd", true},
	{"\\bcat\\b", "a cat.", true},
	{"\\bcat\\b", "concat", false},
	{"\\bcat\\b", "cat", true},
	{"\\Bcat", "concat", true},
	{"\\Bcat", "cat", false},
	{"\\<c", "a cat", true},
	{"t\\>", "cats", false},
	{"t\\>", "a cat", true},
	{"\\t", "a\tb", true},
	{"a}b]c", "a}b]c", true},
	{"^\xff$", "\xff", true},
};

TEST(expressions_match_what_they_say)
{
	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
		CHECK_(is_match(vectors[i].pattern, 0, vectors[i].line, strlen(vectors[i].line)) ==
				vectors[i].is_match,
			"'%s' on '%s' should be %d", vectors[i].pattern, vectors[i].line,
			vectors[i].is_match);
}

TEST(case_and_plain_text)
{
	ASSERT(is_match("HeLLo", ERE_NO_CASE, "say hEllO", 9));
	ASSERT(!is_match("HeLLo", 0, "say hEllO", 9));
	ASSERT(is_match("[A-C]x", ERE_NO_CASE, "bX", 2));
	ASSERT(!is_match("[^a]", ERE_NO_CASE, "A", 1));
	ASSERT(is_match("\\bcat", ERE_NO_CASE, "a CAT", 5));
	ASSERT(is_match("a.*(b", ERE_FIXED, "xa.*(bx", 7));
	ASSERT(!is_match("a.b", ERE_FIXED, "axb", 3));
	ASSERT(is_match("A[", ERE_FIXED | ERE_NO_CASE, "a[", 2));
	ASSERT(is_match("a.b", 0, "a\0b", 3));
	ASSERT(is_match("aab", ERE_FIXED, "aaab", 4));
}

TEST(what_is_no_expression_is_refused)
{
	static const char *const bad[] = {"(", ")", "a)", "(a", "[a", "[", "[[:nope:]]", "[[.a.]]",
		"a\\", "*", "+a", "(*a)", "a|*", "[z-a]", "a{2,1}", "a{1001}", "\\1", "(a)\\1",
		"a{1000}{1000}", "((a{100}){100}){100}"};
	static char longest[ERE_MAX_PATTERN + 2];
	struct ere *e;
	const char *why;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		why = NULL;
		CHECK_(ere_new(bad[i], 0, &e, &why) == -EINVAL, "accepted: %s", bad[i]);
		ASSERT(why && why[0]);
	}
	memset(longest, 'a', sizeof longest - 1);
	ASSERT_ERR(ere_new(longest, 0, &e, &why), -EINVAL);
	memset(longest, '(', ERE_MAX_NESTING + 1);
	memset(longest + ERE_MAX_NESTING + 1, ')', ERE_MAX_NESTING + 1);
	longest[2 * ERE_MAX_NESTING + 2] = '\0';
	ASSERT_ERR(ere_new(longest, 0, &e, &why), -EINVAL);
	ere_free(NULL);
}

/* Small random expressions and lines, both of few letters: the C library must agree. */
TEST_SLOW(the_c_library_agrees, 120)
{
	static const char *const parts[] = {"a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab)", "^",
		"$", "c", "(a|)", "[[:alpha:]]"};
	static const char *const marks[] = {"", "", "", "*", "+", "?", "{2}", "{1,2}", "{2,}"};
	uint32_t seed = 12345;
	int n_matched = 0;

#ifndef __GLIBC__
	SKIP("only glibc's matcher is a reference: musl's misses '^$^|^'");
#endif

#define RANDOM(n) (((seed = seed * 1664525u + 1013904223u) >> 16) % (n))
	for (int i = 0; i < 20000; i++) {
		char pattern[128] = "", line[12] = "";
		size_t n = 0;
		for (unsigned k = 1 + RANDOM(4); k > 0; k--) {
			const char *part = parts[RANDOM(12)], *mark = marks[RANDOM(9)];
			bool is_anchor = *part == '^' || *part == '$';
			const char *bar = k > 1 && RANDOM(5) == 0 ? "|" : "";
			n += (size_t)snprintf(pattern + n, sizeof pattern - n, "%s%s%s", part,
				is_anchor ? "" : mark, bar);
		}
		for (unsigned k = 0, len = RANDOM(8); k < len; k++)
			line[k] = "abcd"[RANDOM(4)];
		regex_t re;
		ASSERT(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
		bool want = regexec(&re, line, 0, NULL, 0) == 0;
		regfree(&re);
		CHECK_(is_match(pattern, 0, line, strlen(line)) == want,
			"'%s' on '%s' should be %d", pattern, line, want);
		n_matched += want;
	}
	ASSERT(n_matched > 1000 && n_matched < 19000);
}

TEST_SLOW(hostile_expressions_end_soon, 120)
{
	static const char *const patterns[] = {"(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)*x",
		"(a?){100}a{100}b", "(.*a){20}b", "((a{0,30}){0,30})b", "(a|b)*a(a|b){12}c"};
	static char line[200000];

	for (size_t i = 0; i < sizeof line; i++)
		line[i] = "ab"[(i * 2654435761u >> 7) % 2];
	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
		memset(line, 'a', i % 2 ? sizeof line : 0);
		(void)is_match(patterns[i], 0, line, sizeof line / 4);
	}
}
