/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_deadline.c: what happens to code that takes too long. At its deadline it is interrupted, and usually keeps
 * its variables; if it is still there after its grace, the interpreter and all it started is killed.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "guest/keeper.h"
#include "guest/kernel.h"

#define UNREAD_MS 2u /* between two looks whether the driver has read the run */

static void look(uint64_t now_ns);
static struct waker waker = WAKER_INIT(look);

/* A signal before the driver has read what to run would be for nothing: it would not know what to interrupt. */
static bool has_read_run(const struct kernel *k)
{
	int unread = 0;

	return k->tx.len == k->tx_at &&
	       (ioctl(k->control.fd, SIOCOUTQ, &unread) < 0 || unread == 0);
}

static void signal_now(struct kernel *k)
{
	k->interrupt_ns = 0;
	k->was_signalled = true;
	(void)keeper_signal(k->host->minder, SIGINT, false);
}

static void send_interrupt(struct kernel *k)
{
	if (!k->host || k->host->minder <= 0 || k->host->has_exited)
		return;
	if (has_read_run(k)) {
		signal_now(k);
		return;
	}
	k->interrupt_ns = waker_now_ns() + UNREAD_MS * UINT64_C(1000000);
	waker_set(&waker, k->interrupt_ns);
}

void kernel_interrupt(struct kernel *k)
{
	struct run *r = k->runs;

	if (!r)
		return;
	if (!r->sent_ns) {
		run_cancel(r);
		return;
	}
	r->is_interrupted = true;
	send_interrupt(k);
	if (k->is_blocked)
		kernel_kick(k); /* what nobody reads need not be kept any more */
}

static void on_deadline(struct kernel *k)
{
	struct run *r = k->runs;

	k->deadline_ns = 0;
	if (!r) { /* it was only to start */
		if (k->state == KERNEL_STARTING)
			kernel_kill(k, "the interpreter did not start in time");
		return;
	}
	if (!r->is_timed_out) {
		r->is_timed_out = true;
		if (k->state == KERNEL_STARTING) {
			kernel_kill(k, "the interpreter did not start in time");
			return;
		}
		send_interrupt(k);
		deadline_set(k, r->grace_ms / 2);
		if (k->is_blocked)
			kernel_kick(k);
		return;
	}
	if (!r->is_reminded) { /* a shell drops one that comes just as a command ends, and others have such moments too */
		r->is_reminded = true;
		send_interrupt(k);
		deadline_set(k, r->grace_ms - r->grace_ms / 2);
		return;
	}
	kernel_kill(k, "the code went on after it was interrupted at its deadline, and was killed");
}

static void look(uint64_t now_ns)
{
	for (struct kernel *k = kernel_first(), *following; k; k = following) {
		following = k->next;
		if (k->interrupt_ns && k->interrupt_ns <= now_ns)
			send_interrupt(k);
		if (k->deadline_ns && k->deadline_ns <= now_ns)
			on_deadline(k);
	}
	for (struct kernel *k = kernel_first(); k; k = k->next) {
		if (k->deadline_ns)
			waker_set(&waker, k->deadline_ns);
		if (k->interrupt_ns)
			waker_set(&waker, k->interrupt_ns);
	}
}

void deadline_set(struct kernel *k, uint64_t in_ms)
{
	k->deadline_ns = waker_now_ns() + in_ms * UINT64_C(1000000);
	waker_set(&waker, k->deadline_ns);
}

void deadline_clear(struct kernel *k)
{
	k->deadline_ns = k->interrupt_ns = 0; /* the timer finds nothing to do, once */
}
