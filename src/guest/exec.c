/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c: EXEC and ATTACH: a request becomes a launch, a launch becomes a job with a stream on it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/kernel.h"
#include "guest/oom.h"
#include "guest/order.h"
#include "guest/pty.h"
#include "guest/user.h"

#define MAX_ARGS     131072u
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum attach_flags {
	ATTACH_HOLD = 1 << 0,
	ATTACH_NO_FOLLOW = 1 << 1,
	ATTACH_STDIN = 1 << 2,
};

void strings_done(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->list[i]);
	free(s->list);
}

int strings_add(struct strings *s, char *one)
{
	if (s->n + 2 > s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 16;
		char **p = one ? realloc(s->list, cap * sizeof *p) : NULL;

		if (!p) {
			free(one);
			return -ENOMEM;
		}
		s->list = p;
		s->cap = cap;
	}
	if (!one)
		return -ENOMEM;
	s->list[s->n++] = one;
	s->list[s->n] = NULL;
	return 0;
}

void order_done(struct order *o)
{
	strings_done(&o->argv);
	strings_done(&o->env);
	free(o->id);
	free(o->cwd);
	free(o->label);
	free(o->user_name);
	if (o->cwd_fd >= 0)
		close(o->cwd_fd);
}

static const uint16_t known_tags[] = {WIRE_T_ARG, WIRE_T_SHELL, WIRE_T_ENV, WIRE_T_CWD, WIRE_T_USER,
	WIRE_T_ID, WIRE_T_FLAGS, WIRE_T_TIMEOUT_MS, WIRE_T_GRACE_MS, WIRE_T_KEEP, WIRE_T_ROWS,
	WIRE_T_COLS, WIRE_T_WINDOW, WIRE_T_OUT_OFFSET, WIRE_T_ERR_OFFSET, WIRE_T_LABEL, WIRE_T_TEXT,
	WIRE_T_KIND, WIRE_T_CONTEXT, WIRE_T_LANGUAGE, WIRE_T_INTERPRETER, WIRE_T_PRELOAD,
	WIRE_T_DATABASE};

static int check_tags(const struct request *rq, const char *what, struct cell_error *err)
{
	unsigned tag = 0;
	int r = wire_check(rq->fields, rq->len, known_tags, sizeof known_tags / sizeof *known_tags,
		&tag);

	if (r == -EOPNOTSUPP) {
		(void)cell_fail(err, CELL_ENOTSUP, EOPNOTSUPP,
			"%s: field %u is not known to this guest", what, tag);
		return cell_error_hint(err, r,
			"the cell's guest is older than this program; make the "
			"cell anew");
	}
	if (r < 0)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO, "%s: malformed request", what);
	return 0;
}

/* argv, shell and env are the only repeated or large fields: one pass for them. */
static int read_strings(const struct request *rq, struct order *o, struct cell_error *err)
{
	struct wire_reader rd = {.p = rq->fields, .len = rq->len};
	struct wire_field f;
	int r = 0;

	while (r == 0 && wire_next(&rd, &f) > 0) {
		char *s = NULL;

		if (f.tag != WIRE_T_ARG && f.tag != WIRE_T_SHELL && f.tag != WIRE_T_ENV)
			continue;
		if (o->argv.n + o->env.n > MAX_ARGS)
			return cell_fail(err, CELL_EINVAL, E2BIG, "exec: more than %u arguments",
				MAX_ARGS);
		r = wire_field_str(&f, WIRE_MAX_MESSAGE, &s);
		if (r == -EPROTO)
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"exec: an argument or variable has a NUL byte in it");
		if (r == 0 && f.tag == WIRE_T_SHELL) {
			r = strings_add(&o->argv, strdup("/bin/sh"));
			if (r == 0)
				r = strings_add(&o->argv, strdup("-c"));
		}
		if (r == 0)
			r = strings_add(f.tag == WIRE_T_ENV ? &o->env : &o->argv, steal_ptr(s));
		free(s);
	}
	return r < 0 ? cell_fail(err, CELL_ENOSPACE, ENOMEM, "exec") : 0;
}

const char *env_get(const struct strings *env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = env->n; i-- > 0;) {
		if (strncmp(env->list[i], name, n) == 0 && env->list[i][n] == '=')
			return env->list[i] + n + 1;
	}
	return NULL;
}

static int env_default(struct strings *env, const char *name, const char *value)
{
	if (!value || !*value || env_get(env, name))
		return 0;
	size_t n = strlen(name) + strlen(value) + 2;
	char *s = malloc(n);
	if (s)
		(void)snprintf(s, n, "%s=%s", name, value);
	return strings_add(env, s);
}

