/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.c: a jail that stands still: the launcher freezes its cgroup, and the group says when the last process has stopped. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/jail/client.h"
#include "backends/jail/slot.h"
#include "base/cleanup.h"

#define ANSWER_TIMEOUT_MS 30000
#define PATIENCE_MS	  10000

/* *ret_events: the group's cgroup.events. */
static int ask(struct cell *c, enum launcher_op op, int *ret_events, struct cell_error *err)
{
	struct launcher_reply reply;
	auto_fd int control = jail_slot_ask(c, op, err);

	if (control < 0)
		return control;
	int r = jail_client_receive(control, ANSWER_TIMEOUT_MS, &reply, ret_events, err);
	if (r == 0 && reply.answer != LAUNCHER_DONE)
		r = jail_explain(&reply, err);
	return r;
}

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_frozen(int events_fd)
{
	char text[256];
	ssize_t n = pread(events_fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return strstr(text, "frozen 1");
}

static bool await_frozen(int events_fd)
{
	struct pollfd p = {.fd = events_fd, .events = POLLPRI};
	int64_t end = now_ms() + PATIENCE_MS;

	/* it tells of a change since it was read last, so it is read before each wait */
	for (int64_t left; !is_frozen(events_fd); (void)poll(&p, 1, (int)left)) {
		left = end - now_ms();
		if (left <= 0)
			return false;
	}
	return true;
}

int jail_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	auto_fd int events = -1;
	int r = ask(c, is_on ? LAUNCHER_FREEZE : LAUNCHER_THAW, &events, err);

	if (r < 0 || !is_on || await_frozen(events))
		return r;
	(void)ask(c, LAUNCHER_THAW, NULL, NULL);
	return cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
		"a process hangs in the kernel and does not stand still");
}
