/* SPDX-License-Identifier: Apache-2.0 */
/* The filter compiler against a plain reading of the same rules, and against the kernel. */
#include <errno.h>
#include <linux/audit.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/bpf_run.h"
#include "base/scfilter.h"
#include "base/syscalls.h"
#include "test.h"

static uint64_t seed;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Values that meet each other and the borders between the halves. */
static uint64_t pick_value(void)
{
	static const uint64_t some[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
		0x100000001, 0x1ffffffff, 0x8000000000000000, 0xffffffff00000000, UINT64_MAX};
	uint64_t v = some[next_random() % (sizeof some / sizeof *some)];

	return next_random() % 4 ? v : v + next_random() % 3 - 1;
}

static bool does_hold(const struct scf_cond *w, const uint64_t *args)
{
	uint64_t a = args[w->arg], v = w->value, m = w->mask;

	if (w->is_32)
		a = (uint32_t)a, v = (uint32_t)v, m = (uint32_t)m;
	switch (w->op) {
	case SCF_EQ:
		return a == v;
	case SCF_NE:
		return a != v;
	case SCF_LT:
		return a < v;
	case SCF_LE:
		return a <= v;
	case SCF_GT:
		return a > v;
	case SCF_GE:
		return a >= v;
	default:
		return (a & m) == v;
	}
}

static uint32_t read_plainly(const struct scf *f, const struct seccomp_data *d)
{
	uint32_t nr = (uint32_t)d->nr;

	if (d->arch != f->arch)
		return f->foreign_action;
	if (nr >= f->n_calls) {
		if (f->arch == AUDIT_ARCH_X86_64 && nr >= 0x40000000)
			return nr == UINT32_MAX ? SCF_ERRNO(ENOSYS) : f->foreign_action;
		return f->beyond_action;
	}
	const struct scf_call *c = &f->calls[nr];
	for (size_t i = 0; i < c->n_rules; i++) {
		bool is_met = true;
		uint64_t args[6];
		memcpy(args, d->args, sizeof args);
		for (size_t k = 0; k < c->rules[i].n_conds; k++)
			is_met = is_met && does_hold(&c->rules[i].conds[k], args);
		if (is_met)
			return c->rules[i].action;
	}
	return c->otherwise;
}

static void make_random(struct scf *f, unsigned n_calls, unsigned n_rules)
{
	ASSERT_OK(scf_init(f, next_random() % 2 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64, n_calls,
		SCF_ERRNO(next_random() % 3)));
	for (unsigned i = 0; i < n_calls; i++) {
		if (next_random() % 3 == 0)
			f->calls[i].otherwise = SCF_ERRNO(next_random() % 4);
	}
	for (unsigned i = 0; i < n_rules; i++) {
		struct scf_cond conds[SCF_MAX_CONDS], *last;
		size_t n = next_random() % 20 == 0 ? 0 : 1 + next_random() % SCF_MAX_CONDS;
		for (size_t k = 0; k < n; k++) {
			last = &conds[k];
			*last = (struct scf_cond){.arg = (uint8_t)(next_random() % 3),
				.op = (uint8_t)(next_random() % 7),
				.is_32 = next_random() % 2,
				.value = pick_value(),
				.mask = pick_value()};
			if (last->op == SCF_MASKED_EQ && next_random() % 4)
				last->value &= last->mask;
			if (next_random() % 2) /* so that rules share beginnings */
				*last = (struct scf_cond){.arg = (uint8_t)k, .value = 1, .mask = 0};
		}
		ASSERT_OK(scf_add(f, (unsigned)(next_random() % n_calls),
			SCF_ERRNO(10 + next_random() % 3), conds, n));
	}
}

TEST(programs_decide_as_their_rules_read)
{
	unsigned long judged = 0, by_rule = 0;

	seed = 88172645463325252u;
	for (unsigned round = 0; round < 400; round++) {
		struct sock_fprog p = {0};
		struct scf f;
		make_random(&f, (unsigned)(1 + next_random() % 40), (unsigned)(next_random() % 40));
		ASSERT_OK(scf_compile(&f, &p));
		ASSERT(bpf_is_sound(&p));
		for (unsigned i = 0; i < 2000; i++) {
			struct seccomp_data d = {
				.arch = f.arch, .nr = (int)(next_random() % (f.n_calls + 2))};
			for (size_t k = 0; k < 6; k++)
				d.args[k] = pick_value();
			uint32_t want = read_plainly(&f, &d), got = bpf_run(&p, &d);
			CHECK_(want == got, "round %u: call %d is %#x, not %#x", round, d.nr, got,
				want);
			judged++;
			by_rule += want >= SCF_ERRNO(10);
		}
		free(p.filter);
		scf_done(&f);
	}
	ASSERT(judged == 800000 && by_rule > judged / 20);
}

