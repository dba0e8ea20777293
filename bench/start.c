/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c: a whole jail, made, used for one `true` and destroyed, against a bare program with the same
 * walls (floor_jail.c) and against bubblewrap where that is installed, turn and turn about.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define TRUE	"/usr/bin/true"
#define WARM_UP 20

struct floor {
	pid_t pid;
	int in;
	FILE *out;
};

static void start_floor(const struct bench *b, struct floor *f)
{
	char path[4200];
	int in[2], out[2];

	(void)bench_program(b, "floor-jail", path);
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		bench_die("no pipes");
	f->pid = fork();
	if (f->pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		execl(path, path, TRUE, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	f->in = in[1];
	f->out = fdopen(out[0], "r");
	if (f->pid < 0 || !f->out)
		bench_die("cannot start %s", path);
}

static double floor_jail(struct floor *f)
{
	char line[64];

	if (write(f->in, "x", 1) != 1 || !fgets(line, sizeof line, f->out))
		bench_die("the bare program cannot make namespaces here");
	return strtod(line, NULL) / 1e6;
}

static double jail(void)
{
	struct cell_spec spec = {.backend = "jail"};
	struct cell_exec_opts opts = {.argv = (const char *[]){TRUE, NULL}};
	struct cell_result result = {0};
	struct cell_error err = {0};
	struct cell *c = NULL;

	uint64_t start = bench_now_ns();
	if (cell_open(&spec, &c, &err) < 0)
		bench_die_err("open a jail", &err);
	if (cell_run(c, &opts, NULL, 0, &result, &err) < 0)
		bench_die_err("run in a jail", &err);
	if (cell_close(c, &err) < 0)
		bench_die_err("close a jail", &err);
	double took = (double)(bench_now_ns() - start) / 1e6;
	if (result.exit.exit_code != 0)
		bench_die("true in a jail: exit %d", result.exit.exit_code);
	cell_result_done(&result);
	return took;
}

/* 0 when there is none. */
static double bubblewrap(void)
{
	static const char *const argv[] = {"bwrap", "--unshare-all", "--unshare-user",
		"--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000",
		"--hostname", "cell", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc",
		"/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/cell", "--dir",
		"/workspace", "--chdir", "/workspace", "--disable-userns", "--cap-drop", "ALL",
		TRUE, NULL};
	pid_t pid;
	int status = 0;

	uint64_t start = bench_now_ns();
	if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
		return 0;
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return 0;
	return (double)(bench_now_ns() - start) / 1e6;
}

size_t bench_start(struct bench *b, struct bench_row *ret)
{
	struct cell_backend_info info;
	struct floor f;
	size_t n = b->rounds / 4;

	if (cell_backend_probe("jail", &info, NULL) < 0 || !info.is_usable)
		return 0;
	double *bare = calloc(n, sizeof *bare), *ours = calloc(n, sizeof *ours);
	double *bwrap = calloc(n, sizeof *bwrap);
	if (!bare || !ours || !bwrap)
		bench_die("no memory for %zu samples", n);
	start_floor(b, &f);
	for (size_t i = 0; i < WARM_UP; i++) {
		(void)floor_jail(&f);
		(void)jail();
	}
	bool has_bwrap = bubblewrap() > 0;
	for (size_t i = 0; i < n; i++) {
		bare[i] = floor_jail(&f);
		ours[i] = jail();
		bwrap[i] = has_bwrap ? bubblewrap() : 0;
	}
	close(f.in);
	(void)fclose(f.out);
	(void)waitpid(f.pid, NULL, 0);
	double p50 = bench_quantile(ours, n, 0.5), p99 = bench_quantile(ours, n, 0.99);
	ret[0] = (struct bench_row){.what = "a jail: make, run true, destroy",
		.unit = "ms",
		.floor = bench_quantile(bare, n, 0.5),
		.ours = p50,
		.floor_p99 = bench_quantile(bare, n, 0.99),
		.ours_p99 = p99,
		.budget = 1.5};
	ret[1] = (struct bench_row){.what = "the same against bubblewrap",
		.unit = "ms",
		.floor = bench_quantile(bwrap, n, 0.5),
		.ours = p50,
		.floor_p99 = bench_quantile(bwrap, n, 0.99),
		.ours_p99 = p99,
		.budget = 0.35};
	free(bare);
	free(ours);
	free(bwrap);
	return has_bwrap ? 2 : 1;
}
