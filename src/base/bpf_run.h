/* SPDX-License-Identifier: Apache-2.0 */
/* bpf_run.h: a seccomp program's verdict, computed by hand. Also says what the kernel would refuse:
 * an instruction it does not know, a jump or a fall past the end. */
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BPF_RUN_BAD 0xdeadbeefu /* no verdict */

static inline uint32_t bpf_run(const struct sock_fprog *p, const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < p->len; pc++) {
		const struct sock_filter *s = &p->filter[pc];
		switch (s->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (s->k % 4 || s->k > sizeof *d - 4)
				return BPF_RUN_BAD;
			memcpy(&a, (const char *)d + s->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= s->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += s->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == s->k ? s->jt : s->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= s->k ? s->jt : s->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > s->k ? s->jt : s->jf;
			break;
		case BPF_RET | BPF_K:
			return s->k;
		default:
			return BPF_RUN_BAD;
		}
	}
	return BPF_RUN_BAD;
}

/* Every instruction known, every jump inside, no way off the end. */
static inline int bpf_is_sound(const struct sock_fprog *p)
{
	for (size_t pc = 0; pc < p->len; pc++) {
		const struct sock_filter *s = &p->filter[pc];
		size_t far = 0;
		if (BPF_CLASS(s->code) == BPF_RET)
			continue;
		if (BPF_CLASS(s->code) == BPF_JMP)
			far = BPF_OP(s->code) == BPF_JA ? s->k : s->jt > s->jf ? s->jt : s->jf;
		if (pc + 1 + far >= p->len)
			return 0;
	}
	return p->len > 0 && p->len <= BPF_MAXINSNS;
}
