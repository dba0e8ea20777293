/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c: whole jails a second, from several threads at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"

#define MAX_THREADS 8

static atomic_ulong n_made;
static atomic_bool is_over;

static void *make(void *unused)
{
	(void)unused;
	while (!is_over) {
		(void)bench_jail(0);
		n_made++;
	}
	return NULL;
}

static double rate(unsigned n_threads, unsigned tenths)
{
	pthread_t threads[MAX_THREADS];
	char what[32];

	(void)snprintf(what, sizeof what, "parallel, %u threads", n_threads);
	n_made = 0;
	is_over = false;
	uint64_t start = bench_now_ns();
	for (unsigned i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, make, NULL) != 0)
			bench_die("no thread");
	for (unsigned i = 0; i < tenths; i++) {
		bench_progress(what, i, tenths);
		(void)usleep(100000);
	}
	is_over = true;
	for (unsigned i = 0; i < n_threads; i++)
		(void)pthread_join(threads[i], NULL);
	bench_progress(what, tenths, tenths);
	return (double)n_made / ((double)(bench_now_ns() - start) / 1e9);
}

size_t bench_parallel(struct bench *b, struct bench_row *ret)
{
	static const struct {
		unsigned n;
		const char *what;
		double budget;
	} all[] = {{1, "whole jails a second, one thread", 0},
		{2, "whole jails a second, two threads", 300},
		{4, "whole jails a second, four threads", 300},
		{8, "whole jails a second, eight threads", 0}};
	size_t n = 0;

	if (!bench_has_jail())
		return 0;
	for (; n < sizeof all / sizeof *all; n++)
		ret[n] = (struct bench_row){.what = all[n].what,
			.unit = "1/s",
			.ours = rate(all[n].n, b->is_quick ? 10 : 40),
			.budget = all[n].budget,
			.better = BENCH_MORE};
	return n;
}