TEST(programs_longer_than_a_jump_reaches_decide_right_too)
{
	unsigned longest = 0;

	seed = 1234567;
	for (unsigned round = 0; round < 20; round++) {
		struct sock_fprog p = {0};
		struct scf f;
		make_random(&f, 450, 100 + 5 * round);
		int r = scf_compile(&f, &p);
		ASSERT(r == 0 && bpf_is_sound(&p));
		longest = p.len > longest ? p.len : longest;
		for (unsigned i = 0; i < 20000; i++) {
			struct seccomp_data d = {.arch = f.arch, .nr = (int)(next_random() % 452)};
			for (size_t k = 0; k < 6; k++)
				d.args[k] = pick_value();
			ASSERT(bpf_run(&p, &d) == read_plainly(&f, &d));
		}
		free(p.filter);
		scf_done(&f);
	}
	ASSERT(longest > 2000);
}

TEST(another_architecture_and_strange_numbers_have_their_own_answers)
{
	struct sock_fprog p = {0};
	struct scf f;

	ASSERT_OK(scf_init(&f, AUDIT_ARCH_X86_64, 10, SECCOMP_RET_ALLOW));
	ASSERT_OK(scf_compile(&f, &p));
	ASSERT(bpf_run(&p, &(struct seccomp_data){.arch = AUDIT_ARCH_X86_64, .nr = 9}) ==
		SECCOMP_RET_ALLOW);
	ASSERT(bpf_run(&p, &(struct seccomp_data){.arch = AUDIT_ARCH_I386, .nr = 9}) ==
		SECCOMP_RET_KILL_PROCESS);
	ASSERT(bpf_run(&p, &(struct seccomp_data){.arch = AUDIT_ARCH_X86_64, .nr = 10}) ==
		SCF_ERRNO(ENOSYS));
	ASSERT(bpf_run(&p, &(struct seccomp_data){.arch = AUDIT_ARCH_X86_64, .nr = 0x40000009}) ==
		SECCOMP_RET_KILL_PROCESS);
	ASSERT(bpf_run(&p, &(struct seccomp_data){.arch = AUDIT_ARCH_X86_64, .nr = -1}) ==
		SCF_ERRNO(ENOSYS));
	free(p.filter);
	scf_done(&f);
}

TEST(rules_that_make_no_sense_are_refused)
{
	struct scf_cond c = {.arg = 6}, ok = {.arg = 5};
	struct scf f;

	ASSERT_ERR(scf_init(&f, AUDIT_ARCH_X86_64, 0, 0), -EINVAL);
	ASSERT_ERR(scf_init(&f, AUDIT_ARCH_X86_64, SCF_MAX_SYSCALLS + 1, 0), -EINVAL);
	ASSERT_OK(scf_init(&f, AUDIT_ARCH_X86_64, 5, 0));
	ASSERT_ERR(scf_add(&f, 5, 0, NULL, 0), -EINVAL);
	ASSERT_ERR(scf_add(&f, 4, 0, &c, 1), -EINVAL);
	ASSERT_ERR(scf_add(&f, 4, 0, &c, 7), -EINVAL);
	ASSERT_OK(scf_add(&f, 4, 0, &ok, 1));
	scf_done(&f);
	scf_done(NULL);
}

TEST(a_program_the_kernel_would_not_take_is_refused)
{
	struct scf_cond w = {.arg = 0, .op = SCF_GT};
	struct sock_fprog p = {0};
	struct scf f;

	ASSERT_OK(scf_init(&f, AUDIT_ARCH_X86_64, 10, SECCOMP_RET_ALLOW));
	for (unsigned i = 0; i < 5000; i++) {
		w.value = 0x100000000 * i + i;
		ASSERT_OK(scf_add(&f, i % 10, SCF_ERRNO(i), &w, 1));
	}
	ASSERT_ERR(scf_compile(&f, &p), -E2BIG);
	ASSERT(!p.filter);
	for (size_t i = f.calls[0].n_rules; i < SCF_MAX_RULES; i++)
		ASSERT_OK(scf_add(&f, 0, 0, &w, 1));
	ASSERT_ERR(scf_add(&f, 0, 0, &w, 1), -E2BIG);
	scf_done(&f);
}

TEST(the_kernel_loads_what_is_compiled)
{
	int *loaded = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(loaded != MAP_FAILED);
	seed = 99;
	for (int round = 0; round < 50; round++) {
		struct sock_fprog p = {0};
		struct scf f;
		make_random(&f, 450, (unsigned)round * 3);
		f.arch = SYSCALL_ARCH_NATIVE;
		ASSERT_OK(scf_compile(&f, &p));
		pid_t pid = fork();
		if (pid == 0) {
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			*loaded = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) == 0 ? round
											    : -1;
			__builtin_trap();
		}
		waitpid(pid, NULL, 0);
		ASSERT(*loaded == round);
		free(p.filter);
		scf_done(&f);
	}
}
