/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engines.c: cells in containers against the programs of those who make the containers: docker, podman, ctr, runc, crun. Each is started by
 * with-peer, with directories of its own, and told apart by it alone: here are two command lines that are run in turn.
 *
 * Programs are compared with programs (`cell run` with `docker run`, `cell exec` with `docker exec`), so that both
 * pay for their own start. What an exec costs a program that uses the library is in a line of its own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bench.h"

#define WORDS_MAX	48
#define AFTER_CREATE_US 150000 /* engines clear up behind the back of their client */
#define AFTER_EXEC_US	30000
#define LIVE		"bench-live"

struct peer {
	const char *name;
	pid_t pid;
	FILE *out;
	int in;
	char run[1024], exec[1024], cell[512];
	struct {
		char name[32], value[256];
	} env[4]; /* for our side only: podman would take it for an order */
	size_t n_env;
};

struct series {
	double *of;
	size_t n;
};

static char cell_link[96]; /* the program, by a name without blanks */
static struct peer *running;

static void set_env(const struct peer *p, bool is_ours)
{
	for (size_t i = 0; i < p->n_env; i++)
		(void)(is_ours ? setenv(p->env[i].name, p->env[i].value, 1)
			       : unsetenv(p->env[i].name));
}

static double spawn_words(const struct peer *p, bool is_ours, const char *line)
{
	char text[2048], why[200];
	const char *argv[WORDS_MAX + 1];
	size_t n = 0;

	(void)snprintf(text, sizeof text, "%s", line);
	char *rest = NULL, *word = strtok_r(text, " ", &rest);
	for (; word && n < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
		argv[n++] = word;
	argv[n] = NULL;
	set_env(p, is_ours);
	double took = bench_spawn(argv, -1, why);
	if (took < 0)
		bench_die("%s: %s", line, why);
	return took;
}

static void end_peer(void)
{
	struct peer *p = running;
	int status = 0;

	running = NULL;
	if (!p)
		return;
	close(p->in); /* which it ends by */
	(void)waitpid(p->pid, &status, 0);
	(void)fclose(p->out);
	if (status)
		bench_note("%s: a container was left, or it did not end well", p->name);
}

/* Also when we are stopped in the middle. */
static void end_all(void)
{
	struct cell_error err = {0};

	if (running) {
		set_env(running, true);
		(void)cell_remove(LIVE, &err);
	}
	end_peer();
}

static void take_line(struct peer *p, char *line)
{
	static const struct {
		const char *name;
		size_t at, size;
	} ours[] = {{"run", offsetof(struct peer, run), sizeof p->run},
		{"exec", offsetof(struct peer, exec), sizeof p->exec},
		{"cell", offsetof(struct peer, cell), sizeof p->cell}};
	char *value = strchr(line, '=');

	if (!value)
		bench_die("%s: with-peer said '%s'", p->name, line);
	*value++ = '\0';
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (!strcmp(line, ours[i].name)) {
			(void)snprintf((char *)p + ours[i].at, ours[i].size, "%s", value);
			return;
		}
	if (p->n_env == sizeof p->env / sizeof *p->env)
		bench_die("%s: too many variables", p->name);
	(void)snprintf(p->env[p->n_env].name, sizeof p->env[0].name, "%s", line);
	(void)snprintf(p->env[p->n_env++].value, sizeof p->env[0].value, "%s", value);
}

/* False when it is not to be had here, which is told. */
static bool start_peer(struct peer *p)
{
	static const char program[] = BENCH_SOURCE "/with-peer";
	char line[2048];
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		bench_die("no pipes");
	p->pid = fork();
	if (p->pid == 0) {
		(void)setsid(); /* Ctrl-C is for us; it ends with its stdin */
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		execl(program, program, p->name, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p->in = in[1];
	p->out = fdopen(out[0], "r");
	if (p->pid < 0 || !p->out)
		bench_die("cannot start %s", program);
	running = p;
	while (fgets(line, sizeof line, p->out)) {
		line[strcspn(line, "\n")] = '\0';
		if (!*line)
			return true;
		if (!strncmp(line, "skip=", 5)) {
			bench_note("%s: skipped, %s", p->name, line + 5);
			end_peer();
			return false;
		}
		take_line(p, line);
	}
	end_peer();
	bench_die("%s: with-peer did not start it", p->name);
}

/* Of its engine, and those that watch over containers. */
static double count_processes(struct peer *p)
{
	char line[64];

	if (write(p->in, "\n", 1) != 1 || !fgets(line, sizeof line, p->out))
		bench_die("%s: with-peer has gone", p->name);
	return strtod(line, NULL);
}

static double exec_by_library(struct cell *c)
{
	struct cell_exec_opts opts = {.argv = (const char *[]){"/bin/true", NULL}};
	struct cell_result result = {0};
	struct cell_error err = {0};

	uint64_t start = bench_now_ns();
	if (cell_run(c, &opts, NULL, 0, &result, &err) < 0)
		bench_die_err("run in a container", &err);
	double took = (double)(bench_now_ns() - start) / 1e6;
	if (result.exit.exit_code != 0)
		bench_die("true in a container: exit %d", result.exit.exit_code);
	cell_result_done(&result);
	return took;
}

static struct series series_of(size_t n)
{
	struct series s = {.of = calloc(n, sizeof(double)), .n = n};

	if (!s.of)
		bench_die("no memory for %zu samples", n);
	return s;
}

static struct bench_row row(const struct peer *p, const char *what, struct series *theirs,
	struct series *ours, double budget)
{
	char text[80];

	(void)snprintf(text, sizeof text, "%s: %s", p->name, what);
	return (struct bench_row){.what = strdup(text), /* as long as the table */
		.unit = "ms",
		.floor = bench_quantile(theirs->of, theirs->n, 0.5),
		.ours = bench_quantile(ours->of, ours->n, 0.5),
		.floor_p99 = bench_quantile(theirs->of, theirs->n, 0.99),
		.ours_p99 = bench_quantile(ours->of, ours->n, 0.99),
		.budget = budget};
}

static size_t compare_execs(struct peer *p, size_t n, struct bench_row *ret)
{
	struct series theirs = series_of(n), ours = series_of(n), library = series_of(n);
	struct cell_error err = {0};
	struct cell *c = NULL;
	char line[1024];

	(void)snprintf(line, sizeof line, "%s create " LIVE " %s", cell_link, p->cell);
	(void)spawn_words(p, true, line);
	if (cell_reopen(LIVE, &c, &err) < 0)
		bench_die_err("open the cell", &err);
	(void)snprintf(line, sizeof line, "%s exec " LIVE " -- /bin/true", cell_link);
	for (size_t i = 0; i < n; i++) {
		bench_progress(p->name, i, n);
		(void)usleep(AFTER_EXEC_US);
		theirs.of[i] = spawn_words(p, false, p->exec);
		(void)usleep(AFTER_EXEC_US);
		ours.of[i] = spawn_words(p, true, line);
		(void)usleep(AFTER_EXEC_US);
		library.of[i] = exec_by_library(c);
	}
	bench_progress(p->name, n, n);
	set_env(p, true);
	if (cell_close(c, &err) < 0 || cell_remove(LIVE, &err) < 0)
		bench_die_err("remove the cell", &err);
	ret[0] = row(p, "exec in a live container", &theirs, &ours, 0.1);
	ret[1] = row(p, "the same by the library", &theirs, &library, 0.1);
	free(theirs.of);
	free(ours.of);
	free(library.of);
	return 2;
}

static size_t compare_creates(struct peer *p, size_t n, struct bench_row *ret)
{
	struct series theirs = series_of(n), ours = series_of(n);
	char line[1024];

	(void)snprintf(line, sizeof line, "%s run %s -- /bin/true", cell_link, p->cell);
	(void)spawn_words(p, true, line);
	for (size_t i = 0; i < n; i++) {
		bench_progress(p->name, i, n);
		(void)usleep(AFTER_CREATE_US);
		theirs.of[i] = spawn_words(p, false, p->run);
		(void)usleep(AFTER_CREATE_US);
		ours.of[i] = spawn_words(p, true, line);
	}
	bench_progress(p->name, n, n);
	ret[0] = row(p, "create, first exec, remove", &theirs, &ours, 1.1);
	free(theirs.of);
	free(ours.of);
	return 1;
}

static size_t compare(const struct bench *b, const char *name, struct bench_row *ret)
{
	struct peer p = {.name = name};
	size_t n = 0;

	if (!start_peer(&p))
		return 0;
	double before = count_processes(&p), after = 0;
	n += compare_creates(&p, b->is_quick ? 6 : 25, ret + n);
	n += compare_execs(&p, b->is_quick ? 20 : 100, ret + n);
	for (int i = 0; i < 100 && (after = count_processes(&p)) > before; i++)
		(void)usleep(100000);
	ret[n] = row(&p, "processes of the engine", &(struct series){&before, 1},
		&(struct series){&after, 1}, 1);
	ret[n].unit = "";
	ret[n++].better = BENCH_SAME;
	end_peer();
	return n;
}

size_t bench_engines(struct bench *b, struct bench_row *ret)
{
	static const char *const names[] = {"docker", "podman", "containerd", "runc", "crun", NULL};
	const char *picked = getenv("CELL_BENCH_ENGINES");
	char cell[4300];
	size_t n = 0;

	if (geteuid() != 0) {
		bench_note("engines: skipped, they are started as root");
		return 0;
	}
	(void)snprintf(cell, sizeof cell, "%s/../cell", b->programs);
	(void)snprintf(cell_link, sizeof cell_link, "%s/cell", b->scratch);
	if (access(cell, X_OK) < 0 || symlink(cell, cell_link) < 0)
		bench_die("no program %s: run `make bench`", cell);
	(void)atexit(end_all);
	for (size_t i = 0; names[i]; i++)
		if (!picked || strstr(picked, names[i]))
			n += compare(b, names[i], ret + n);
	return n;
}
