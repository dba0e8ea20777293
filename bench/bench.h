/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h: what the measurements share. Each compares ours with the bare system calls, interleaved in
 * one run, so that the ratio holds on a noisy machine; absolute numbers are for information.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/cell.h"

#define BENCH_TRUE "/usr/bin/true" /* what is run in whole cells: a plain dynamic program */

struct bench {
	char programs[4096]; /* directory of the static helper programs */
	char scratch[64];    /* ours, removed at the end */
	char workspace[128];
	struct cell *cell; /* ready, local */
	unsigned rounds;   /* of the exec measurement; others derive theirs from it */
	bool is_quick;
};

enum bench_better {
	BENCH_LESS,
	BENCH_MORE,
	BENCH_SAME, /* floor is before, ours is after; budget is the most it may have grown by, plus one */
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
size_t bench_parallel(struct bench *b, struct bench_row *ret);
size_t bench_live(struct bench *b, struct bench_row *ret);
size_t bench_serve(struct bench *b, struct bench_row *ret);
size_t bench_code(struct bench *b, struct bench_row *ret);
size_t bench_engines(struct bench *b, struct bench_row *ret);
size_t bench_soak(struct bench *b, struct bench_row *ret);
#define BENCH_ROWS_MAX 64

uint64_t bench_now_ns(void);
/* Sorts the samples; q from 0 to 1. */
double bench_quantile(double *samples, size_t n, double q);
void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* "what: the error's message (its hint)", then ends the program. */
void bench_die_err(const char *what, const struct cell_error *err) __attribute__((noreturn));
/* A line on stderr that is not part of the result. */
void bench_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* How far it is; also where Ctrl-C is obeyed, so call it in every loop. at == n: done. */
void bench_progress(const char *what, size_t at, size_t n);
/* The path of a helper program; ret has room for 4200 bytes. */
const char *bench_program(const struct bench *b, const char *name, char ret[4200]);

/* Is there a jail on this machine? A note says why not. */
bool bench_has_jail(void);
/* Make one, run `true` in it, destroy it: milliseconds. disk_bytes 0: as by default. */
double bench_jail(uint64_t disk_bytes);
/* As fork+exec sees it: milliseconds, negative when it failed. `why` (may be NULL, 200 bytes) then has the
 * last line it said. */
double bench_spawn(const char *const *argv, int pass_fd, char *why);

/* ---- peers.c: other programs that make such places ---- */
struct bench_peer {
	const char *name;
	/* 0 when it is not to be had; a note has said why */
	bool (*prepare)(struct bench *b);
	double (*run)(char *why);
};
extern const struct bench_peer bench_peers[];
#define BENCH_PEERS	 6
#define BENCH_PEER_OURS	 0 /* `cell run` as a process */
#define BENCH_PEER_BWRAP 1 /* bubblewrap with the same walls */

/* ---- host.c: what the kernel counts ---- */
struct bench_count {
	const char *what;
	double value;
};
/* Counters that must come back: fills ret, returns how many. */
size_t bench_counts(struct bench_count *ret, size_t max);
double bench_meminfo_kib(const char *word);
/* all[0] is given: it and everything it has started, as many as fit. Returns how many. */
size_t bench_family(pid_t *all, size_t max);
/* Sum of the lines of smaps_rollup that begin with a word, in KiB; 0 when it is gone or another's. */
double bench_process_kib(int64_t pid, const char *word);
