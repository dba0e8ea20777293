/* SPDX-License-Identifier: Apache-2.0 */
/* globmatch.c: compile to a nondeterministic automaton, follow all its states at once. */
#include "base/globmatch.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum op {
	OP_BYTE,     /* this byte */
	OP_NAME,     /* the first byte of a character, not '/' */
	OP_SET,	     /* a byte of a set */
	OP_TAIL,     /* loops on UTF-8 continuation bytes */
	OP_STAR,     /* loops on all but '/' */
	OP_GLOBSTAR, /* loops on everything */
	OP_SPLIT,    /* to the next and to `to` */
	OP_JUMP,
	OP_MATCH,
};

struct node {
	uint8_t op;
	uint8_t byte;
	uint16_t to; /* of SPLIT and JUMP; of SET its number */
};

struct set {
	uint32_t bits[8];
};

struct globmatch {
	struct node *nodes;
	size_t n, cap;
	struct set *sets;
	size_t n_sets, sets_cap;
	unsigned depth;
	/* working memory: two lists of states and when each was last put on one */
	uint16_t *now, *next;
	uint32_t *seen;
	uint32_t round;
	uint16_t *stack;
};

static int add(struct globmatch *g, enum op op, uint8_t byte, size_t to)
{
	if (g->n == g->cap) {
		size_t cap = g->cap ? 2 * g->cap : 64;
		struct node *nodes = realloc(g->nodes, cap * sizeof *nodes);
		if (!nodes)
			return -ENOMEM;
		g->nodes = nodes;
		g->cap = cap;
	}
	g->nodes[g->n++] = (struct node){.op = (uint8_t)op, .byte = byte, .to = (uint16_t)to};
	return 0;
}

static void set_add(struct set *s, uint8_t c)
{
	s->bits[c / 32] |= UINT32_C(1) << (c % 32);
}

static bool set_has(const struct set *s, uint8_t c)
{
	return s->bits[c / 32] >> (c % 32) & 1;
}

/* One element of a bracket's list; backslash quotes. */
static uint8_t bracket_byte(const char **p)
{
	if (**p == '\\' && (*p)[1])
		(*p)++;
	return (uint8_t) * (*p)++;
}

/* *p is behind '['. 1 and a node added, 0 when there is no closing bracket, negative errno. */
static int add_bracket(struct globmatch *g, const char **p)
{
	struct set s = {0};
	const char *q = *p;
	bool is_not = *q == '!' || *q == '^';

	q += is_not;
	for (bool is_first = true; *q && (*q != ']' || is_first); is_first = false) {
		uint8_t low = bracket_byte(&q), high = low;
		if (q[0] == '-' && q[1] && q[1] != ']') {
			q++;
			high = bracket_byte(&q);
		}
		for (unsigned c = low; c <= high; c++)
			set_add(&s, (uint8_t)c);
	}
	if (*q != ']')
		return 0;
	for (size_t i = 0; is_not && i < 8; i++)
		s.bits[i] = ~s.bits[i];
	s.bits['/' / 32] &= ~(UINT32_C(1) << ('/' % 32));
	if (g->n_sets == g->sets_cap) {
		size_t cap = g->sets_cap ? 2 * g->sets_cap : 4;
		struct set *sets = realloc(g->sets, cap * sizeof *sets);
		if (!sets)
			return -ENOMEM;
		g->sets = sets;
		g->sets_cap = cap;
	}
	g->sets[g->n_sets] = s;
	int r = add(g, OP_SET, 0, g->n_sets++);
	*p = q + 1;
	return r < 0 ? r : 1;
}

/* Where the brace that opens just before p closes; NULL when it does not. */
static const char *closing_brace(const char *p)
{
	unsigned depth = 1;

	for (; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '{')
			depth++;
		else if (*p == '}' && --depth == 0)
			return p;
	}
	return NULL;
}

/* A brace while it is open. Its alternatives: SPLIT to the next one, the text, JUMP to the end. */
struct brace {
	size_t split;	   /* of the alternative being read */
	size_t first_jump; /* JUMPs to the end are chained through `to`; 0: none */
};

static int add_stars(struct globmatch *g, const char **p, const char *begin)
{
	size_t n = strspn(*p, "*");
	bool is_component =
		(*p == begin || (*p)[-1] == '/' || (*p)[-1] == '{' || (*p)[-1] == ',') &&
		(*p)[n] == '/';

	*p += n;
	if (n == 1)
		return add(g, OP_STAR, 0, 0);
	if (!is_component)
		return add(g, OP_GLOBSTAR, 0, 0);
	(*p)++;
	int r = add(g, OP_SPLIT, 0, g->n + 3);
	if (r == 0)
		r = add(g, OP_GLOBSTAR, 0, 0);
	return r < 0 ? r : add(g, OP_BYTE, '/', 0);
}

static int close_alternative(struct globmatch *g, struct brace *b, bool is_last)
{
	if (is_last) {
		size_t end = g->n;
		for (size_t j = b->first_jump; j != 0;) {
			size_t next = g->nodes[j].to;
			g->nodes[j].to = (uint16_t)end;
			j = next;
		}
		/* The last alternative's split has nowhere else to go. */
		g->nodes[b->split].op = OP_JUMP;
		g->nodes[b->split].to = (uint16_t)(b->split + 1);
		return 0;
	}
	int r = add(g, OP_JUMP, 0, b->first_jump);
	if (r < 0)
		return r;
	b->first_jump = g->n - 1;
	g->nodes[b->split].to = (uint16_t)g->n;
	b->split = g->n;
	return add(g, OP_SPLIT, 0, 0);
}

