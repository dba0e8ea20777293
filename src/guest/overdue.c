/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overdue.c: deadlines that a keeper did not keep. A keeper is of the same user as its command, which
 * may have stopped it (SIGSTOP), or starved it. In a jail nothing can do that to the guest, which is
 * pid 1: it looks a moment later and ends the command and its keeper itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "guest/guest.h"
#include "guest/killtree.h"

#define LATE_MS 1000u /* what a keeper on a busy machine may take */

static struct source timer = {.fd = -1};
static uint64_t armed_ns; /* 0: not */

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void arm(uint64_t at_ns)
{
	const struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
						.tv_nsec = (long)(at_ns % 1000000000u)}};

	if (timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		armed_ns = at_ns;
}

/* One that ended in time may have left something running: that may stay. */
static bool is_awaited(const struct job *j)
{
	return j->overdue_ns && !j->is_gone && !j->is_overdue && j->minder > 0 &&
	       (!j->has_exited || j->exit.timed_out);
}

uint64_t overdue_age(const struct job *j)
{
	return j->started_ns ? now_ns() - j->started_ns : 0;
}

static void end(struct job *j)
{
	j->is_overdue = true;
	(void)killtree(j->minder, SIGKILL);
	(void)kill(j->minder, SIGKILL); /* the reaper sees to what it leaves */
}

static void on_timer(struct source *s, uint32_t events)
{
	uint64_t n, now = now_ns(), next = 0;

	(void)events;
	(void)!read(s->fd, &n, sizeof n);
	armed_ns = 0;
	for (struct job *j = job_first(); j; j = j->next) {
		if (!is_awaited(j))
			continue;
		if (j->overdue_ns <= now)
			end(j);
		else if (!next || j->overdue_ns < next)
			next = j->overdue_ns;
	}
	if (next)
		arm(next);
}

void overdue_expect(struct job *j, uint64_t within_ms)
{
	j->started_ns = now_ns();
	j->overdue_ns = j->started_ns + (within_ms + LATE_MS) * UINT64_C(1000000);
	if (timer.fd < 0) {
		timer = (struct source){
			.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
			.events = EPOLLIN,
			.fn = on_timer};
		if (timer.fd >= 0 && loop_add(&timer) < 0) {
			close(timer.fd);
			timer.fd = -1;
		}
	}
	if (timer.fd >= 0 && (!armed_ns || j->overdue_ns < armed_ns))
		arm(j->overdue_ns);
}
