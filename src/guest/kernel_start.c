/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_start.c: an interpreter's beginning and end. It is kept like a command: by a keeper, with the limits, the user
 * and the environment of one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/keeper.h"
#include "guest/kernel.h"

/* The driver's text as something that can be read and never be written. */
static int open_driver(const struct language *l)
{
	auto_fd int fd = memfd_create("cell-driver", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const unsigned char *p = l->text;

	while (fd >= 0 && p < l->text_end) {
		ssize_t n = write(fd, p, (size_t)(l->text_end - p));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
	}
	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) <
			0)
		return -errno;
	return steal_fd(fd);
}

#define MAX_ARGS 8

/* The program and its arguments. argv points into `program` and the language's table. */
static int compose(const struct kernel *k, char *program, size_t size, const char *argv[MAX_ARGS],
	const struct language **ret_how, struct cell_error *err)
{
	const struct language *l = k->language;
	size_t n = 0;

	if (k->interpreter)
		(void)snprintf(program, size, "%s", k->interpreter);
	else
		l = language_program(l, env_get(&k->place.env, "PATH"), program, size);
	if (!l)
		return context_lacks(k->language, &k->place, err);
	*ret_how = l;
	argv[n++] = program;
	for (const char *const *f = l->flags; *f && n < MAX_ARGS - 2; f++)
		argv[n++] = *f;
	argv[n++] = l->boot;
	argv[n] = NULL;
	return 0;
}

struct ends {
	int control[2], out[2], err[2], driver;
};

static void ends_done(struct ends *e)
{
	const int all[] = {e->control[0], e->control[1], e->out[0], e->out[1], e->err[0], e->err[1],
		e->driver};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i] >= 0)
			close(all[i]);
	}
}

static int open_ends(const struct language *l, struct ends *e)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->control) < 0 ||
		pipe2(e->out, O_CLOEXEC) < 0 || pipe2(e->err, O_CLOEXEC) < 0)
		return -errno;
	e->driver = open_driver(l);
	return e->driver < 0 ? e->driver : 0;
}

static int launch(struct kernel *k, const char *const *argv, struct ends *e, struct cell_error *err)
{
	const struct order *o = &k->place;
	union { /* execve takes no const */
		const char *const *in;
		char **out;
	} u = {.in = argv};
	struct job *j = job_new(err);

	if (!j)
		return -EAGAIN;
	job_be_host(j);
	(void)snprintf(j->command, sizeof j->command, "%s", argv[0]);
	const struct launch l = {
		.number = j->number,
		.argv = u.out,
		.env = o->env.list,
		.cwd_fd = o->cwd_fd,
		.stdio = {guest.null_fd, e->out[1], e->err[1]},
		.extra = {e->control[1], e->driver},
		.has_ids = !o->user.is_self,
		.uid = o->user.uid,
		.gid = o->user.gid,
		.groups = o->user.groups,
		.n_groups = (size_t)o->user.n_groups,
	};
	pid_t pid = keeper_start(&l, guest.report_fd);
	if (pid < 0) {
		job_free(j);
		int r = cell_fail_errno(err, -pid, "start a process");
		return cell_error_hint(err, r, "the cell may have reached its limit of processes");
	}
	j->minder = pid;
	j->kernel = k;
	k->host = j;
	return 0;
}

