/* SPDX-License-Identifier: Apache-2.0 */
/* ere_parse.c: an expression to a program, by recursive descent; the nesting is bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ere.h"
#include "base/ere_program.h"

struct parser {
	struct ere_program *prog;
	const char *p;
	unsigned depth;
	const char *why;
};

static int refuse(struct parser *s, const char *why)
{
	s->why = why;
	return -EINVAL;
}

static int reserve(struct parser *s, size_t more)
{
	struct ere_program *g = s->prog;

	if (g->n + more > ERE_MAX_PROGRAM)
		return refuse(s, "it is too large, or repeats too much");
	if (g->n + more <= g->cap)
		return 0;
	size_t cap = g->cap ? g->cap : 64;
	while (cap < g->n + more)
		cap *= 2;
	struct ere_step *steps = realloc(g->steps, cap * sizeof *steps);
	if (!steps)
		return -ENOMEM;
	g->steps = steps;
	g->cap = cap;
	return 0;
}

/* Put a step at `at`, moving what is there up. */
static int insert(struct parser *s, size_t at, struct ere_step step)
{
	struct ere_program *g = s->prog;
	int r = reserve(s, 1);

	if (r < 0)
		return r;
	memmove(&g->steps[at + 1], &g->steps[at], (g->n - at) * sizeof step);
	g->steps[at] = step;
	g->n++;
	return 0;
}

static int add(struct parser *s, enum ere_op op, uint8_t byte, ptrdiff_t a, ptrdiff_t b)
{
	return insert(s, s->prog->n,
		(struct ere_step){
			.op = (uint8_t)op, .byte = byte, .a = (int16_t)a, .b = (int16_t)b});
}

static int add_byte(struct parser *s, uint8_t c)
{
	return add(s, ERE_BYTE, s->prog->ignores_case ? ere_fold(c) : c, 0, 0);
}

static void set_add(struct ere_set *set, unsigned c)
{
	set->bits[c / 32] |= UINT32_C(1) << (c % 32);
}

static int add_set(struct parser *s, struct ere_set set, bool is_not)
{
	struct ere_program *g = s->prog;

	for (unsigned c = 'A'; g->ignores_case && c <= 'Z'; c++) {
		if (ere_set_has(&set, (uint8_t)c) || ere_set_has(&set, (uint8_t)(c + 32))) {
			set_add(&set, c);
			set_add(&set, c + 32);
		}
	}
	for (size_t i = 0; is_not && i < 8; i++)
		set.bits[i] = ~set.bits[i];
	for (size_t i = 0; i < g->n_sets; i++) {
		if (memcmp(&g->sets[i], &set, sizeof set) == 0)
			return add(s, ERE_SET, 0, (ptrdiff_t)i, 0);
	}
	if (g->n_sets == g->sets_cap) {
		size_t cap = g->sets_cap ? 2 * g->sets_cap : 8;
		struct ere_set *sets = realloc(g->sets, cap * sizeof *sets);
		if (!sets)
			return -ENOMEM;
		g->sets = sets;
		g->sets_cap = cap;
	}
	g->sets[g->n_sets] = set;
	return add(s, ERE_SET, 0, (ptrdiff_t)g->n_sets++, 0);
}

static bool is_in_class(const char *name, size_t n, unsigned c)
{
	bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
	bool is_digit = c >= '0' && c <= '9', is_graph = c > ' ' && c < 127;
#define IS(word) (n == sizeof(word) - 1 && memcmp(name, word, n) == 0)
	if (IS("alpha"))
		return is_upper || is_lower;
	if (IS("digit"))
		return is_digit;
	if (IS("alnum"))
		return is_upper || is_lower || is_digit;
	if (IS("upper"))
		return is_upper;
	if (IS("lower"))
		return is_lower;
	if (IS("space"))
		return c == ' ' || (c >= '\t' && c <= '\r');
	if (IS("blank"))
		return c == ' ' || c == '\t';
	if (IS("punct"))
		return is_graph && !is_upper && !is_lower && !is_digit;
	if (IS("print"))
		return is_graph || c == ' ';
	if (IS("graph"))
		return is_graph;
	if (IS("cntrl"))
		return c < ' ' || c == 127;
	if (IS("xdigit"))
		return is_digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
	if (IS("word"))
		return ere_is_word((int)c);
#undef IS
	return false;
}

/* False when there is no such class. */
static bool add_class(struct ere_set *set, const char *name, size_t n)
{
	bool is_known = false;

	for (unsigned c = 0; c < 256; c++) {
		if (is_in_class(name, n, c)) {
			set_add(set, c);
			is_known = true;
		}
	}
	return is_known;
}