static int complete_env(struct order *o)
{
	const struct user *u = &o->user;
	int r = env_default(&o->env, "PATH", DEFAULT_PATH);

	if (r == 0)
		r = env_default(&o->env, "HOME", guest.home ? guest.home : u->home);
	if (r == 0)
		r = env_default(&o->env, "USER", u->name);
	if (r == 0)
		r = env_default(&o->env, "LOGNAME", u->name);
	if (r == 0)
		r = env_default(&o->env, "SHELL", u->shell);
	if (r == 0 && guest.tmp)
		r = env_default(&o->env, "TMPDIR", guest.tmp);
	if (r == 0 && o->flags & CELL_EXEC_TTY)
		r = env_default(&o->env, "TERM", "xterm-256color");
	return r;
}

/* Commands may run anywhere the cell can see; only file operations are bound to the workspace. */
int order_open_cwd(struct order *o, struct cell_error *err)
{
	const char *path = o->cwd && *o->cwd ? o->cwd : ".";

	o->cwd_fd = openat(guest.workspace_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->cwd_fd < 0) {
		int r = cell_fail_errno(err, errno, "enter working directory '%.200s'", path);

		return cell_error_hint(err, r,
			"it must be a directory in the cell, absolute or "
			"relative to the workspace '%s'",
			guest.workspace);
	}
	return 0;
}

static int check_id(const char *id, struct cell_error *err)
{
	if (!wire_is_id(id))
		return cell_fail(err, CELL_EINVAL, 0, "exec: id '%.64s' is not " WIRE_ID_RULE, id);
	if (!job_find(id))
		return 0;
	int r = cell_fail(err, CELL_EEXISTS, 0, "exec: id '%.64s' was used before", id);
	return cell_error_hint(err, r, "an id is used once; take a new one, or look at this one");
}

static int check_label(const char *label, struct cell_error *err)
{
	for (const char *p = label; *p; p++) {
		if (*p < ' ' || *p > '~')
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"exec: a label may have only printable ASCII characters");
	}
	return 0;
}

/* A field that may be absent, but not malformed: nobody is to run as another user because a name was too long. */
int order_read_optional(const struct request *rq, unsigned tag, const char *what, size_t max,
	char **ret, struct cell_error *err)
{
	struct wire_field f;

	if (!wire_find(rq->fields, rq->len, tag, &f))
		return 0;
	int r = wire_field_str(&f, max, ret);
	if (r == -ENOMEM)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "exec");
	if (r < 0)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"exec: the %s has a NUL byte in it or more than %zu bytes", what, max);
	return 0;
}

int order_read(const struct request *rq, const char *what, struct order *o, struct cell_error *err)
{
	const uint8_t *p = rq->fields;
	size_t n = rq->len;
	int r = check_tags(rq, what, err);

	if (r == 0)
		r = read_strings(rq, o, err);
	if (r < 0)
		return r;
	o->flags = wire_find_u64(p, n, WIRE_T_FLAGS, 0);
	o->timeout_ms = wire_find_u64(p, n, WIRE_T_TIMEOUT_MS, 0);
	if (o->timeout_ms > UINT64_C(1000) * 3600 * 24 * 3650)
		o->timeout_ms = 0;
	o->grace_ms = wire_find_u64(p, n, WIRE_T_GRACE_MS, GUEST_GRACE_MS);
	if (o->grace_ms > GUEST_MAX_GRACE_MS)
		o->grace_ms = GUEST_MAX_GRACE_MS;
	o->keep = wire_find_u64(p, n, WIRE_T_KEEP, GUEST_DEFAULT_KEEP);
	if (o->keep < RING_SMALL)
		o->keep = RING_SMALL;
	if (o->keep > GUEST_MAX_KEEP)
		o->keep = GUEST_MAX_KEEP;
	o->keep = (o->keep + 4095) & ~UINT64_C(4095); /* mappings are made of pages */
	o->rows = (uint16_t)wire_find_u64(p, n, WIRE_T_ROWS, 24);
	o->cols = (uint16_t)wire_find_u64(p, n, WIRE_T_COLS, 80);
	r = order_read_optional(rq, WIRE_T_CWD, "working directory", 4096, &o->cwd, err);
	if (r == 0)
		r = order_read_optional(rq, WIRE_T_ID, "id", CELL_EXEC_ID_MAX - 1, &o->id, err);
	if (r == 0)
		r = order_read_optional(rq, WIRE_T_LABEL, "label", CELL_EXEC_LABEL_MAX - 1,
			&o->label, err);
	if (r == 0)
		r = order_read_optional(rq, WIRE_T_USER, "user", 64, &o->user_name, err);
	if (r == 0 && o->id && *o->id)
		r = check_id(o->id, err);
	if (r == 0 && o->label)
		r = check_label(o->label, err);
	return r;
}

