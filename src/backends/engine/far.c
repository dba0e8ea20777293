/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far.c: a guest in a container of another machine. Its program goes in as an archive, into a volume of its own, so
 * that a read-only root does not matter and the image needs nothing. A stream to it is an exec of the engine's that runs the
 * guest's program as a relay (guest/reach.c); a thread carries the bytes between that connection and a
 * socket pair, taking off the engine's framing: 8 bytes of type and length before each piece.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/tar.h"
#include "core/guest_process.h"
#include "net/client.h"
#include "net/stream.h"

#define FRAME_HEAD  8u
#define CHUNK	    65536u
#define ARCHIVE_MAX (16u << 20)

/* --- putting it in --- */

static int append(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

static int make_archive(const char *user, const struct sock_fprog *program, struct buf *ret)
{
	struct tar_writer w = {.fn = append, .user = ret};
	size_t size = (size_t)(cell_guest_blob_end - cell_guest_blob);
	unsigned uid = 0, gid = 0;
	/* a name is the image's to explain: then whoever is in the container may listen there */
	bool is_known = sscanf(user, "%u:%u", &uid, &gid) >= 1;
	struct tar_entry guest = {
		.type = TAR_FILE, .name = "guest", .link = "", .size = size, .mode = 0555};
	struct tar_entry filter = {.type = TAR_FILE,
		.name = "filter",
		.link = "",
		.size = program->len * sizeof *program->filter,
		.mode = 0444};
	struct tar_entry run = {.type = TAR_DIRECTORY,
		.name = "run",
		.link = "",
		.mode = is_known ? 0700 : 01777,
		.uid = uid,
		.gid = gid};
	int r = tar_write_entry(&w, &guest);

	if (r == 0)
		r = tar_write_data(&w, cell_guest_blob, size);
	if (r == 0)
		r = tar_write_entry(&w, &filter);
	if (r == 0)
		r = tar_write_data(&w, program->filter, filter.size);
	if (r == 0)
		r = tar_write_entry(&w, &run);
	return r == 0 ? tar_write_end(&w) : r;
}

static int put(struct engine *e, const char *container, const char *where,
	const struct buf *archive, struct cell_error *err)
{
	auto_buf struct buf text = {0};
	char path[300];

	(void)snprintf(path, sizeof path, "/containers/%s/archive?path=%s", container, where);
	struct engine_request rq = {.method = "PUT",
		.path = path,
		.body = archive->data,
		.body_len = archive->len,
		.type = "application/x-tar"};
	int status = engine_send(e, &rq, &text, err);
	if (status < 0 || status == 200)
		return status < 0 ? status : 0;
	return engine_refused(e, status, &text, err, "put files into the container");
}

int engine_far_put(struct engine *e, const char *container, const char *user, const char *seccomp,
	struct cell_error *err)
{
	auto_buf struct buf archive = BUF_INIT(ARCHIVE_MAX);

	if (make_archive(user, engine_filter(seccomp), &archive) < 0)
		return cell_fail_errno(err, ENOMEM, "pack the guest");
	return put(e, container, ENGINE_GUEST_DIR, &archive, err);
}

int engine_open_scratch(struct engine *e, const char *container, struct cell_error *err)
{
	auto_buf struct buf archive = BUF_INIT(65536);
	struct tar_writer w = {.fn = append, .user = &archive};
	struct tar_entry parts[] = {{.name = &ENGINE_WORKSPACE[1]}, {.name = &ENGINE_HOME[1]}};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof parts / sizeof *parts; i++) {
		parts[i].type = TAR_DIRECTORY;
		parts[i].link = "";
		parts[i].mode = 01777;
		r = tar_write_entry(&w, &parts[i]);
	}
	if (r == 0)
		r = tar_write_end(&w);
	return r < 0 ? cell_fail_errno(err, ENOMEM, "open the container's directories")
		     : put(e, container, "/", &archive, err);
}

/* --- carrying bytes --- */

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
	struct buf in;	 /* from the engine, as it comes */
	size_t in_at;	 /* taken */
	uint32_t left;	 /* of the frame that has begun */
	bool is_ours;	 /* it is of stdout: the rest is what the relay complains of */
	char out[CHUNK]; /* to the engine */
	size_t out_at, out_n;
	bool is_shut; /* the client's end has ended, and the engine knows */
};

static void carrier_free(struct carrier *k)
{
	net_stream_done(&k->remote);
	close(k->local);
	buf_done(&k->in);
	free(k);
}

