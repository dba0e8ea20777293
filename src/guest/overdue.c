/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overdue.c: deadlines that a keeper did not keep. A keeper is of the same user as its command, which
 * may have stopped it (SIGSTOP), or starved it. In a jail nothing can do that to the guest, which is
 * pid 1: it looks a moment later and ends the command and its keeper itself.
 */
#include <signal.h>

#include "guest/guest.h"
#include "guest/killtree.h"
#include "guest/waker.h"

#define LATE_MS 1000u /* what a keeper on a busy machine may take */

static void look(uint64_t now_ns);
static struct waker waker = WAKER_INIT(look);

/* One that ended in time may have left something running: that may stay. */
static bool is_awaited(const struct job *j)
{
	return j->overdue_ns && !j->is_gone && !j->is_overdue && j->minder > 0 &&
	       (!j->has_exited || j->exit.timed_out);
}

uint64_t overdue_age(const struct job *j)
{
	return j->started_ns ? waker_now_ns() - j->started_ns : 0;
}

static void end(struct job *j)
{
	j->is_overdue = true;
	(void)killtree(j->minder, SIGKILL);
	(void)kill(j->minder, SIGKILL); /* the reaper sees to what it leaves */
}

static void look(uint64_t now_ns)
{
	for (struct job *j = job_first(); j; j = j->next) {
		if (!is_awaited(j))
			continue;
		if (j->overdue_ns <= now_ns)
			end(j);
		else
			waker_set(&waker, j->overdue_ns);
	}
}

void overdue_expect(struct job *j, uint64_t within_ms)
{
	j->started_ns = waker_now_ns();
	j->overdue_ns = j->started_ns + (within_ms + LATE_MS) * UINT64_C(1000000);
	waker_set(&waker, j->overdue_ns);
}
