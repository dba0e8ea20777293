/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c: fork and exec of a static program, bare and through a ready cell. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WARM_UP 50

static double bare(const char *program)
{
	char *argv[] = {(char *)(uintptr_t)program, NULL};
	int status = 0;

	uint64_t start = bench_now_ns();
	pid_t pid = fork();
	if (pid == 0) {
		execv(program, argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("fork and exec of %s: wait status %d", program, status);
	return (double)(bench_now_ns() - start);
}

static double in_cell(struct cell *c, const char *program)
{
	struct cell_exec_opts opts = {.argv = (const char *[]){program, NULL}};
	struct cell_result result = {0};
	struct cell_error err = {0};

	uint64_t start = bench_now_ns();
	if (cell_run(c, &opts, NULL, 0, &result, &err) < 0)
		bench_die_err("run in a cell", &err);
	double took = (double)(bench_now_ns() - start);
	if (result.exit.exit_code != 0)
		bench_die("%s in a cell: exit %d", program, result.exit.exit_code);
	cell_result_done(&result);
	return took;
}

static double whole_cell(const struct bench *b, const char *program)
{
	struct cell_spec spec = {.backend = "local", .workspace = b->workspace};
	struct cell_error err = {0};
	struct cell *c = NULL;

	uint64_t start = bench_now_ns();
	if (cell_open(&spec, &c, &err) < 0)
		bench_die_err("open a cell", &err);
	(void)in_cell(c, program);
	if (cell_close(c, &err) < 0)
		bench_die_err("close a cell", &err);
	return (double)(bench_now_ns() - start);
}

size_t bench_exec(struct bench *b, struct bench_row *ret)
{
	char path[4200];
	const char *program = bench_program(b, "true", path);
	size_t n = b->rounds, n_whole = n / 10 ? n / 10 : 1;
	double *floor = calloc(n, sizeof *floor), *ours = calloc(n, sizeof *ours);
	double *whole = calloc(n_whole, sizeof *whole);

	if (!floor || !ours || !whole)
		bench_die("no memory for %zu samples", n);
	for (size_t i = 0; i < WARM_UP; i++) {
		(void)bare(program);
		(void)in_cell(b->cell, program);
	}
	for (size_t i = 0; i < n; i++) {
		bench_progress("exec", i, n);
		floor[i] = bare(program) / 1e6;
		ours[i] = in_cell(b->cell, program) / 1e6;
	}
	bench_progress("exec", n, n);
	for (size_t i = 0; i < n_whole; i++)
		whole[i] = whole_cell(b, program) / 1e6;
	ret[0] = (struct bench_row){.what = "exec of a static true in a ready cell",
		.unit = "ms",
		.floor = bench_quantile(floor, n, 0.5),
		.ours = bench_quantile(ours, n, 0.5),
		.floor_p99 = bench_quantile(floor, n, 0.99),
		.ours_p99 = bench_quantile(ours, n, 0.99),
		.budget = 1.5};
	ret[1] = (struct bench_row){.what = "open a cell, run it, close",
		.unit = "ms",
		.ours = bench_quantile(whole, n_whole, 0.5),
		.ours_p99 = bench_quantile(whole, n_whole, 0.99)};
	free(floor);
	free(ours);
	free(whole);
	return 2;
}
