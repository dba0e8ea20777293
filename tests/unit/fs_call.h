/* SPDX-License-Identifier: Apache-2.0 */
/* fs_call.h: run a file operation as the guest does: in a worker process, with pipes for its bytes.
 */
#pragma once
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include "cell/file.h"

#include "base/cleanup.h"
#include "guest/fs.h"
#include "tree.h"

#define FS_WORKSPACE "/workspace" /* what the workspace is called in paths */

/* A sanitizer keeps freed memory: bounds are wider with one. */
#ifdef __SANITIZE_ADDRESS__
#define FS_MEMORY_FACTOR 8
#else
#define FS_MEMORY_FACTOR 1
#endif

struct fs_answer {
	int ret;
	long grown_kib; /* most memory the worker had beyond what it began with */
	struct cell_error err;
	size_t reply_len;
	uint8_t reply[WIRE_MAX_REPLY];
};

struct fs_worker {
	pid_t pid;
	int in_fd, out_fd, answer_fd;
};

static int fs_root = -1;	 /* the workspace of this test */
static uid_t fs_uid;		 /* whom the worker runs as */
static struct fs_answer fs_last; /* of the operation run last */
static struct buf fs_out = BUF_INIT(64 << 20);
static struct buf fs_fields = BUF_INIT(WIRE_MAX_MESSAGE);

