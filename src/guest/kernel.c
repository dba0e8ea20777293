/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c: the table of contexts, and what each does next. */
#include "guest/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/keeper.h"

static struct kernel *kernels; /* oldest first */
static struct source kicks = {.fd = -1};
static bool is_stopping;

struct kernel *kernel_first(void)
{
	return kernels;
}

struct kernel *kernel_find(const char *name)
{
	struct kernel *k = kernels;

	while (k && (k->is_spare || strcmp(k->name, name) != 0))
		k = k->next;
	return k;
}

/* ---- at the next turn of the loop ---- */

static void on_kick(struct source *s, uint32_t events)
{
	uint64_t n;

	(void)events;
	(void)!read(s->fd, &n, sizeof n);
	for (struct kernel *k = kernels, *next; k; k = next) {
		next = k->next;
		if (!k->is_kicked)
			continue;
		k->is_kicked = k->is_blocked = false;
		talk_pump(k);
		kernel_step(k);
	}
}

void kernel_kick(struct kernel *k)
{
	static const uint64_t one = 1;

	k->is_kicked = true;
	(void)!write(kicks.fd, &one, sizeof one);
}

static int open_kicks(void)
{
	if (kicks.fd >= 0)
		return 0;
	kicks = (struct source){
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = EPOLLIN, .fn = on_kick};
	int r = kicks.fd < 0 ? -errno : loop_add(&kicks);
	if (r < 0 && kicks.fd >= 0) {
		close(kicks.fd);
		kicks.fd = -1;
	}
	return r;
}

/* ---- the table ---- */

struct kernel *kernel_new(const char *name, const struct language *l, struct order *place,
	struct cell_error *err)
{
	struct kernel **at = &kernels;
	size_t n = 0;

	for (; *at; at = &(*at)->next)
		n += !(*at)->is_spare;
	if (n >= KERNEL_MAX) {
		(void)cell_fail(err, CELL_ELIMIT, EAGAIN, "make a context: there are %d",
			KERNEL_MAX);
		(void)cell_error_hint(err, 0, "delete one that is not needed any more");
		return NULL;
	}
	struct kernel *k = calloc(1, sizeof *k);
	if (!k || open_kicks() < 0) {
		free(k);
		(void)cell_fail(err, CELL_ENOSPACE, ENOMEM, "make a context");
		return NULL;
	}
	(void)snprintf(k->name, sizeof k->name, "%s", name);
	k->language = l;
	k->place = (struct order){
		.env = place->env, .cwd = place->cwd, .user = place->user, .cwd_fd = -1};
	place->env = (struct strings){0};
	place->cwd = NULL;
	k->control.fd = k->out[0].fd = k->out[1].fd = -1;
	k->runs_end = &k->runs;
	k->options.max = 65536;
	*at = k;
	return k;
}

static void lose_runs(struct kernel *k, const char *why)
{
	while (k->runs)
		run_finish(k->runs, &(struct run_end){.state = CELL_CODE_LOST,
					    .signal = k->runs->sent_ns ? SIGKILL : 0,
					    .error_name = "InterpreterDied",
					    .error_message = why});
}

void kernel_clear(struct kernel *k, const char *why)
{
	kernel_drop(k);
	lose_runs(k, why);
	buf_done(&k->late);
	k->was_lost = false;
	k->count = 0;
}

void kernel_free(struct kernel *k)
{
	struct kernel **at = &kernels;

	while (*at && *at != k)
		at = &(*at)->next;
	if (*at)
		*at = k->next;
	order_done(&k->place);
	strings_done(&k->was);
	free(k->interpreter);
	buf_done(&k->options);
	free(k);
}

void kernel_stop_all(void)
{
	is_stopping = true;
	for (struct kernel *k = kernels; k; k = k->next)
		kernel_clear(k, "the cell was shut down");
}

/* ---- what is next ---- */

/* The first of the queue is the current run from now on. */
static void begin(struct kernel *k, struct run *r)
{
	if (r->begun_ns)
		return;
	r->begun_ns = waker_now_ns();
	if (r->timeout_ms)
		deadline_set(k, r->timeout_ms);
	else if (k->state != KERNEL_STARTING)
		k->deadline_ns = 0;
}

static void hand_over(struct kernel *k, struct run *r)
{
	static const char *const asks[RUN_KIND_COUNT] = {[RUN_VARS] = "ask vars",
		[RUN_GET] = "ask get",
		[RUN_SET] = "ask set",
		[RUN_COMPLETE] = "ask complete"};
	char head[64];

	talk_give_late(k, r);
	if (k->control.fd < 0) /* it went away meanwhile */
		return;
	k->state = KERNEL_BUSY;
	r->sent_ns = waker_now_ns();
	r->cpu_ns = run_cpu_ns(k);
	if (r->kind == RUN_CODE) {
		(void)snprintf(head, sizeof head, "run %llu %s%s", (unsigned long long)++k->count,
			r->has_input ? "i" : "-", k->was_signalled ? "l" : "");
		k->was_signalled = false;
	}
	(void)talk_send(k, r->kind == RUN_CODE ? head : asks[r->kind], r->code.data, r->code.len);
	buf_done(&r->code);
}

void kernel_step(struct kernel *k)
{
	struct run *r = k->runs;

	if (!r || is_stopping)
		return;
	if (k->state == KERNEL_OFF) {
		struct cell_error err = {0};

		begin(k, r);
		r->is_restarted = k->was_lost;
		k->was_lost = false;
		if (kernel_start(k, &err) < 0) {
			deadline_clear(k);
			run_finish(r, &(struct run_end){.state = CELL_CODE_LOST,
					      .error_name = "InterpreterDied",
					      .error_message = err.msg});
			kernel_kick(k);
			return;
		}
		if (!r->timeout_ms)
			deadline_set(k, KERNEL_START_MS);
	}
	begin(k, r);
	/* one that died between two runs is buried first: its end is nobody's, and this run gets a new one */
	if (k->state == KERNEL_IDLE && !k->has_exited && !talk_is_dead(k))
		hand_over(k, r);
}
