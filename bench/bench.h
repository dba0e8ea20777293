/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h: what the measurements share. Each compares ours with the bare system calls, interleaved in
 * one run, so that the ratio holds on a noisy machine; absolute numbers are for information.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/cell.h"

struct bench {
	char programs[4096]; /* directory of the static helper programs */
	char workspace[128];
	struct cell *cell; /* ready, local */
	unsigned rounds;   /* of the exec measurement; others derive theirs from it */
};

enum bench_better {
	BENCH_LESS,
	BENCH_MORE,
};

/* One line of the table. Zero means there is none. */
struct bench_row {
	const char *what;
	const char *unit;
	double floor; /* the bare system calls */
	double ours;
	double floor_p99, ours_p99;
	double budget; /* for the ratio, or for `ours` when there is no floor */
	enum bench_better better;
};

/* Each fills rows and returns how many; it ends the program with a message when it cannot measure. */
size_t bench_exec(struct bench *b, struct bench_row *ret);
size_t bench_output(struct bench *b, struct bench_row *ret);
size_t bench_size(struct bench *b, struct bench_row *ret);
size_t bench_start(struct bench *b, struct bench_row *ret);
#define BENCH_ROWS_MAX 16

uint64_t bench_now_ns(void);
/* Sorts the samples; q from 0 to 1. */
double bench_quantile(double *samples, size_t n, double q);
void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* "what: the error's message (its hint)", then ends the program. */
void bench_die_err(const char *what, const struct cell_error *err) __attribute__((noreturn));
/* The path of a helper program; ret has room for 4200 bytes. */
const char *bench_program(const struct bench *b, const char *name, char ret[4200]);
