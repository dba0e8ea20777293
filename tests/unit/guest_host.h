/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_host.h: the whole guest, built natively with whatever sanitizers the tests have, in a process of its
 * own; and clients of it that speak frames by hand, so that they can also speak wrongly. Not the product's
 * client: that is core/link.h.
 */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "cell/exec.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "test.h"
#include "wire/wire.h"

int guest_main(int argc, char **argv);

#define HOST_PATIENCE_MS 30000

struct host {
	pid_t pid;
	char dir[64];	     /* its workspace */
	char socket[96];     /* "" when it has one connection only */
	int only_fd;	     /* that connection */
	rlim_t nofile;	     /* 0: as it is */
	int sigpending_none; /* no queued signals for its user */
};

struct client {
	int fd;
	struct buf rx;
	size_t rx_at;
	uint32_t last_stream;
	uint64_t keep; /* asked for with each command; 0: the guest's default */
	uint64_t window;
};

static inline uint64_t host_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static inline int host_listener(struct host *h)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(h->socket, sizeof h->socket, "%s.sock", h->dir);
	(void)snprintf(a.sun_path, sizeof a.sun_path, "%s", h->socket);
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 64) == 0);
	return fd;
}

__attribute__((noreturn)) static inline void host_become_guest(const struct host *h, int fd)
{
	char number[16], fd_flag[] = "--fd", listen_flag[] = "--listen-fd",
			 dir_flag[] = "--workspace", name[] = "cell-guest", dir[64];
	char *argv[] = {name, h->socket[0] ? listen_flag : fd_flag, number, dir_flag, dir, NULL};
	struct rlimit rl = {h->nofile, h->nofile};

	(void)snprintf(number, sizeof number, "%d", fd);
	(void)snprintf(dir, sizeof dir, "%s", h->dir);
	if (h->nofile)
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	rl = (struct rlimit){0, 0};
	if (h->sigpending_none)
		(void)setrlimit(RLIMIT_SIGPENDING, &rl);
	_exit(guest_main(5, argv));
}

/* is_listening: any number of clients may connect; else there is one, and its end is the guest's. */
static inline void host_start(struct host *h, bool is_listening)
{
	int sv[2] = {-1, -1}, fd;

	(void)snprintf(h->dir, sizeof h->dir, "/tmp/cell-host-XXXXXX");
	ASSERT(mkdtemp(h->dir));
	h->only_fd = -1;
	h->socket[0] = '\0';
	if (is_listening) {
		fd = host_listener(h);
	} else {
		ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
		h->only_fd = sv[0];
		fd = sv[1];
	}
	/* whatever outlives the guest becomes a child of this process, and is seen */
	ASSERT(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	h->pid = fork();
	ASSERT(h->pid >= 0);
	if (h->pid == 0) {
		if (sv[0] >= 0)
			close(sv[0]);
		host_become_guest(h, fd);
	}
	close(fd);
}

static inline void host_show_children(void)
{
	auto_dir DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[300], text[600];

		(void)snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
		if (n <= 0)
			continue;
		text[n] = '\0';
		const char *p = strrchr(text, ')');
		if (p && strlen(p) > 4 && strtol(p + 4, NULL, 10) == getpid())
			(void)fprintf(stderr, "left: %s", text);
	}
}

static inline int host_remove(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st, (void)type, (void)w;
	(void)remove(path);
	return 0;
}

/* The guest has been told to go, or was killed. Its status, after nothing of it is left. */
static inline int host_wait(struct host *h)
{
	uint64_t end = host_now_ms() + HOST_PATIENCE_MS;
	int guest_status = -1;

	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid == h->pid)
			guest_status = status;
		if (pid < 0 && errno == ECHILD)
			break;
		if (pid == 0) {
			if (host_now_ms() > end) {
				host_show_children();
				CHECK_(false, "processes are left");
			}
			(void)usleep(2000);
		}
	}
	(void)nftw(h->dir, host_remove, 16, FTW_DEPTH | FTW_PHYS);
	if (h->socket[0])
		(void)unlink(h->socket);
	return guest_status;
}

/* ---- clients ---- */

/* False when the guest does not take it. */
static inline bool client_send_raw(struct client *c, const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t end = host_now_ms() + HOST_PATIENCE_MS;

	while (n) {
		ssize_t k = send(c->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && errno == EAGAIN && host_now_ms() < end) {
			struct pollfd p1 = {.fd = c->fd, .events = POLLOUT};
			(void)poll(&p1, 1, 100);
			continue;
		}
		if (k <= 0)
			return false;
		at += k;
		n -= (size_t)k;
	}
	return true;
}

static inline bool client_send(struct client *c, unsigned type, unsigned chan, uint32_t stream,
	const void *head, size_t head_len, const void *body, size_t body_len)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE + 1024);
	uint8_t header[WIRE_HEADER_SIZE];

	wire_header_put(header, &(struct wire_header){.len = (uint32_t)(head_len + body_len),
					.type = (uint8_t)type,
					.chan = (uint8_t)chan,
					.stream = stream});
	ASSERT_OK(buf_add(&b, header, sizeof header));
	ASSERT_OK(buf_add(&b, head, head_len));
	ASSERT_OK(buf_add(&b, body, body_len));
	return client_send_raw(c, b.data, b.len);
}

static inline bool client_send_u64(struct client *c, unsigned type, unsigned chan, uint32_t stream,
	uint64_t v, const void *body, size_t body_len)
{
	uint8_t at[8];

	wire_u64_put(at, v);
	return client_send(c, type, chan, stream, at, sizeof at, body, body_len);
}

