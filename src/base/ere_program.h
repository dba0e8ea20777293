/* SPDX-License-Identifier: Apache-2.0 */
/* ere_program.h: what ere_parse.c makes and ere.c runs. Only these look in here. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ere_op {
	ERE_BYTE,	/* takes the byte `byte` */
	ERE_SET,	/* takes a byte of set number `a` */
	ERE_SPLIT,	/* goes on at +a and at +b */
	ERE_JUMP,	/* goes on at +a */
	ERE_LINE_BEGIN, /* these go on when true here */
	ERE_LINE_END,
	ERE_WORD_EDGE,
	ERE_NO_WORD_EDGE,
	ERE_WORD_BEGIN,
	ERE_WORD_END,
	ERE_MATCH,
};

/* Targets are relative, so that a part of a program can be copied and moved. */
struct ere_step {
	uint8_t op;
	uint8_t byte;
	int16_t a, b;
};

struct ere_set {
	uint32_t bits[8];
};

struct ere_program {
	struct ere_step *steps;
	size_t n, cap;
	struct ere_set *sets;
	size_t n_sets, sets_cap;
	bool has_word_edges;
	bool ignores_case;
};

/* Fill p (zeroed, ignores_case set). -EINVAL with *why, -ENOMEM. */
int ere_parse(struct ere_program *p, const char *pattern, bool is_fixed, const char **why);

static inline bool ere_set_has(const struct ere_set *s, uint8_t c)
{
	return s->bits[c / 32] >> (c % 32) & 1;
}

static inline uint8_t ere_fold(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

static inline bool ere_is_word(int c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z');
}
