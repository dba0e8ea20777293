/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c: connected clients. Bytes in become frames, checked against wire.h before anything looks
 * at them; frames out leave at once or wait in a bounded queue. A client that breaks a rule, or
 * does not read its replies, is dropped; its commands go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/guest.h"

struct conn {
	struct source src;
	struct conn *next;
	struct stream *streams;
	uint32_t n_streams;
	struct buf rx;
	size_t rx_at; /* first byte not yet parsed */
	struct buf tx;
	size_t tx_at;
	struct buf message; /* a request in several frames */
	uint32_t message_stream;
	struct { /* the rest of a DATA frame whose bytes are still in a pipe; goes before tx */
		struct stream *stream;
		struct job_chan *from;
		size_t left;
	} owed;
	bool cannot_splice;
	bool is_gathering;
	bool is_greeted;
	bool is_only;
	bool is_broken; /* closed at the next turn of the loop */
};

static struct conn *conns;
static struct source listener = {.fd = -1};
static int spare_fd = -1; /* to take in and send away a client when there is no other fd left */

uint32_t conn_count(void)
{
	uint32_t n = 0;

	for (struct conn *c = conns; c; c = c->next)
		n++;
	return n;
}

static void conn_free(struct conn *c)
{
	struct conn **at = &conns;
	bool is_only = c->is_only;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	while (c->streams)
		stream_free(c->streams);
	loop_remove(&c->src);
	close(c->src.fd);
	buf_done(&c->rx);
	buf_done(&c->tx);
	buf_done(&c->message);
	free(c);
	if (is_only && !guest.has_listener)
		guest_shutdown(NULL);
}

static struct stream *find_stream(const struct conn *c, uint32_t id)
{
	for (struct stream *s = c->streams; s; s = s->next) {
		if (s->id == id)
			return s;
	}
	return NULL;
}

static int pay_by_copy(struct conn *c);
static void paid(struct conn *c, size_t n);

void stream_free(struct stream *s)
{
	struct stream **at = &s->conn->streams;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
	s->conn->n_streams--;
	if (s->conn->owed.stream == s && !s->conn->is_broken)
		(void)pay_by_copy(s->conn);
	if (s->conn->owed.stream == s && s->conn->owed.left) /* the connection is going */
		paid(s->conn, s->conn->owed.left);
	if (s->job)
		job_detach(s->job, s);
	guest_forget(s);
	free(s);
}

/* ---- out ---- */

size_t conn_backlog(const struct conn *c)
{
	return c->is_gathering ? 0 : c->tx.len - c->tx_at + c->owed.left;
}

bool conn_can_splice(const struct conn *c)
{
	return !c->cannot_splice;
}

/* Give up on it; freed by its own event, never under somebody's feet. */
static void mark_broken(struct conn *c)
{
	c->is_broken = true;
	(void)shutdown(c->src.fd, SHUT_RDWR);
	loop_want(&c->src, EPOLLIN);
}

static int queue(struct conn *c, const struct iovec *iov, int n_iov, size_t skip)
{
	if (c->tx_at == c->tx.len) {
		buf_reset(&c->tx);
		c->tx_at = 0;
	}
	for (int i = 0; i < n_iov; i++) {
		size_t len = iov[i].iov_len;
		size_t at = skip < len ? skip : len;

		skip -= at;
		if (buf_add(&c->tx, (const uint8_t *)iov[i].iov_base + at, len - at) < 0) {
			mark_broken(c);
			return -ENOBUFS;
		}
	}
	if (!c->is_gathering)
		loop_want(&c->src, EPOLLIN | EPOLLOUT);
	return 0;
}

