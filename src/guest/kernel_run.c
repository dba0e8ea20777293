/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_run.c: a run of code: how it is asked for, fed, and ended. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "guest/keeper.h"
#include "guest/kernel.h"
#include "guest/oom.h"

static const char *const kinds[RUN_KIND_COUNT] = {"run", "vars", "get", "set", "complete"};

static void run_free(struct run *r)
{
	if (!r)
		return;
	buf_done(&r->code);
	free(r);
}

static int read_kind(const struct request *rq, enum run_kind *ret, struct cell_error *err)
{
	auto_free char *kind = NULL;
	int r = order_read_optional(rq, WIRE_T_KIND, "kind", 16, &kind, err);

	*ret = RUN_CODE;
	if (r < 0 || !kind)
		return r;
	for (int i = 0; i < RUN_KIND_COUNT; i++) {
		if (strcmp(kind, kinds[i]) == 0) {
			*ret = (enum run_kind)i;
			return 0;
		}
	}
	return cell_fail(err, CELL_ENOTSUP, EOPNOTSUPP, "run code: unknown kind '%s'", kind);
}

static int read_code(const struct request *rq, struct run *r, struct cell_error *err)
{
	struct wire_field f;

	r->code.max = WIRE_MAX_MESSAGE;
	if (wire_find(rq->fields, rq->len, WIRE_T_TEXT, &f) && buf_add(&r->code, f.p, f.len) < 0)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "run code");
	return 0;
}

/* What `ps` shows: the language and the first line. */
static void describe(struct job *j, const struct run *r)
{
	const char *code = buf_str(&r->code);
	int n = (int)strcspn(code, "\r\n");

	if (r->kind == RUN_CODE)
		(void)snprintf(j->command, sizeof j->command, "%s: %.*s", r->kernel->name,
			n < 150 ? n : 150, code);
	else
		(void)snprintf(j->command, sizeof j->command, "%s: (%s)", r->kernel->name,
			kinds[r->kind]);
}

static size_t queue_length(const struct kernel *k)
{
	size_t n = 0;

	for (const struct run *r = k->runs; r; r = r->next)
		n++;
	return n;
}

static struct run *run_new(const struct request *rq, const struct order *o, struct kernel *k,
	enum run_kind kind, struct cell_error *err)
{
	struct run *r = calloc(1, sizeof *r);

	if (!r) {
		(void)cell_fail(err, CELL_ENOSPACE, ENOMEM, "run code");
		return NULL;
	}
	r->kernel = k;
	r->kind = kind;
	r->timeout_ms = o->timeout_ms;
	if (k->timeout_ms && (o->flags & WIRE_RUN_DEFAULT_TIMEOUT || !o->timeout_ms))
		r->timeout_ms = k->timeout_ms;
	r->grace_ms = o->grace_ms;
	r->has_input = o->flags & CELL_EXEC_STDIN;
	if (read_code(rq, r, err) < 0 || !(r->job = job_new(err))) {
		run_free(r);
		return NULL;
	}
	r->job->is_run = true;
	r->job->run = r;
	r->job->keep = o->keep;
	order_describe(r->job, o);
	r->job->is_tty = false;
	describe(r->job, r);
	return r;
}

int run_start(struct stream *s, const struct request *rq, struct cell_error *err)
{
	auto_(order_done) struct order o = {.cwd_fd = -1};
	enum run_kind kind = RUN_CODE;
	struct kernel *k = NULL;
	int e = order_read(rq, "run code", &o, err);

	if (e == 0)
		e = read_kind(rq, &kind, err);
	if (e == 0)
		e = context_of(rq, &o, kind == RUN_CODE, &k, err);
	if (e < 0)
		return e;
	if (queue_length(k) >= KERNEL_MAX_QUEUE) {
		e = cell_fail(err, CELL_EBUSY, EBUSY, "run code: %d runs wait for context '%s'",
			KERNEL_MAX_QUEUE, k->name);
		return cell_error_hint(err, e, "wait for some to end, or use another context");
	}
	if (job_running() == job_hosts())
		oom_forget_the_past();
	struct run *r = run_new(rq, &o, k, kind, err);
	if (!r)
		return -EAGAIN;
	*k->runs_end = r;
	k->runs_end = &r->next;
	exec_follow(s, rq, &o, r->job);
	kernel_step(k);
	return 0;
}

/* ---- while it goes on ---- */

pid_t run_leader(const struct job *j)
{
	const struct kernel *k = j->run->kernel;

	return k->runs == j->run && k->host ? keeper_leader(k->host->minder) : 0;
}