int order_settle(struct order *o, struct cell_error *err)
{
	int r = user_resolve(o->user_name, &o->user, err);

	if (r == 0)
		r = order_open_cwd(o, err);
	if (r == 0 && complete_env(o) < 0)
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "exec");
	return r;
}

int order_default(struct order *o, const char *cwd, struct cell_error *err)
{
	int r = user_resolve(NULL, &o->user, err);

	if (r < 0)
		return r;
	o->cwd = strdup(cwd);
	if (!o->cwd || complete_env(o) < 0)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "exec");
	return 0;
}

/* ---- starting ---- */

void order_describe(struct job *j, const struct order *o)
{
	size_t at = 0;

	for (size_t i = 0; i < o->argv.n && at < sizeof j->command - 1; i++) {
		int n = snprintf(j->command + at, sizeof j->command - at, "%s%s", i ? " " : "",
			o->argv.list[i]);
		at += n > 0 ? (size_t)n : 0;
	}
	if (o->id && *o->id) {
		job_name(j, o->id);
	} else {
		static unsigned counter;
		char id[16];

		do
			(void)snprintf(id, sizeof id, "e%u", ++counter);
		while (job_find(id));
		job_name(j, id);
	}
	(void)snprintf(j->label, sizeof j->label, "%s", o->label ? o->label : "");
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	j->started_unix_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	j->is_tty = o->flags & CELL_EXEC_TTY;
	j->is_durable = o->flags & CELL_EXEC_DURABLE;
}

static int open_terminal(struct job *j, const struct order *o, int stdio[3])
{
	int master = -1, slave = -1;
	int r = pty_open(o->rows, o->cols, o->user.uid, &master, &slave);

	if (r < 0)
		return r;
	stdio[0] = stdio[1] = stdio[2] = slave;
	int in = fcntl(master, F_DUPFD_CLOEXEC, 3);
	r = job_open_out(j, 0, master, o->keep);
	if (r < 0 || in < 0) {
		if (in >= 0)
			close(in);
		return r < 0 ? r : -EMFILE;
	}
	return job_open_in(j, in);
}

static int open_pipes(struct job *j, const struct order *o, int stdio[3])
{
	int r = 0;

	stdio[0] = guest.null_fd;
	if (o->flags & CELL_EXEC_STDIN) {
		int p[2];

		if (pipe2(p, O_CLOEXEC) < 0)
			return -errno;
		stdio[0] = p[0];
		r = job_open_in(j, p[1]);
	}
	for (int i = 0; r == 0 && i < 2; i++) {
		int p[2];

		if (i == 1 && o->flags & CELL_EXEC_MERGE) {
			stdio[2] = stdio[1];
			break;
		}
		if (pipe2(p, O_CLOEXEC) < 0)
			return -errno;
		stdio[1 + i] = p[1];
		r = job_open_out(j, i, p[0], o->keep);
	}
	return r;
}

static void close_stdio(const int stdio[3])
{
	for (int i = 0; i < 3; i++) {
		bool is_shared = stdio[i] == guest.null_fd;

		for (int k = 0; k < i; k++)
			is_shared |= stdio[k] == stdio[i];
		if (stdio[i] >= 0 && !is_shared)
			close(stdio[i]);
	}
}

static int launch_job(struct job *j, const struct order *o, struct cell_error *err)
{
	int stdio[3] = {-1, -1, -1};
	int r = o->flags & CELL_EXEC_TTY ? open_terminal(j, o, stdio) : open_pipes(j, o, stdio);

	if (r < 0) {
		close_stdio(stdio);
		return cell_fail_errno(err, -r,
			o->flags & CELL_EXEC_TTY ? "open a terminal" : "open pipes");
	}
	const struct launch l = {
		.number = j->number,
		.argv = o->argv.list,
		.env = o->env.list,
		.cwd_fd = o->cwd_fd,
		.stdio = {stdio[0], stdio[1], stdio[2]},
		.extra = {-1, -1},
		.is_tty = j->is_tty,
		.has_ids = !o->user.is_self,
		.uid = o->user.uid,
		.gid = o->user.gid,
		.groups = o->user.groups,
		.n_groups = (size_t)o->user.n_groups,
		.timeout_ms = o->timeout_ms,
		.grace_ms = o->grace_ms,
	};
	pid_t pid = keeper_start(&l, guest.report_fd);
	close_stdio(stdio);
	if (pid < 0) {
		r = cell_fail_errno(err, -pid, "start a process");
		return cell_error_hint(err, r, "the cell may have reached its limit of processes");
	}
	j->minder = pid;
	if (o->timeout_ms)
		overdue_expect(j, o->timeout_ms + o->grace_ms);
	return 0;
}

