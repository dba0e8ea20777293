/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.c: what two cells have in common, and what is left of one that went, however it went. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"
#include "escape.h"

static int find_traces(struct cell *c)
{
	struct cell_result r = {0};
	struct cell_error err = {0};
	const char *argv[] = {"/workspace/attempt", "find-traces", "cell-trace", NULL};
	int e = cell_run(c, &(struct cell_exec_opts){.argv = argv}, NULL, 0, &r, &err);
	int code = e < 0 ? e : r.exit.exit_code;

	if (code != REFUSED)
		printf("# find-traces: %s%s\n", r.out ? r.out : "", e < 0 ? err.msg : "");
	cell_result_done(&r);
	return code;
}

/* The one who leaves traces stays while the other looks. */
static struct cell_exec *leave_traces(struct cell *c)
{
	const char *argv[] = {"/workspace/attempt", "leave-traces", "cell-trace", NULL};
	struct cell_exec_opts o = {.argv = argv, .flags = CELL_EXEC_STDIN};
	struct cell_exec *x = NULL;
	struct cell_event ev = {0};
	struct cell_error err = {0};

	if (cell_exec_start(c, &o, &x, &err) < 0)
		return NULL;
	while (cell_exec_next(x, 10000, &ev, &err) == 0 && ev.type != CELL_EVENT_NONE &&
		ev.type != CELL_EVENT_EXIT)
		if (ev.type == CELL_EVENT_STDOUT && ev.len >= 5 && !memcmp(ev.data, "ready", 5))
			return x;
	cell_exec_free(x);
	return NULL;
}

/* `strict` has no shared memory to leave: the controls could not succeed. */
static const char *why_no_shm(void)
{
	const char *profile = getenv("CELL_ESCAPE_SECCOMP");

	return profile && !strcmp(profile, "strict") ? "strict has no SysV shared memory" : NULL;
}

void escape_neighbours(const char *mode, const char *workspace)
{
	if (why_no_shm()) {
		escape_result(true, mode, "two cells have nothing in common", why_no_shm(), " ");
		return;
	}
	struct cell *a = escape_open(workspace, NULL), *b = escape_open(workspace, NULL);
	struct cell_exec *x = a ? leave_traces(a) : NULL;

	/* the control: in the same cell they are found */
	int same = x ? find_traces(a) : -1, other = b ? find_traces(b) : -1;
	escape_result(same == DID_IT && other == REFUSED, mode, "two cells have nothing in common",
		NULL, "in the same cell: %d, in another: %d", same, other);
	cell_exec_free(x);
	(void)cell_close(a, NULL);
	(void)cell_close(b, NULL);
}

static long shared_kib(void)
{
	char line[128];
	long kib = -1;
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "Shmem:", 6))
			kib = strtol(line + 6, NULL, 10);
	if (f)
		(void)fclose(f);
	return kib;
}

static unsigned count_processes(const char *part)
{
	DIR *d = opendir("/proc");
	char path[300], text[512];
	unsigned n = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		(void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
		FILE *f = fopen(path, "re");
		size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
		text[len] = '\0';
		for (size_t i = 0; i < len; i++)
			if (!text[i])
				text[i] = ' ';
		n += len && strstr(text, part) != NULL;
		if (f)
			(void)fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

static bool wait_gone(const char *part)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000000};

	for (int i = 0; i < 500 && count_processes(part); i++)
		(void)nanosleep(&pause, NULL);
	return !count_processes(part);
}

/* A cell with a process that says `word`, in a process of its own; `what` happens to that. */
enum fate {
	KILL_OWNER,
	KILL_LAUNCHER,
};

pid_t escape_launcher_of(pid_t owner)
{
	char path[64], line[256];
	DIR *d = opendir("/proc");
	pid_t found = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		int parent = 0;
		char name[32] = "";

		(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
		FILE *f = pid > 0 ? fopen(path, "re") : NULL;
		if (f && fgets(line, sizeof line, f) &&
			sscanf(line, "%*d (%31[^)]) %*c %d", name, &parent) == 2 &&
			parent == owner && !strncmp(name, "cell-launcher", 13))
			found = pid;
		if (f)
			(void)fclose(f);
	}
	if (d)
		closedir(d);
	return found;
}

static bool dies(const char *workspace, const char *word, enum fate fate)
{
	int told[2], status;
	char c = 0;

	(void)fflush(NULL);
	if (pipe(told) < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		struct cell *cell = escape_open(workspace, NULL);
		struct cell_exec *x = NULL;
		char shell[128];
		(void)snprintf(shell, sizeof shell,
			"setsid sh -c 'sleep 1000; : %s' & echo; sleep 1000", word);
		struct cell_event ev;
		if (!cell ||
			cell_exec_start(cell, &(struct cell_exec_opts){.shell = shell}, &x, NULL) <
				0 ||
			cell_exec_next(x, 10000, &ev, NULL) < 0)
			_exit(1);
		(void)!write(told[1], "r", 1);
		(void)pause();
		_exit(0);
	}
	close(told[1]);
	bool is_up = read(told[0], &c, 1) == 1 && count_processes(word) > 0; /* the control */
	close(told[0]);
	pid_t launcher = escape_launcher_of(pid);
	if (fate == KILL_LAUNCHER && launcher > 0)
		(void)kill(launcher, SIGKILL);
	else
		(void)kill(pid, SIGKILL);
	bool is_gone = wait_gone(word);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	return is_up && launcher > 0 && is_gone;
}

void escape_leftovers(const char *mode, const char *workspace)
{
	const char *argv[] = {"/workspace/attempt", "leave-shm", "32", NULL};
	char word[64];
	int told = 0;

	/* the machine's memory is others' too: what a cell leaves is there every time */
	long more = 0;
	for (int round = 0; round < 5 && (!round || more >= 64 * 1024); round++) {
		long before = shared_kib();
		told = 0;
		for (int i = 0; i < 8 && !why_no_shm(); i++) {
			struct cell *c = escape_open(workspace, NULL);
			struct cell_result r = {0};
			if (c && cell_run(c, &(struct cell_exec_opts){.argv = argv}, NULL, 0, &r,
					 NULL) == 0)
				told += r.exit.exit_code == DID_IT;
			cell_result_done(&r);
			(void)cell_close(c, NULL);
		}
		more = shared_kib() - before;
	}
	escape_result(why_no_shm() || (told == 8 && more < 64 * 1024), mode,
		"shared memory ends with its cell", why_no_shm(),
		"%d of 8 took it, %ld KiB more than before", told, more);
	(void)snprintf(word, sizeof word, "cell-owner-%d", (int)getpid());
	escape_result(dies(workspace, word, KILL_OWNER), mode,
		"a cell dies with the process that made it", NULL,
		"%s is still there, or never was", word);
	(void)snprintf(word, sizeof word, "cell-launcher-%d", (int)getpid());
	escape_result(dies(workspace, word, KILL_LAUNCHER), mode, "and with its launcher", NULL,
		"%s is still there, or never was", word);
	int n = cell_prune(NULL, NULL, NULL);
	(void)cell_prune(NULL, NULL, NULL);
	const char *state = getenv("CELL_STATE_DIR");
	int left = 0;
	char path[256];
	(void)snprintf(path, sizeof path, "%s/cells", state ? state : "");
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		left += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	if (d)
		closedir(d);
	escape_result(n >= 0 && left == 0, mode, "pruning leaves no record of them", NULL,
		"%d pruned, %d left", n, left);
}