uint64_t run_cpu_ns(const struct kernel *k)
{
	pid_t pid = k->host ? keeper_leader(k->host->minder) : 0;
	struct timespec t;
	clockid_t clock;

	if (k->has_exited)
		return k->exit.cpu_ns;
	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void run_resume(struct run *r)
{
	if (r->kernel->is_blocked && r->kernel->runs == r)
		kernel_kick(r->kernel);
}

int run_signal(struct job *j, int sig, struct cell_error *err)
{
	struct run *r = j->run;
	struct kernel *k = r->kernel;

	if (sig < 0 || sig >= NSIG)
		return cell_fail(err, CELL_EINVAL, EINVAL, "signal %d", sig);
	if (!r->sent_ns && (sig == SIGINT || sig == SIGTERM || sig == SIGKILL)) {
		run_cancel(r);
		return 0;
	}
	if (sig == SIGINT)
		kernel_interrupt(k);
	else if (k->host && k->host->minder > 0 && r->sent_ns)
		(void)keeper_signal(k->host->minder, sig == SIGTERM ? SIGKILL : sig,
			sig == SIGTERM || sig == SIGKILL);
	return 0;
}

/* The next line of its input for the code, when it waits for one. */
void run_input(struct run *r)
{
	struct job *j = r->job;
	const uint8_t *p = j->in_queue.data;
	size_t have = j->in_queue.len;

	if (!r->is_asking || !r->sent_ns)
		return;
	const uint8_t *eol = have ? memchr(p, '\n', have) : NULL;
	size_t n = eol ? (size_t)(eol - p) : have;

	if (!eol && !j->in_eof && have < WIRE_STDIN_WINDOW)
		return;
	r->is_asking = false;
	if (!eol && have == 0) {
		(void)talk_send(r->kernel, "eof", NULL, 0);
		return;
	}
	(void)talk_send(r->kernel, "input", p, n);
	n += eol ? 1 : 0;
	buf_consume(&j->in_queue, n);
	j->in_written += n;
	job_ack_input(j);
}

/* ---- the end ---- */

static void put_error(struct run *r, const struct run_end *end)
{
	auto_buf struct buf b = BUF_INIT(4000);

	(void)buf_addz(&b, "{\"name\":");
	(void)event_add_json(&b, end->error_name);
	(void)buf_addz(&b, ",\"message\":");
	(void)event_add_json(&b, end->error_message);
	(void)buf_addz(&b, ",\"traceback\":[]}");
	event_put_last(r, CELL_CODE_ERROR, b.data, b.len);
}

static void put_done(struct run *r, const struct run_end *end)
{
	static const char *const states[] = {
		[CELL_CODE_KEPT] = "kept", [CELL_CODE_LOST] = "lost", [CELL_CODE_ENDED] = "ended"};
	auto_buf struct buf b = BUF_INIT(4000);
	uint64_t ns = r->sent_ns ? waker_now_ns() - r->sent_ns : 0;

	(void)buf_addf(&b,
		"{\"ok\":%s,\"state\":\"%s\",\"execution_count\":%llu,\"execution_time_ms\":%llu.%"
		"03llu",
		end->is_ok ? "true" : "false", states[end->state],
		(unsigned long long)r->kernel->count, (unsigned long long)(ns / 1000000),
		(unsigned long long)(ns / 1000 % 1000));
	if (r->is_timed_out)
		(void)buf_addz(&b, ",\"timed_out\":true");
	if (r->is_interrupted)
		(void)buf_addz(&b, ",\"interrupted\":true");
	if (r->is_restarted)
		(void)buf_addz(&b, ",\"restarted\":true");
	if (end->is_oom)
		(void)buf_addz(&b, ",\"oom\":true");
	if (end->signal)
		(void)buf_addf(&b, ",\"signal\":%d", end->signal);
	if (end->exit_code)
		(void)buf_addf(&b, ",\"exit_code\":%d", end->exit_code);
	if (r->dropped)
		(void)buf_addf(&b, ",\"dropped_bytes\":%llu", (unsigned long long)r->dropped);
	(void)buf_addc(&b, '}');
	event_put_last(r, CELL_CODE_DONE, b.data, b.len);
}

static void unlink_run(struct run *r)
{
	struct kernel *k = r->kernel;
	struct run **at = &k->runs;

	while (*at && *at != r)
		at = &(*at)->next;
	if (*at)
		*at = r->next;
	k->runs_end = &k->runs;
	while (*k->runs_end)
		k->runs_end = &(*k->runs_end)->next;
}

void run_finish(struct run *r, const struct run_end *end)
{
	struct job *j = r->job;
	uint64_t cpu_ns = end->cpu_ns ? end->cpu_ns : run_cpu_ns(r->kernel);
	int code = end->is_ok ? 0 : end->state == CELL_CODE_ENDED ? end->exit_code & 255 : 1;

	if (end->error_name)
		put_error(r, end);
	put_done(r, end);
	unlink_run(r);
	j->exit = (struct job_exit){
		.status = end->signal ? end->signal : code << 8,
		.timed_out = r->is_timed_out,
		.cpu_ns = r->sent_ns && cpu_ns > r->cpu_ns ? cpu_ns - r->cpu_ns : 0,
		.max_rss = end->max_rss,
		.wall_ns = r->begun_ns ? waker_now_ns() - r->begun_ns : 0,
	};
	j->is_oom = end->is_oom;
	j->has_exited = true;
	j->run = NULL;
	run_free(r);
	job_gone(j);
}

void run_cancel(struct run *r)
{
	struct kernel *k = r->kernel;

	if (k->runs == r)
		deadline_clear(k);
	r->is_interrupted = true;
	run_finish(r, &(struct run_end){.state = CELL_CODE_KEPT,
			      .error_name = "KeyboardInterrupt",
			      .error_message = "it was interrupted before it began"});
	kernel_kick(k);
}
