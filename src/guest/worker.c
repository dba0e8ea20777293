/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c: a file operation in a forked process, its pipes connected to the request's stream. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/fs.h"
#include "guest/guest.h"
#include "guest/keeper.h"

static void write_reply(int fd, int r, const struct fs_call *call, const struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_u64(&b, WIRE_T_CODE,
		r < 0 ? (err->code ? err->code : CELL_EINTERNAL) : CELL_OK);
	if (r < 0) {
		(void)wire_put_u64(&b, WIRE_T_ERRNO, (uint64_t)-r);
		(void)wire_put_str(&b, WIRE_T_MESSAGE, err->msg);
		if (err->hint[0])
			(void)wire_put_str(&b, WIRE_T_HINT, err->hint);
	} else {
		(void)buf_add(&b, call->reply.data, call->reply.len);
	}
	(void)!write(fd, b.data, b.len);
}

/* The limit on file sizes is the cell's, whoever writes. Past it a write fails instead of killing. */
static void limit_file_size(void)
{
	static const struct sigaction ignore = {.sa_handler = SIG_IGN};

	for (size_t i = 0; i < guest.n_rlimits; i++) {
		const struct rlimit rl = {guest.rlimits[i].value, guest.rlimits[i].value};

		if (guest.rlimits[i].resource == RLIMIT_FSIZE)
			(void)setrlimit(RLIMIT_FSIZE, &rl);
	}
	(void)sigaction(SIGXFSZ, &ignore, NULL);
}

/* 2 stays what it was: it takes what only a crash would say. */
enum {
	WORKER_IN_FD = 0,
	WORKER_OUT_FD = 1,
	WORKER_STATUS_FD = 3,
	WORKER_ROOT_FD = 4,
	WORKER_FIRST_OTHER_FD = 5
};

/* Keep only its own fds. A copy of another command's stdin would keep that one from its end for as long as
 * this worker lives, and a watch lives long. */
static int take_fds(int in, int out, int status)
{
	const int from[] = {in, out, status, guest.workspace_fd};
	static const int to[] = {WORKER_IN_FD, WORKER_OUT_FD, WORKER_STATUS_FD, WORKER_ROOT_FD};
	int moved[4];

	close(guest.report_fd); /* room for the first copy, should the table be full */
	for (int i = 0; i < 4; i++) {
		moved[i] = fcntl(from[i], F_DUPFD_CLOEXEC, WORKER_FIRST_OTHER_FD);
		if (moved[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 4; i++) {
		if (dup3(moved[i], to[i], O_CLOEXEC) < 0)
			return -errno;
	}
	keeper_close_from(WORKER_FIRST_OTHER_FD);
	return 0;
}

__attribute__((noreturn)) static void worker_main(const struct request *rq, int in, int out,
	int status, pid_t parent)
{
	static const struct sigaction by_default = {.sa_handler = SIG_DFL};
	struct cell_error err = {0};
	struct fs_call call = {
		.op = rq->op,
		.fields = rq->fields,
		.fields_len = rq->len,
		.root_fd = WORKER_ROOT_FD,
		.root_path = guest.workspace,
		.home = guest.home,
		.in_fd = WORKER_IN_FD,
		.out_fd = WORKER_OUT_FD,
		.reply = BUF_INIT(WIRE_MAX_REPLY - 64),
	};
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "cell-file");
	if (getppid() != parent || take_fds(in, out, status) < 0)
		_exit(1);
	(void)sigaction(SIGPIPE, &by_default, NULL);
	limit_file_size();
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	int r = fs_run(&call, &err);
	write_reply(WORKER_STATUS_FD, r, &call, &err);
	_exit(0);
}

int worker_start(struct stream *s, const struct request *rq, struct cell_error *err)
{
	int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}; /* in, out, status */
	struct wire_reader rd = {.p = rq->fields, .len = rq->len};
	struct wire_field f;
	pid_t self = getpid();
	int r;

	while ((r = wire_next(&rd, &f)) > 0)
		;
	if (r < 0)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO, "file operation: malformed request");
	struct job *j = job_new(err);
	if (!j)
		return -EAGAIN;
	j->is_worker = true;
	for (int i = 0; r == 0 && i < 3; i++)
		r = pipe2(pipes[i], O_CLOEXEC) < 0 ? -errno : 0;
	pid_t pid = r == 0 ? fork() : -1;
	if (pid == 0) {
		close(pipes[0][1]);
		close(pipes[1][0]);
		close(pipes[2][0]);
		worker_main(rq, pipes[0][0], pipes[1][1], pipes[2][1], self);
	}
	if (pid < 0)
		r = r < 0 ? r : -errno;
	close(pipes[0][0]);
	close(pipes[1][1]);
	close(pipes[2][1]);
	if (r < 0) {
		close(pipes[0][1]);
		close(pipes[1][0]);
		close(pipes[2][0]);
		job_free(j);
		return cell_fail_errno(err, -r, "start a file operation");
	}
	j->minder = pid;
	j->status_fd = pipes[2][0];
	r = job_open_in(j, pipes[0][1]);
	int r2 = job_open_out(j, 0, pipes[1][0], RING_SMALL);
	s->window = WIRE_DEFAULT_WINDOW;
	s->is_holding = s->is_following = s->has_stdin = true;
	job_attach(j, s);
	if (r < 0 || r2 < 0)
		return cell_fail_errno(err, r < 0 ? -r : -r2, "watch a file operation's pipes");
	return 0;
}