int conn_send(struct conn *c, unsigned type, unsigned chan, uint32_t stream, const void *head,
	size_t head_len, const void *body, size_t body_len)
{
	uint8_t header[WIRE_HEADER_SIZE];
	const struct wire_header h = {
		.len = (uint32_t)(head_len + body_len),
		.type = (uint8_t)type,
		.chan = (uint8_t)chan,
		.stream = stream,
	};
	union { /* sendmsg takes no const */
		const void *in;
		void *out;
	} uh = {.in = head}, ub = {.in = body};
	struct iovec iov[3] = {{header, sizeof header}, {uh.out, head_len}, {ub.out, body_len}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 3};
	ssize_t n = 0;

	if (c->is_broken)
		return -EPIPE;
	wire_header_put(header, &h);
	if (conn_backlog(c) == 0 && !c->is_gathering) {
		do {
			n = sendmsg(c->src.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		} while (n < 0 && errno == EINTR);
		if (n < 0 && errno != EAGAIN) {
			mark_broken(c);
			return -EPIPE;
		}
		if (n < 0)
			n = 0;
		if ((size_t)n == sizeof header + head_len + body_len)
			return 0;
	}
	return queue(c, iov, 3, (size_t)n);
}

void conn_gather(struct conn *c)
{
	c->is_gathering = true;
}

void conn_release(struct conn *c)
{
	ssize_t n;

	c->is_gathering = false;
	if (c->is_broken || c->tx_at == c->tx.len)
		return;
	do
		n = send(c->src.fd, c->tx.data + c->tx_at, c->tx.len - c->tx_at,
			MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		c->tx_at += (size_t)n;
	if (n < 0 && errno != EAGAIN) {
		mark_broken(c);
		return;
	}
	if (c->tx_at == c->tx.len) {
		buf_done(&c->tx);
		c->tx_at = 0;
	}
	loop_want(&c->src, EPOLLIN | (c->tx.len ? EPOLLOUT : 0u));
}

/* ---- out of a pipe, without a copy ---- */

static void paid(struct conn *c, size_t n)
{
	c->owed.left -= n;
	if (c->owed.left == 0) {
		c->owed.from->is_owed = false;
		loop_want(&c->owed.from->src, EPOLLIN);
		c->owed.stream = NULL;
	}
}

/* Pay what is owed by a copy in front of tx: the pipe is about to go, or cannot be spliced. */
static int pay_by_copy(struct conn *c)
{
	auto_buf struct buf b = BUF_INIT(GUEST_TX_LIMIT + WIRE_MAX_PAYLOAD);
	int r = 0;

	while (r == 0 && c->owed.left) {
		uint8_t block[4096];
		size_t ask = c->owed.left < sizeof block ? c->owed.left : sizeof block;
		ssize_t n = read(c->owed.from->src.fd, block, ask);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <=
			0) { /* counted, then taken by somebody else: the frame has to end all the same */
			memset(block, 0, sizeof block);
			n = (ssize_t)ask;
		}
		r = buf_add(&b, block, (size_t)n);
		if (r == 0)
			paid(c, (size_t)n);
	}
	if (r == 0)
		r = buf_add(&b, c->tx.data ? c->tx.data + c->tx_at : NULL, c->tx.len - c->tx_at);
	if (r < 0) {
		mark_broken(c);
		return r;
	}
	buf_done(&c->tx);
	c->tx = (struct buf){.data = b.data, .len = b.len, .cap = b.cap, .max = GUEST_TX_LIMIT};
	c->tx_at = 0;
	b = (struct buf){0};
	loop_want(&c->src, EPOLLIN | EPOLLOUT);
	return 0;
}

/* A command can open its own stdout and read from it. Then what was promised will never come. */
static bool is_pipe_empty(const struct job_chan *from)
{
	int there = 0;

	return ioctl(from->src.fd, FIONREAD, &there) < 0 || there == 0;
}

/* Pay on. False when the socket takes no more now. */
static bool pay(struct conn *c)
{
	while (c->owed.left) {
		ssize_t n = splice(c->owed.from->src.fd, NULL, c->src.fd, NULL, c->owed.left,
			SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !is_pipe_empty(c->owed.from)) {
			loop_want(&c->src, EPOLLIN | EPOLLOUT);
			return false;
		}
		if (n <= 0) {
			c->cannot_splice = true;
			return pay_by_copy(c) == 0;
		}
		paid(c, (size_t)n);
	}
	return true;
}

int conn_send_pipe(struct stream *s, unsigned chan, uint64_t offset, struct job_chan *from,
	size_t n)
{
	struct conn *c = s->conn;
	uint8_t start[WIRE_HEADER_SIZE + 8];
	const struct wire_header h = {.len = (uint32_t)(8 + n),
		.type = WIRE_DATA,
		.chan = (uint8_t)chan,
		.stream = s->id};

	if (c->is_broken)
		return -EPIPE;
	wire_header_put(start, &h);
	wire_u64_put(start + WIRE_HEADER_SIZE, offset);
	ssize_t k = send(c->src.fd, start, sizeof start, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (k < 0 && (errno == EAGAIN || errno == EINTR)) {
		loop_want(&c->src, EPOLLIN | EPOLLOUT);
		return -EAGAIN;
	}
	if (k != (ssize_t)sizeof start) {
		mark_broken(c); /* a socket that takes half of twenty bytes is none of ours */
		return -EPIPE;
	}
	c->owed.stream = s;
	c->owed.from = from;
	c->owed.left = n;
	from->is_owed = true;
	(void)pay(c);
	if (from->is_owed)
		loop_want(&from->src, 0);
	return 0;
}

static void flush(struct conn *c)
{
	if (!pay(c))
		return;
	while (conn_backlog(c)) {
		ssize_t n = send(c->src.fd, c->tx.data + c->tx_at, conn_backlog(c),
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			mark_broken(c);
			return;
		}
		c->tx_at += (size_t)n;
	}
	buf_done(&c->tx); /* an idle client costs no memory */
	c->tx_at = 0;
	loop_want(&c->src, EPOLLIN);
	for (struct stream *s = c->streams, *next; s && !conn_backlog(c); s = next) {
		next = s->next;
		if (s->job) {
			job_resume(s->job);
			stream_pump(s);
		}
	}
}

void conn_abort(struct conn *c, const char *why)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_u64(&b, WIRE_T_CODE, CELL_EPROTOCOL);
	(void)wire_put_str(&b, WIRE_T_MESSAGE, why);
	(void)conn_send(c, WIRE_GOAWAY, 0, 0, b.data, b.len, NULL, 0);
	mark_broken(c);
}

/* ---- in ---- */

static int on_hello(struct conn *c, const uint8_t *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	if (c->is_greeted || wire_find_u64(p, n, WIRE_T_MAGIC, 0) != WIRE_MAGIC) {
		conn_abort(c, "hello: this is a Cell guest; the first frame must be a hello with "
			      "its magic");
		return -EPROTO;
	}
	if (wire_find_u64(p, n, WIRE_T_VERSION, 0) < WIRE_VERSION) {
		conn_abort(c, "hello: this guest speaks protocol version 1 only");
		return -EPROTO;
	}
	c->is_greeted = true;
	(void)wire_put_u64(&b, WIRE_T_MAGIC, WIRE_MAGIC);
	(void)wire_put_u64(&b, WIRE_T_VERSION, WIRE_VERSION);
	(void)wire_put_str(&b, WIRE_T_SOFTWARE, "cell-guest " CELL_VERSION);
	(void)wire_put_str(&b, WIRE_T_BOOT_ID, guest.boot_id);
	(void)wire_put_u64(&b, WIRE_T_WINDOW, WIRE_STDIN_WINDOW);
	return conn_send(c, WIRE_HELLO, 0, 0, b.data, b.len, NULL, 0);
}

static int dispatch(struct conn *c, uint32_t id, const uint8_t *p, size_t n)
{
	if (n < 2) {
		conn_abort(c, "request without an operation");
		return -EPROTO;
	}
	struct stream *s = calloc(1, sizeof *s);
	if (!s) {
		conn_abort(c, "out of memory");
		return -ENOMEM;
	}
	s->id = id;
	s->conn = c;
	s->next = c->streams;
	c->streams = s;
	c->n_streams++;
	const struct request rq = {.op = wire_u16_get(p), .fields = p + 2, .len = n - 2};
	ops_handle(s, &rq);
	return 0;
}

static int on_request(struct conn *c, const struct wire_header *h, const uint8_t *p)
{
	if (c->message_stream ? c->message_stream != h->stream
			      : find_stream(c, h->stream) != NULL) {
		conn_abort(c, "request: its stream is in use");
		return -EPROTO;
	}
	if (!c->message_stream && c->n_streams >= WIRE_MAX_STREAMS) {
		conn_abort(c, "request: too many streams at once");
		return -EPROTO;
	}
	if (!(h->flags & WIRE_MORE) && !c->message_stream)
		return dispatch(c, h->stream, p, h->len);
	if (buf_add(&c->message, p, h->len) < 0) {
		conn_abort(c, "request: larger than 4 MiB");
		return -EPROTO;
	}
	c->message_stream = h->stream;
	if (h->flags & WIRE_MORE)
		return 0;
	c->message_stream = 0;
	int r = dispatch(c, h->stream, c->message.data, c->message.len);
	buf_done(&c->message);
	return r;
}

static int on_data(struct conn *c, struct stream *s, uint64_t offset, const uint8_t *p, size_t n)
{
	if (s->job && job_input(s->job, s, offset, p, n) == -EPROTO) {
		conn_abort(c,
			"data: outside its window, with a gap, or for a stream that takes none");
		return -EPROTO;
	}
	return 0;
}

static int on_ack(struct conn *c, struct stream *s, unsigned chan, uint64_t offset)
{
	if (chan == WIRE_CHAN_IN || offset > s->chan[chan].sent) {
		conn_abort(c, "acknowledgement of bytes that were never sent");
		return -EPROTO;
	}
	if (offset > s->chan[chan].acked)
		s->chan[chan].acked = offset;
	if (s->job) {
		job_taken(s->job, s);
		job_resume(s->job);
		stream_pump(s);
	}
	return 0;
}

/* 0 to go on, negative to stop: the connection is broken. */
static int on_frame(struct conn *c, const struct wire_header *h, const uint8_t *p)
{
	struct stream *s = h->stream ? find_stream(c, h->stream) : NULL;

	if (!c->is_greeted && h->type != WIRE_HELLO) {
		conn_abort(c, "the first frame must be a hello");
		return -EPROTO;
	}
	if (c->message_stream && h->type != WIRE_REQUEST) {
		conn_abort(c, "a request in several frames was interrupted by another frame");
		return -EPROTO;
	}
	switch (h->type) {
	case WIRE_HELLO:
		return on_hello(c, p, h->len);
	case WIRE_REQUEST:
		return on_request(c, h, p);
	case WIRE_PING:
		return conn_send(c, WIRE_PONG, 0, 0, p, h->len, NULL, 0);
	case WIRE_PONG:
		return 0;
	case WIRE_GOAWAY:
		mark_broken(c);
		return -EPIPE;
	case WIRE_DATA:
		/* frames for a stream that just ended are no fault: both sides may speak at once */
		return s ? on_data(c, s, wire_u64_get(p), p + 8, h->len - 8) : 0;
	case WIRE_ACK:
		return s ? on_ack(c, s, h->chan, wire_u64_get(p)) : 0;
	case WIRE_EOF:
		if (s && s->job && s->has_stdin && h->chan == WIRE_CHAN_IN)
			job_input_eof(s->job);
		return 0;
	case WIRE_CONTROL:
		if (h->len < 2) {
			conn_abort(c, "control without an operation");
			return -EPROTO;
		}
		if (s)
			ops_control(s, wire_u16_get(p), p + 2, h->len - 2);
		return 0;
	case WIRE_CANCEL:
		if (s)
			stream_free(s);
		return 0;
	default:
		conn_abort(c, "a frame that only a guest may send");
		return -EPROTO;
	}
}

/* Handle every whole frame in rx. Negative when the connection broke. */
static int parse(struct conn *c)
{
	for (;;) {
		size_t have = c->rx.len - c->rx_at;
		const uint8_t *p = c->rx.data + c->rx_at;
		struct wire_header h;
		const char *why;

		if (have < WIRE_HEADER_SIZE)
			break;
		if (wire_header_get(p, &h, &why) < 0) {
			conn_abort(c, why);
			return -EPROTO;
		}
		if (have - WIRE_HEADER_SIZE < h.len) {
			buf_consume(&c->rx, c->rx_at);
			c->rx_at = 0;
			return buf_reserve(&c->rx, WIRE_HEADER_SIZE + h.len - c->rx.len);
		}
		c->rx_at += WIRE_HEADER_SIZE + h.len;
		if (on_frame(c, &h, p + WIRE_HEADER_SIZE) < 0 || c->is_broken)
			return -EPROTO;
	}
	buf_consume(&c->rx, c->rx_at);
	c->rx_at = 0;
	if (c->rx.len == 0 && c->rx.cap > 65536)
		buf_done(&c->rx);
	return 0;
}

static void on_readable(struct conn *c)
{
	if (buf_reserve(&c->rx, c->rx.len ? 1 : 4096) < 0) {
		mark_broken(c);
		return;
	}
	ssize_t n =
		recv(c->src.fd, c->rx.data + c->rx.len, c->rx.cap - 1 - c->rx.len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		c->is_broken = true;
		return;
	}
	c->rx.len += (size_t)n;
	(void)parse(c);
}

static void on_event(struct source *s, uint32_t events)
{
	struct conn *c = (struct conn *)((char *)s - offsetof(struct conn, src));

	if (!c->is_broken && events & EPOLLOUT)
		flush(c);
	if (!c->is_broken && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		on_readable(c);
	if (c->is_broken)
		conn_free(c);
}

/* Send away one that cannot be served, with the reason. */
static void refuse(int fd, const char *why)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);
	uint8_t header[WIRE_HEADER_SIZE] = {0};

	(void)buf_add(&b, header, sizeof header);
	(void)wire_put_u64(&b, WIRE_T_CODE, CELL_ELIMIT);
	(void)wire_put_str(&b, WIRE_T_MESSAGE, why);
	if (b.len > sizeof header) {
		const struct wire_header h = {
			.type = WIRE_GOAWAY, .len = (uint32_t)(b.len - sizeof header)};

		wire_header_put(b.data, &h);
		(void)send(fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	close(fd);
}

int conn_start(int fd, bool is_only)
{
	int flags = fcntl(fd, F_GETFL);

	if (conn_count() >= WIRE_MAX_CLIENTS) {
		refuse(fd, "too many clients are connected to this cell");
		return -EAGAIN;
	}
	struct conn *c = calloc(1, sizeof *c);
	if (!c || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		free(c);
		refuse(fd, "the guest is out of memory");
		return -EAGAIN;
	}
	c->src = (struct source){.fd = fd, .events = EPOLLIN, .fn = on_event};
	c->is_only = is_only;
	c->rx.max = WIRE_HEADER_SIZE + WIRE_MAX_PAYLOAD + 65536;
	c->tx.max = GUEST_TX_LIMIT;
	c->message.max = WIRE_MAX_MESSAGE;
	int r = loop_add(&c->src);
	if (r < 0) {
		free(c);
		close(fd);
		return r;
	}
	c->next = conns;
	conns = c;
	return 0;
}

/* Only root and the user this guest runs as may talk to it. In a jail ids of the host have no meaning;
 * there a peer without a pid is one from outside, and nobody inside is. */
static bool is_allowed(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid == 0 ||
	       peer.uid == geteuid() || peer.pid == 0;
}

/* No fd for a new client. It would stay in the queue, and the listener ready, for ever. */
static void on_fd_shortage(int listen_fd)
{
	close(spare_fd);
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		refuse(fd, "the guest has no file descriptor left; end some commands of this cell");
	else
		(void)usleep(10000); /* the whole machine has none */
	spare_fd = fcntl(guest.null_fd, F_DUPFD_CLOEXEC, 3);
}

static void on_client(struct source *s, uint32_t events)
{
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
		on_fd_shortage(s->fd);
		return;
	}
	if (fd < 0)
		return;
	if (!is_allowed(fd))
		close(fd);
	else
		(void)conn_start(fd, false);
}

int conn_listen(int fd)
{
	listener = (struct source){.fd = fd, .events = EPOLLIN, .fn = on_client};
	spare_fd = fcntl(guest.null_fd, F_DUPFD_CLOEXEC, 3);
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return loop_add(&listener);
}