/* What has come from the engine goes on to the client. 0: all that is here; 1: the client is full; negative: over. */
static int deliver(struct carrier *k)
{
	while (k->in_at < k->in.len) {
		const uint8_t *at = k->in.data + k->in_at;
		size_t have = k->in.len - k->in_at;

		if (!k->left) {
			if (have < FRAME_HEAD)
				break;
			k->is_ours = at[0] == 1;
			k->left = (uint32_t)at[4] << 24 | (uint32_t)at[5] << 16 |
				  (uint32_t)at[6] << 8 | at[7];
			k->in_at += FRAME_HEAD;
			continue;
		}
		size_t n = have < k->left ? have : k->left;
		ssize_t done = k->is_ours ? send(k->local, at, n, MSG_NOSIGNAL | MSG_DONTWAIT)
					  : (ssize_t)n;
		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return 1;
		if (done < 0)
			return -errno;
		k->in_at += (size_t)done;
		k->left -= (uint32_t)done;
	}
	buf_consume(&k->in, k->in_at);
	k->in_at = 0;
	return 0;
}

/* The other way. */
static int collect(struct carrier *k)
{
	if (k->out_at == k->out_n && !k->is_shut) {
		ssize_t n = recv(k->local, k->out, sizeof k->out, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		k->out_at = 0;
		k->out_n = (size_t)n;
		if (n == 0) {
			k->is_shut = true;
			return -ESHUTDOWN; /* a client that closes wants no answer */
		}
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
	int in = 0, out = 0;

	for (;;) {
		in = deliver(k);
		out = in < 0 ? in : collect(k);
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

static int start_carrier(struct net_stream *remote, struct buf *rest)
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
	k->in = *rest;
	k->in.max = 4 * CHUNK;
	*rest = (struct buf){0};
	count_carrier(1);
	int r = -pthread_create(&thread, NULL, carry, k);
	if (r < 0) {
		count_carrier(-1);
		k->remote.fd = -1;
		k->remote.ssl = NULL; /* the caller's still */
		close(k->local);
		buf_done(&k->in);
		free(k);
		close(pair[0]);
		return r;
	}
	(void)pthread_detach(thread);
	return pair[0];
}

int engine_far_open(struct engine *e, const char *container, struct cell_error *err)
{
	auto_buf struct buf text = {0};
	auto_buf struct buf rest = BUF_INIT(4 * CHUNK);
	char path[300];
	json_t *body = json_pack("{s:b,s:b,s:b,s:b,s:[s,s,s]}", "AttachStdin", 1, "AttachStdout", 1,
		"AttachStderr", 1, "Tty", 0, "Cmd", ENGINE_GUEST, "--relay", ENGINE_SOCKET);
	struct engine_request rq = {.method = "POST", .path = path, .json = body};

	(void)snprintf(path, sizeof path, "/containers/%s/exec", container);
	int status = body ? engine_send(e, &rq, &text, err)
			  : cell_fail_errno(err, ENOMEM, "reach the guest");
	json_decref(body);
	if (status < 0)
		return status;
	if (status != 201) {
		int r = engine_refused(e, status, &text, err, "reach the guest");
		if (err && (status == 404 || status == 409))
			err->code = CELL_EGONE;
		return cell_error_hint(err, r, "the container has ended; `cell prune` cleans up");
	}
	json_t *reply = json_loads(buf_str(&text), 0, NULL);
	char target[300];
	const char *id = json_string_value(json_object_get(reply, "Id"));
	(void)snprintf(target, sizeof target, "%s/exec/%.128s/start", e->version, id ? id : "");
	json_decref(reply);

	static const char start[] = "{\"Detach\":false,\"Tty\":false}";
	const struct http_field headers[] = {{"Content-Type", "application/json"}, {0}};
	struct http_call call = {.method = "POST",
		.target = target,
		.headers = headers,
		.body = start,
		.body_len = sizeof start - 1,
		.timeout_ms = 60000};
	struct http_reply answer;
	struct net_stream s;
	int r = http_client_upgrade(e->http, &call, "tcp", &s, &rest, &answer, err);
	if (r == -EPROTO && answer.status)
		r = engine_refused(e, answer.status, &answer.body, err, "reach the guest");
	http_reply_done(&answer);
	if (r < 0)
		return r;
	int fd = start_carrier(&s, &rest);
	if (fd < 0) {
		net_stream_done(&s);
		return cell_fail_errno(err, -fd, "carry the guest's bytes");
	}
	return fd;
}
