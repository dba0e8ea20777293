/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared.c: a cell takes all it can get of what the kernel counts for a user, or does to a user's processes what
 * it can; others must not notice. Others are who runs this test, and another cell.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scene.h"
#include "attempt.h"
#include "escape.h"

#define NOBODY_ELSE 61237 /* an id that nobody has: the controls take from it, and from nobody */

static const struct {
	const char *take_all, *take_one, *what;
} counted[] = {
	{"take-all-inotify", "inotify", "a cell leaves inotify to others"},
	{"take-all-queues", "queue", "and message queues"},
};
#define N_COUNTED (sizeof counted / sizeof *counted)
static bool control_holds[N_COUNTED], control_slows;

/* ---- outside ---- */

static pid_t start_outside(const char *program, const char *name, bool is_other, int *in, int *out)
{
	int to[2], from[2];

	(void)fflush(NULL);
	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(to[0], 0);
		(void)dup2(from[1], 1);
		if (is_other && !scene_become(NOBODY_ELSE))
			_exit(CANNOT);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, "attempt", name, "", (char *)NULL);
		_exit(CANNOT);
	}
	close(to[0]);
	close(from[1]);
	*in = to[1];
	*out = from[0];
	return pid;
}

static int run_outside(const char *program, const char *name, bool is_other)
{
	int in, out;
	pid_t pid = start_outside(program, name, is_other, &in, &out);

	if (pid < 0)
		return CANNOT;
	close(in);
	int code = scene_wait(pid);
	close(out);
	return code;
}

static pid_t start_sleeper(bool is_other)
{
	(void)fflush(NULL);
	pid_t pid = fork();

	if (pid == 0) {
		if (is_other && !scene_become(NOBODY_ELSE))
			_exit(1);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	return pid;
}

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)scene_wait(pid);
}

void escape_shared_controls(const char *program)
{
	for (size_t i = 0; i < N_COUNTED; i++) {
		char c;
		int in, out;
		pid_t pid = start_outside(program, counted[i].take_all, true, &in, &out);
		bool is_up = pid > 0 && read(out, &c, 1) == 1;

		control_holds[i] =
			is_up && run_outside(program, counted[i].take_one, true) == REFUSED;
		close(in);
		(void)scene_wait(pid);
		close(out);
		control_holds[i] &= run_outside(program, counted[i].take_one, true) == DID_IT;
	}
	pid_t sleeper = start_sleeper(true);
	control_slows = run_outside(program, "slow-down-others", true) == DID_IT &&
			getpriority(PRIO_PROCESS, (id_t)sleeper) == 19;
	end(sleeper);
}

/* ---- inside ---- */

static int run_inside(struct cell *c, const char *name)
{
	const char *argv[] = {"/workspace/attempt", name, "", NULL};
	struct cell_result r = {0};
	int code = CANNOT;

	if (c && cell_run(c, &(struct cell_exec_opts){.argv = argv}, NULL, 0, &r, NULL) == 0)
		code = r.exit.exit_code;
	cell_result_done(&r);
	return code;
}

static struct cell_exec *start_inside(struct cell *c, const char *name)
{
	const char *argv[] = {"/workspace/attempt", name, "", NULL};
	struct cell_exec_opts o = {.argv = argv, .flags = CELL_EXEC_STDIN};
	struct cell_exec *x = NULL;
	struct cell_event ev = {0};

	if (!c || cell_exec_start(c, &o, &x, NULL) < 0)
		return NULL;
	while (cell_exec_next(x, 20000, &ev, NULL) == 0 && ev.type != CELL_EVENT_NONE &&
		ev.type != CELL_EVENT_EXIT)
		if (ev.type == CELL_EVENT_STDOUT && ev.len >= 5 && !memcmp(ev.data, "ready", 5))
			return x;
	cell_exec_free(x);
	return NULL;
}