static int compile(struct globmatch *g, const char *pattern)
{
	struct brace open[GLOBMATCH_MAX_NESTING];
	size_t n_open = 0;
	bool has_globstar = false;
	int r = 0;

	g->depth = 1;
	for (const char *p = pattern; *p && r >= 0;) {
		char c = *p;

		if (c == '*') {
			has_globstar |= p[1] == '*';
			r = add_stars(g, &p, pattern);
			continue;
		}
		p++;
		if (c == '?') {
			r = add(g, OP_NAME, 0, 0);
			if (r == 0)
				r = add(g, OP_TAIL, 0, 0);
		} else if (c == '[') {
			r = add_bracket(g, &p);
			if (r == 0)
				r = add(g, OP_BYTE, '[', 0);
		} else if (c == '{' && closing_brace(p)) {
			if (n_open == GLOBMATCH_MAX_NESTING)
				return -EINVAL;
			open[n_open++] = (struct brace){.split = g->n};
			r = add(g, OP_SPLIT, 0, 0);
		} else if (c == ',' && n_open) {
			r = close_alternative(g, &open[n_open - 1], false);
		} else if (c == '}' && n_open) {
			r = close_alternative(g, &open[--n_open], true);
		} else {
			if (c == '\\' && *p)
				c = *p++;
			g->depth += c == '/';
			r = add(g, OP_BYTE, (uint8_t)c, 0);
		}
	}
	/* A bracket can swallow the brace that was to close another. */
	while (r >= 0 && n_open > 0)
		r = close_alternative(g, &open[--n_open], true);
	if (has_globstar)
		g->depth = 0;
	return r < 0 ? r : add(g, OP_MATCH, 0, 0);
}

int globmatch_new(const char *pattern, struct globmatch **ret)
{
	size_t len = strlen(pattern);

	if (len == 0)
		return -EINVAL;
	if (len > GLOBMATCH_MAX_PATTERN)
		return -ENAMETOOLONG;
	struct globmatch *g = calloc(1, sizeof *g);
	int r = g ? compile(g, pattern) : -ENOMEM;
	if (r == 0) {
		g->now = calloc(g->n, sizeof *g->now);
		g->next = calloc(g->n, sizeof *g->next);
		g->seen = calloc(g->n, sizeof *g->seen);
		g->stack = calloc(g->n + 1, sizeof *g->stack);
		if (!g->now || !g->next || !g->seen || !g->stack)
			r = -ENOMEM;
	}
	if (r < 0) {
		globmatch_free(g);
		return r;
	}
	*ret = g;
	return 0;
}

void globmatch_free(struct globmatch *g)
{
	if (!g)
		return;
	free(g->nodes);
	free(g->sets);
	free(g->now);
	free(g->next);
	free(g->seen);
	free(g->stack);
	free(g);
}

unsigned globmatch_depth(const struct globmatch *g)
{
	return g->depth;
}

/* Put a state and all it reaches without a byte on the list. */
static size_t follow(struct globmatch *g, uint16_t *list, size_t n, size_t state)
{
	size_t top = 0;

	g->stack[top++] = (uint16_t)state;
	while (top > 0) {
		uint16_t s = g->stack[--top];
		const struct node *node = &g->nodes[s];

		if (g->seen[s] == g->round)
			continue;
		g->seen[s] = g->round;
		switch (node->op) {
		case OP_JUMP:
			g->stack[top++] = node->to;
			break;
		case OP_SPLIT:
			g->stack[top++] = node->to;
			g->stack[top++] = (uint16_t)(s + 1);
			break;
		case OP_TAIL:
		case OP_STAR:
		case OP_GLOBSTAR:
			list[n++] = s;
			g->stack[top++] = (uint16_t)(s + 1);
			break;
		default:
			list[n++] = s;
		}
	}
	return n;
}

static bool is_tail(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

static bool takes(const struct globmatch *g, const struct node *node, uint8_t before, uint8_t c)
{
	switch (node->op) {
	case OP_BYTE:
		return node->byte == c;
	case OP_NAME:
		return c != '/' && !(is_tail(c) && before >= 0x80);
	case OP_STAR:
		return c != '/';
	case OP_SET:
		return set_has(&g->sets[node->to], c);
	case OP_TAIL:
		return is_tail(c);
	case OP_GLOBSTAR:
		return true;
	default:
		return false;
	}
}

bool globmatch_test(struct globmatch *g, const char *path)
{
	if (g->round > UINT32_MAX / 2) {
		memset(g->seen, 0, g->n * sizeof *g->seen);
		g->round = 0;
	}
	g->round++;
	size_t n = follow(g, g->now, 0, 0);
	for (const char *p = path; *p && n > 0; p++) {
		size_t n_next = 0;

		g->round++;
		for (size_t i = 0; i < n; i++) {
			uint16_t s = g->now[i];
			const struct node *node = &g->nodes[s];

			if (!takes(g, node, p > path ? (uint8_t)p[-1] : 0, (uint8_t)*p))
				continue;
			bool is_loop = node->op == OP_TAIL || node->op == OP_STAR ||
				       node->op == OP_GLOBSTAR;
			n_next = follow(g, g->next, n_next, is_loop ? s : s + 1u);
		}
		uint16_t *t = g->now;
		g->now = g->next;
		g->next = t;
		n = n_next;
	}
	for (size_t i = 0; i < n; i++) {
		if (g->nodes[g->now[i]].op == OP_MATCH)
			return true;
	}
	return false;
}
