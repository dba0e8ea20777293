/* SPDX-License-Identifier: Apache-2.0 */
/* live.c: many jails at once: what each costs while it does nothing, and what all of them leave. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

#define MANY	   1000
#define MANY_QUICK 100

struct weight {
	double pss, private;
	size_t n;
};

static int weigh(const struct cell_info *info, void *user)
{
	struct weight *w = user;

	if (strcmp(info->backend, "jail") != 0)
		return 0;
	pid_t all[16] = {(pid_t)info->guest_pid}; /* and its keeper */
	size_t n = bench_family(all, 16);
	for (size_t i = 0; i < n; i++) {
		w->pss += bench_process_kib(all[i], "Pss:");
		w->private += bench_process_kib(all[i], "Private_");
	}
	w->n++;
	return 0;
}

size_t bench_live(struct bench *b, struct bench_row *ret)
{
	size_t n = b->is_quick ? MANY_QUICK : MANY, k = 0;
	static struct cell *cells[MANY];
	struct rlimit files;
	struct weight w = {0};
	struct cell_error err = {0};

	if (!bench_has_jail())
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* some fds for each */
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	double before = bench_meminfo_kib("MemAvailable");
	uint64_t start = bench_now_ns();
	for (size_t i = 0; i < n; i++) {
		bench_progress("live, making", i, n);
		if (cell_open(&(struct cell_spec){.backend = "jail"}, &cells[i], &err) < 0)
			bench_die_err("open one of many jails", &err);
	}
	double made_s = (double)(bench_now_ns() - start) / 1e9;
	bench_progress("live, making", n, n);
	double taken = before - bench_meminfo_kib("MemAvailable");
	if (cell_list(weigh, &w, &err) < 0 || w.n < n)
		bench_die("live: %zu of %zu jails are listed", w.n, n);
	start = bench_now_ns();
	for (size_t i = 0; i < n; i++) {
		bench_progress("live, ending", i, n);
		if (cell_close(cells[i], &err) < 0)
			bench_die_err("close one of many jails", &err);
	}
	double ended_s = (double)(bench_now_ns() - start) / 1e9;
	bench_progress("live, ending", n, n);
	struct weight left = {0};
	if (cell_list(weigh, &left, &err) < 0 || left.n)
		bench_die("live: %zu jails are still listed", left.n);
	ret[k++] = (struct bench_row){.what = b->is_quick ? "100 jails at once: to make all"
							  : "1,000 jails at once: to make all",
		.unit = "s",
		.ours = made_s};
	ret[k++] = (struct bench_row){.what = "to destroy all", .unit = "s", .ours = ended_s};
	ret[k++] = (struct bench_row){.what = "private memory of each",
		.unit = "KiB",
		.ours = w.private / (double)w.n,
		.budget = 1024};
	ret[k++] = (struct bench_row){.what = "proportional memory of each (Pss)",
		.unit = "KiB",
		.ours = w.pss / (double)w.n,
		.budget = 1024};
	ret[k++] = (struct bench_row){.what = "less available on the machine, for each",
		.unit = "KiB",
		.ours = taken / (double)n};
	return k;
}
