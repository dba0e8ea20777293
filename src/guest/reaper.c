/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reaper.c: the guest's children: keepers, workers, and orphans that became ours because a keeper
 * was killed (or because we are pid 1). Keepers' reports come through one pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/killtree.h"
#include "guest/oom.h"

static struct source children = {.fd = -1};
static struct source reports = {.fd = -1};

static void take_report(const struct keeper_report *r)
{
	struct job *j = job_by_number(r->number);

	if (!j)
		return;
	if (r->has_exited && !j->has_exited) {
		const struct job_exit e = {
			.status = r->status,
			.cpu_ns = r->cpu_ns,
			.max_rss = r->max_rss,
			.wall_ns = r->wall_ns,
			.timed_out = r->timed_out,
		};

		/* the word of a kill goes through a work queue of the kernel's and may come after
		 * the death: whoever asks why it died is told the truth */
		oom_look();
		j->exit = e;
		j->has_exited = true;
		if (!r->is_gone)
			job_exited(j);
	}
	if (r->is_gone && !j->is_gone) {
		pid_t keeper = j->minder;

		j->minder = 0;
		keeper_release(keeper);
		job_gone(j);
	}
}

static void read_reports(void)
{
	struct keeper_report r;

	while (read(reports.fd, &r, sizeof r) == (ssize_t)sizeof r)
		take_report(&r);
}

static void on_reports(struct source *s, uint32_t events)
{
	(void)s, (void)events;
	read_reports();
}

static bool has_orphans;     /* some may be left of a keeper that was killed */
static bool has_lost_keeper; /* ever */

static bool is_minder(pid_t pid)
{
	return keeper_is_known(pid) || job_by_minder(pid);
}

/* What lost its keeper is our child now. One that dies leaves its own children to us, so this repeats with each
 * death until nothing is found. */
static void kill_orphans(void)
{
	has_orphans = killtree_but(getpid(), SIGKILL, is_minder) > 0;
}

/* The keeper was killed before it could report: its tree is ours now, end it. */
static void keeper_lost(struct job *j, pid_t leader)
{
	if (leader > 0)
		(void)kill(-leader, SIGKILL); /* all that can be done without /proc */
	has_lost_keeper = true;
	kill_orphans();
	if (!j->has_exited)
		j->exit = (struct job_exit){
			.status = SIGKILL, .timed_out = j->is_overdue, .wall_ns = overdue_age(j)};
	j->has_exited = true;
	job_gone(j);
}

void reaper_end_orphans(void)
{
	for (int ms = 0; has_lost_keeper && ms < GUEST_GIVE_UP_MS; ms += 5) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		kill_orphans();
		if (!has_orphans)
			return;
		(void)usleep(5000);
	}
}

static void worker_ended(struct job *j, int status, const struct rusage *ru)
{
	j->exit = (struct job_exit){.status = status, .max_rss = (uint64_t)ru->ru_maxrss * 1024u};
	j->has_exited = true;
	job_gone(j);
}

static void reap(void)
{
	for (;;) {
		struct rusage ru;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG, &ru);

		if (pid <= 0)
			return;
		read_reports(); /* what a keeper said comes before its end */
		pid_t leader = keeper_leader(pid);
		keeper_forget(pid);
		struct job *j = job_by_minder(pid);
		if (!j) {
			if (has_orphans)
				kill_orphans();
			continue;
		}
		j->minder = 0;
		if (j->is_worker)
			worker_ended(j, status, &ru);
		else if (!j->is_gone)
			keeper_lost(j, leader);
	}
}

static void on_signal(struct source *s, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	while (read(s->fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (info.ssi_signo == SIGTERM)
			guest_shutdown(NULL);
	}
	reap();
	guest_maybe_leave();
}

int reaper_init(void)
{
	sigset_t mask;
	int p[2];

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
		return -errno;
	children = (struct source){.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK),
		.events = EPOLLIN,
		.fn = on_signal};
	if (children.fd < 0 || pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(p[0], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	guest.report_fd = p[1];
	reports = (struct source){.fd = p[0], .events = EPOLLIN, .fn = on_reports};
	int r = loop_add(&children);
	return r < 0 ? r : loop_add(&reports);
}