int kernel_start(struct kernel *k, struct cell_error *err)
{
	auto_(ends_done) struct ends e = {{-1, -1}, {-1, -1}, {-1, -1}, -1};
	char program[512];
	const char *argv[MAX_ARGS];
	const struct language *how = NULL;
	int r = compose(k, program, sizeof program, argv, &how, err);

	if (r == 0)
		r = order_open_cwd(&k->place, err);
	if (r < 0)
		return r;
	r = open_ends(how, &e);
	if (r < 0)
		(void)cell_fail_errno(err, -r, "open pipes");
	if (r == 0)
		r = launch(k, argv, &e, err);
	close(k->place.cwd_fd);
	k->place.cwd_fd = -1;
	if (r < 0)
		return r;
	r = talk_open(k, e.control[0], e.out[0], e.err[0]);
	e.control[0] = e.out[0] = e.err[0] = -1;
	if (r < 0) {
		kernel_drop(k);
		return cell_fail_errno(err, -r, "watch an interpreter's pipes");
	}
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	k->started_unix_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	k->was_signalled = false;
	k->state = KERNEL_STARTING;
	k->n_begun = 1;
	k->count = 0;
	k->version[0] = k->killed_why[0] = '\0';
	(void)talk_send(k, "begin", k->options.data, k->options.len);
	return 0;
}

/* ---- its end ---- */

static void kill_tree(struct job *host)
{
	if (!host || host->is_gone || host->minder <= 0)
		return;
	(void)keeper_signal(host->minder, SIGKILL, true);
	if (!host->overdue_ns)
		overdue_expect(host, 0);
}

void kernel_kill(struct kernel *k, const char *why)
{
	if (!k->killed_why[0])
		(void)snprintf(k->killed_why, sizeof k->killed_why, "%s", why);
	kill_tree(k->host);
}

void kernel_drop(struct kernel *k)
{
	struct job *host = k->host;

	k->host = NULL;
	k->state = KERNEL_OFF;
	k->has_exited = false;
	deadline_clear(k);
	talk_close(k);
	if (!host)
		return;
	host->kernel = NULL;
	kill_tree(host);
}

void host_exited(struct job *j)
{
	struct kernel *k = j->kernel;

	/* what it started would hold its pipes, and belongs to nobody any more */
	kill_tree(j);
	if (k && !k->has_exited) {
		k->has_exited = true;
		k->exit = j->exit;
		k->is_oom = j->is_oom;
		talk_pump(k);
	}
}

void host_gone(struct job *j)
{
	struct kernel *k = j->kernel;

	if (k) {
		host_exited(j);
		if (k->host == j)
			k->host = NULL;
	}
	job_free(j);
}

static void say_why(const struct kernel *k, char *why, size_t size)
{
	const char *where = k->state == KERNEL_STARTING ? "the interpreter did not start: it"
							: "the interpreter";
	int status = k->exit.status;

	if (k->is_oom)
		(void)snprintf(why, size, "the cell ran out of memory");
	else if (k->killed_why[0])
		(void)snprintf(why, size, "%s", k->killed_why);
	else if (WIFSIGNALED(status))
		(void)snprintf(why, size, "%s was killed by signal %d (%s)", where,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		(void)snprintf(why, size, "%s exited with code %d", where, WEXITSTATUS(status));
}

/* All that it said has been read: tell how it ended, and be ready for the next. */
void kernel_buried(struct kernel *k)
{
	char why[300];
	struct run *r = k->runs;
	int status = k->exit.status;
	bool was_idle = k->state == KERNEL_IDLE || !r;
	/* `exec program` ends as that program does, like `exit` */
	bool is_own_end = k->language->may_exec && k->state == KERNEL_BUSY && WIFEXITED(status) &&
			  !k->is_oom && !k->killed_why[0];
	const struct run_end end = {
		.state = is_own_end ? CELL_CODE_ENDED : CELL_CODE_LOST,
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		.is_oom = k->is_oom,
		.cpu_ns = k->exit.cpu_ns,
		.max_rss = k->exit.max_rss,
		.error_name = is_own_end ? NULL : "InterpreterDied",
		.error_message = why,
	};

	say_why(k, why, sizeof why);
	if (r && !r->sent_ns)
		talk_give_late(k, r); /* what it said before anybody listened may say more */
	kernel_drop(k);
	k->was_lost = true; /* the next run is told */
	if (r && !was_idle)
		run_finish(r, &end);
	kernel_kick(k);
}