static uint64_t window_of(const struct request *rq)
{
	uint64_t w = wire_find_u64(rq->fields, rq->len, WIRE_T_WINDOW, WIRE_DEFAULT_WINDOW);

	if (w < 4096)
		w = 4096;
	return w > WIRE_MAX_WINDOW ? WIRE_MAX_WINDOW : w;
}

static void reply_started(struct stream *s, const struct job *j)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_str(&b, WIRE_T_ID, j->id);
	(void)wire_put_u64(&b, WIRE_T_FLAGS, j->is_tty ? CELL_EXEC_TTY : 0);
	(void)wire_put_u64(&b, WIRE_T_OUT_OLDEST, job_oldest(j, 0));
	(void)wire_put_u64(&b, WIRE_T_ERR_OLDEST, job_oldest(j, 1));
	job_put_state(j, &b);
	(void)stream_reply(s, &b);
}

int exec_start(struct stream *s, const struct request *rq, struct cell_error *err)
{
	auto_(order_done) struct order o = {.cwd_fd = -1};
	int r = order_read(rq, "exec", &o, err);

	if (r == 0)
		r = order_settle(&o, err);
	if (r < 0)
		return r;
	if (!o.argv.n || !o.argv.list[0][0])
		return cell_fail(err, CELL_EINVAL, EINVAL, "exec: no command given");
	if (job_running() == 0)
		oom_forget_the_past();
	struct job *j = job_new(err);
	if (!j)
		return -EAGAIN;
	order_describe(j, &o);
	r = launch_job(j, &o, err);
	if (r < 0) {
		job_free(j);
		return r;
	}
	exec_follow(s, rq, &o, j);
	return 0;
}

void exec_follow(struct stream *s, const struct request *rq, const struct order *o, struct job *j)
{
	if (!(o->flags & WIRE_EXEC_QUIET))
		reply_started(s, j);
	if (o->flags & CELL_EXEC_DETACH) {
		auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

		(void)wire_put_u64(&b, WIRE_T_CODE, CELL_OK);
		stream_end(s, &b);
		return;
	}
	s->window = window_of(rq);
	s->is_holding = s->is_following = true;
	s->has_stdin = o->flags & (CELL_EXEC_STDIN | CELL_EXEC_TTY);
	job_attach(j, s);
}

int exec_attach(struct stream *s, const struct request *rq, struct cell_error *err)
{
	int r = check_tags(rq, "attach", err);
	if (r < 0)
		return r;
	auto_free char *id = wire_find_str(rq->fields, rq->len, WIRE_T_ID, CELL_EXEC_ID_MAX - 1);
	struct job *j = id ? job_find(id) : NULL;
	if (!j) {
		r = cell_fail(err, CELL_ENOTFOUND, ESRCH, "attach: no command '%.64s' in this cell",
			id ? id : "");
		return cell_error_hint(err, r,
			"'cell ps' lists them; the oldest finished ones are "
			"forgotten after %d",
			GUEST_MAX_FINISHED);
	}
	uint64_t flags = wire_find_u64(rq->fields, rq->len, WIRE_T_FLAGS, 0);
	static const unsigned from[2] = {WIRE_T_OUT_OFFSET, WIRE_T_ERR_OFFSET};

	for (int i = 0; i < 2; i++) {
		uint64_t at = wire_find_u64(rq->fields, rq->len, from[i], 0);
		uint64_t head = j->out[i].ring.head;

		s->chan[1 + i].sent = s->chan[1 + i].acked = at < head ? at : head;
	}
	s->window = window_of(rq);
	s->is_holding = flags & ATTACH_HOLD;
	s->is_following = !(flags & ATTACH_NO_FOLLOW);
	s->has_stdin = flags & ATTACH_STDIN;
	for (struct stream *peer = j->streams; peer && s->has_stdin; peer = peer->next_peer)
		peer->has_stdin = false; /* one writer at a time: the last to ask */
	job_taken(j, s);
	reply_started(s, j);
	job_attach(j, s);
	stream_pump(s);
	return 0;
}

int exec_signal(struct job *j, int sig, bool tree, struct cell_error *err)
{
	if (sig < 0 || sig >= NSIG)
		return cell_fail(err, CELL_EINVAL, EINVAL, "signal %d", sig);
	if (j->run)
		return run_signal(j, sig, err);
	if (j->is_gone || (!tree && j->has_exited))
		return cell_fail(err, CELL_ENOTFOUND, ESRCH, "signal '%s': it has ended", j->id);
	int r = keeper_signal(j->minder, sig, tree);
	return r < 0 ? cell_fail_errno(err, -r, "signal '%s'", j->id) : 0;
}
