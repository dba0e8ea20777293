/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cell-bench: measures libcell against the bare system calls and prints a table, or JSON with --json.
 * --quick takes fewer samples; --check exits 1 when a budget is passed. Words pick parts. Leaves nothing
 * behind, also after Ctrl-C.
 */
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

uint64_t bench_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_quantile(double *samples, size_t n, double q)
{
	qsort(samples, n, sizeof *samples, compare);
	return samples[(size_t)((double)(n - 1) * q)];
}

void bench_die(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("cell-bench: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(1);
}

void bench_die_err(const char *what, const struct cell_error *err)
{
	bench_die("%s: %s%s%s%s", what, err->msg, err->hint[0] ? " (" : "", err->hint,
		err->hint[0] ? ")" : "");
}

const char *bench_program(const struct bench *b, const char *name, char ret[4200])
{
	(void)snprintf(ret, 4200, "%s/bench-%s", b->programs, name);
	if (access(ret, X_OK) < 0)
		bench_die("no program %s: run `make bench`", ret);
	return ret;
}

void bench_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
}

static volatile sig_atomic_t is_stopped;

static void on_stop(int sig)
{
	is_stopped = sig;
}

void bench_progress(const char *what, size_t at, size_t n)
{
	static uint64_t last;
	uint64_t now = bench_now_ns();

	if (is_stopped) { /* cells die with us; exit() removes the files */
		(void)fputs("\ncell-bench: stopped\n", stderr);
		exit(128 + is_stopped);
	}
	if (!isatty(STDERR_FILENO) || (at < n && now - last < 100000000u))
		return;
	last = now;
	if (at < n)
		(void)fprintf(stderr, "\r%s: %zu of %zu\033[K", what, at, n);
	else
		(void)fputs("\r\033[K", stderr);
	(void)fflush(stderr);
}

/* 1 within the budget, 0 over it, -1 when there is none. */
static int is_within(const struct bench_row *r)
{
	double v = r->floor > 0 ? r->ours / r->floor : r->ours;

	if (r->budget <= 0)
		return -1;
	if (r->better == BENCH_SAME)
		return r->ours < r->floor + r->budget;
	if (v <= 0) /* nothing was measured */
		return 0;
	return r->better == BENCH_MORE ? v >= r->budget : v <= r->budget;
}

static void print_number(double v, int width)
{
	if (v > 0)
		printf(" %*.*f", width, v < 10 ? 3 : 1, v);
	else
		printf(" %*s", width, "-");
}

static void print_table(const struct bench_row *rows, size_t n)
{
	static const char *const verdict[] = {"", "over", "ok"};

	printf("%-40s %-6s %9s %9s %7s %9s %9s  %-9s\n", "", "unit", "bare", "cell", "ratio",
		"bare p99", "cell p99", "budget");
	for (size_t i = 0; i < n; i++) {
		const struct bench_row *r = &rows[i];
		char budget[32] = "";

		if (r->better == BENCH_SAME) {
			if (!i || rows[i - 1].better != BENCH_SAME)
				printf("\n%-40s %-6s %9s %9s\n", "", "", "before", "after");
			printf("%-40s %-6s %9.0f %9.0f  %s\n", r->what, r->unit, r->floor, r->ours,
				verdict[is_within(r) + 1]);
			continue;
		}
		if (r->budget > 0)
			(void)snprintf(budget, sizeof budget, "%s %g%s",
				r->better == BENCH_MORE ? ">=" : "<=", r->budget,
				r->floor > 0 ? "x" : "");
		printf("%-40s %-6s", r->what, r->unit);
		print_number(r->floor, 9);
		print_number(r->ours, 9);
		print_number(r->floor > 0 ? r->ours / r->floor : 0, 7);
		print_number(r->floor_p99, 9);
		print_number(r->ours_p99, 9);
		printf("  %-9s %s\n", budget, verdict[is_within(r) + 1]);
	}
}

static void print_json_number(const char *name, double v)
{
	if (v > 0)
		printf(", \"%s\": %.6g", name, v);
	else
		printf(", \"%s\": null", name);
}