static inline bool client_hello(struct client *c)
{
	auto_buf struct buf b = BUF_INIT(256);

	(void)wire_put_u64(&b, WIRE_T_MAGIC, WIRE_MAGIC);
	(void)wire_put_u64(&b, WIRE_T_VERSION, WIRE_VERSION);
	return client_send(c, WIRE_HELLO, 0, 0, b.data, b.len, NULL, 0);
}

static inline bool client_open(struct client *c, const struct host *h)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	*c = (struct client){.fd = h->only_fd, .rx = BUF_INIT(64u << 20)};
	if (h->socket[0]) {
		c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		(void)snprintf(a.sun_path, sizeof a.sun_path, "%s", h->socket);
		ASSERT(c->fd >= 0);
		if (connect(c->fd, (struct sockaddr *)&a, sizeof a) < 0) {
			close(c->fd);
			c->fd = -1;
			return false;
		}
	}
	return client_hello(c);
}

static inline void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	buf_done(&c->rx);
	c->rx_at = 0;
}

/* 1 and the next frame (valid until the next call), 0 when none came in time, -1 at the end. */
static inline int client_next(struct client *c, int timeout_ms, struct wire_header *h,
	const uint8_t **ret)
{
	for (;;) {
		size_t have = c->rx.len - c->rx_at;
		const char *why = "";

		if (have >= WIRE_HEADER_SIZE) {
			CHECK_(wire_header_get(c->rx.data + c->rx_at, h, &why) == 0,
				"the guest sent a broken frame: %s", why);
			if (have - WIRE_HEADER_SIZE >= h->len) {
				*ret = c->rx.data + c->rx_at + WIRE_HEADER_SIZE;
				c->rx_at += WIRE_HEADER_SIZE + h->len;
				return 1;
			}
		}
		buf_consume(&c->rx, c->rx_at);
		c->rx_at = 0;
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		if (poll(&p, 1, timeout_ms) <= 0)
			return 0;
		ASSERT_OK(buf_reserve(&c->rx, 256u * 1024));
		ssize_t n = recv(c->fd, c->rx.data + c->rx.len, 256u * 1024, MSG_DONTWAIT);
		if (n <= 0)
			return -1;
		c->rx.len += (size_t)n;
	}
}

/* A request; the stream it opened. `fields` may be NULL. */
static inline uint32_t client_request(struct client *c, uint16_t op, const struct buf *fields)
{
	uint8_t head[2];

	wire_u16_put(head, op);
	(void)client_send(c, WIRE_REQUEST, 0, ++c->last_stream, head, sizeof head,
		fields ? fields->data : NULL, fields ? fields->len : 0);
	return c->last_stream;
}

static inline uint32_t client_shell(struct client *c, const char *script, const char *id,
	uint64_t flags, uint64_t timeout_ms)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_DATA);

	(void)wire_put_str(&b, WIRE_T_SHELL, script);
	(void)wire_put_str(&b, WIRE_T_ID, id);
	(void)wire_put_u64(&b, WIRE_T_FLAGS, flags);
	(void)wire_put_u64(&b, WIRE_T_TIMEOUT_MS, timeout_ms);
	if (c->keep)
		(void)wire_put_u64(&b, WIRE_T_KEEP, c->keep);
	if (c->window)
		(void)wire_put_u64(&b, WIRE_T_WINDOW, c->window);
	return client_request(c, WIRE_OP_EXEC, &b);
}

struct answer {
	struct buf out, err, end; /* end: the fields of END */
};

static inline void answer_done(struct answer *a)
{
	buf_done(&a->out);
	buf_done(&a->err);
	buf_done(&a->end);
}
#define auto_answer __attribute__((cleanup(answer_done)))

/* Read one stream to its end, acknowledging everything. False when the connection ended before. */
static inline bool client_finish(struct client *c, uint32_t stream, struct answer *a)
{
	uint64_t last = host_now_ms();

	*a = (struct answer){.out = BUF_INIT(64u << 20),
		.err = BUF_INIT(64u << 20),
		.end = BUF_INIT(WIRE_MAX_PAYLOAD)};
	for (;;) {
		struct wire_header h;
		const uint8_t *p;
		int r = client_next(c, 100, &h, &p);

		if (r < 0)
			return false;
		CHECK_(host_now_ms() - last < HOST_PATIENCE_MS, "the guest says nothing");
		if (r == 0)
			continue;
		last = host_now_ms();
		if (h.stream != stream)
			continue;
		if (h.type == WIRE_DATA) {
			uint64_t offset = wire_u64_get(p);
			struct buf *to = h.chan == WIRE_CHAN_ERR ? &a->err : &a->out;

			ASSERT_EQ(offset, to->len);
			ASSERT_OK(buf_add(to, p + 8, h.len - 8));
			(void)client_send_u64(c, WIRE_ACK, h.chan, stream, to->len, NULL, 0);
		}
		if (h.type == WIRE_END) {
			ASSERT_OK(buf_add(&a->end, p, h.len));
			return true;
		}
	}
}

static inline uint64_t answer_u64(const struct answer *a, unsigned tag)
{
	return wire_find_u64(a->end.data, a->end.len, tag, UINT64_MAX);
}

/* Told to leave, the guest leaves, with 0 and nothing behind it. */
static inline void host_stop(struct host *h)
{
	struct client c;
	auto_answer struct answer a;

	ASSERT(client_open(&c, h));
	(void)client_finish(&c, client_request(&c, WIRE_OP_SHUTDOWN, NULL), &a);
	client_close(&c);
	ASSERT_EQ(host_wait(h), 0);
}
