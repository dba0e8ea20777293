/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ere.c: run a program over bytes. All ways through it are followed at once (so nothing is tried
 * twice), and the sets of places met are kept as the states of a table that grows as bytes ask for it
 * and is begun anew when it is full.
 */
#include "base/ere.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ere_program.h"

#define STATES_MAX  128
#define PLACES_MAX  (64u * 1024) /* of all states together, if a single one needs no more */
#define SYMBOLS	    257
#define END	    256 /* the symbol behind a line's last byte */
#define TO_UNKNOWN  0
#define TO_MATCH    1
#define TO_STATE(n) ((uint16_t)((n) + 2))

/* What lies before a place. */
enum before {
	BEFORE_LINE,
	BEFORE_WORD,
	BEFORE_OTHER,
};

struct state {
	size_t first, n; /* its places, in `places` */
	uint32_t hash;
	uint8_t before;
	uint16_t next[SYMBOLS];
};

struct ere {
	struct ere_program prog;
	struct state states[STATES_MAX];
	size_t n_states;
	uint16_t *places;
	size_t n_places, places_cap;
	uint64_t renewals; /* times the table was begun anew */
	size_t now;	   /* the current state */
	bool is_matched;   /* for good */
	/* working memory for one step */
	uint16_t *list, *stack;
	uint32_t *seen;
	uint32_t round;
};

static bool is_true(const struct ere *e, enum ere_op op, enum before before, int next)
{
	bool is_word = e->prog.has_word_edges && next != END && ere_is_word(next);

	switch (op) {
	case ERE_LINE_BEGIN:
		return before == BEFORE_LINE;
	case ERE_LINE_END:
		return next == END;
	case ERE_WORD_EDGE:
		return is_word != (before == BEFORE_WORD);
	case ERE_NO_WORD_EDGE:
		return is_word == (before == BEFORE_WORD);
	case ERE_WORD_BEGIN:
		return is_word && before != BEFORE_WORD;
	case ERE_WORD_END:
		return !is_word && before == BEFORE_WORD;
	default:
		return false;
	}
}

/* From the places of a state to those that take a byte, given what lies before and behind. Returns how
 * many are in e->list, or -1 when the match is reached. */
static int follow(struct ere *e, const struct state *s, int next)
{
	const struct ere_step *steps = e->prog.steps;
	int n = 0;

	if (++e->round == 0) {
		memset(e->seen, 0, e->prog.n * sizeof *e->seen);
		e->round = 1;
	}
	for (size_t i = 0; i < s->n; i++) {
		size_t top = 0;

		e->stack[top++] = e->places[s->first + i];
		while (top > 0) {
			uint16_t at = e->stack[--top];
			const struct ere_step *step = &steps[at];

			if (e->seen[at] == e->round)
				continue;
			e->seen[at] = e->round;
			switch (step->op) {
			case ERE_MATCH:
				return -1;
			case ERE_BYTE:
			case ERE_SET:
				e->list[n++] = at;
				break;
			case ERE_SPLIT:
				e->stack[top++] = (uint16_t)(at + step->b);
				e->stack[top++] = (uint16_t)(at + step->a);
				break;
			case ERE_JUMP:
				e->stack[top++] = (uint16_t)(at + step->a);
				break;
			default:
				if (is_true(e, step->op, s->before, next))
					e->stack[top++] = (uint16_t)(at + 1);
			}
		}
	}
	return n;
}

/* The state with these places, made if new. They stay in e->list. */
static size_t intern(struct ere *e, size_t n, enum before before)
{
	uint32_t hash = 2166136261u ^ before;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ e->list[i]) * 16777619u;
	for (size_t i = 0; i < e->n_states; i++) {
		const struct state *s = &e->states[i];
		if (s->hash == hash && s->n == n && s->before == before &&
			memcmp(&e->places[s->first], e->list, n * sizeof *e->list) == 0)
			return i;
	}
	if (e->n_states == STATES_MAX || e->n_places + n > e->places_cap) {
		e->n_states = 0;
		e->n_places = 0;
		e->renewals++;
	}
	struct state *s = &e->states[e->n_states];
	s->first = e->n_places;
	s->n = n;
	s->hash = hash;
	s->before = (uint8_t)before;
	memset(s->next, 0, sizeof s->next);
	if (n)
		memcpy(&e->places[s->first], e->list, n * sizeof *e->list);
	e->n_places += n;
	return e->n_states++;
}

