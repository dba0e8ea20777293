/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scfilter.c: ranges of numbers, a tree over them, a chain of comparisons where arguments matter.
 *
 * The program is written from its end to its beginning. Jumps only go forward, so every target is
 * there before the jump to it, and equal returns are shared as far as a jump can reach.
 */
#include "base/scfilter.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>

#define X32_BIT	    0x40000000u
#define NR_SKIPPED  0xffffffffu /* what a tracer sets to have a call skipped */
#define REACH	    240 /* a conditional jump goes 255 far; two long ones may come between */
#define MAX_RETURNS 32	/* remembered for sharing */

/* Where an instruction is, counted from the end of the program. */
typedef size_t label;

struct code {
	struct sock_filter *insns; /* last one first */
	size_t n;
	int err;
	label returns[MAX_RETURNS]; /* a ring */
	size_t n_returns;
};

/* Numbers from first up to the next range's first. call is NULL when action is all. */
struct range {
	uint32_t first;
	uint32_t action;
	const struct scf_call *call;
};

int scf_init(struct scf *f, uint32_t arch, unsigned n_calls, uint32_t otherwise)
{
	*f = (struct scf){.arch = arch,
		.foreign_action = SECCOMP_RET_KILL_PROCESS,
		.beyond_action = SCF_ERRNO(ENOSYS),
		.n_calls = n_calls};
	if (n_calls == 0 || n_calls > SCF_MAX_SYSCALLS)
		return -EINVAL;
	f->calls = calloc(n_calls, sizeof *f->calls);
	if (!f->calls)
		return -ENOMEM;
	for (unsigned i = 0; i < n_calls; i++)
		f->calls[i].otherwise = otherwise;
	return 0;
}

int scf_add(struct scf *f, unsigned nr, uint32_t action, const struct scf_cond *conds,
	size_t n_conds)
{
	if (nr >= f->n_calls || n_conds > SCF_MAX_CONDS)
		return -EINVAL;
	for (size_t i = 0; i < n_conds; i++) {
		if (conds[i].arg > 5 || conds[i].op > SCF_MASKED_EQ)
			return -EINVAL;
	}
	struct scf_call *c = &f->calls[nr];
	if (c->n_rules >= SCF_MAX_RULES)
		return -E2BIG;
	struct scf_rule *rules = realloc(c->rules, (c->n_rules + 1) * sizeof *rules);
	if (!rules)
		return -ENOMEM;
	c->rules = rules;
	rules[c->n_rules] = (struct scf_rule){.action = action, .n_conds = (uint8_t)n_conds};
	if (n_conds)
		memcpy(rules[c->n_rules].conds, conds, n_conds * sizeof *conds);
	c->n_rules++;
	return 0;
}

void scf_done(struct scf *f)
{
	if (!f)
		return;
	for (unsigned i = 0; f->calls && i < f->n_calls; i++)
		free(f->calls[i].rules);
	free(f->calls);
	*f = (struct scf){0};
}

static label emit(struct code *c, unsigned op, size_t jt, size_t jf, uint32_t k)
{
	if (c->n >= SCF_MAX_INSNS) {
		c->err = -E2BIG;
		return 0;
	}
	c->insns[c->n] = (struct sock_filter){
		.code = (uint16_t)op, .jt = (uint8_t)jt, .jf = (uint8_t)jf, .k = k};
	return c->n++;
}

static label emit_return(struct code *c, uint32_t action)
{
	for (size_t i = 0; i < c->n_returns && i < MAX_RETURNS; i++) {
		label l = c->returns[i];
		if (c->insns[l].k == action && c->n - l < REACH)
			return l;
	}
	label fresh = emit(c, BPF_RET | BPF_K, 0, 0, action);
	c->returns[c->n_returns++ % MAX_RETURNS] = fresh;
	return fresh;
}

/* Something a conditional jump that comes next can reach and that leads to the target. */
static label within_reach(struct code *c, label target)
{
	if (c->n - target < REACH)
		return target;
	return emit(c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(c->n - target - 1));
}

static label emit_jump(struct code *c, unsigned test, uint32_t k, label yes, label no)
{
	yes = within_reach(c, yes);
	no = within_reach(c, no);
	return emit(c, BPF_JMP | BPF_K | test, c->n - yes - 1, c->n - no - 1, k);
}

/* Little endian on both architectures: the low half comes first. */
static label emit_load(struct code *c, unsigned arg, bool is_high)
{
	return emit(c, BPF_LD | BPF_W | BPF_ABS, 0, 0,
		(uint32_t)(offsetof(struct seccomp_data, args) + arg * 8 + (is_high ? 4 : 0)));
}

static label emit_half(struct code *c, const struct scf_cond *w, bool is_high, label yes, label no)
{
	uint32_t value = (uint32_t)(is_high ? w->value >> 32 : w->value);

	switch (w->op) {
	case SCF_EQ:
		emit_jump(c, BPF_JEQ, value, yes, no);
		break;
	case SCF_NE:
		emit_jump(c, BPF_JEQ, value, no, yes);
		break;
	case SCF_LT:
		emit_jump(c, BPF_JGE, value, no, yes);
		break;
	case SCF_LE:
		emit_jump(c, BPF_JGT, value, no, yes);
		break;
	case SCF_GT:
		emit_jump(c, BPF_JGT, value, yes, no);
		break;
	default:
		emit_jump(c, BPF_JGE, value, yes, no);
		break;
	}
	return emit_load(c, w->arg, is_high);
}

