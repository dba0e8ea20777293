/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c: see keeper.h. Signals are taken with sigtimedwait, so there is no handler and no race.
 * How keepers are found, reused and told what to do is keepers.c's. */
#include "guest/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/closefds.h"
#include "guest/guest.h"
#include "guest/killtree.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void keeper_close_from(int first)
{
	close_fds((unsigned)first, ~0u);
}

/* ---- in the command's process, between fork and exec ---- */

static void say(const char *what, const char *name, int e)
{
	char line[512];
	int n = snprintf(line, sizeof line, "cell: %s '%.300s': %s\n", what, name, strerror(e));

	if (n > 0)
		(void)!write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static const char *search_path(char *const *env)
{
	const char *path = NULL;

	for (; *env; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			path = *env + 5;
	}
	return path;
}

/* Returns only when it cannot be run: errno says why, found is what was tried last. */
static void exec_in_path(const struct launch *l, char found[PATH_MAX])
{
	const char *name = l->argv[0];
	int e = ENOENT;

	if (strchr(name, '/') || !*name) {
		(void)snprintf(found, PATH_MAX, "%s", name);
		execve(name, l->argv, l->env);
		return;
	}
	for (const char *p = search_path(l->env); p;) {
		const char *end = strchrnul(p, ':');
		int n = snprintf(found, PATH_MAX, "%.*s/%s", end > p ? (int)(end - p) : 1,
			end > p ? p : ".", name);

		if (n > 0 && n < PATH_MAX) {
			execve(found, l->argv, l->env);
			if (errno == E2BIG || errno == ENOEXEC)
				return;
			if (errno == EACCES)
				e = EACCES;
		}
		p = *end ? end + 1 : NULL;
	}
	errno = e;
}

/* Text, as far as a shell could tell from its first bytes. */
static bool is_script(const char *path)
{
	char start[80];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, start, sizeof start);

	if (fd >= 0)
		close(fd);
	return n >= 0 && !(n >= 4 && memcmp(start, "\177ELF", 4) == 0) &&
	       !memchr(start, 0, (size_t)n);
}

/* A script without '#!' is run by the shell, as a shell would do. */
static void exec_as_script(const struct launch *l, char *path)
{
	size_t n = 0;

	while (l->argv[n])
		n++;
	char **argv = is_script(path) ? calloc(n + 2, sizeof *argv) : NULL;
	if (!argv) {
		errno = ENOEXEC;
		return;
	}
	char shell[] = "/bin/sh";
	argv[0] = shell;
	argv[1] = path;
	memcpy(argv + 2, l->argv + 1, (n - 1) * sizeof *argv);
	execve(shell, argv, l->env);
}

static int become(const struct launch *l)
{
	if (!l->has_ids)
		return 0;
	if (setgroups(l->n_groups, l->groups) < 0 || setresgid(l->gid, l->gid, l->gid) < 0 ||
		setresuid(l->uid, l->uid, l->uid) < 0)
		return -errno;
	return 0;
}

static int limit(void)
{
	if (guest.open_files.rlim_cur)
		(void)setrlimit(RLIMIT_NOFILE, &guest.open_files);
	for (size_t i = 0; i < guest.n_rlimits; i++) {
		const struct rlimit rl = {guest.rlimits[i].value, guest.rlimits[i].value};

		if (setrlimit(guest.rlimits[i].resource, &rl) < 0)
			return -errno;
	}
	return 0;
}

/* Fds 3 and 4, from wherever they came. The first that is not needed. */
static int take_extra(const struct launch *l)
{
	int n = l->extra[0] < 0 ? 0 : 2, moved[2];

	for (int i = 0; i < n; i++)
		moved[i] = fcntl(l->extra[i], F_DUPFD_CLOEXEC, 3 + n);
	for (int i = 0; i < n; i++) {
		if (dup2(moved[i], 3 + i) < 0)
			_exit(126);
	}
	return 3 + n;
}

__attribute__((noreturn)) static void run_command(const struct launch *l)
{
	static const struct sigaction by_default = {.sa_handler = SIG_DFL};
	sigset_t none;

	setsid();
	for (int i = 0; i < 3; i++) {
		if (dup2(l->stdio[i], i) < 0)
			_exit(126);
	}
	if (l->is_tty)
		(void)ioctl(0, TIOCSCTTY, 0);
	if (fchdir(l->cwd_fd) < 0) {
		say("cannot enter the working directory of", l->argv[0], errno);
		_exit(126);
	}
	/* the ones the guest ignores */
	(void)sigaction(SIGPIPE, &by_default, NULL);
	(void)sigaction(SIGHUP, &by_default, NULL);
	(void)sigaction(SIGINT, &by_default, NULL);
	keeper_close_from(take_extra(l));
	int r = limit();
	if (r == 0)
		r = become(l);
	if (r < 0) {
		say("cannot set limits or user for", l->argv[0], -r);
		_exit(126);
	}
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	char found[PATH_MAX];
	exec_in_path(l, found);
	if (errno == ENOEXEC)
		exec_as_script(l, found);
	int e = errno;
	say("cannot run", l->argv[0], e);
	_exit(e == ENOENT || e == ENOTDIR ? 127 : 126);
}

/* ---- in the keeper ---- */

