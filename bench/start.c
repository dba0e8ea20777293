/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c: a whole jail, made, used for one `true` and destroyed, against a bare program with the same
 * walls (floor_jail.c) and against other programs that make such places, turn and turn about.
 *
 * A jail is measured four ways: as a client gets it that asks now and then (most of it was made while nobody
 * waited); some in a row without a pause; of a kind that its launcher has not been asked for before, so that
 * nothing was made ahead; and as the first one of a process, which starts a launcher too.
 *
 * What was measured last leaves work behind for the kernel and, a jail, for its launcher. Before each sample of
 * any kind is a pause, so that nobody pays for another.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WARM_UP	 10
#define PAUSE_US 6000
#define IN_A_ROW 5

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
		(void)setsid(); /* Ctrl-C is for us; it ends with its stdin, and removes its group */
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		execl(path, path, BENCH_TRUE, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	f->in = in[1];
	f->out = fdopen(out[0], "r");
	if (f->pid < 0 || !f->out)
		bench_die("cannot start %s", path);
}

static void end_floor(struct floor *f)
{
	close(f->in);
	(void)fclose(f->out);
	(void)waitpid(f->pid, NULL, 0);
}

static double floor_jail(struct floor *f)
{
	char line[64];

	if (write(f->in, "x", 1) != 1 || !fgets(line, sizeof line, f->out))
		bench_die("the bare program cannot make namespaces here");
	return strtod(line, NULL) / 1e6;
}

bool bench_has_jail(void)
{
	struct cell_backend_info info;
	struct cell_error err = {0};

	if (cell_backend_probe("jail", &info, &err) >= 0 && info.is_usable)
		return true;
	bench_note("jails: skipped, `cell doctor` says why there are none here");
	return false;
}

