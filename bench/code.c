/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c: code that remembers, against a Jupyter kernel in the same run: the first result of a session, from the shelf and
 * cold, a stateful 1+1 by the library and over HTTP, the bytes per second of stdout, and what an idle context holds.
 */
#include "cell/code.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "service.h"

#define OUTPUT_BYTES (UINT64_C(100) << 20)

/* ---- Jupyter ---- */

struct peer {
	pid_t pid;
	FILE *to, *from;
};

static bool peer_open(struct bench *b, struct peer *p)
{
	char path[4200], why[200];
	int in[2], out[2];

	(void)bench_program(b, "jupyter.py", path);
	if (bench_spawn((const char *const[]){"/usr/bin/python3", "-c",
				"import ipykernel, jupyter_client", NULL},
		    -1, why) < 0) {
		bench_note("jupyter: skipped, python3-ipykernel and python3-jupyter-client are not "
			   "installed");
		return false;
	}
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		bench_die("no pipe");
	p->pid = fork();
	if (p->pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		(void)setenv("HOME", b->scratch, 1);
		(void)setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1", 1); /* it talks about itself */
		execl("/usr/bin/python3", "python3", "-W", "ignore", path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p->to = fdopen(in[1], "w");
	p->from = fdopen(out[0], "r");
	if (p->pid < 0 || !p->to || !p->from)
		bench_die("cannot start a Jupyter client");
	return true;
}

static double peer_ask(struct peer *p, const char *word)
{
	char line[64];

	(void)fprintf(p->to, "%s\n", word);
	(void)fflush(p->to);
	if (!fgets(line, sizeof line, p->from))
		bench_die("the Jupyter client ended");
	return strtod(line, NULL);
}

static void peer_close(struct peer *p)
{
	(void)fclose(p->to);
	(void)fclose(p->from);
	(void)waitpid(p->pid, NULL, 0);
}

/* ---- ours ---- */

static void expect_two(struct cell *c)
{
	struct cell_code_result r;
	struct cell_error err = {0};

	if (cell_code(c, &(struct cell_code_opts){.code = "1+1"}, &r, &err) < 0)
		bench_die_err("run code", &err);
	if (!r.value || strcmp(r.value, "2") != 0)
		bench_die("1+1 is %s: %s", r.value ? r.value : "nothing",
			r.error_message ? r.error_message : "");
	cell_code_result_done(&r);
}

static double first_result(const struct cell_spec *spec)
{
	struct cell_error err = {0};
	struct cell *c;
	uint64_t start = bench_now_ns();

	if (cell_open(spec, &c, &err) < 0)
		bench_die_err("open a cell", &err);
	expect_two(c);
	double took = (double)(bench_now_ns() - start) / 1e6;
	if (cell_close(c, &err) < 0)
		bench_die_err("close a cell", &err);
	return took;
}

static double one_run(struct cell *c)
{
	uint64_t start = bench_now_ns();

	expect_two(c);
	return (double)(bench_now_ns() - start) / 1e6;
}

static double output_rate(struct cell *c)
{
	static const char code[] = "import sys\n"
				   "b = b'x' * (1 << 20)\n"
				   "for i in range(100): _ = sys.stdout.buffer.write(b)\n";
	struct cell_code_event ev = {0};
	struct cell_error err = {0};
	struct cell_code_run *x;
	uint64_t total = 0, start = bench_now_ns();

	if (cell_code_start(c, &(struct cell_code_opts){.code = code}, &x, &err) < 0)
		bench_die_err("run code", &err);
	while (ev.type != CELL_CODE_DONE) {
		if (cell_code_next(x, -1, &ev, &err) < 0)
			bench_die_err("read from a run", &err);
		total += ev.type == CELL_CODE_STDOUT ? ev.len : 0;
	}
	cell_code_free(x);
	if (total != OUTPUT_BYTES)
		bench_die("%llu bytes of output came", (unsigned long long)total);
	return (double)OUTPUT_BYTES / 1e6 / ((double)(bench_now_ns() - start) / 1e9);
}

static int take_pid(const struct cell_context_info *info, void *user)
{
	*(int64_t *)user = info->pid;
	return 0;
}

static double idle_kib(struct cell *c)
{
	struct cell_error err = {0};
	int64_t pid = 0;

	if (cell_context_list(c, take_pid, &pid, &err) < 0)
		bench_die_err("list contexts", &err);
	return bench_process_kib(pid, "Rss:");
}

/* A python3 that waits for its first line. */
static double bare_kib(void)
{
	int in[2], out[2];
	char ready;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		bench_die("no pipe");
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		execlp("python3", "python3", "-c",
			"import sys; print(flush=True); sys.stdin.read()", NULL);
		_exit(127);
	}
	close(out[1]);
	if (pid < 0 || read(out[0], &ready, 1) != 1)
		bench_die("cannot start python3");
	double kib = bench_process_kib(pid, "Rss:");
	close(in[1]);
	close(in[0]);
	close(out[0]);
	(void)waitpid(pid, NULL, 0);
	return kib;
}

/* ---- rows ---- */

static size_t first_rows(struct bench *b, struct peer *p, struct bench_row *ret)
{
	static const char *const warm[] = {"python", NULL};
	const struct cell_spec cold = {.backend = "jail"},
			       ready = {.backend = "jail", .warm = warm};
	struct cell_error err = {0};
	double jupyter[9], shelf[9], scratch[9];
	size_t n = b->is_quick ? 3 : 9;

	if (!bench_has_jail())
		return 0;
	if (cell_shelf_fill(&ready, 2, &err) < 0)
		bench_die_err("fill the shelf", &err);
	for (size_t i = 0; i < n; i++) {
		bench_progress("first result", i, n);
		jupyter[i] = peer_ask(p, "start");
		(void)peer_ask(p, "stop");
		(void)usleep(500 * 1000); /* nobody asks for sessions without a pause */
		shelf[i] = first_result(&ready);
		scratch[i] = first_result(&cold);
	}
	bench_progress("first result", n, n);
	if (cell_shelf_fill(&ready, 0, &err) < 0)
		bench_die_err("empty the shelf", &err);
	double floor = bench_quantile(jupyter, n, 0.5);
	ret[0] = (struct bench_row){.what = "first Python result, shelf; bare: Jupyter",
		.unit = "ms",
		.floor = floor,
		.ours = bench_quantile(shelf, n, 0.5),
		.budget = 0.01};
	ret[1] = (struct bench_row){.what = "first Python result, cold; bare: Jupyter",
		.unit = "ms",
		.floor = floor,
		.ours = bench_quantile(scratch, n, 0.5),
		.budget = 1.0 / 15};
	return 2;
}

/*
 * Ten in a row of each; and one of each with a pause before it, as agents call, which think between two calls.
 * As in start.c nobody pays for what the other left to do: a Jupyter kernel is busy for a while after its answer.
 * The budgets are for calls in a row. After a pause it is the processor that counts: on a virtual machine whose
 * processors were taken away meanwhile, compiling "1+1" alone takes twenty times as long.
 */
#define IN_A_ROW 10
#define PAUSE_US 6000

struct pair {
	double jupyter[1000], ours[1000];
	size_t n;
};

typedef double (*run_fn)(void *user);

static void compare(struct peer *p, const char *what, size_t n, size_t in_a_row, run_fn fn,
	void *user, struct pair *ret)
{
	ret->n = n;
	for (size_t i = 0; i < n; i += in_a_row) {
		bench_progress(what, i, n);
		(void)usleep(PAUSE_US);
		for (size_t k = i; k < i + in_a_row; k++)
			ret->jupyter[k] = peer_ask(p, "run");
		(void)usleep(PAUSE_US);
		for (size_t k = i; k < i + in_a_row; k++)
			ret->ours[k] = fn(user);
	}
	bench_progress(what, n, n);
}

static struct bench_row row_of(struct pair *p, const char *what, double budget)
{
	return (struct bench_row){.what = what,
		.unit = "ms",
		.floor = bench_quantile(p->jupyter, p->n, 0.5),
		.ours = bench_quantile(p->ours, p->n, 0.5),
		.floor_p99 = bench_quantile(p->jupyter, p->n, 0.99),
		.ours_p99 = bench_quantile(p->ours, p->n, 0.99),
		.budget = budget};
}

static double run_by_library(void *user)
{
	return one_run(user);
}

static size_t run_rows(struct bench *b, struct peer *p, struct bench_row *ret)
{
	static struct pair pair;
	size_t n = b->is_quick ? 100 : 1000;

	(void)peer_ask(p, "start");
	expect_two(b->cell);
	compare(p, "1+1", n, IN_A_ROW, run_by_library, b->cell, &pair);
	ret[0] = row_of(&pair, "1+1, ten in a row; bare: Jupyter", 0.05);
	compare(p, "1+1", n, 1, run_by_library, b->cell, &pair);
	ret[1] = row_of(&pair, "1+1, with pauses; bare: Jupyter", 0);
	(void)peer_ask(p, "stop");
	return 2;
}

/* The same through the server: HTTP, authentication, the audit log and the spool. */
struct far_run {
	struct service s;
	int fd;
	char path[128];
};

static double run_by_http(void *user)
{
	static char text[SERVICE_TEXT];
	const struct far_run *f = user;
	uint64_t begin = bench_now_ns();
	int status = service_ask(&f->s, f->fd, "POST", f->path, "{\"code\":\"1+1\"}", text);
	double took = (double)(bench_now_ns() - begin) / 1e6;

	if (status != 200 || !strstr(text, "\"value\":\"2\""))
		bench_die("serve: run: %.300s", text);
	return took;
}

static size_t http_rows(struct bench *b, struct peer *p, struct bench_row *ret)
{
	static struct far_run f;
	static struct pair pair;
	static char text[SERVICE_TEXT];
	size_t n = b->is_quick ? 100 : 1000;
	char id[64];

	if (!bench_has_jail())
		return 0;
	service_make(b, &f.s);
	(void)service_start(&f.s);
	f.fd = service_join(&f.s);
	service_session(&f.s, f.fd, id);
	(void)snprintf(f.path, sizeof f.path, "/v1/sessions/%s/runs", id);
	(void)peer_ask(p, "start");
	(void)run_by_http(&f); /* starts the interpreter */
	compare(p, "1+1 over HTTP", n, IN_A_ROW, run_by_http, &f, &pair);
	ret[0] = row_of(&pair, "1+1 over HTTP, in a row; bare: Jupyter", 0.125);
	compare(p, "1+1 over HTTP", n, 1, run_by_http, &f, &pair);
	ret[1] = row_of(&pair, "1+1 over HTTP, with pauses", 0);
	(void)peer_ask(p, "stop");
	(void)snprintf(f.path, sizeof f.path, "/v1/sessions/%s", id);
	if (service_ask(&f.s, f.fd, "DELETE", f.path, "", text) != 204)
		bench_die("serve: %.300s", text);
	close(f.fd);
	service_end(&f.s, SIGTERM);
	return 2;
}

static size_t own_rows(struct bench *b, struct bench_row *ret)
{
	struct cell_error err = {0};
	double rate[5], bare[5], idle[5];
	size_t n = b->is_quick ? 3 : 5;

	for (size_t i = 0; i < n; i++) {
		bench_progress("output of code", i, n);
		if (cell_context_reset(b->cell, "python", &err) < 0)
			bench_die_err("reset a context", &err);
		expect_two(b->cell);
		bare[i] = bare_kib();
		idle[i] = idle_kib(b->cell);
		rate[i] = output_rate(b->cell);
	}
	bench_progress("output of code", n, n);
	ret[0] = (struct bench_row){.what = "stdout of Python code, 100 MiB",
		.unit = "MB/s",
		.ours = bench_quantile(rate, n, 0.5),
		.budget = 200,
		.better = BENCH_MORE};
	ret[1] = (struct bench_row){.what = "idle context; bare: python3 + 4 MB",
		.unit = "KiB",
		.floor = bench_quantile(bare, n, 0.5) + 4e6 / 1024,
		.ours = bench_quantile(idle, n, 0.5),
		.budget = 1};
	return 2;
}

size_t bench_code(struct bench *b, struct bench_row *ret)
{
	struct peer p;
	size_t n = 0;

	expect_two(b->cell);
	if (peer_open(b, &p)) {
		n += first_rows(b, &p, ret);
		n += run_rows(b, &p, ret + n);
		n += http_rows(b, &p, ret + n);
		peer_close(&p);
	}
	return n + own_rows(b, ret + n);
}