/* s->p is behind '['. As POSIX has it, a backslash in a bracket is a backslash. */
static int parse_bracket(struct parser *s)
{
	struct ere_set set = {0};
	bool is_not = *s->p == '^';

	s->p += is_not;
	for (bool is_first = true; *s->p != ']' || is_first; is_first = false) {
		uint8_t low = (uint8_t)*s->p, high;

		if (!low)
			return refuse(s, "a '[' has no ']'");
		if (low == '[' && s->p[1] == ':') {
			const char *end = strstr(s->p + 2, ":]");
			if (!end || !add_class(&set, s->p + 2, (size_t)(end - s->p - 2)))
				return refuse(s, "there is no such [:class:]");
			s->p = end + 2;
			continue;
		}
		if (low == '[' && (s->p[1] == '.' || s->p[1] == '='))
			return refuse(s, "collating elements are not supported");
		high = low;
		s->p++;
		if (s->p[0] == '-' && s->p[1] && s->p[1] != ']') {
			high = (uint8_t)s->p[1];
			s->p += 2;
		}
		if (low > high)
			return refuse(s, "a range in brackets runs backwards");
		for (unsigned c = low; c <= high; c++)
			set_add(&set, c);
	}
	s->p++;
	return add_set(s, set, is_not);
}

/* Any character: one byte, and whatever UTF-8 continues it with. */
static int add_any(struct parser *s)
{
	struct ere_set none = {0}, tail = {.bits = {[4] = UINT32_MAX, [5] = UINT32_MAX}};
	int r = add_set(s, none, true);

	if (r == 0)
		r = add(s, ERE_SPLIT, 0, 1, 3);
	if (r == 0)
		r = add_set(s, tail, false);
	return r < 0 ? r : add(s, ERE_JUMP, 0, -2, 0);
}

static int add_edge(struct parser *s, enum ere_op op)
{
	s->prog->has_word_edges = true;
	return add(s, op, 0, 0, 0);
}

static int parse_escape(struct parser *s)
{
	struct ere_set set = {0};
	char c = *s->p;

	if (!c)
		return refuse(s, "it ends in a backslash");
	s->p++;
	switch (c) {
	case 'w':
	case 'W':
		(void)add_class(&set, "word", 4);
		return add_set(s, set, c == 'W');
	case 'd':
	case 'D':
		(void)add_class(&set, "digit", 5);
		return add_set(s, set, c == 'D');
	case 's':
	case 'S':
		(void)add_class(&set, "space", 5);
		return add_set(s, set, c == 'S');
	case 'b':
		return add_edge(s, ERE_WORD_EDGE);
	case 'B':
		return add_edge(s, ERE_NO_WORD_EDGE);
	case '<':
		return add_edge(s, ERE_WORD_BEGIN);
	case '>':
		return add_edge(s, ERE_WORD_END);
	case 't':
		return add_byte(s, '\t');
	case 'r':
		return add_byte(s, '\r');
	default:
		if (c >= '1' && c <= '9')
			return refuse(s, "back-references are not supported");
		return add_byte(s, (uint8_t)c);
	}
}

static int parse_alternatives(struct parser *s);

static int parse_group(struct parser *s)
{
	if (++s->depth > ERE_MAX_NESTING)
		return refuse(s, "it is nested too deep");
	int r = parse_alternatives(s);
	if (r < 0)
		return r;
	s->depth--;
	if (*s->p != ')')
		return refuse(s, "a '(' has no ')'");
	s->p++;
	return 0;
}

static int parse_atom(struct parser *s)
{
	char c = *s->p++;

	switch (c) {
	case '(':
		return parse_group(s);
	case '[':
		return parse_bracket(s);
	case '.':
		return add_any(s);
	case '^':
		return add(s, ERE_LINE_BEGIN, 0, 0, 0);
	case '$':
		return add(s, ERE_LINE_END, 0, 0, 0);
	case '\\':
		return parse_escape(s);
	case '*':
	case '+':
	case '?':
		return refuse(s, "there is nothing to repeat before a '*', '+' or '?'");
	default:
		return add_byte(s, (uint8_t)c);
	}
}

static const char *get_count(const char *p, unsigned *ret)
{
	unsigned n = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (n <= ERE_MAX_REPEAT)
			n = n * 10 + (unsigned)(*p - '0');
	}
	*ret = n;
	return p;
}

/* "{m}", "{m,}", "{,n}" or "{m,n}" at p: what follows it, or NULL when it is none and so plain text. */
static const char *get_bounds(const char *p, unsigned *ret_min, unsigned *ret_max)
{
	const char *q = get_count(p + 1, ret_min);
	bool has_min = q > p + 1;

	*ret_max = *ret_min;
	if (*q == ',') {
		const char *max = q + 1;
		q = get_count(max, ret_max);
		if (q == max) {
			*ret_max = UINT32_MAX;
			if (!has_min)
				return NULL;
		}
	} else if (!has_min) {
		return NULL;
	}
	return *q == '}' ? q + 1 : NULL;
}