static size_t start_state(struct ere *e)
{
	e->list[0] = 0;
	return intern(e, 1, BEFORE_LINE);
}

/* Work out where a state goes with a symbol, and note it. */
static uint16_t step(struct ere *e, size_t from, int symbol)
{
	struct state *s = &e->states[from];
	int n = follow(e, s, symbol);
	size_t kept = 0;

	if (n < 0)
		return s->next[symbol] = TO_MATCH;
	if (symbol == END)
		return s->next[symbol] = TO_STATE(from);
	for (int i = 0; i < n; i++) {
		const struct ere_step *step = &e->prog.steps[e->list[i]];
		bool takes = step->op == ERE_BYTE
				     ? step->byte == symbol
				     : ere_set_has(&e->prog.sets[step->a], (uint8_t)symbol);
		if (takes)
			e->list[kept++] = (uint16_t)(e->list[i] + 1);
	}
	/* A match may begin anywhere. */
	e->list[kept++] = 0;
	enum before before = BEFORE_OTHER;
	if (e->prog.has_word_edges && ere_is_word(symbol))
		before = BEFORE_WORD;
	uint64_t renewals = e->renewals;
	size_t to = intern(e, kept, before);
	/* When the table was begun anew, `s` is another state now. */
	if (e->renewals == renewals)
		s->next[symbol] = TO_STATE(to);
	return TO_STATE(to);
}

int ere_new(const char *pattern, unsigned flags, struct ere **ret, const char **why)
{
	struct ere *e = calloc(1, sizeof *e);

	if (!e)
		return -ENOMEM;
	e->prog.ignores_case = flags & ERE_NO_CASE;
	int r = ere_parse(&e->prog, pattern, flags & ERE_FIXED, why);
	if (r == 0) {
		size_t n = e->prog.n + 1;
		e->places_cap = PLACES_MAX / sizeof *e->places;
		if (e->places_cap < 2 * n)
			e->places_cap = 2 * n;
		e->places = malloc(e->places_cap * sizeof *e->places);
		e->list = malloc(n * sizeof *e->list);
		e->stack = malloc(2 * n * sizeof *e->stack);
		e->seen = calloc(n, sizeof *e->seen);
		if (!e->places || !e->list || !e->stack || !e->seen)
			r = -ENOMEM;
	}
	if (r < 0) {
		ere_free(e);
		return r;
	}
	ere_begin(e);
	*ret = e;
	return 0;
}

void ere_free(struct ere *e)
{
	if (!e)
		return;
	free(e->prog.steps);
	free(e->prog.sets);
	free(e->places);
	free(e->list);
	free(e->stack);
	free(e->seen);
	free(e);
}

void ere_begin(struct ere *e)
{
	e->now = start_state(e);
	e->is_matched = false;
}

bool ere_feed(struct ere *e, const void *p, size_t n)
{
	const uint8_t *bytes = p;
	bool folds = e->prog.ignores_case;

	for (size_t i = 0; i < n && !e->is_matched; i++) {
		uint8_t c = folds ? ere_fold(bytes[i]) : bytes[i];
		uint16_t to = e->states[e->now].next[c];

		if (to == TO_UNKNOWN)
			to = step(e, e->now, c);
		if (to == TO_MATCH)
			e->is_matched = true;
		else
			e->now = to - TO_STATE(0);
	}
	return e->is_matched;
}

bool ere_end(struct ere *e)
{
	if (e->is_matched)
		return true;
	uint16_t to = e->states[e->now].next[END];
	if (to == TO_UNKNOWN)
		to = step(e, e->now, END);
	return to == TO_MATCH;
}