/* A workspace with something beside it that is out of bounds. */
static inline void fs_begin(void)
{
	int top = tree_new();

	(void)signal(SIGPIPE, SIG_IGN);
	tree_dir(top, "root");
	tree_dir(top, "outside");
	tree_file(top, "secret", "secret");
	tree_file(top, "outside/victim", "untouched");
	fs_root = openat(top, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(fs_root >= 0);
	close(top);
}

static inline long fs_status_kib(const char *key)
{
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *p = strstr(text, key);
	return p ? strtol(p + strlen(key), NULL, 10) : 0;
}

static inline void fs_work(uint16_t op, int in_fd, int out_fd, int answer_fd)
{
	static struct fs_answer a;
	struct fs_call call = {
		.op = op,
		.fields = fs_fields.data,
		.fields_len = fs_fields.len,
		.root_fd = fs_root,
		.root_path = FS_WORKSPACE,
		.in_fd = in_fd,
		.out_fd = out_fd,
		.reply = BUF_INIT(WIRE_MAX_REPLY),
	};

	(void)signal(SIGPIPE, SIG_DFL);
	if (fs_uid &&
		(setresgid(fs_uid, fs_uid, fs_uid) < 0 || setresuid(fs_uid, fs_uid, fs_uid) < 0))
		_exit(99);
	long before = fs_status_kib("VmHWM:");
	a.ret = fs_run(&call, &a.err);
	a.grown_kib = fs_status_kib("VmHWM:") - before;
	a.reply_len = call.reply.len;
	if (call.reply.len)
		memcpy(a.reply, call.reply.data, call.reply.len);
	_exit(write(answer_fd, &a, sizeof a) == (ssize_t)sizeof a ? 0 : 98);
}

static inline struct fs_worker fs_start(uint16_t op)
{
	struct fs_worker w;
	int in[2], out[2], answer[2];

	ASSERT(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	ASSERT(pipe2(answer, O_CLOEXEC) == 0);
	(void)fflush(NULL);
	w.pid = fork();
	ASSERT(w.pid >= 0);
	if (w.pid == 0) {
		close(in[1]);
		close(out[0]);
		close(answer[0]);
		fs_work(op, in[0], out[1], answer[1]);
	}
	close(in[0]);
	close(out[1]);
	close(answer[1]);
	w.in_fd = in[1];
	w.out_fd = out[0];
	w.answer_fd = answer[0];
	return w;
}

/* Close everything, wait for it, take its answer. */
static inline int fs_finish(struct fs_worker *w)
{
	int status;

	if (w->in_fd >= 0)
		close(w->in_fd);
	ssize_t n = read(w->answer_fd, &fs_last, sizeof fs_last);
	close(w->answer_fd);
	close(w->out_fd);
	ASSERT(waitpid(w->pid, &status, 0) == w->pid);
	CHECK_(n == (ssize_t)sizeof fs_last, "the worker died: %#x", (unsigned)status);
	CHECK_((fs_last.ret < 0) == (fs_last.err.msg[0] != '\0'), "%d without a message",
		fs_last.ret);
	return fs_last.ret;
}

/* Feed n bytes (repeated `times`), gather what comes out, up to its maximum, in fs_out. */
static inline int fs_run_with(uint16_t op, const void *p, size_t n, uint64_t times)
{
	struct fs_worker w = fs_start(op);
	size_t at = 0;

	buf_reset(&fs_out);
	if (n == 0 || times == 0)
		close(steal_fd(w.in_fd));
	else
		(void)fcntl(w.in_fd, F_SETFL, O_NONBLOCK);
	for (;;) {
		struct pollfd fds[2] = {
			{.fd = w.out_fd, .events = POLLIN}, {.fd = w.in_fd, .events = POLLOUT}};
		static char chunk[65536];

		ASSERT(poll(fds, 2, 60000) > 0);
		if (fds[0].revents) {
			ssize_t got = read(w.out_fd, chunk, sizeof chunk);
			if (got <= 0)
				break;
			if (buf_add(&fs_out, chunk, (size_t)got) < 0)
				buf_reset(&fs_out);
		}
		if (w.in_fd < 0 || !fds[1].revents)
			continue;
		ssize_t done = write(w.in_fd, (const char *)p + at, n - at);
		at += done > 0 ? (size_t)done : 0;
		if (at == n) {
			at = 0;
			times--;
		}
		if (times == 0 || (done < 0 && errno != EAGAIN))
			close(steal_fd(w.in_fd));
	}
	return fs_finish(&w);
}

static inline int fs_do(uint16_t op)
{
	return fs_run_with(op, NULL, 0, 0);
}

/* The request: begin with the path, then add fields. NULL: no path. */
static inline void fs_request(const char *path)
{
	buf_reset(&fs_fields);
	ASSERT_OK(wire_put_str(&fs_fields, WIRE_T_PATH, path));
}

static inline void fs_text(unsigned tag, const char *s)
{
	ASSERT_OK(wire_put_str(&fs_fields, tag, s));
}

static inline void fs_number(unsigned tag, uint64_t v)
{
	ASSERT_OK(wire_put_u64(&fs_fields, tag, v));
}

static inline uint64_t fs_reply(unsigned tag)
{
	return wire_find_u64(fs_last.reply, fs_last.reply_len, tag, UINT64_MAX);
}

static inline int fs_do_write(const char *path, const char *text, uint64_t flags)
{
	fs_request(path);
	fs_number(WIRE_T_FLAGS, flags);
	return fs_run_with(WIRE_OP_WRITE, text, strlen(text), 1);
}

/* The paths of the records in fs_out, joined by '|'. */
static inline const char *fs_paths(void)
{
	static struct buf joined = BUF_INIT(64 << 20);
	const uint8_t *p = fs_out.data;
	size_t left = fs_out.len, len, used;
	const uint8_t *record;
	struct wire_field f;

	buf_reset(&joined);
	while (left && wire_record_next(p, left, &record, &len, &used) > 0) {
		ASSERT(wire_find(record, len, WIRE_T_PATH, &f));
		if (p != fs_out.data)
			ASSERT_OK(buf_addc(&joined, '|'));
		ASSERT_OK(buf_add(&joined, f.p, f.len));
		p += used;
		left -= used;
	}
	ASSERT(left == 0);
	return buf_str(&joined);
}

static inline void fs_check_memory(long max_kib)
{
	CHECK_(fs_last.grown_kib < max_kib * FS_MEMORY_FACTOR, "the worker grew by %ld KiB",
		fs_last.grown_kib);
}

/* How many entries a directory has. */
static inline int fs_count(const char *path)
{
	int fd = openat(fs_root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = -2;
	DIR *d = fdopendir(fd);

	ASSERT(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