/* Where the high halves differ they decide, else the low ones do. */
static label emit_wide(struct code *c, const struct scf_cond *w, label yes, label no)
{
	label low = emit_half(c, w, false, yes, no);
	uint32_t high = (uint32_t)(w->value >> 32);

	switch (w->op) {
	case SCF_EQ:
		emit_jump(c, BPF_JEQ, high, low, no);
		break;
	case SCF_NE:
		emit_jump(c, BPF_JEQ, high, low, yes);
		break;
	case SCF_LT:
	case SCF_LE:
		low = emit_jump(c, BPF_JEQ, high, low, yes);
		emit_jump(c, BPF_JGT, high, no, low);
		break;
	default:
		low = emit_jump(c, BPF_JEQ, high, low, no);
		emit_jump(c, BPF_JGT, high, yes, low);
		break;
	}
	return emit_load(c, w->arg, true);
}

static label emit_masked(struct code *c, const struct scf_cond *w, bool is_high, label yes,
	label no)
{
	uint32_t mask = (uint32_t)(is_high ? w->mask >> 32 : w->mask);
	uint32_t value = (uint32_t)(is_high ? w->value >> 32 : w->value);

	if (mask == 0 && value == 0)
		return yes;
	emit_jump(c, BPF_JEQ, value, yes, no);
	emit(c, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
	return emit_load(c, w->arg, is_high);
}

static label emit_cond(struct code *c, const struct scf_cond *w, label yes, label no)
{
	if (w->op == SCF_MASKED_EQ) {
		yes = emit_masked(c, w, false, yes, no);
		return w->is_32 ? yes : emit_masked(c, w, true, yes, no);
	}
	return w->is_32 ? emit_half(c, w, false, yes, no) : emit_wide(c, w, yes, no);
}

static bool is_same_cond(const struct scf_cond *a, const struct scf_cond *b)
{
	return a->arg == b->arg && a->op == b->op && a->is_32 == b->is_32 && a->value == b->value &&
	       a->mask == b->mask;
}

/* The first of the rules that end with rules[n - 1] and all have its condition at `depth`. */
static size_t group_begin(const struct scf_rule *rules, size_t n, size_t depth)
{
	size_t i = n - 1;

	while (i > 0 && rules[i - 1].n_conds > depth &&
		is_same_cond(&rules[i - 1].conds[depth], &rules[n - 1].conds[depth]))
		i--;
	return i;
}

/* Rules whose first `depth` conditions hold already; what neighbours share is tested once. `no`:
 * where to go when none holds. */
static label emit_rules(struct code *c, const struct scf_rule *rules, size_t n, size_t depth,
	label no)
{
	while (n > 0 && !c->err) {
		if (rules[n - 1].n_conds == depth) {
			no = emit_return(c, rules[--n].action);
			continue;
		}
		size_t begin = group_begin(rules, n, depth);
		label yes = emit_rules(c, rules + begin, n - begin, depth + 1, no);
		no = emit_cond(c, &rules[begin].conds[depth], yes, no);
		n = begin;
	}
	return no;
}

static label emit_leaf(struct code *c, const struct range *r)
{
	if (!r->call)
		return emit_return(c, r->action);
	label no = emit_return(c, r->call->otherwise);
	return emit_rules(c, r->call->rules, r->call->n_rules, 0, no);
}

/* The accumulator holds the number. */
static label emit_tree(struct code *c, const struct range *ranges, size_t n)
{
	if (n == 1 || c->err)
		return emit_leaf(c, ranges);
	size_t half = n / 2;
	label high = emit_tree(c, ranges + half, n - half);
	label low = emit_tree(c, ranges, half);
	return emit_jump(c, BPF_JGE, ranges[half].first, high, low);
}

static void add_range(struct range *ranges, size_t *n, struct range r)
{
	if (*n > 0 && !r.call && !ranges[*n - 1].call && ranges[*n - 1].action == r.action)
		return;
	ranges[(*n)++] = r;
}

static size_t find_ranges(const struct scf *f, struct range *ranges)
{
	size_t n = 0;

	for (unsigned i = 0; i < f->n_calls; i++) {
		const struct scf_call *c = &f->calls[i];
		struct range r = {.first = i, .action = c->otherwise};
		if (c->n_rules && c->rules[0].n_conds == 0)
			r.action = c->rules[0].action;
		else if (c->n_rules)
			r.call = c;
		add_range(ranges, &n, r);
	}
	add_range(ranges, &n, (struct range){.first = f->n_calls, .action = f->beyond_action});
	if (f->arch == AUDIT_ARCH_X86_64) {
		add_range(ranges, &n,
			(struct range){.first = X32_BIT, .action = f->foreign_action});
		add_range(ranges, &n,
			(struct range){.first = NR_SKIPPED, .action = SCF_ERRNO(ENOSYS)});
	}
	return n;
}

static int write_program(const struct scf *f, struct range *ranges, struct code *c)
{
	label tree = emit_tree(c, ranges, find_ranges(f, ranges));

	if (c->err == 0 && tree != c->n - 1)
		emit(c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(c->n - tree - 1));
	tree = emit(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	emit_jump(c, BPF_JEQ, f->arch, tree, emit_return(c, f->foreign_action));
	emit(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	return c->err;
}

int scf_compile(const struct scf *f, struct sock_fprog *ret)
{
	struct range *ranges = calloc(f->n_calls + 3, sizeof *ranges);
	struct code c = {.insns = calloc(SCF_MAX_INSNS, sizeof *c.insns)};
	struct sock_filter *program = NULL;

	int r = ranges && c.insns ? write_program(f, ranges, &c) : -ENOMEM;
	if (r == 0 && !(program = calloc(c.n, sizeof *program)))
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < c.n; i++)
		program[i] = c.insns[c.n - 1 - i];
	free(ranges);
	free(c.insns);
	if (r == 0)
		*ret = (struct sock_fprog){.len = (unsigned short)c.n, .filter = program};
	return r;
}