static void print_json(const struct bench_row *rows, size_t n, const struct utsname *u)
{
	printf("{\"version\": \"%s\", \"kernel\": \"%s\", \"machine\": \"%s\", \"cpus\": %ld, "
	       "\"rows\": [",
		cell_version(), u->release, u->machine, sysconf(_SC_NPROCESSORS_ONLN));
	for (size_t i = 0; i < n; i++) {
		const struct bench_row *r = &rows[i];

		printf("%s\n  {\"what\": \"%s\", \"unit\": \"%s\"", i ? "," : "", r->what, r->unit);
		if (r->better == BENCH_SAME) {
			printf(", \"before\": %.6g, \"after\": %.6g, \"within\": %s}", r->floor,
				r->ours, is_within(r) ? "true" : "false");
			continue;
		}
		print_json_number("bare", r->floor);
		print_json_number("cell", r->ours);
		print_json_number("ratio", r->floor > 0 ? r->ours / r->floor : 0);
		print_json_number("bare_p99", r->floor_p99);
		print_json_number("cell_p99", r->ours_p99);
		print_json_number("budget", r->budget);
		printf(", \"within\": %s}", is_within(r) < 0 ? "null"
					    : is_within(r)   ? "true"
							     : "false");
	}
	printf("\n]}\n");
}

static char scratch[64];

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void remove_scratch(void)
{
	(void)nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void prepare(struct bench *b)
{
	char state[96];
	struct cell_error err = {0};
	struct cell_spec spec = {.backend = "local", .workspace = b->workspace};

	ssize_t n = readlink("/proc/self/exe", b->programs, sizeof b->programs - 1);
	char *slash = n > 0 ? strrchr(b->programs, '/') : NULL;
	if (!slash)
		bench_die("cannot find my own program");
	*slash = '\0';
	(void)snprintf(scratch, sizeof scratch, "/tmp/cell-bench.XXXXXX");
	if (!mkdtemp(scratch))
		bench_die("cannot make a directory in /tmp");
	(void)atexit(remove_scratch);
	(void)snprintf(b->scratch, sizeof b->scratch, "%s", scratch);
	(void)snprintf(b->workspace, sizeof b->workspace, "%s/work", scratch);
	(void)snprintf(state, sizeof state, "%s/state", scratch);
	if (mkdir(b->workspace, 0755) < 0 || setenv("CELL_STATE_DIR", state, 1) < 0)
		bench_die("cannot make %s", b->workspace);
	if (cell_open(&spec, &b->cell, &err) < 0)
		bench_die_err("open a cell", &err);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"quick", no_argument, NULL, 'q'},
		{"check", no_argument, NULL, 'c'},
		{0},
	};
	static const struct {
		const char *name;
		size_t (*run)(struct bench *b, struct bench_row *ret);
	} parts[] = {{"exec", bench_exec}, {"output", bench_output}, {"size", bench_size},
		{"start", bench_start}, {"parallel", bench_parallel}, {"live", bench_live},
		{"serve", bench_serve}, {"code", bench_code}, {"engines", bench_engines},
		{"soak", bench_soak}};
	enum {
		N_PARTS = sizeof parts / sizeof *parts
	};
	static struct bench b = {.rounds = 2000};
	static struct bench_row rows[BENCH_ROWS_MAX];
	bool is_picked[N_PARTS] = {0};
	bool is_json = false, is_check = false, is_over = false;
	struct cell_error err = {0};
	struct utsname u;
	size_t n = 0;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		is_json |= opt == 'j';
		is_check |= opt == 'c';
		if (opt == 'q')
			b.rounds = 200;
		b.is_quick |= opt == 'q';
		if (opt == '?')
			return 2;
	}
	for (int i = optind; i < argc; i++) {
		size_t k = 0;
		while (k < N_PARTS && strcmp(argv[i], parts[k].name) != 0)
			k++;
		if (k == N_PARTS)
			bench_die("no part '%s'; there are exec output size start parallel live "
				  "serve code engines soak",
				argv[i]);
		is_picked[k] = true;
	}
	(void)signal(SIGINT, on_stop);
	(void)signal(SIGTERM, on_stop);
	prepare(&b);
	(void)uname(&u);
	if (!is_json)
		printf("cell %s, Linux %s, %s, %ld CPUs; medians, bare and cell interleaved in one "
		       "run\n\n",
			cell_version(), u.release, u.machine, sysconf(_SC_NPROCESSORS_ONLN));
	(void)fflush(stdout);
	for (size_t i = 0; i < N_PARTS; i++)
		if (optind == argc || is_picked[i])
			n += parts[i].run(&b, rows + n);
	if (cell_close(b.cell, &err) < 0)
		bench_die_err("close a cell", &err);
	if (is_json)
		print_json(rows, n, &u);
	else
		print_table(rows, n);
	for (size_t i = 0; i < n; i++)
		is_over |= is_within(&rows[i]) == 0;
	return is_check && is_over;
}