double bench_jail(uint64_t disk_bytes)
{
	struct cell_spec spec = {.backend = "jail", .limits.disk_bytes = disk_bytes};
	struct cell_exec_opts opts = {.argv = (const char *[]){BENCH_TRUE, NULL}};
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

/* In a process that has no launcher yet; that takes its own with it when it ends. */
static double first_jail(void)
{
	double took = 0;
	int told[2];

	(void)fflush(NULL);
	if (pipe2(told, O_CLOEXEC) < 0)
		bench_die("no pipe");
	pid_t pid = fork();
	if (pid == 0) {
		took = bench_jail(0);
		_exit(write(told[1], &took, sizeof took) == (ssize_t)sizeof took ? 0 : 1);
	}
	close(told[1]);
	if (pid < 0 || read(told[0], &took, sizeof took) != (ssize_t)sizeof took ||
		waitpid(pid, NULL, 0) != pid)
		bench_die("the first jail of a process: it failed");
	close(told[0]);
	return took;
}

/* In a jail that is there, and by fork and exec alone. */
static double again(struct cell *c)
{
	struct cell_exec_opts opts = {.argv = (const char *[]){BENCH_TRUE, NULL}};
	struct cell_result result = {0};
	struct cell_error err = {0};

	uint64_t start = bench_now_ns();
	if (cell_run(c, &opts, NULL, 0, &result, &err) < 0)
		bench_die_err("run in a jail", &err);
	double took = (double)(bench_now_ns() - start) / 1e6;
	cell_result_done(&result);
	return took;
}

static double fork_exec(void)
{
	int status = 0;

	uint64_t start = bench_now_ns();
	pid_t pid = fork();
	if (pid == 0) {
		execl(BENCH_TRUE, BENCH_TRUE, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("fork and exec of " BENCH_TRUE ": wait status %d", status);
	return (double)(bench_now_ns() - start) / 1e6;
}

static double in_a_row(void)
{
	double sum = 0;

	for (int i = 0; i < IN_A_ROW; i++)
		sum += bench_jail(0);
	return sum / IN_A_ROW;
}

static void pause_briefly(void)
{
	(void)usleep(PAUSE_US);
}

enum series {
	FLOOR,
	STEADY,
	ROW,
	UNSEEN,
	FIRST,
	FORK_EXEC,
	AGAIN,
	PEERS,
	N_SERIES = PEERS + BENCH_PEERS
};

struct samples {
	double *of[N_SERIES];
	size_t n;
};

static struct bench_row against(struct samples *s, const char *what, enum series bare,
	enum series ours, double budget)
{
	return (struct bench_row){.what = what,
		.unit = "ms",
		.floor = bench_quantile(s->of[bare], s->n, 0.5),
		.ours = bench_quantile(s->of[ours], s->n, 0.5),
		.floor_p99 = bench_quantile(s->of[bare], s->n, 0.99),
		.ours_p99 = bench_quantile(s->of[ours], s->n, 0.99),
		.budget = budget};
}

size_t bench_start(struct bench *b, struct bench_row *ret)
{
	static const char *const names[BENCH_PEERS] = {"cell run against bubblewrap as a program",
		"a jail against bubblewrap, same walls", "a jail against plain bubblewrap",
		"a jail against runc", "a jail against crun", "a jail against docker run"};
	struct samples s = {.n = b->is_quick ? 40 : 300};
	bool has[BENCH_PEERS] = {0};
	struct cell_error err = {0};
	struct cell *c = NULL;
	struct floor f;
	char why[200];
	size_t n = 0;

	if (!bench_has_jail())
		return 0;
	for (size_t i = 0; i < N_SERIES; i++)
		if (!(s.of[i] = calloc(s.n, sizeof(double))))
			bench_die("no memory for %zu samples", s.n);
	if (cell_open(&(struct cell_spec){.backend = "jail"}, &c, &err) < 0)
		bench_die_err("open a jail", &err);
	start_floor(b, &f);
	for (size_t i = 0; i < BENCH_PEERS; i++) {
		has[i] = bench_peers[i].prepare(b);
		if (has[i] && bench_peers[i].run(why) < 0) {
			bench_note("%s: skipped, it does not run here: %s", bench_peers[i].name,
				why);
			has[i] = false;
		}
	}
	for (size_t i = 0; i < WARM_UP; i++) {
		(void)floor_jail(&f);
		(void)bench_jail(0);
		(void)again(c);
	}
	for (size_t i = 0; i < s.n; i++) {
		bench_progress("start", i, s.n);
		pause_briefly();
		s.of[FLOOR][i] = floor_jail(&f);
		pause_briefly();
		s.of[STEADY][i] = bench_jail(0);
		pause_briefly();
		s.of[ROW][i] = in_a_row();
		pause_briefly();
		s.of[FORK_EXEC][i] = fork_exec();
		pause_briefly();
		s.of[AGAIN][i] = again(c);
		pause_briefly();
		s.of[UNSEEN][i] = bench_jail(((uint64_t)i + 64) << 20);
		pause_briefly();
		s.of[FIRST][i] = first_jail();
		for (size_t k = 0; k < BENCH_PEERS; k++) {
			if (!has[k])
				continue;
			pause_briefly();
			if ((s.of[PEERS + k][i] = bench_peers[k].run(why)) < 0)
				bench_die("%s: %s", bench_peers[k].name, why);
		}
	}
	bench_progress("start", s.n, s.n);
	end_floor(&f);
	if (cell_close(c, &err) < 0)
		bench_die_err("close a jail", &err);
	ret[n++] = against(&s, "a jail: make, run true, destroy", FLOOR, STEADY, 1.5);
	ret[n++] = against(&s, "five in a row, each", FLOOR, ROW, 1.5);
	ret[n++] = against(&s, "of a kind not asked for before", FLOOR, UNSEEN, 1.5);
	ret[n++] = against(&s, "the first one, with its launcher", FLOOR, FIRST, 0);
	ret[n++] = against(&s, "true in a jail that is there", FORK_EXEC, AGAIN, 1.5);
	if (has[BENCH_PEER_OURS] && has[BENCH_PEER_BWRAP])
		ret[n++] = against(&s, names[0], PEERS + BENCH_PEER_BWRAP, PEERS, 0);
	if (has[BENCH_PEER_BWRAP])
		ret[n++] = against(&s, "five in a row against bubblewrap", PEERS + BENCH_PEER_BWRAP,
			ROW, 0.35);
	for (size_t i = BENCH_PEER_BWRAP; i < BENCH_PEERS; i++)
		if (has[i])
			ret[n++] = against(&s, names[i], PEERS + (enum series)i, STEADY,
				i == BENCH_PEER_BWRAP ? 0.35 : 0);
	for (size_t i = 0; i < N_SERIES; i++)
		free(s.of[i]);
	return n;
}
