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
#include "core/guest_process.h"

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

/* 1 or 0; an error when the group is gone. */
static int is_frozen(int events_fd)
{
	char text[256];
	ssize_t n = pread(events_fd, text, sizeof text - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return strstr(text, "frozen 1") != NULL;
}

int jail_await_frozen(int events_fd)
{
	struct pollfd p = {.fd = events_fd, .events = POLLPRI};
	int64_t end = now_ms() + PATIENCE_MS;
	int r;

	/* it tells of a change since it was read last, so it is read before each wait */
	while ((r = is_frozen(events_fd)) == 0) {
		int64_t left = end - now_ms();

		if (left <= 0)
			return -ETIMEDOUT;
		(void)poll(&p, 1, (int)left);
	}
	return r < 0 ? r : 0;
}

static int freeze(struct cell *c, struct cell_error *err)
{
	auto_fd int events = -1;
	int r = ask(c, LAUNCHER_FREEZE, &events, err);

	if (r < 0)
		return r;
	r = jail_await_frozen(events);
	if (r == 0)
		return 0;
	(void)ask(c, LAUNCHER_THAW, NULL, NULL);
	return r == -ETIMEDOUT ? cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
					 "a process hangs in the kernel and does not stand still")
			       : cell_fail_errno(err, -r, "wait for its cgroup to stand still");
}

static int refuse_nameless(struct cell_error *err)
{
	int r = cell_fail(err, CELL_ENOTSUP, 0, "a jail without a name cannot stand still");

	return cell_error_hint(err, r, "make one with a name: cell create");
}

void jail_release(struct cell *c)
{
	(void)ask(c, LAUNCHER_RELEASE, NULL, NULL);
}

int jail_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	/* its slot does not say whose it is, and has the next cell right after it */
	if (cell_is_ephemeral(c))
		return is_on ? refuse_nameless(err) : 0;
	int r = is_on ? freeze(c, err) : ask(c, LAUNCHER_THAW, NULL, err);
	if (r >= 0 || cell_guest_is_alive(c))
		return r;
	/* whatever went wrong, this is why */
	r = cell_fail(err, CELL_EGONE, 0, "its guest has died");
	return cell_error_hint(err, r, "`cell prune` cleans up");
}
