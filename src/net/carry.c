/* SPDX-License-Identifier: Apache-2.0 */
#include "net/carry.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define CHUNK	NET_CARRY_CHUNK
#define LAST_MS 500

/* Carriers end by themselves when their stream does; a process that ends waits a moment for those that are at it, so that what
 * TLS keeps for each thread is released. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned n;
	bool is_watched;
} carriers = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void await_carriers(void)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += LAST_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	(void)pthread_mutex_lock(&carriers.lock);
	while (carriers.n && pthread_cond_timedwait(&carriers.ended, &carriers.lock, &until) == 0)
		;
	(void)pthread_mutex_unlock(&carriers.lock);
}

static void count_carrier(int change)
{
	(void)pthread_mutex_lock(&carriers.lock);
	if (!carriers.is_watched)
		carriers.is_watched = atexit(await_carriers) == 0;
	carriers.n += (unsigned)change;
	(void)pthread_cond_broadcast(&carriers.ended);
	(void)pthread_mutex_unlock(&carriers.lock);
}

struct carrier {
	struct net_stream remote;
	int local;
	const struct net_framing *framing;
	struct buf in;	 /* from the stream, as it comes */
	size_t in_at;	 /* taken */
	uint32_t left;	 /* of the piece that has begun */
	bool is_ours;	 /* it goes on to the client */
	char out[CHUNK]; /* to the stream */
	size_t out_at, out_n;
};

static void carrier_free(struct carrier *k)
{
	net_stream_done(&k->remote);
	close(k->local);
	buf_done(&k->in);
	free(k);
}

/* What has come goes on to the client. 0: all that is here; 1: the client is full; negative: over. */
static int deliver(struct carrier *k)
{
	while (k->in_at < k->in.len) {
		const uint8_t *at = k->in.data + k->in_at;
		size_t have = k->in.len - k->in_at;

		if (k->framing && !k->left) {
			if (have < k->framing->head_size)
				break;
			k->is_ours = k->framing->read(at, &k->left);
			k->in_at += k->framing->head_size;
			continue;
		}
		size_t n = k->framing && have > k->left ? k->left : have;
		ssize_t done = k->is_ours ? send(k->local, at, n, MSG_NOSIGNAL | MSG_DONTWAIT)
					  : (ssize_t)n;
		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return 1;
		if (done < 0)
			return -errno;
		k->in_at += (size_t)done;
		k->left -= k->framing ? (uint32_t)done : 0;
	}
	buf_consume(&k->in, k->in_at);
	k->in_at = 0;
	return 0;
}

/* The other way. */
static int collect(struct carrier *k)
{
	if (k->out_at == k->out_n) {
		ssize_t n = recv(k->local, k->out, sizeof k->out, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0)
			return -ESHUTDOWN; /* a client that closes wants no answer */
		k->out_at = 0;
		k->out_n = (size_t)n;
	}
	while (k->out_at < k->out_n) {
		struct iovec iov = {k->out + k->out_at, k->out_n - k->out_at};
		ssize_t n = net_stream_write(&k->remote, &iov, 1);
		if (n == -EAGAIN)
			return 1;
		if (n < 0)
			return (int)n;
		k->out_at += (size_t)n;
	}
	return 0;
}

static void *carry(void *arg)
{
	struct carrier *k = arg;

	for (;;) {
		int in = deliver(k);
		int out = in < 0 ? in : collect(k);

		if (in < 0 || out < 0)
			break;
		if (in == 0) {
			ssize_t n = buf_reserve(&k->in, CHUNK) < 0
					    ? -ENOMEM
					    : net_stream_read(&k->remote, k->in.data + k->in.len,
						      CHUNK);
			if (n > 0) {
				k->in.len += (size_t)n;
				continue;
			}
			if (n != -EAGAIN)
				break;
		}
		struct pollfd p[2] = {{.fd = k->remote.fd, .events = 0}, {.fd = k->local}};
		p[0].events = (short)((in == 0 ? POLLIN : 0) | (out == 1 ? POLLOUT : 0));
		p[1].events = (short)((out == 0 ? POLLIN : 0) | (in == 1 ? POLLOUT : 0));
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
	}
	carrier_free(k);
	OPENSSL_thread_stop();
	count_carrier(-1);
	return NULL;
}

int net_carry(struct net_stream *remote, struct buf *rest, const struct net_framing *framing)
{
	struct carrier *k = calloc(1, sizeof *k);
	int pair[2];
	pthread_t thread;

	if (!k)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		free(k);
		return -errno;
	}
	k->local = pair[1];
	k->remote = *remote;
	k->framing = framing;
	k->is_ours = true;
	k->in = *rest;
	k->in.max = 4 * (size_t)CHUNK;
	count_carrier(1);
	int r = -pthread_create(&thread, NULL, carry, k);
	if (r < 0) { /* stream and rest are the caller's still */
		count_carrier(-1);
		free(k);
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	*rest = (struct buf){0};
	(void)pthread_detach(thread);
	return pair[0];
}

int net_carry_upgrade(struct http_client *c, const struct http_call *call, const char *protocol,
	const struct net_framing *framing, struct http_reply *ret_reply, struct cell_error *err)
{
	auto_buf struct buf rest = BUF_INIT(4 * (size_t)CHUNK);
	struct net_stream s;
	int r = http_client_upgrade(c, call, protocol, &s, &rest, ret_reply, err);

	if (r < 0)
		return r;
	int fd = net_carry(&s, &rest, framing);
	if (fd < 0) {
		net_stream_done(&s);
		return cell_fail_errno(err, -fd, "carry the bytes of a stream");
	}
	return fd;
}