static void counted_by_user(const char *mode, const char *workspace, const char *program, size_t i)
{
	if (!control_holds[i]) {
		escape_result(true, mode, counted[i].what, "nobody can take all outside either",
			" ");
		return;
	}
	struct cell *a = escape_open(workspace, NULL), *b = escape_open(workspace, NULL);
	struct cell_exec *x = start_inside(a, counted[i].take_all);
	int here = run_outside(program, counted[i].take_one, false);
	int there = run_inside(b, counted[i].take_one);
	const char *profile = getenv("CELL_ESCAPE_SECCOMP");
	/* strict has no queues at all */
	bool is_ok = there == DID_IT || (profile && !strcmp(profile, "strict") && i == 1);

	escape_result(x && here == DID_IT && is_ok, mode, counted[i].what, NULL,
		"taken: %d, outside: %d, in another cell: %d", x != NULL, here, there);
	cell_exec_free(x);
	(void)cell_close(a, NULL);
	(void)cell_close(b, NULL);
}

static void priorities(const char *mode, const char *workspace)
{
	struct cell *c = escape_open(workspace, NULL);
	pid_t sleeper = start_sleeper(false);
	int before = getpriority(PRIO_PROCESS, (id_t)sleeper);
	int code = run_inside(c, "slow-down-others");
	int after = getpriority(PRIO_PROCESS, (id_t)sleeper);

	escape_result(c && control_slows && before == after, mode,
		"a user's other processes keep their priority", NULL,
		"control %d, exit %d, %d before, %d after", control_slows, code, before, after);
	end(sleeper);
	(void)cell_close(c, NULL);
}

/* ---- mounts that come later ---- */

static int exists_inside(struct cell *c, const char *path)
{
	const char *argv[] = {"/usr/bin/test", "-e", path, NULL};
	struct cell_result r = {0};
	int code = -1;

	if (c && cell_run(c, &(struct cell_exec_opts){.argv = argv}, NULL, 0, &r, NULL) == 0)
		code = r.exit.exit_code;
	cell_result_done(&r);
	return code;
}

static bool make_file(const char *dir, const char *name)
{
	char path[200];

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* In a mount namespace of its own: 0 when it holds, 1 when not, 2 without a control. */
static int later_mount(const char *workspace)
{
	char later[160], copy[160], seen[200];

	(void)snprintf(later, sizeof later, "%s/later", workspace);
	(void)snprintf(copy, sizeof copy, "%s.copy", workspace);
	(void)snprintf(seen, sizeof seen, "%s/later/secret", copy);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(workspace, workspace, NULL, MS_BIND, NULL) < 0 ||
		mount(NULL, workspace, NULL, MS_SHARED, NULL) < 0 ||
		(mkdir(copy, 0755) < 0 && errno != EEXIST) ||
		mount(workspace, copy, NULL, MS_BIND, NULL) < 0 ||
		(mkdir(later, 0755) < 0 && errno != EEXIST))
		return 2;
	struct cell *c = escape_open(workspace, NULL);
	if (exists_inside(c, "/workspace/later") != 0 ||
		mount("none", later, "tmpfs", 0, NULL) < 0 || !make_file(later, "secret"))
		return 2;
	/* the control: who shares the mount sees it */
	int r = access(seen, F_OK) < 0 ? 2 : exists_inside(c, "/workspace/later/secret") == 0;
	(void)cell_close(c, NULL);
	return r;
}

static void later_mounts(const char *mode, const char *workspace)
{
	char path[160];

	if (geteuid() != 0) {
		escape_result(true, mode, "what is mounted later stays outside",
			"only root mounts anything", " ");
		return;
	}
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(later_mount(workspace));
	int code = scene_wait(pid);
	escape_result(code == 0, mode, "what is mounted later stays outside", NULL, "%s",
		code == 1 ? "the cell sees it" : "no control");
	(void)snprintf(path, sizeof path, "%s/later", workspace);
	(void)rmdir(path);
	(void)snprintf(path, sizeof path, "%s.copy", workspace);
	(void)rmdir(path);
}

void escape_shared(const char *mode, const char *workspace, const char *program)
{
	for (size_t i = 0; i < N_COUNTED; i++)
		counted_by_user(mode, workspace, program, i);
	priorities(mode, workspace);
	later_mounts(mode, workspace);
}
