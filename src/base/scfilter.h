/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scfilter.h: compiles rules on system calls to a seccomp program.
 *
 * Our own compiler rather than libseccomp's, for three reasons. It is small, because it does less:
 * one architecture, no transactions. Its result is faster to load: numbers with equal outcomes are
 * merged to ranges and those found by a balanced tree of comparisons, and what the kernel pays for
 * at load time is the depth of that tree. And it decides what an older libseccomp cannot: calls
 * newer than the library, and 32-bit arguments by their low half only. What a profile says is not
 * its business. libc only.
 */
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCF_MAX_SYSCALLS 1024u /* numbers that may have rules */
#define SCF_MAX_RULES	 512u  /* of one call */
#define SCF_MAX_CONDS	 6u    /* of one rule */
#define SCF_MAX_INSNS	 BPF_MAXINSNS

#define SCF_ERRNO(e) (SECCOMP_RET_ERRNO | ((uint32_t)(e)&SECCOMP_RET_DATA))

enum scf_op {
	SCF_EQ,
	SCF_NE,
	SCF_LT,
	SCF_LE,
	SCF_GT,
	SCF_GE,
	SCF_MASKED_EQ, /* (argument & mask) == value */
};

struct scf_cond {
	uint8_t arg; /* 0..5 */
	uint8_t op;  /* enum scf_op */
	/* The kernel takes this argument as an int: the high half of the register is ignored there
	 * and must be here too, or setting it would walk around the rule. */
	bool is_32;
	uint64_t value;
	uint64_t mask; /* SCF_MASKED_EQ only */
};

struct scf_rule {
	uint32_t action; /* SECCOMP_RET_* with data */
	uint8_t n_conds; /* all must hold; none: always */
	struct scf_cond conds[SCF_MAX_CONDS];
};

/* What happens to one number: its rules in turn, the first that holds decides, else `otherwise`. */
struct scf_call {
	struct scf_rule *rules;
	size_t n_rules;
	uint32_t otherwise;
};

struct scf {
	uint32_t arch;		 /* AUDIT_ARCH_*; calls of any other are answered by foreign */
	uint32_t foreign_action; /* another architecture, and on x86-64 also the x32 numbers */
	uint32_t beyond_action;	 /* numbers from n_calls on */
	unsigned n_calls;
	struct scf_call *calls;
};

/* n_calls numbers, each answered by `otherwise` so far. 0, -EINVAL for too many, -ENOMEM. */
int scf_init(struct scf *f, uint32_t arch, unsigned n_calls, uint32_t otherwise);
/* A rule behind the others of that number; conds are copied. 0, -EINVAL, -E2BIG, -ENOMEM. */
int scf_add(struct scf *f, unsigned nr, uint32_t action, const struct scf_cond *conds,
	size_t n_conds);
/* *ret's filter is to be freed. -E2BIG when the kernel would not take so long a program. */
int scf_compile(const struct scf *f, struct sock_fprog *ret);
void scf_done(struct scf *f);