static int add_part(struct parser *s, const struct ere_step *part, size_t len)
{
	int r = len ? reserve(s, len) : 0;

	if (r == 0 && len) {
		memcpy(&s->prog->steps[s->prog->n], part, len * sizeof *part);
		s->prog->n += len;
	}
	return r;
}

/* Write the part from `at` on out min to max times. */
static int repeat(struct parser *s, size_t at, unsigned min, unsigned max)
{
	struct ere_program *g = s->prog;
	size_t len = g->n - at;
	ptrdiff_t n = (ptrdiff_t)len;
	int r = 0;

	if (max == UINT32_MAX && min == 0) {
		r = insert(s, at,
			(struct ere_step){.op = ERE_SPLIT, .a = 1, .b = (int16_t)(n + 2)});
		return r < 0 ? r : add(s, ERE_JUMP, 0, -(n + 1), 0);
	}
	unsigned optional = max == UINT32_MAX ? 0 : max - min;
	if (max > 0 && len > 0 && ((size_t)min + optional) * (len + 1) > ERE_MAX_PROGRAM)
		return refuse(s, "it is too large, or repeats too much");
	struct ere_step *part = malloc((len + 1) * sizeof *part);
	if (!part)
		return -ENOMEM;
	if (len)
		memcpy(part, &g->steps[at], len * sizeof *part);
	g->n = at;
	for (unsigned i = 0; r == 0 && i < min; i++)
		r = add_part(s, part, len);
	if (r == 0 && max == UINT32_MAX)
		r = add(s, ERE_SPLIT, 0, -n, 1);
	for (unsigned i = 0; r == 0 && i < optional; i++) {
		r = add(s, ERE_SPLIT, 0, 1, (ptrdiff_t)(optional - i) * (n + 1));
		if (r == 0)
			r = add_part(s, part, len);
	}
	free(part);
	return r;
}

static int parse_branch(struct parser *s)
{
	while (*s->p && *s->p != '|' && !(*s->p == ')' && s->depth > 0)) {
		size_t at = s->prog->n;

		if (*s->p == ')')
			return refuse(s, "a ')' has no '('");
		int r = parse_atom(s);
		for (;;) {
			unsigned min = 0, max = UINT32_MAX;
			const char *behind = s->p + 1;

			if (r < 0)
				return r;
			if (*s->p == '{')
				behind = get_bounds(s->p, &min, &max);
			else if (*s->p == '+')
				min = 1;
			else if (*s->p == '?')
				max = 1;
			else if (*s->p != '*')
				break;
			if (!behind)
				break;
			if (min > max || min > ERE_MAX_REPEAT ||
				(max != UINT32_MAX && max > ERE_MAX_REPEAT))
				return refuse(s, "a {count} is too big or runs backwards");
			s->p = behind;
			r = repeat(s, at, min, max);
		}
	}
	return 0;
}

static int parse_alternatives(struct parser *s)
{
	struct ere_program *g = s->prog;
	size_t jumps = 0; /* chained through `a`, from the last back: distance to the one before */
	size_t begin = g->n;
	int r = parse_branch(s);

	while (r == 0 && *s->p == '|') {
		s->p++;
		size_t len = g->n - begin;
		r = insert(s, begin,
			(struct ere_step){.op = ERE_SPLIT, .a = 1, .b = (int16_t)(len + 2)});
		if (r == 0)
			r = add(s, ERE_JUMP, 0, jumps ? (ptrdiff_t)(g->n - jumps) : 0, 0);
		jumps = g->n - 1;
		begin = g->n;
		if (r == 0)
			r = parse_branch(s);
	}
	for (size_t at = jumps; r == 0 && at;) {
		size_t before = g->steps[at].a ? at - (size_t)g->steps[at].a : 0;
		g->steps[at].a = (int16_t)(g->n - at);
		at = before;
	}
	return r;
}

int ere_parse(struct ere_program *p, const char *pattern, bool is_fixed, const char **why)
{
	struct parser s = {.prog = p, .p = pattern};
	int r = 0;

	if (strlen(pattern) > ERE_MAX_PATTERN)
		r = refuse(&s, "it is too long");
	if (!is_fixed && r == 0)
		r = parse_alternatives(&s);
	for (; is_fixed && r == 0 && *s.p; s.p++)
		r = add_byte(&s, (uint8_t)*s.p);
	if (r == 0)
		r = add(&s, ERE_MATCH, 0, 0, 0);
	if (r == -EINVAL)
		*why = s.why;
	return r;
}
