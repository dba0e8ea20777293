/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: bytes per second of a command's stdout, through a plain pipe and through a cell. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define BYTES	   (UINT64_C(256) << 20)
#define MAX_ROUNDS 9

static double gib_per_s(uint64_t ns)
{
	return (double)BYTES / (double)(UINT64_C(1) << 30) / ((double)ns / 1e9);
}

static double through_pipe(const char *program, const char *bytes)
{
	static char block[128 * 1024];
	char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)bytes, NULL};
	uint64_t total = 0;
	int ends[2], status = 0;
	ssize_t n;

	if (pipe(ends) < 0)
		bench_die("pipe failed");
	uint64_t start = bench_now_ns();
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(ends[1], STDOUT_FILENO);
		(void)close(ends[0]);
		(void)close(ends[1]);
		execv(program, argv);
		_exit(127);
	}
	(void)close(ends[1]);
	while ((n = read(ends[0], block, sizeof block)) > 0)
		total += (uint64_t)n;
	(void)close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 || total != BYTES)
		bench_die("%s through a pipe: %" PRIu64 " bytes came", program, total);
	return gib_per_s(bench_now_ns() - start);
}

static double through_cell(struct cell *c, const char *program, const char *bytes)
{
	struct cell_exec_opts opts = {.argv = (const char *[]){program, bytes, NULL}};
	struct cell_error err = {0};
	struct cell_event e = {0};
	struct cell_exec *x;
	uint64_t total = 0;

	uint64_t start = bench_now_ns();
	if (cell_exec_start(c, &opts, &x, &err) < 0)
		bench_die_err("start in a cell", &err);
	while (e.type != CELL_EVENT_EXIT) {
		if (cell_exec_next(x, -1, &e, &err) < 0)
			bench_die_err("read from a cell", &err);
		total += e.type == CELL_EVENT_STDOUT ? e.len : 0;
	}
	cell_exec_free(x);
	if (e.exit.exit_code != 0 || total != BYTES)
		bench_die("%s in a cell: exit %d, %" PRIu64 " bytes came", program,
			e.exit.exit_code, total);
	return gib_per_s(bench_now_ns() - start);
}

size_t bench_output(struct bench *b, struct bench_row *ret)
{
	char path[4200], bytes[32];
	const char *program = bench_program(b, "source", path);
	double floor[MAX_ROUNDS], ours[MAX_ROUNDS];
	size_t n = b->rounds >= 1000 ? MAX_ROUNDS : 3;

	(void)snprintf(bytes, sizeof bytes, "%" PRIu64, BYTES);
	for (size_t i = 0; i < n; i++) {
		bench_progress("output", i, n);
		floor[i] = through_pipe(program, bytes);
		ours[i] = through_cell(b->cell, program, bytes);
	}
	bench_progress("output", n, n);
	*ret = (struct bench_row){.what = "stdout of a command, 256 MiB",
		.unit = "GiB/s",
		.floor = bench_quantile(floor, n, 0.5),
		.ours = bench_quantile(ours, n, 0.5),
		.budget = 0.5,
		.better = BENCH_MORE};
	return 1;
}