struct keeper {
	const struct launch *l;
	int report_fd;
	pid_t leader;
	uint64_t start_ns;
	uint64_t next_ns; /* when to act next; 0: nothing planned */
	uint64_t give_up_ns;
	bool timed_out;
	bool is_killing; /* SIGKILL until nothing is left */
	bool has_exited;
	bool is_told; /* has_exited has been reported */
	int status;
	struct rusage ru;
	uint64_t wall_ns;
	struct keeper_slot *slot;
};

static uint64_t ns_of(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static void report(struct keeper *k, bool is_gone)
{
	const struct keeper_report r = {
		.number = k->l->number,
		.status = k->status,
		.cpu_ns = ns_of(&k->ru.ru_utime) + ns_of(&k->ru.ru_stime),
		.max_rss = (uint64_t)k->ru.ru_maxrss * 1024u,
		.wall_ns = k->wall_ns,
		.has_exited = k->has_exited,
		.is_gone = is_gone,
		.timed_out = k->timed_out,
	};

	k->is_told = k->has_exited;
	while (write(k->report_fd, &r, sizeof r) < 0 && errno == EINTR)
		;
}

static void exited(struct keeper *k, int status)
{
	k->has_exited = true;
	k->status = status;
	k->wall_ns = now_ns() - k->start_ns;
}

/* Reap what there is. False when no child is left. */
static bool reap(struct keeper *k)
{
	for (;;) {
		struct rusage ru;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG, &ru);

		if (pid == 0 || (pid < 0 && errno == EINTR)) {
			if (k->has_exited && !k->is_told)
				report(k, false);
			return true;
		}
		if (pid < 0)
			return false;
		if (pid == k->leader) {
			k->slot->leader = 0;
			k->ru = ru;
			exited(k, status);
		}
	}
}

static void signal_group(const struct keeper *k, int sig)
{
	if (!k->has_exited)
		(void)kill(-k->leader, sig);
}

static void signal_tree(struct keeper *k, int sig)
{
	if (killtree(getpid(), sig) < 0)
		signal_group(k, sig); /* no /proc: at least its process group */
}

/* What is left does not die: another user's process (sudo), or one stuck in the kernel. */
__attribute__((noreturn)) static void give_up(struct keeper *k)
{
	if (!k->has_exited)
		exited(k, SIGKILL);
	report(k, true);
	_exit(1);
}

/* Act on the deadline, or on the grace after it, or kill once more. */
static void act(struct keeper *k)
{
	if (k->is_killing) {
		uint64_t now = now_ns();

		if (!k->give_up_ns)
			k->give_up_ns = now + GUEST_GIVE_UP_MS * UINT64_C(1000000);
		signal_group(k,
			SIGKILL); /* at once: a walk of /proc gives it time to kill us first */
		signal_tree(k, SIGKILL);
		k->next_ns = now + 20 * 1000000u;
		if (now > k->give_up_ns)
			give_up(k);
	} else if (!k->timed_out) {
		k->timed_out = true;
		signal_tree(k, SIGTERM);
		k->next_ns = now_ns() + k->l->grace_ms * UINT64_C(1000000);
	} else {
		k->is_killing = true;
		act(k);
	}
}

static void kill_now(struct keeper *k)
{
	k->is_killing = true;
	act(k);
}

static void keep(struct keeper *k)
{
	sigset_t wanted;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGRTMIN);
	while (reap(k)) {
		struct timespec wait = {0}, *timeout = NULL;
		siginfo_t info;

		if (k->has_exited && !k->timed_out && !k->is_killing)
			k->next_ns = 0; /* it ended in time; what it left behind may stay */
		if (k->next_ns) {
			uint64_t now = now_ns();
			uint64_t left = k->next_ns > now ? k->next_ns - now : 0;

			wait.tv_sec = (time_t)(left / 1000000000u);
			wait.tv_nsec = (long)(left % 1000000000u);
			timeout = &wait;
		}
		int sig = timeout ? sigtimedwait(&wanted, &info, timeout)
				  : sigwaitinfo(&wanted, &info);
		if (sig == SIGTERM) { /* the guest died */
			kill_now(k);
		} else if (sig == SIGRTMIN) {
			int value = info.si_value.sival_int, wanted_sig = value & 0xff;

			if (value >> 9 != KEEPER_FOR(k->l->number) >> 9)
				continue; /* for the command before */
			if (!(value & KEEPER_TREE))
				signal_group(k, wanted_sig);
			else if (wanted_sig == SIGKILL)
				kill_now(k);
			else
				signal_tree(k, wanted_sig);
		} else if (sig < 0 && errno == EAGAIN) {
			act(k);
		}
	}
	report(k, true);
}

void keeper_run(const struct launch *l, struct keeper_slot *slot, int report_fd,
	int first_unneeded_fd)
{
	struct keeper k = {.l = l, .slot = slot, .report_fd = report_fd, .start_ns = now_ns()};

	if (l->timeout_ms)
		k.next_ns = k.start_ns + l->timeout_ms * 1000000u;

	/* vfork: the child borrows this memory until it execs, no page is copied */
	pid_t leader = vfork();
	if (leader == 0)
		run_command(l);
	k.leader = leader;
	if (k.leader < 0) {
		if (dup2(l->stdio[2], 2) == 2)
			say("cannot start a process for", l->argv[0], errno);
		(void)dup2(report_fd, 2);
		exited(&k, 126 << 8);
	}
	slot->leader = k.leader > 0 ? k.leader : 0;
	/* nothing of the command's fds may stay open here: its readers wait for their end */
	keeper_close_from(first_unneeded_fd);
	keep(&k);
}
