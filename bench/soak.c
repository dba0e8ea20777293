/* SPDX-License-Identifier: Apache-2.0 */
/* soak.c: jails one after the other, and what the kernel still has of them afterwards. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define MANY	   10000
#define MANY_QUICK 500
#define WARM_UP	   200
#define CALM_S	   12 /* the launcher has let go of all but one of the cells it keeps ahead */
#define SETTLE_S   30

/* What counts as nothing: other processes of the machine make and end things too. One of anything left by each
 * hundredth jail would be far beyond it; memory is that of the whole machine. */
static double slack(const struct bench_count *before)
{
	return strstr(before->what, "KiB")	     ? before->value / 4
	       : strstr(before->what, "proc inodes") ? 1000 + before->value
						     : 1 + 32 + before->value / 4;
}

/* The kernel clears up after a while, network namespaces most of all: wait until it is done with that. */
static size_t settled(struct bench_count *ret, size_t max)
{
	double last = 0;
	size_t n = 0;

	(void)sleep(CALM_S);
	for (int i = 0; i < SETTLE_S; i++) {
		double sum = 0;

		bench_progress("soak, waiting", (size_t)i, SETTLE_S);
		n = bench_counts(ret, max);
		for (size_t k = 0; k < n; k++)
			if (strstr(ret[k].what, "namespaces") || strstr(ret[k].what, "ours"))
				sum += ret[k].value;
		if (i > 2 && sum >= last * 0.98)
			break;
		last = sum;
		(void)sleep(1);
	}
	bench_progress("soak, waiting", SETTLE_S, SETTLE_S);
	return n;
}

size_t bench_soak(struct bench *b, struct bench_row *ret)
{
	static struct bench_count before[24], after[24];
	size_t n_jails = b->is_quick ? MANY_QUICK : MANY;

	if (!bench_has_jail())
		return 0;
	for (size_t i = 0; i < WARM_UP; i++) {
		bench_progress("soak, first", i, WARM_UP);
		(void)bench_jail(0);
	}
	bench_progress("soak, first", WARM_UP, WARM_UP);
	size_t n = settled(before, 24);
	uint64_t start = bench_now_ns();
	for (size_t i = 0; i < n_jails; i++) {
		bench_progress("soak", i, n_jails);
		(void)bench_jail(0);
	}
	double took_s = (double)(bench_now_ns() - start) / 1e9;
	bench_progress("soak", n_jails, n_jails);
	size_t k = settled(after, 24), rows = 0;
	if (k != n)
		bench_die("soak: the kernel counts other things than before");
	ret[rows++] = (struct bench_row){.what = b->is_quick ? "500 jails one after the other"
							     : "10,000 jails one after the other",
		.unit = "1/s",
		.ours = (double)n_jails / took_s,
		.better = BENCH_MORE};
	for (size_t i = 0; i < n; i++)
		ret[rows++] = (struct bench_row){.what = before[i].what,
			.unit = "",
			.floor = before[i].value,
			.ours = after[i].value,
			.budget = slack(&before[i]),
			.better = BENCH_SAME};
	return rows;
}
